//! Configuration in the units and names that the models and the runtime use.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use sortie_config::{
    AgentConfig, BudgetConfig, Config, ModelConfig, PolicyConfig, ProviderConfig, SubagentsConfig,
};
use sortie_core::budget::{Budget, MICROS_PER_USD};
use sortie_core::policy::Rules;
use sortie_core::run::{Confinement, Sampling};
use sortie_models::{DirectorySettings, ModelSettings, Price, ProviderSettings, Secret};
use sortie_runtime::{
    AgentSettings, ApprovalSettings, ModelDefaults, PolicySettings, RunDefaults, SkillSettings,
};

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
    let variables = options.environment.variables();
    DirectorySettings {
        pace,
        base: options.workspace.clone(),
        providers: config
            .providers
            .iter()
            .map(|(name, provider)| (name.clone(), provider_settings(provider, &variables)))
            .collect(),
        models: config
            .models
            .iter()
            .map(|(name, model)| (name.clone(), model_settings(model)))
            .collect(),
        environment: variables,
        record,
        learned: Some(options.home.join(LEARNED_FILE)),
    }
}

fn provider_settings(
    provider: &ProviderConfig,
    variables: &BTreeMap<String, String>,
) -> ProviderSettings {
    let named = provider
        .api_key_env
        .as_ref()
        .and_then(|name| variables.get(name))
        .map(String::as_str);
    let key = provider.api_key.as_ref().map(Secret::expose);
    ProviderSettings {
        wire: provider.wire.map(|wire| wire.to_string()),
        base_url: provider.base_url.clone(),
        api_key: key.or(named).map(Secret::trimmed),
        headers: provider
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), Secret::trimmed(value.expose())))
            .collect(),
        query: provider
            .query
            .iter()
            .map(|(name, value)| (name.clone(), value.expose().to_owned()))
            .collect(),
        max_concurrent: provider.max_concurrent,
        requests_per_minute: provider.requests_per_minute,
        tokens_per_minute: provider.tokens_per_minute,
        cache_marks: provider.cache_marks,
        warm_cache: provider.warm_cache,
        streaming: provider.streaming,
        first_byte_timeout: provider.first_byte_timeout_seconds.map(Duration::from_secs),
        idle_timeout: provider.idle_timeout_seconds.map(Duration::from_secs),
    }
}

fn model_settings(model: &ModelConfig) -> ModelSettings {
    ModelSettings {
        tools: model.tools,
        context_window: model.context_window,
        // A cost needs both prices; loading the configuration has warned about half a price.
        price: model.price.as_ref().and_then(|price| {
            Some(Price {
                input: price.input?,
                output: price.output?,
                cache_read: price.cache_read,
                cache_write: price.cache_write,
            })
        }),
        images: model.images,
        max_tokens: model.max_tokens,
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
        lang: options.lang,
        subagents_enabled: subagents.enabled,
        allowed_agents: subagents.allowed_agents.clone(),
        allowed_models: subagents.allowed_models.clone(),
        small_model: name(&config.small_model),
        plan_model: name(&config.plan_model),
        child_model: name(&subagents.default_model),
        every_model: ModelDefaults {
            fallbacks: Some(config.fallbacks.clone()),
            thinking: config.thinking.clone(),
            sampling: Sampling {
                temperature: config.temperature,
                max_tokens: config.max_tokens,
            },
        },
        models: config
            .models
            .iter()
            .map(|(name, model)| (name.clone(), asking(model)))
            .collect(),
        agents: config
            .agents
            .iter()
            .map(|(name, agent)| (name.to_lowercase(), agent_settings(config, agent)))
            .collect(),
        default_cleanup: subagents.default_cleanup,
        policy: policy(&config.policy, subagents),
        approvals: ApprovalSettings {
            wait: false,
            expiry: Duration::from_secs(config.approvals.expiry_seconds),
        },
        confinement: Confinement {
            sandbox: config.sandbox.mode,
            network: config.sandbox.network,
        },
        skills: SkillSettings {
            inherit: subagents.skills.inherit && subagents.tools.inherit_skills,
            allow: subagents.skills.allow_skills.clone(),
            deny: subagents.skills.deny_skills.clone(),
            extra_dirs: subagents.skills.extra_skill_dirs.clone(),
        },
        main: RunDefaults {
            max_iterations: config.main.max_iterations,
            timeout: seconds(config.main.timeout_seconds),
            budget: budget(config.budget),
            ..defaults.main
        },
        child: RunDefaults {
            max_iterations: subagents.max_iterations,
            timeout: seconds(subagents.timeout_seconds),
            budget: budget(subagents.budget),
            ..defaults.child
        },
        archive_after: seconds(subagents.archive_after_minutes.saturating_mul(60)),
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

fn asking(model: &ModelConfig) -> ModelDefaults {
    ModelDefaults {
        fallbacks: model.fallbacks.clone(),
        thinking: model.thinking.clone(),
        sampling: Sampling {
            temperature: model.temperature,
            max_tokens: model.max_tokens,
        },
    }
}

fn agent_settings(config: &Config, agent: &AgentConfig) -> AgentSettings {
    AgentSettings {
        // `small` and `plan` are the configured ones; without one the agent inherits.
        model: agent.model.as_deref().map(|name| match name {
            "small" => config.small_model.clone().unwrap_or_else(inherit),
            "plan" => config.plan_model.clone().unwrap_or_else(inherit),
            name => name.to_owned(),
        }),
        asking: ModelDefaults {
            fallbacks: agent.fallbacks.clone(),
            thinking: agent.thinking.clone(),
            sampling: Sampling {
                temperature: agent.temperature,
                max_tokens: agent.max_tokens,
            },
        },
        max_iterations: agent.max_iterations,
        timeout: agent.timeout_seconds.map(Duration::from_secs),
        rules: Rules {
            allow: agent.tools.allow.clone(),
            deny: agent.tools.deny.clone().unwrap_or_default(),
            ask: agent.tools.ask.clone().unwrap_or_default(),
            approve: agent.tools.approve.clone().unwrap_or_default(),
        },
        delegate_ceiling: agent.delegate_ceiling.clone(),
        budget: budget(agent.budget),
        mode: agent.mode,
        isolation: agent.isolation,
        network: agent.network,
        skills: agent.skills.clone(),
    }
}

fn policy(config: &PolicyConfig, subagents: &SubagentsConfig) -> PolicySettings {
    PolicySettings {
        global: Rules {
            allow: config.allow.clone(),
            deny: config.deny.clone(),
            ask: config.ask.clone(),
            approve: config.approve.clone(),
        },
        providers: config.providers.clone(),
        groups: config.groups.clone(),
        sandbox: config.sandbox.clone(),
        children: Rules {
            allow: subagents.tools.allow.clone(),
            deny: subagents.tools.deny.clone(),
            ..Rules::default()
        },
        inherit_tools: subagents.tools.inherit_tools,
        allow_dangerous: config.allow_dangerous,
    }
}

/// Converts a configured budget.
pub(crate) fn budget(config: BudgetConfig) -> Budget {
    Budget {
        tokens: config.tokens,
        usd_micros: config.usd.map(micros),
        tool_calls: config.tool_calls,
        children: config.children,
        wall_ms: config.seconds.map(|seconds| seconds.saturating_mul(1000)),
    }
}

/// Converts US dollars to millionths, rounded down: never more than was configured.
pub fn micros(usd: f64) -> u64 {
    (usd * MICROS_PER_USD).max(0.0) as u64
}

fn inherit() -> String {
    "inherit".to_owned()
}

fn seconds(count: u64) -> Option<Duration> {
    (count > 0).then(|| Duration::from_secs(count))
}
