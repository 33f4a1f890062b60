//! Agent files: Markdown with front matter, in the formats of several systems.

mod keys;
mod load;
mod model;
mod permission;
mod tools;
mod trust;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use sortie_core::agent::AgentDefinition;
use sortie_core::budget::Budget;
use sortie_core::policy::Mode;
use sortie_core::run::{ContextFork, Isolation};

pub use load::{AgentFiles, FileCheck, Verdict, load_agents};
pub use tools::{rule_tool, translate_rule};

use crate::{Problem, Scope};

/// An agent from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedAgent {
    /// The agent. Its prompt is the body of the file.
    pub definition: AgentDefinition,
    /// These calls need approval in every mode.
    pub ask: Vec<String>,
    /// Permission mode; `None` for the configured one.
    pub mode: Option<Mode>,
    /// Time limit of a run; `None` for the configured one.
    pub timeout: Option<Duration>,
    /// Budget of a run.
    pub budget: Budget,
    /// Skills whose text a run begins with, by name.
    pub skills: Vec<String>,
    /// MCP servers that the agent requests.
    pub mcp_servers: Vec<McpServer>,
    /// Isolation; `None` for the configured one.
    pub isolation: Option<Isolation>,
    /// How much of its parent's conversation a run starts with; `None` for the configured fork.
    pub fork: Option<ContextFork>,
    /// Whether it runs in the background unless the caller decides otherwise.
    pub background: Option<bool>,
    /// Thinking level of the model.
    pub thinking: Option<String>,
    /// Temperature of the model.
    pub temperature: Option<f64>,
    /// Hooks, kept as unparsed values.
    pub hooks: Option<Value>,
    /// Whether parents see it. A hidden agent can still be used by name.
    pub offered: bool,
    pub file: PathBuf,
    /// The owner of the file.
    pub scope: Scope,
    /// Whether the file may do more than restrict.
    pub trusted: bool,
    /// SHA-256 of the file, in hexadecimal; a run records it.
    pub sha256: String,
    pub unknown: Vec<String>,
    /// Warnings and notes about the file.
    pub problems: Vec<Problem>,
}

/// An MCP server that an agent requests.
#[derive(Clone, Debug, PartialEq)]
pub enum McpServer {
    /// A configured server, by name.
    Named(String),
    /// A server that the file defines.
    Inline {
        name: String,
        /// Settings of the server, unparsed.
        config: Value,
    },
}

/// Facts about the installation that files are checked against.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    pub agents: &'a [AgentDefinition],
    /// The names of all tools.
    pub tools: &'a [String],
    /// Checks that policy can parse a rule; an error is the reason.
    pub check_rule: &'a dyn Fn(&str) -> Result<(), String>,
    /// Whether a model `vendor/model` is at an endpoint that the operator has configured.
    pub is_model: &'a dyn Fn(&str) -> bool,
    /// Whether a file of an untrusted folder may name this model: the operator made it available.
    pub is_available: &'a dyn Fn(&str) -> bool,
    /// Limits that an untrusted file cannot exceed.
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

/// The default limits. An untrusted file cannot raise them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ceiling {
    pub max_iterations: Option<u32>,
    pub timeout: Option<Duration>,
    /// Budget of a run.
    pub budget: Budget,
}
