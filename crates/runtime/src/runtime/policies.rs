//! What runs may do, and why.

use serde_json::Value;
use sortie_core::{Mode, PolicyLayer, Ruling, RunId, RunSpec};
use sortie_policy::Explanation;

use super::{Runtime, RuntimeError};
use crate::agents::Agents;
use crate::new_run::NewRun;

/// What a run may do, and who says so.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyView {
    /// The hash by which audits name the policy.
    pub hash: String,
    /// How calls that change something are treated.
    pub mode: Mode,
    /// Whether nothing may change.
    pub read_only: bool,
    /// Whether commands that look dangerous are treated like all others.
    pub allow_dangerous: bool,
    /// The rules, in the order in which they are asked.
    pub layers: Vec<PolicyLayer>,
    /// What holds for each tool, as far as that does not depend on arguments.
    pub tools: Vec<(String, Ruling)>,
}

/// Whose policy is asked about a call.
#[derive(Clone, Debug)]
pub enum Whose {
    /// That of a run, as it was admitted.
    Run(RunId),
    /// That of a run which would be admitted now.
    Agent {
        /// Its agent.
        name: String,
        /// Everything else about it; for a subagent, about its parent.
        new: Box<NewRun>,
    },
}

/// What would become of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// The run that would make it.
    pub spec: RunSpec,
    /// What was decided, and what every layer says.
    pub explanation: Explanation,
    /// Who keeps the tool from a run that was not given it.
    pub taken_away_by: Option<String>,
}

impl Runtime {
    /// The agents that runs can be made from.
    pub fn agents(&self) -> &Agents {
        &self.engine.planner.agents
    }

    /// What a run may do, and who says so.
    pub async fn policy_view(&self, run: RunId) -> Result<PolicyView, RuntimeError> {
        let spec = self.spec(run).await?;
        Ok(self.engine.planner.policy_view(&spec))
    }

    /// What would become of a call, and what every layer says about it. Nothing is run.
    pub async fn explain(
        &self,
        whose: Whose,
        tool: &str,
        arguments: &Value,
    ) -> Result<Explained, RuntimeError> {
        let spec = match whose {
            Whose::Run(run) => self.spec(run).await?,
            Whose::Agent { name, new } => self.engine.planner.preview(&name, *new)?,
        };
        self.engine.planner.explained(spec, tool, arguments)
    }
}
