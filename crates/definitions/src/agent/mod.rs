//! Agent files: Markdown with front matter, in the words of several systems.

mod keys;
mod load;
mod model;
mod permission;
mod tools;
mod trust;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use sortie_core::{AgentDefinition, Budget, Isolation, Mode};

pub use load::{AgentFiles, FileCheck, Verdict, load_agents};
pub use tools::{rule_tool, translate_rule};

use crate::{Problem, Scope};

/// An agent from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedAgent {
    /// The agent. Its prompt is the body of the file.
    pub definition: AgentDefinition,
    /// A person is asked about these calls, whatever the mode.
    pub ask: Vec<String>,
    /// How calls that change something are treated; `None` is as configured.
    pub mode: Option<Mode>,
    /// How long a run may take; `None` is as configured.
    pub timeout: Option<Duration>,
    /// What a run may spend.
    pub budget: Budget,
    /// Skills whose text a run begins with, by name.
    pub skills: Vec<String>,
    /// Servers of tools that it wants.
    pub mcp_servers: Vec<McpServer>,
    /// Where it works; `None` is as configured.
    pub isolation: Option<Isolation>,
    /// Whether it is started in the background unless its caller says otherwise.
    pub background: Option<bool>,
    /// How hard its model should think.
    pub thinking: Option<String>,
    /// How freely its model chooses its words.
    pub temperature: Option<f64>,
    /// Its hooks, as they were written.
    pub hooks: Option<Value>,
    /// Whether parents are told about it. One that is hidden can still be named.
    pub offered: bool,
    /// The file.
    pub file: PathBuf,
    /// Whose the file is.
    pub scope: Scope,
    /// Whether it may do more than narrow.
    pub trusted: bool,
    /// The digest of the file, in hexadecimal: with it, a run says what it was made from.
    pub sha256: String,
    /// Keys that nobody knows.
    pub unknown: Vec<String>,
    /// What was left out or changed, and what is worth knowing.
    pub problems: Vec<Problem>,
}

/// A server of tools that an agent wants.
#[derive(Clone, Debug, PartialEq)]
pub enum McpServer {
    /// One that is configured elsewhere.
    Named(String),
    /// One that the file itself describes.
    Inline {
        /// Its name.
        name: String,
        /// How it is reached, as it was written.
        config: Value,
    },
}

/// What the rest of the system knows, and files are measured by.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// The agents that are there without any file.
    pub agents: &'a [AgentDefinition],
    /// The names of all tools.
    pub tools: &'a [String],
    /// Whether policy can read a rule about tools; the error says why not.
    pub check_rule: &'a dyn Fn(&str) -> Result<(), String>,
    /// Whether a model `vendor/model` is at an endpoint that the operator has configured.
    pub is_model: &'a dyn Fn(&str) -> bool,
    /// Whether a file of an untrusted folder may name this model: the operator made it available.
    pub is_available: &'a dyn Fn(&str) -> bool,
    /// What an untrusted file cannot exceed.
    pub ceiling: Ceiling,
}

impl std::fmt::Debug for Known<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Known")
            .field("tools", &self.tools)
            .field("ceiling", &self.ceiling)
            .finish_non_exhaustive()
    }
}

/// The limits that hold where a file says nothing. An untrusted file cannot lift them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ceiling {
    /// The iteration cap.
    pub max_iterations: Option<u32>,
    /// The running time.
    pub timeout: Option<Duration>,
    /// What a run may spend.
    pub budget: Budget,
}
