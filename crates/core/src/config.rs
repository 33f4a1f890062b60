//! The parts of the configuration that the runtime and the models use as they are. Their doc comments
//! are the descriptions in the JSON schema.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sortie_base::secret::Secret;

use crate::budget::{Budget, MICROS_PER_USD};
use crate::policy::{Mode, Rules};
use crate::ports::model::{ToolSetting, Wire};
use crate::run::{ContextFork, Isolation, Sampling};
use crate::tenant::Quota;

/// Rules that allow, deny or require approval for tool calls. A rule is the name of a tool (`*`
/// matches any characters), a group (`group:write`), or a call (`exec(git status *)`,
/// `write_file(src/**)`, `web_fetch(domain:example.com)`). Deny rules win, whatever the order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PolicyConfig {
    /// Allows only these calls. Unset: all calls. An empty list: no call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Denies these calls in every mode.
    pub deny: Vec<String>,
    /// Requires an approval for these calls, in every mode but `yolo`.
    pub ask: Vec<String>,
    /// Lets these calls run without an approval.
    pub approve: Vec<String>,
    /// Whether dangerous commands are decided like all others. If false, each call needs an
    /// approval, and modes without approvals deny it.
    pub allow_dangerous: bool,
    /// Rules for runs that use a model of a vendor, by the vendor's name.
    pub providers: BTreeMap<String, Rules>,
    /// Rules for runs of sessions, by the session's key such as `cli:direct`; `*` matches any
    /// characters.
    pub groups: BTreeMap<String, Rules>,
    /// Rules for runs whose commands run in a sandbox.
    pub sandbox: Rules,
}

impl PolicyConfig {
    /// Returns the rules for every run.
    pub fn rules(&self) -> Rules {
        Rules {
            allow: self.allow.clone(),
            deny: self.deny.clone(),
            ask: self.ask.clone(),
            approve: self.approve.clone(),
        }
    }
}

/// Budget of a run and all its descendants. An unset key is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BudgetConfig {
    /// Most tokens, input and output together.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(range(min = 0, max = 1_000_000_000_000_u64))
    )]
    pub tokens: Option<u64>,
    /// Most US dollars, estimated by the price list.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1_000_000)))]
    pub usd: Option<f64>,
    /// Most tool calls of the tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1_000_000_000)))]
    pub tool_calls: Option<u64>,
    /// Most subagents of the tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1_000_000)))]
    pub children: Option<u64>,
    /// Most seconds since the start of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 31_536_000)))]
    pub seconds: Option<u64>,
}

/// Share of one tenant in the slots of all lanes, and its quotas. An unset quota is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TenantLimits {
    /// Share in the slots while several tenants have queued tasks: twice the weight is twice the
    /// slots. Unset: 100, which is also the weight of tasks without a tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000)))]
    pub weight: Option<u32>,
    /// Most tasks that execute at once, main runs included. Further ones wait in the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1_000_000)))]
    pub max_running: Option<u32>,
    /// Most tasks that wait for their first slot. Further ones are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1_000_000)))]
    pub max_queued: Option<u32>,
    /// Most input and output tokens in a day (UTC).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(range(min = 0, max = 1_000_000_000_000_u64))
    )]
    pub tokens_per_day: Option<u64>,
    /// Most input and output tokens in a calendar month (UTC).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(range(min = 0, max = 1_000_000_000_000_u64))
    )]
    pub tokens_per_month: Option<u64>,
    /// Most US dollars in a day (UTC), estimated by the price list.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1_000_000)))]
    pub usd_per_day: Option<f64>,
    /// Most US dollars in a calendar month (UTC), estimated by the price list.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1_000_000)))]
    pub usd_per_month: Option<f64>,
    /// Most megabytes of journals and outputs of ended tasks, before compression.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1_000_000_000)))]
    pub storage_mb: Option<u64>,
}

impl TenantLimits {
    /// The weight of tenants without a configured one.
    pub const WEIGHT: u32 = 100;

    /// Returns the weight, never 0.
    pub fn weight(&self) -> u64 {
        u64::from(self.weight.unwrap_or(Self::WEIGHT).max(1))
    }

    /// Returns the limit of one quota, in its unit.
    pub fn limit(&self, quota: Quota) -> Option<u64> {
        match quota {
            Quota::Running => self.max_running.map(u64::from),
            Quota::Queued => self.max_queued.map(u64::from),
            Quota::TokensPerDay => self.tokens_per_day,
            Quota::TokensPerMonth => self.tokens_per_month,
            Quota::UsdPerDay => self.usd_per_day.map(usd_micros),
            Quota::UsdPerMonth => self.usd_per_month.map(usd_micros),
            Quota::Storage => self.storage_mb.map(|mb| mb.saturating_mul(1_000_000)),
        }
    }

    /// Whether a quota on tokens or money is set.
    pub fn limits_spending(&self) -> bool {
        let spending = [
            Quota::TokensPerDay,
            Quota::TokensPerMonth,
            Quota::UsdPerDay,
            Quota::UsdPerMonth,
        ];
        spending.iter().any(|quota| self.limit(*quota).is_some())
    }
}

/// Keeps a product of floating-point numbers from falling just below a whole number.
const ROUNDING: f64 = 1.0 + 4.0 * f64::EPSILON;

/// Converts US dollars to millionths, rounded down: never more than was configured.
pub fn usd_micros(usd: f64) -> u64 {
    (usd * MICROS_PER_USD * ROUNDING).max(0.0) as u64
}

impl From<BudgetConfig> for Budget {
    fn from(config: BudgetConfig) -> Self {
        Self {
            tokens: config.tokens,
            usd_micros: config.usd.map(usd_micros),
            tool_calls: config.tool_calls,
            children: config.children,
            wall_ms: config.seconds.map(|seconds| seconds.saturating_mul(1000)),
        }
    }
}

impl From<Budget> for BudgetConfig {
    /// Loses only fractions of a second.
    fn from(budget: Budget) -> Self {
        Self {
            tokens: budget.tokens,
            usd: budget
                .usd_micros
                .map(|micros| micros as f64 / MICROS_PER_USD),
            tool_calls: budget.tool_calls,
            children: budget.children,
            seconds: budget.wall_ms.map(|ms| ms / 1000),
        }
    }
}

/// The tools of subagents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SubagentToolsConfig {
    /// Allows only these tools, also if the default deny list contains them. Unset: all tools
    /// outside the default deny list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Denies these tools, in addition to the default deny list.
    pub deny: Vec<String>,
    /// Whether a subagent starts from the tools of its parent.
    pub inherit_tools: bool,
    /// Whether a subagent starts from the skills of its parent.
    pub inherit_skills: bool,
    /// Whether a subagent may start subagents, within `max_depth`.
    pub allow_nested_subagents: bool,
}

impl Default for SubagentToolsConfig {
    fn default() -> Self {
        Self {
            allow: None,
            deny: Vec::new(),
            inherit_tools: true,
            inherit_skills: true,
            allow_nested_subagents: false,
        }
    }
}

impl SubagentToolsConfig {
    /// Returns the rules for children: `allow` also lifts what children are denied by default.
    pub fn rules(&self) -> Rules {
        Rules {
            allow: self.allow.clone(),
            deny: self.deny.clone(),
            ..Rules::default()
        }
    }
}

/// The skills of subagents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SubagentSkillsConfig {
    /// Whether a subagent starts from the skills of its parent; `tools.inherit_skills` must be
    /// true, too.
    pub inherit: bool,
    /// Folders with further skills, for subagents only.
    pub extra_skill_dirs: Vec<String>,
    /// Allows only these skills. Unset: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_skills: Option<Vec<String>>,
    /// Denies these skills to subagents.
    pub deny_skills: Vec<String>,
}

impl Default for SubagentSkillsConfig {
    fn default() -> Self {
        Self {
            inherit: true,
            extra_skill_dirs: Vec::new(),
            allow_skills: None,
            deny_skills: Vec::new(),
        }
    }
}

/// Settings of one model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ModelConfig {
    /// Sampling temperature of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 2)))]
    pub temperature: Option<f64>,
    /// Most tokens of one completion.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000_000)))]
    pub max_tokens: Option<u64>,
    /// Reasoning effort of the model: the vendor's own word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// Size of the model's context window, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1_000, max = 100_000_000)))]
    pub context_window: Option<u64>,
    /// How tools are offered to the model: by its native API, by a JSON schema of its completion,
    /// or as fenced text. `auto` chooses by the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolSetting>,
    /// Models to use, in this order, if the model fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallbacks: Option<Vec<String>>,
    /// Price of the model, instead of that of the price list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Whether the model accepts images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<bool>,
}

impl ModelConfig {
    /// Fills what is unset from more general settings.
    #[must_use]
    pub fn or(self, general: &Self) -> Self {
        Self {
            temperature: self.temperature.or(general.temperature),
            max_tokens: self.max_tokens.or(general.max_tokens),
            thinking: self.thinking.or_else(|| general.thinking.clone()),
            context_window: self.context_window.or(general.context_window),
            tools: self.tools.or(general.tools),
            fallbacks: self.fallbacks.or_else(|| general.fallbacks.clone()),
            price: self.price.or_else(|| general.price.clone()),
            images: self.images.or(general.images),
        }
    }

    /// Returns the temperature and the token limit.
    pub fn sampling(&self) -> Sampling {
        Sampling {
            temperature: self.temperature,
            max_tokens: self.max_tokens,
        }
    }
}

/// A provider of models. An unset key has the known value of the vendor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ProviderConfig {
    /// Wire format of the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire: Option<Wire>,
    /// Base URL of the API: http or https, without user, query or fragment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("format" = "uri")))]
    pub base_url: Option<String>,
    /// API key. Prefer `api_key_env`, so that no file contains the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Secret>,
    /// Environment variable that contains the API key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(extend(
            "format" = "environment-variable",
            "pattern" = "^[A-Z_][A-Z0-9_]{0,127}$"
        ))
    )]
    pub api_key_env: Option<String>,
    /// Additional headers of every request.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Secret>,
    /// Additional query parameters of every request, for example `api-version`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, Secret>,
    /// Most concurrent requests to one model. Unset: adapted to the provider's rate limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000)))]
    pub max_concurrent: Option<u32>,
    /// Most requests per minute to one model. Unset: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000_000)))]
    pub requests_per_minute: Option<u32>,
    /// Most tokens per minute to one model. Unset: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(range(min = 1, max = 1_000_000_000_000_u64))
    )]
    pub tokens_per_minute: Option<u64>,
    /// Whether requests mark the parts that the provider should cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_marks: Option<bool>,
    /// Whether the first of several requests with the same beginning is sent ahead, to fill the
    /// provider's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_cache: Option<bool>,
    /// Whether completions are streamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streaming: Option<bool>,
    /// Seconds to wait for the first byte of a completion.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 86_400)))]
    pub first_byte_timeout_seconds: Option<u64>,
    /// Seconds to wait between two pieces of a streamed completion.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 86_400)))]
    pub idle_timeout_seconds: Option<u64>,
}

/// Price in US dollars per million tokens. Needs `input` and `output`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Price {
    /// US dollars per million input tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1_000_000)))]
    pub input: Option<f64>,
    /// US dollars per million output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1_000_000)))]
    pub output: Option<f64>,
    /// US dollars per million tokens read from the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1_000_000)))]
    pub cache_read: Option<f64>,
    /// US dollars per million tokens written to the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1_000_000)))]
    pub cache_write: Option<f64>,
}

/// Settings of one agent. An unset key has the value of the agent's definition or of `[subagents]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct AgentConfig {
    /// Model of the agent: `vendor/model`, `inherit`, `small` or `plan`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Models to use, in this order, if the agent's model fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallbacks: Option<Vec<String>>,
    /// Reasoning effort of the agent's model: the vendor's own word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// Sampling temperature of the agent's model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 2)))]
    pub temperature: Option<f64>,
    /// Most tokens of one completion.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000_000)))]
    pub max_tokens: Option<u64>,
    /// Most turns with tool calls; after them the run must report its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000)))]
    pub max_iterations: Option<u32>,
    /// Time limit of a run of the agent, in seconds; 0 is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 31_536_000)))]
    pub timeout_seconds: Option<u64>,
    /// Tools of the agent.
    pub tools: AgentToolsConfig,
    /// Rules for what the agent's subagents may do, instead of the agent's own rights: for a
    /// restricted agent that controls more capable ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegate_ceiling: Option<Vec<String>>,
    /// Budget of a run of the agent and all its descendants.
    pub budget: BudgetConfig,
    /// Approval mode of the agent. The stricter of this and the parent's mode applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Whether the agent works in the folder itself or in its own git worktree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// How much of its parent's conversation the agent starts with: `clean`, `last:N` or `cached`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub fork: Option<ContextFork>,
    /// Whether shell commands of the agent may reach the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<bool>,
    /// Skills that the agent may load; `*` matches any characters. Unset: all skills it inherits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<String>>,
}

impl AgentConfig {
    /// Returns the settings of its model.
    pub fn of_model(&self) -> ModelConfig {
        ModelConfig {
            temperature: self.temperature,
            max_tokens: self.max_tokens,
            thinking: self.thinking.clone(),
            fallbacks: self.fallbacks.clone(),
            ..ModelConfig::default()
        }
    }

    pub fn timeout(&self) -> Option<Duration> {
        self.timeout_seconds.map(Duration::from_secs)
    }
}

/// The tools of one agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct AgentToolsConfig {
    /// Allows only these of the agent's tools. Unset: the tools of its definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Denies these tools, in addition to those that its definition denies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny: Option<Vec<String>>,
    /// Requires an approval for these calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<Vec<String>>,
    /// Lets these calls run without an approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approve: Option<Vec<String>>,
}

impl AgentToolsConfig {
    pub fn rules(&self) -> Rules {
        Rules {
            allow: self.allow.clone(),
            deny: self.deny.clone().unwrap_or_default(),
            ask: self.ask.clone().unwrap_or_default(),
            approve: self.approve.clone().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_survives_the_way_to_configuration_and_back() {
        for micros in (0..5_000_000)
            .step_by(7)
            .chain([u64::from(u32::MAX), 1_000_000_000_000])
        {
            let budget = Budget {
                usd_micros: Some(micros),
                wall_ms: Some(3000),
                ..Budget::default()
            };
            assert_eq!(Budget::from(BudgetConfig::from(budget)), budget);
        }
    }

    #[test]
    fn fractions_of_a_millionth_are_dropped() {
        assert_eq!(usd_micros(0.000_001_9), 1);
        assert_eq!(usd_micros(-1.0), 0);
    }
}
