//! The types of the configuration. Their doc comments are the descriptions in the JSON schema.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sortie_core::config::{
    AgentConfig, BudgetConfig, ModelConfig, PolicyConfig, ProviderConfig, SubagentSkillsConfig,
    SubagentToolsConfig, TenantLimits,
};
use sortie_core::policy::ApproveSpawn;
use sortie_core::run::Cleanup;
use sortie_core::words::Lang;

use crate::Secret;
use crate::authority::{ApprovalsConfig, HookConfig, McpServerConfig, SandboxConfig, WebConfig};
use crate::serving::{LogConfig, ServerConfig, TelemetryConfig, TerminalConfig};

/// The configuration of Sortie: `sortie.toml`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Config {
    /// Language of messages for people. Unset: that of the system's locale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lang: Option<Lang>,
    /// Model of the main agent, `vendor/model`. Unset: one whose key is set, else one of a local
    /// server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Model of agents that use `small`, such as `explore`. Unset: the parent's model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub small_model: Option<String>,
    /// Model of agents that use `plan`. Unset: the parent's model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_model: Option<String>,
    /// Models to use, in this order, if the chosen one fails.
    pub fallbacks: Vec<String>,
    /// Reasoning effort: the vendor's own word, such as `low` or `high`. Unset: the vendor's
    /// default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// Sampling temperature. Unset: the vendor's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2))]
    pub temperature: Option<f64>,
    /// Most tokens of one completion. Unset: the limit of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub max_tokens: Option<u64>,
    /// Address of a PostgreSQL database for the tasks, `postgres://user@host/database`. Unset: a file
    /// in the home folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<Secret>,
    /// Environment variable that contains the password of the database.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "format" = "environment-variable",
        "pattern" = "^[A-Z_][A-Z0-9_]{0,127}$"
    ))]
    pub store_password_env: Option<String>,
    /// File that contains the password of the database; refused if every user can read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store_password_file: Option<String>,
    /// Seconds after which the tasks of a process that no longer answers are continued by another one.
    /// Unset: 30.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 600))]
    pub lease_seconds: Option<u64>,
    /// Settings of the main agent.
    pub main: MainConfig,
    /// Limits and tools of subagents.
    pub subagents: SubagentsConfig,
    /// Providers of models, by name: a known vendor, or a new one.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// Settings of individual models, by their name `vendor/model`.
    pub models: BTreeMap<String, ModelConfig>,
    /// Settings of individual agents, by name.
    pub agents: BTreeMap<String, AgentConfig>,
    /// Weights and quotas of tenants, by name; `*` is for tenants that are not named.
    pub tenants: BTreeMap<String, TenantLimits>,
    /// Rules that allow, deny or require approval for tool calls.
    pub policy: PolicyConfig,
    /// Sandbox of shell commands.
    pub sandbox: SandboxConfig,
    /// When and how long runs wait for approvals.
    pub approvals: ApprovalsConfig,
    /// Budget of a main run and all its descendants.
    pub budget: BudgetConfig,
    /// Web access of agents.
    pub web: WebConfig,
    /// MCP servers, by name.
    pub mcp_servers: BTreeMap<String, McpServerConfig>,
    /// Hooks, by name: commands and signed webhooks that observe runs, or restrict them.
    pub hooks: BTreeMap<String, HookConfig>,
    /// Settings of `sortie serve`.
    pub server: ServerConfig,
    /// Export of traces to OpenTelemetry.
    pub telemetry: TelemetryConfig,
    /// The log on stderr.
    pub log: LogConfig,
    /// What the user sees at a terminal.
    pub terminal: TerminalConfig,
}

/// Settings of the main agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MainConfig {
    /// Most turns with tool calls; after them the run must report its result.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_iterations: u32,
    /// Whether the main agent keeps notes across the sessions of a project: it is offered
    /// `memory_save`, `memory_search` and `memory_get`.
    pub memory: bool,
    /// Time limit of a main run, in seconds; 0 is no limit.
    #[schemars(range(min = 0, max = 31_536_000))]
    pub timeout_seconds: u64,
}

impl Default for MainConfig {
    fn default() -> Self {
        Self {
            max_iterations: 50,
            memory: false,
            timeout_seconds: 0,
        }
    }
}

/// Limits and tools of subagents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SubagentsConfig {
    /// Whether agents are offered the tools that start subagents.
    pub enabled: bool,
    /// Most subagents that run at once; further ones wait in the queue.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_concurrent: u32,
    /// Most levels of subagents: 1 is no nesting, 0 is no subagents at all.
    #[schemars(range(min = 0, max = 32))]
    pub max_depth: u32,
    /// Most subagents of one tree.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_children: u32,
    /// Minutes after which ended tasks are archived: out of the lists, compressed, still readable; 0 is
    /// never.
    #[schemars(range(min = 0, max = 5_256_000))]
    pub archive_after_minutes: u64,
    /// Hours after which ended tasks are deleted, archived or not; 0 is never. Usage and audit are kept.
    #[schemars(range(min = 0, max = 87_600))]
    pub max_age_hours: u64,
    /// Whether the transcript of an ended task is kept, if its request does not set `cleanup`.
    pub default_cleanup: Cleanup,
    /// Agents that an approver has to allow: `changing` in the modes `default` and `accept-edits` those
    /// that can change something, `always` all except in `yolo` mode, or `never`.
    pub approve_spawn: ApproveSpawn,
    /// Agents that may be started as subagents; `*` matches any characters.
    pub allowed_agents: Vec<String>,
    /// Models that a run may name for a subagent, besides the configured ones; `*` matches any
    /// characters. Unset: every model of the providers of configured models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_models: Option<Vec<String>>,
    /// Model of subagents whose agent names none. Unset: the parent's model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_model: Option<String>,
    /// Most turns with tool calls; after them a subagent must report its result.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_iterations: u32,
    /// Time limit of a subagent, in seconds; 0 is no limit.
    #[schemars(range(min = 0, max = 31_536_000))]
    pub timeout_seconds: u64,
    /// Tools that subagents may use.
    pub tools: SubagentToolsConfig,
    /// Skills that subagents may load.
    pub skills: SubagentSkillsConfig,
    /// Budget of a subagent and all its descendants, if neither its agent nor its request sets one.
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
            max_age_hours: 0,
            default_cleanup: Cleanup::Keep,
            approve_spawn: ApproveSpawn::Changing,
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
