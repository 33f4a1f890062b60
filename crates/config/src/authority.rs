//! Configuration of authority: rules, sandbox, approvals, budgets, web access and MCP servers. The
//! doc comments here are the descriptions in the JSON schema.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sortie_core::policy::{Mode, Rules};
use sortie_core::run::SandboxMode;

use crate::Secret;

/// Who may do what. Rules are names of tools (`*` matches any run of characters), groups
/// (`group:write`), or calls (`exec(git status *)`, `write_file(src/**)`,
/// `web_fetch(domain:example.com)`). Deny wins in any order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PolicyConfig {
    /// Only these calls. Unset: all. An empty list: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Never these calls.
    pub deny: Vec<String>,
    /// These calls need an approval, whatever the mode but `yolo`.
    pub ask: Vec<String>,
    /// These calls need no approval.
    pub approve: Vec<String>,
    /// Whether commands that look dangerous are treated like all others.
    pub allow_dangerous: bool,
    /// Rules for runs whose model is of a vendor, by the vendor's name.
    pub providers: BTreeMap<String, Rules>,
    /// Rules for runs of sessions, by their key such as `cli:direct`; `*` matches any run of
    /// characters.
    pub groups: BTreeMap<String, Rules>,
    /// Rules for runs whose commands are in a sandbox.
    pub sandbox: Rules,
}

/// What shell commands are started in.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SandboxConfig {
    /// Whether there is a sandbox; `required` runs no command where none can be made.
    pub mode: SandboxMode,
    /// Whether commands may reach the network.
    pub network: bool,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self {
            mode: SandboxMode::Required,
            network: false,
        }
    }
}

/// How people are asked about calls that change something.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ApprovalsConfig {
    /// When people are asked.
    pub mode: Mode,
    /// How long an answer is waited for, in seconds; then the call is refused.
    #[schemars(range(min = 1, max = 2_592_000))]
    pub expiry_seconds: u64,
}

impl Default for ApprovalsConfig {
    fn default() -> Self {
        Self {
            mode: Mode::Default,
            expiry_seconds: 3600,
        }
    }
}

/// What a run and everything below it may spend. Unset: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BudgetConfig {
    /// Tokens in both directions.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000_000_000_u64))]
    pub tokens: Option<u64>,
    /// US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub usd: Option<f64>,
    /// Tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub tool_calls: Option<u64>,
    /// Subagents.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub children: Option<u64>,
    /// Seconds from its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 31_536_000))]
    pub seconds: Option<u64>,
}

/// What agents reach on the web.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WebConfig {
    /// Whether agents are offered `web_fetch`.
    pub fetch: bool,
    /// Addresses that may be asked though they are not public: `host`, `host:port` or a network
    /// such as `10.0.0.0/8`.
    pub allow_hosts: Vec<String>,
    /// How agents search; unset, they cannot.
    pub search: SearchConfig,
}

impl Default for WebConfig {
    fn default() -> Self {
        Self {
            fetch: true,
            allow_hosts: Vec::new(),
            search: SearchConfig::default(),
        }
    }
}

/// How agents search the web.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SearchConfig {
    /// Who searches: `brave`, `tavily`, `searxng` or `duckduckgo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
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
    /// Where it is, for `searxng`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uri"))]
    pub base_url: Option<String>,
    /// How many results are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 20))]
    pub count: Option<u32>,
}

/// An MCP server: a program to start, or an address to ask.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct McpServerConfig {
    /// The program to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment, besides what every program needs. `${NAME}` stands for a variable.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Secret>,
    /// Where it starts; unset, in the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Where it is, if it is not started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uri"))]
    pub url: Option<String>,
    /// Headers of every request. `${NAME}` stands for a variable.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Secret>,
    /// Whether it is left alone.
    pub disabled: bool,
    /// How long one call may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout_seconds: Option<u64>,
    /// How long it may take to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 600))]
    pub startup_timeout_seconds: Option<u64>,
    /// Which of its tools are offered.
    pub tools: McpToolsConfig,
}

/// Which tools of an MCP server are offered, by their own names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct McpToolsConfig {
    /// Only these. Unset: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Never these.
    pub deny: Vec<String>,
}
