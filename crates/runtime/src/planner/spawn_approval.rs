//! Which agents a run may start without an approval.

use sortie_core::agent::AgentDefinition;
use sortie_core::policy::{ApproveSpawn, Mode};
use sortie_core::ports::tool::Touches;
use sortie_policy::{CHANGES_OF_CHILDREN, DefaultDeny, Rule};

use super::{Planner, RunRequest};

impl Planner {
    /// Returns the agents that a run starts without an approval; `None` is all of them. In the modes
    /// without approval requests, the calls of an agent that change something are decided one by one.
    pub(super) fn free_agents(&self, request: &RunRequest<'_>) -> Option<Vec<String>> {
        if request.default_deny == DefaultDeny::Leaf {
            return None;
        }
        match (self.settings.approve_spawn, request.mode) {
            (ApproveSpawn::Never, _)
            | (ApproveSpawn::Changing, Mode::Plan | Mode::DontAsk | Mode::Yolo) => None,
            (ApproveSpawn::Always, _) => Some(Vec::new()),
            (ApproveSpawn::Changing, Mode::Default | Mode::AcceptEdits) => {
                let children = self.agents.children().iter();
                let reading = children.filter(|agent| !self.can_change(agent));
                Some(reading.map(|agent| agent.name.clone()).collect())
            }
        }
    }

    /// Whether an agent has a tool with which it could change something. A rule that cannot be parsed
    /// counts as such a tool.
    fn can_change(&self, agent: &AgentDefinition) -> bool {
        let parsed = |rules: &[String]| -> Option<Vec<Rule>> {
            rules.iter().map(|rule| rule.parse().ok()).collect()
        };
        if agent.read_only {
            return false;
        }
        let (Some(allow), Some(deny)) = (
            parsed(agent.tools.allow.as_deref().unwrap_or_default()),
            parsed(&agent.tools.deny),
        ) else {
            return true;
        };
        let facts = self.toolbox.facts().iter();
        let mut changing = facts.filter(|tool| match tool.touches {
            Touches::Files | Touches::Processes | Touches::Services => {
                tool.name != CHANGES_OF_CHILDREN
            }
            Touches::Nothing | Touches::Reads | Touches::Network | Touches::Runs => false,
        });
        changing.any(|tool| {
            let is_allowed =
                agent.tools.allow.is_none() || allow.iter().any(|it| it.is_about(tool));
            // A rule with parentheses denies some of the calls only.
            let is_denied = deny
                .iter()
                .any(|it| it.is_about(tool) && !it.as_str().contains('('));
            is_allowed && !is_denied
        })
    }
}
