//! What one run may do, asked at the door of every call and again at the moment of use.

use std::path::{Path, PathBuf};

use serde_json::Value;
use sortie_core::{Ruling, RunSpec, SandboxMode};
use sortie_policy::{AtUse, Call, Compiled, Explanation, ToolFacts};

/// The policy of one run, read once.
#[derive(Debug)]
pub(crate) struct Authority {
    compiled: Compiled,
    granted: Vec<String>,
    sandboxed: bool,
    workspace: PathBuf,
}

impl Authority {
    /// The authority of a run that works in `workspace`, with what persons have allowed for its
    /// whole session.
    pub(crate) fn of(spec: &RunSpec, workspace: &Path, grants: &[String]) -> Self {
        Self {
            compiled: Compiled::new(&spec.policy, grants),
            granted: spec.tools.clone(),
            sandboxed: spec.confinement.sandbox == SandboxMode::Required,
            workspace: workspace.to_owned(),
        }
    }

    /// What policy says about a call.
    pub(crate) fn rule(&self, tool: &ToolFacts, arguments: &Value) -> Ruling {
        self.compiled.decide(&self.call(tool, arguments))
    }

    /// What every layer says about a call.
    pub(crate) fn explain(&self, tool: &ToolFacts, arguments: &Value) -> Explanation {
        self.compiled.explain(&self.call(tool, arguments))
    }

    /// What policy says about the object that a call really uses.
    pub(crate) fn at_use<'a>(&'a self, tool: &'a ToolFacts, arguments: &'a Value) -> AtUse<'a> {
        AtUse::new(&self.compiled, self.call(tool, arguments))
    }

    /// Rules that a lasting yes to a call could have.
    pub(crate) fn suggest(&self, tool: &ToolFacts, arguments: &Value) -> Vec<String> {
        sortie_policy::suggest(&self.call(tool, arguments))
    }

    fn call<'a>(&'a self, tool: &'a ToolFacts, arguments: &'a Value) -> Call<'a> {
        Call {
            tool,
            granted: &self.granted,
            arguments,
            sandboxed: self.sandboxed,
            workspace: &self.workspace,
        }
    }
}

/// Who decided, and by which rule.
pub(crate) fn words(ruling: &Ruling) -> String {
    let mut words = ruling.layer.as_str().to_owned();
    if let Some(rule) = &ruling.rule {
        words.push_str(", rule ");
        words.push_str(rule);
    }
    if !ruling.why.is_empty() {
        words.push_str(": ");
        words.push_str(&ruling.why);
    }
    words
}
