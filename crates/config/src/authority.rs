//! Configuration of authority: rules, sandbox, approvals, budgets, web access and MCP servers. The
//! doc comments here are the descriptions in the JSON schema.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sortie_core::policy::Mode;
use sortie_core::run::SandboxMode;

use crate::Secret;

/// Sandbox of shell commands.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SandboxConfig {
    /// Whether shell commands run in a sandbox; with `required`, no command runs on a machine that
    /// cannot create one.
    pub mode: SandboxMode,
    /// Whether shell commands may reach the network.
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

/// When calls that change something need an approval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ApprovalsConfig {
    /// Which calls need an approval; see `--mode`.
    pub mode: Mode,
    /// Seconds after which an open approval request expires and its call is denied.
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

/// Web access of agents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WebConfig {
    /// Whether agents are offered `web_fetch`.
    pub fetch: bool,
    /// Addresses that `web_fetch` may reach although they are not public: `host`, `host:port` or a
    /// network such as `10.0.0.0/8`.
    pub allow_hosts: Vec<String>,
    /// Search provider. Unset: agents have no `web_search`.
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

/// Search provider of `web_search`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SearchConfig {
    /// Search provider: `brave`, `tavily`, `searxng` or `duckduckgo`. Unset: agents have no
    /// `web_search`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// API key. Prefer `api_key_env`, so that no file contains the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Secret>,
    /// Environment variable that contains the API key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "format" = "environment-variable",
        "pattern" = "^[A-Z_][A-Z0-9_]{0,127}$"
    ))]
    pub api_key_env: Option<String>,
    /// Base URL of the `searxng` server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uri"))]
    pub base_url: Option<String>,
    /// Number of results per search.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 20))]
    pub count: Option<u32>,
}

/// An MCP server: a program to start, or the URL of a running server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct McpServerConfig {
    /// Program that Sortie starts as the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Additional environment variables of the program. `${NAME}` is replaced by a variable of
    /// Sortie's environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Secret>,
    /// Working directory of the program. Unset: the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// URL of a running server, instead of `command`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uri"))]
    pub url: Option<String>,
    /// Headers of every request. `${NAME}` is replaced by an environment variable.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Secret>,
    /// Whether the server is ignored.
    pub disabled: bool,
    /// Time limit of one tool call, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout_seconds: Option<u64>,
    /// Time limit of the start, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 600))]
    pub startup_timeout_seconds: Option<u64>,
    /// Tools of the server that are offered to models.
    pub tools: McpToolsConfig,
}

/// Tools of an MCP server that are offered to models, by the server's names for them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct McpToolsConfig {
    /// Offers only these tools. Unset: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Never offers these tools.
    pub deny: Vec<String>,
}

/// A hook: a command or a webhook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HookConfig {
    /// When it runs: `spawn`, `start`, `tool_before`, `tool_after`, `stop`, `finish` or `announce`;
    /// Claude Code's names such as `PreToolUse` mean the same.
    pub events: Vec<String>,
    /// Command for `sh`, outside the sandbox of the agents. It reads JSON on stdin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Address that gets a signed POST request, instead of `command`. It observes only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uri"))]
    pub url: Option<String>,
    /// Environment variable that contains the secret of the webhook: `whsec_` and base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "format" = "environment-variable",
        "pattern" = "^[A-Z_][A-Z0-9_]{0,127}$"
    ))]
    pub secret_env: Option<String>,
    /// File that contains the secret of the webhook; refused if every user can read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_file: Option<String>,
    /// Only runs of these agents; `*` matches any characters. Unset: all.
    pub agents: Vec<String>,
    /// Only calls of these tools; `*` matches any characters. Unset: all.
    pub tools: Vec<String>,
    /// Time limit of the command or the request, in seconds. Unset: 60 for a command, 15 for a webhook.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 600))]
    pub timeout_seconds: Option<u64>,
    /// Attempts to deliver an observed event before it is a dead letter. Unset: 12.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub max_attempts: Option<u32>,
    /// Whether a call is denied, and an end refused, if the command fails. Otherwise a failure is only
    /// logged.
    pub required: bool,
    /// Whether the hook is ignored.
    pub disabled: bool,
}
