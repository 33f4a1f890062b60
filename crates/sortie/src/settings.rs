//! Configuration in the units and names that the models and the runtime use.

use std::path::PathBuf;
use std::time::Duration;

use sortie_config::{AgentConfig, Config, ModelConfig, SubagentSkillsConfig};
use sortie_core::run::Confinement;
use sortie_models::DirectorySettings;
use sortie_runtime::{ApprovalSettings, RunDefaults, WorkerSettings};

use crate::Options;

/// The file in the home folder that records which tool modes models support.
const LEARNED_FILE: &str = "models.json";

/// Returns the settings of the directory of models.
pub(crate) fn directory(
    options: &Options,
    pace: Duration,
    record: Option<PathBuf>,
) -> DirectorySettings {
    let config = &options.config;
    DirectorySettings {
        pace,
        base: options.workspace.clone(),
        providers: config.providers.clone(),
        models: config.models.clone(),
        environment: options.environment.variables(),
        record,
        learned: Some(options.home.join(LEARNED_FILE)),
    }
}

/// Returns the runtime's settings as configured. No approver is present.
pub(crate) fn runtime(options: &Options) -> sortie_runtime::Settings {
    let config = &options.config;
    let subagents = &config.subagents;
    let name = |model: &Option<String>| model.as_deref().map(|name| options.absolute_model(name));
    let defaults = sortie_runtime::Settings::default();
    let mut runtime = sortie_runtime::Settings {
        owner: options.command.clone(),
        worker: WorkerSettings {
            host: options.host.clone(),
            ..WorkerSettings::default()
        },
        lease: config
            .lease_seconds
            .map_or(defaults.lease, Duration::from_secs),
        lang: options.lang,
        hidden: options.places().hidden(),
        subagents_enabled: subagents.enabled,
        allowed_agents: subagents.allowed_agents.clone(),
        allowed_models: subagents.allowed_models.clone(),
        small_model: name(&config.small_model),
        plan_model: name(&config.plan_model),
        child_model: name(&subagents.default_model),
        every_model: ModelConfig {
            fallbacks: Some(config.fallbacks.clone()),
            thinking: config.thinking.clone(),
            temperature: config.temperature,
            max_tokens: config.max_tokens,
            ..ModelConfig::default()
        },
        models: config.models.clone(),
        agents: config
            .agents
            .iter()
            .map(|(name, agent)| (name.to_lowercase(), with_model(config, agent)))
            .collect(),
        default_cleanup: subagents.default_cleanup,
        policy: config.policy.clone(),
        child_tools: subagents.tools.clone(),
        approvals: ApprovalSettings {
            wait: false,
            expiry: Duration::from_secs(config.approvals.expiry_seconds),
        },
        approve_spawn: subagents.approve_spawn,
        confinement: Confinement {
            sandbox: config.sandbox.mode,
            network: config.sandbox.network,
        },
        skills: SubagentSkillsConfig {
            inherit: subagents.skills.inherit && subagents.tools.inherit_skills,
            ..subagents.skills.clone()
        },
        main: RunDefaults {
            max_iterations: config.main.max_iterations,
            timeout: seconds(config.main.timeout_seconds),
            budget: config.budget.into(),
            ..defaults.main
        },
        child: RunDefaults {
            max_iterations: subagents.max_iterations,
            timeout: seconds(subagents.timeout_seconds),
            budget: subagents.budget.into(),
            ..defaults.child
        },
        archive_after: seconds(subagents.archive_after_minutes.saturating_mul(60)),
        clean_up_after: seconds(subagents.max_age_hours.saturating_mul(3_600)),
        ..defaults
    }
    .with_max_concurrent(subagents.max_concurrent);
    runtime.caps.max_children_per_tree = subagents.max_children;
    runtime.caps.max_depth = if subagents.tools.allow_nested_subagents {
        subagents.max_depth.max(2)
    } else {
        subagents.max_depth
    };
    runtime
}

/// Returns the settings of an agent with the name of its model: `small` and `plan` are the configured
/// ones; without one the agent inherits.
fn with_model(config: &Config, agent: &AgentConfig) -> AgentConfig {
    AgentConfig {
        model: agent.model.as_deref().map(|name| match name {
            "small" => config.small_model.clone().unwrap_or_else(inherit),
            "plan" => config.plan_model.clone().unwrap_or_else(inherit),
            name => name.to_owned(),
        }),
        ..agent.clone()
    }
}

fn inherit() -> String {
    "inherit".to_owned()
}

fn seconds(count: u64) -> Option<Duration> {
    (count > 0).then(|| Duration::from_secs(count))
}
