//! Configuration of `sortie serve`, of telemetry and of the log.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Secret;

/// Settings of `sortie serve`: address, host names, rate limits and workspaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServerConfig {
    /// Address and port that `sortie serve` listens on.
    pub listen: String,
    /// Host names by which clients reach the server, besides its own address: `host` or
    /// `host:port`.
    pub hosts: Vec<String>,
    /// Folders in which keys without a tenant may start tasks, subfolders included. Unset: the
    /// folder in which the server was started. Admin keys may use every folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspaces: Option<Vec<String>>,
    /// Rate limit of each key.
    pub rate: RateConfig,
    /// Settings of tenants, by name.
    pub tenants: BTreeMap<String, TenantConfig>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7878".to_owned(),
            hosts: Vec::new(),
            workspaces: None,
            rate: RateConfig::default(),
            tenants: BTreeMap::new(),
        }
    }
}

/// Rate limit of each key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RateConfig {
    /// Sustained requests per second of one key. Unset: many times what one busy page needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub per_second: Option<u32>,
    /// Most requests of one key in a burst, after a pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub burst: Option<u32>,
}

/// Settings of one tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TenantConfig {
    /// Folders in which the tenant's keys may start tasks, subfolders included. Unset or empty: the
    /// tenant's own folder in the home of the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspaces: Option<Vec<String>>,
}

/// Export of traces to OpenTelemetry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TelemetryConfig {
    /// URL of the OTLP collector (HTTP). Unset: `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, else
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`; without any of them no trace is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uri"))]
    pub endpoint: Option<String>,
    /// Headers of every request to the collector. If the environment names the endpoint, those of
    /// `OTEL_EXPORTER_OTLP_HEADERS` and `OTEL_EXPORTER_OTLP_TRACES_HEADERS` are added.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Secret>,
    /// Whether traces contain instructions, arguments and results.
    pub capture_content: bool,
}

/// The log on stderr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LogConfig {
    /// Format of the log.
    pub format: LogFormat,
}

/// Format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Plain lines for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// What the user sees at a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TerminalConfig {
    /// Colours for a light or a dark background. `auto`: by `COLORFGBG`, else the conversation and
    /// `sortie top` ask the terminal.
    pub theme: Theme,
}

/// The background that colours are chosen for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Theme {
    /// Found out.
    #[default]
    Auto,
    Light,
    Dark,
}
