//! The types of the configuration. Their doc comments are the descriptions in the JSON schema.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sortie_core::policy::Mode;
use sortie_core::ports::model::{ToolSetting, Wire};
use sortie_core::run::{Cleanup, Isolation};
use sortie_core::words::Lang;

use crate::Secret;
use crate::authority::{
    ApprovalsConfig, BudgetConfig, McpServerConfig, PolicyConfig, SandboxConfig, WebConfig,
};
use crate::serving::{LogConfig, ServerConfig, TelemetryConfig};

/// The configuration of Sortie: `sortie.toml`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Config {
    /// The language of everything people read. Unset: as the system's locale says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lang: Option<Lang>,
    /// The model of the main agent, `vendor/model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model of agents that ask for a small one, such as `explore`. Unset: their parent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub small_model: Option<String>,
    /// The model of agents that plan. Unset: their parent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_model: Option<String>,
    /// Models to ask in turn when the chosen one cannot answer.
    pub fallbacks: Vec<String>,
    /// How hard models should think: the vendor's own word, such as `low` or `high`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// How freely models choose their words. Unset: the vendor's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2))]
    pub temperature: Option<f64>,
    /// The most tokens of one answer. Unset: what the model can.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub max_tokens: Option<u64>,
    /// The main agent.
    pub main: MainConfig,
    /// Subagents.
    pub subagents: SubagentsConfig,
    /// Places where models are, by name: a known vendor, or a new one.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// Settings of single models, by their name `vendor/model`.
    pub models: BTreeMap<String, ModelConfig>,
    /// Settings of single agents, by name.
    pub agents: BTreeMap<String, AgentConfig>,
    /// Who may do what.
    pub policy: PolicyConfig,
    /// What shell commands are started in.
    pub sandbox: SandboxConfig,
    /// How people are asked.
    pub approvals: ApprovalsConfig,
    /// What a run of the main agent and everything below it may spend.
    pub budget: BudgetConfig,
    /// What agents reach on the web.
    pub web: WebConfig,
    /// MCP servers, by name.
    pub mcp_servers: BTreeMap<String, McpServerConfig>,
    /// `sortie serve`.
    pub server: ServerConfig,
    /// Traces of runs.
    pub telemetry: TelemetryConfig,
    /// The log on stderr.
    pub log: LogConfig,
}

/// The main agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MainConfig {
    /// Answers with tool calls before it has to report what it has.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_iterations: u32,
    /// How long a turn may take, in seconds; 0 is no limit.
    #[schemars(range(min = 0, max = 31_536_000))]
    pub timeout_seconds: u64,
}

impl Default for MainConfig {
    fn default() -> Self {
        Self {
            max_iterations: 50,
            timeout_seconds: 0,
        }
    }
}

/// Subagents: how many, how deep, how long, and what they may use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SubagentsConfig {
    /// Whether agents are offered the tools to send out subagents.
    pub enabled: bool,
    /// How many run at once; more wait in a queue.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_concurrent: u32,
    /// How deep a tree may be: 1 is no nesting, 0 is no subagents at all.
    #[schemars(range(min = 0, max = 32))]
    pub max_depth: u32,
    /// How many subagents one tree may have.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_children: u32,
    /// Finished tasks leave the lists after this many minutes; 0 is never.
    #[schemars(range(min = 0, max = 5_256_000))]
    pub archive_after_minutes: u64,
    /// What happens to the transcript of a finished task that did not say.
    pub default_cleanup: Cleanup,
    /// Which agents may be sent out; `*` matches any run of characters.
    pub allowed_agents: Vec<String>,
    /// Models that a run may name for a subagent beside those that the configuration names; `*`
    /// matches any run of characters. Unset: every model of the providers of configured models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_models: Option<Vec<String>>,
    /// The model of subagents whose agent asks for none. Unset: their parent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_model: Option<String>,
    /// Answers with tool calls before a subagent has to report what it has.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_iterations: u32,
    /// How long a subagent may take, in seconds; 0 is no limit.
    #[schemars(range(min = 0, max = 31_536_000))]
    pub timeout_seconds: u64,
    /// Their tools.
    pub tools: SubagentToolsConfig,
    /// Their skills.
    pub skills: SubagentSkillsConfig,
    /// What one of them and everything below it may spend, where nobody says otherwise.
    pub budget: BudgetConfig,
}

impl Default for SubagentsConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            max_concurrent: 5,
            max_depth: 1,
            max_children: 200,
            archive_after_minutes: 7 * 24 * 60,
            default_cleanup: Cleanup::Keep,
            allowed_agents: vec!["*".to_owned()],
            allowed_models: None,
            default_model: None,
            max_iterations: 15,
            timeout_seconds: 30 * 60,
            tools: SubagentToolsConfig::default(),
            skills: SubagentSkillsConfig::default(),
            budget: BudgetConfig::default(),
        }
    }
}

/// The tools of subagents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SubagentToolsConfig {
    /// Only these, and these also where they are denied by default. Unset: all but the default deny.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Never these, besides those denied by default.
    pub deny: Vec<String>,
    /// Whether a subagent starts from the tools of its parent.
    pub inherit_tools: bool,
    /// Whether a subagent starts from the skills of its parent.
    pub inherit_skills: bool,
    /// Whether a subagent may send out subagents, as far as `max_depth` allows.
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

/// The skills of subagents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SubagentSkillsConfig {
    /// Whether a subagent has the skills of its parent.
    pub inherit: bool,
    /// Folders with skills for subagents only.
    pub extra_skill_dirs: Vec<String>,
    /// Only these skills. Unset: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_skills: Option<Vec<String>>,
    /// Never these skills.
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

/// A place where models are. What is unset is as the vendor is known to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProviderConfig {
    /// The protocol it speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire: Option<Wire>,
    /// Where it is: an http or https address without user, query or fragment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uri"))]
    pub base_url: Option<String>,
    /// The key. Better in `api_key_env`, so that no file holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Secret>,
    /// The environment variable that holds the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "format" = "environment-variable",
        "pattern" = "^[A-Z_][A-Z0-9_]{0,127}$"
    ))]
    pub api_key_env: Option<String>,
    /// More headers of every request.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Secret>,
    /// More query parameters of every request, for example `api-version`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, Secret>,
    /// Requests at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub max_concurrent: Option<u32>,
    /// Requests in a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub requests_per_minute: Option<u32>,
    /// Tokens in a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    pub tokens_per_minute: Option<u64>,
    /// Whether requests mark what is worth caching.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_marks: Option<bool>,
    /// Whether the first of several like requests goes ahead and warms the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_cache: Option<bool>,
    /// Whether answers come piece by piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streaming: Option<bool>,
    /// How long to wait for the beginning of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub first_byte_timeout_seconds: Option<u64>,
    /// How long to wait between two pieces of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub idle_timeout_seconds: Option<u64>,
}

/// Settings of one model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ModelConfig {
    /// How freely it chooses its words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2))]
    pub temperature: Option<f64>,
    /// The most tokens of one answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub max_tokens: Option<u64>,
    /// How hard it should think: the vendor's own word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// How many tokens it can read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1_000, max = 100_000_000))]
    pub context_window: Option<u64>,
    /// How it is told about tools, and how it calls them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolSetting>,
    /// Models to ask in turn when it cannot answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallbacks: Option<Vec<String>>,
    /// What it costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Whether it can look at images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<bool>,
}

/// US dollars for a million tokens, instead of the price list. Needs `input` and `output`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Price {
    /// Tokens read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub input: Option<f64>,
    /// Tokens written.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub output: Option<f64>,
    /// Tokens read from the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub cache_read: Option<f64>,
    /// Tokens written to the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub cache_write: Option<f64>,
}

/// Settings of one agent. What is unset is as its definition or `[subagents]` says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentConfig {
    /// Its model: `vendor/model`, `inherit`, `small` or `plan`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Models to ask in turn when its model cannot answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallbacks: Option<Vec<String>>,
    /// How hard its model should think: the vendor's own word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// How freely its model chooses its words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2))]
    pub temperature: Option<f64>,
    /// The most tokens of one answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub max_tokens: Option<u64>,
    /// Answers with tool calls before it has to report what it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub max_iterations: Option<u32>,
    /// How long it may take, in seconds; 0 is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 31_536_000))]
    pub timeout_seconds: Option<u64>,
    /// Its tools.
    pub tools: AgentToolsConfig,
    /// What its subagents may do, instead of what it may do itself: for narrow controllers of more
    /// capable agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegate_ceiling: Option<Vec<String>>,
    /// What it and everything below it may spend.
    pub budget: BudgetConfig,
    /// When people are asked, if less is allowed than to whoever started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Where it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// Whether its commands may reach the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<bool>,
    /// The skills it may load; `*` matches any run of characters. Unset: all it would have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<String>>,
}

/// The tools of one agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentToolsConfig {
    /// Only these of the tools it would have. Unset: as its definition says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Never these, besides those its definition denies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny: Option<Vec<String>>,
    /// These calls need an approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<Vec<String>>,
    /// These calls need no approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approve: Option<Vec<String>>,
}
