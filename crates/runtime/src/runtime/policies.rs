//! What runs may do, and why.

use serde_json::Value;
use sortie_core::id::RunId;
use sortie_core::policy::{Mode, PolicyLayer, Ruling};
use sortie_core::run::RunSpec;
use sortie_policy::Explanation;

use super::{Runtime, RuntimeError};
use crate::agents::Agents;
use crate::new_run::NewRun;

/// What a run may do, and which layers decide so.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyView {
    /// The hash that identifies the policy in the audit.
    pub hash: String,
    /// How calls that change something are treated.
    pub mode: Mode,
    /// Whether nothing may change.
    pub read_only: bool,
    /// Whether commands that look dangerous are treated like all others.
    pub allow_dangerous: bool,
    /// The rules, in order of evaluation.
    pub layers: Vec<PolicyLayer>,
    /// The ruling of each tool, as far as it does not depend on arguments.
    pub tools: Vec<(String, Ruling)>,
}

/// PolicySubject policy decides about a call.
#[derive(Clone, Debug)]
pub enum PolicySubject {
    /// The policy of a run, as admitted.
    Run(RunId),
    /// The policy of a run that would be admitted now.
    Agent {
        /// The agent of the run.
        name: String,
        /// The request; for a subagent, that of its parent.
        new: Box<NewRun>,
    },
}

/// What would be decided about a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// The spec of the run that would make it.
    pub spec: RunSpec,
    /// The decision, and those of every layer.
    pub explanation: Explanation,
    /// The layer that removed the tool, if the run does not have it.
    pub removed_by: Option<String>,
}

impl Runtime {
    /// Returns the agents that runs can be created from.
    pub fn agents(&self) -> &Agents {
        &self.engine.planner.agents
    }

    /// Returns what a run may do, and which layers decide so.
    pub async fn policy_view(&self, run: RunId) -> Result<PolicyView, RuntimeError> {
        let spec = self.spec(run).await?;
        Ok(self.engine.planner.policy_view(&spec))
    }

    /// Returns what would be decided about a call, and what every layer decides. Runs nothing.
    pub async fn explain(
        &self,
        whose: PolicySubject,
        tool: &str,
        arguments: &Value,
    ) -> Result<Explained, RuntimeError> {
        let spec = match whose {
            PolicySubject::Run(run) => self.spec(run).await?,
            PolicySubject::Agent { name, new } => self.engine.planner.preview(&name, *new)?,
        };
        self.engine.planner.explained(spec, tool, arguments)
    }
}
