//! Agent definitions.

use serde::{Deserialize, Serialize};

/// An agent definition: instructions, model and tools that runs are created with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentDefinition {
    /// Matched without regard to case.
    pub name: String,
    pub when_to_use: String,
    /// The system prompt, in its run's language.
    pub prompt: String,
    pub model: ModelChoice,
    pub tools: ToolSelection,
    /// Whether its runs are limited to tools that change nothing.
    pub read_only: bool,
    /// The color in which interfaces show it.
    pub color: Option<String>,
    pub source: AgentSource,
    /// The iteration limit of its runs, instead of the configured one.
    pub max_iterations: Option<u32>,
}

/// The model that an agent's runs use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelChoice {
    /// Uses the model of the parent.
    Inherit,
    /// The configured small model; the parent's model if none is configured.
    Small,
    /// The configured plan model; the parent's model if none is configured.
    Plan,
    Named(String),
}

/// The agent of a spawn that names none.
pub const DEFAULT_AGENT: &str = "general";

/// The tools that an agent may have, before policy narrows them. Deny wins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSelection {
    /// `None` is every tool; an empty list is none; `*` matches any run of characters.
    pub allow: Option<Vec<String>>,
    pub deny: Vec<String>,
}

/// The origin of an agent definition. Of two definitions with one name, the later origin wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentSource {
    BuiltIn,
    /// Passed in by the program that embeds the library.
    Embedder,
    /// A file in the user's home folder.
    User,
    /// A file in the project.
    Project,
}
