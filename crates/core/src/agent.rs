//! Agent definitions.

use serde::{Deserialize, Serialize};

/// An agent: a way of working that runs are made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentDefinition {
    /// Its name; matched without regard to case.
    pub name: String,
    /// When a parent should choose it.
    pub when_to_use: String,
    /// What it is told, in its run's language.
    pub prompt: String,
    /// Which model it wants.
    pub model: ModelChoice,
    /// Which tools it may have.
    pub tools: ToolSelection,
    /// Whether it may change anything.
    pub read_only: bool,
    /// The colour people see it in.
    pub color: Option<String>,
    /// Where the definition comes from.
    pub source: AgentSource,
    /// Its own iteration cap.
    pub max_iterations: Option<u32>,
}

/// Which model an agent wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelChoice {
    /// Its parent's.
    Inherit,
    /// The configured small model, else its parent's.
    Small,
    /// The configured plan model, else its parent's.
    Plan,
    /// This one.
    Named(String),
}

/// Which tools an agent may have, before policy narrows them. Deny wins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSelection {
    /// `None` is every tool; an empty list is none; `*` matches any run of characters.
    pub allow: Option<Vec<String>>,
    /// Never these.
    pub deny: Vec<String>,
}

/// Where an agent definition comes from. Later beats earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentSource {
    /// Part of the binary.
    BuiltIn,
    /// From the program that embeds the library.
    Embedder,
    /// From a file under the user's home directory.
    User,
    /// From a file of the project.
    Project,
}
