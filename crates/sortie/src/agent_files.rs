//! Agents that are defined in files.

use std::path::Path;
use std::time::Duration;

use sortie_core::budget::Budget;
use sortie_core::config::AgentConfig;
use sortie_definitions::{
    AgentFiles, Ceiling, Known, LoadedAgent, SearchContext, agent_places, load_agents,
};
use sortie_runtime::{Agents, AllowedModels};

use crate::{Options, settings};

/// Loads the agent files of the workspace and the user, with the problems of files that are refused.
pub(crate) fn load(options: &Options, base: &Agents, tools: &[String]) -> AgentFiles {
    let is_trusted = |folder: &Path| options.is_trusted(folder);
    let user_home = options.environment.user_home();
    let places = agent_places(&SearchContext {
        workspace: &options.workspace,
        home: user_home.as_deref(),
        is_trusted: &is_trusted,
    });
    let mut known: Vec<_> = base.children().to_vec();
    known.push(base.main().clone());
    let models = sortie_models::vendor_names();
    let providers = &options.config.providers;
    let is_model = |name: &str| {
        let vendor = name.split('/').next().unwrap_or_default();
        models.iter().any(|known| known == vendor) || providers.contains_key(vendor)
    };
    // Only models that the operator configured: neither every vendor of this build, nor a server that
    // happens to listen on this machine.
    let main = options.configured_model();
    let available = AllowedModels::of(&settings::runtime(options), main.as_deref());
    let check_rule = |rule: &str| {
        rule.parse::<sortie_policy::Rule>()
            .map(drop)
            .map_err(|error| error.to_string())
    };
    let limits = &options.config.subagents;
    load_agents(
        &places,
        &Known {
            agents: &known,
            tools,
            check_rule: &check_rule,
            is_model: &is_model,
            is_available: &|name| available.contains(name),
            ceiling: Ceiling {
                max_iterations: Some(limits.max_iterations),
                timeout: Some(Duration::from_secs(limits.timeout_seconds))
                    .filter(|timeout| !timeout.is_zero()),
                budget: limits.budget.into(),
            },
        },
    )
}

/// Adds the agents of files to the built-in ones. Settings in files apply where the configuration has
/// none.
pub(crate) fn add(
    files: &AgentFiles,
    agents: &mut Agents,
    settings: &mut sortie_runtime::Settings,
) {
    for loaded in &files.agents {
        agents.add(loaded.definition.clone());
        let name = loaded.definition.name.to_lowercase();
        let set = settings.agents.entry(name).or_default();
        complete(set, loaded);
    }
}

/// Fills what the operator did not set from the agent's file.
fn complete(set: &mut AgentConfig, loaded: &LoadedAgent) {
    let ask = set.tools.ask.get_or_insert_default();
    ask.extend(loaded.ask.iter().cloned());
    set.mode = set.mode.or(loaded.mode);
    set.timeout_seconds = set
        .timeout_seconds
        .or(loaded.timeout.map(|limit| limit.as_secs()));
    set.budget = Budget::from(set.budget).or(loaded.budget).into();
    set.isolation = set.isolation.or(loaded.isolation);
    set.fork = set.fork.or(loaded.fork);
    if set.thinking.is_none() {
        set.thinking.clone_from(&loaded.thinking);
    }
    set.temperature = set.temperature.or(loaded.temperature);
}
