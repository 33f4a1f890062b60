//! Restricts agents from untrusted folders.

use std::time::Duration;

use sortie_core::policy::Mode;
use sortie_core::run::{ContextFork, Isolation};

use super::{Known, LoadedAgent};
use crate::Severity;
use crate::fields::Fields;

const WHY: &str = "the folder is not trusted";

/// Removes everything that could do more than restrict. Models were already chosen according to trust.
pub(super) fn narrow(agent: &mut LoadedAgent, fields: &mut Fields, known: &Known<'_>) {
    if agent.hooks.take().is_some() {
        let text = format!("`hooks` are left out: {WHY}");
        fields.problem(Severity::Warning, "hooks", text);
    }
    if !agent.mcp_servers.is_empty() {
        agent.mcp_servers.clear();
        let text = format!("`mcpServers` are left out: {WHY}");
        fields.problem(Severity::Warning, "mcpServers", text);
    }
    if agent.mode.is_some_and(|mode| mode > Mode::Default) {
        agent.mode = Some(Mode::Default);
        let text = format!("every change needs approval: {WHY}");
        fields.problem(Severity::Warning, "permissionMode", text);
    }
    if agent.isolation == Some(Isolation::None) {
        agent.isolation = None;
        let text = format!("`isolation: none` is left out: {WHY}");
        fields.problem(Severity::Warning, "isolation", text);
    }
    if agent
        .fork
        .take()
        .is_some_and(|fork| fork != ContextFork::Clean)
    {
        // Its prompt could make a run pass on what it reads.
        let text = format!("`fork` is left out: {WHY}");
        fields.problem(Severity::Warning, "fork", text);
    }
    limits(agent, fields, known);
}

fn limits(agent: &mut LoadedAgent, fields: &mut Fields, known: &Known<'_>) {
    let ceiling = known.ceiling;
    let turns = lower(agent.definition.max_iterations, ceiling.max_iterations);
    let timeout: Option<Duration> = lower(agent.timeout, ceiling.timeout);
    let budget = agent.budget.within(ceiling.budget);
    if turns != agent.definition.max_iterations || timeout != agent.timeout {
        let text = format!("its limits are no higher than the configured ones: {WHY}");
        fields.problem(Severity::Warning, "maxTurns", text);
    }
    agent.definition.max_iterations = turns;
    agent.timeout = timeout;
    agent.budget = budget;
}

/// Returns the lower limit if the file sets one; otherwise the configured limit applies anyway.
fn lower<T: Ord>(own: Option<T>, ceiling: Option<T>) -> Option<T> {
    match (own, ceiling) {
        (Some(own), Some(ceiling)) => Some(own.min(ceiling)),
        (own, _) => own,
    }
}
