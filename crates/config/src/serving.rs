//! Configuration of `sortie serve`, of telemetry and of the log.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Secret;

/// The server: where it listens, and who may do what where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServerConfig {
    /// The address and port that `sortie serve` listens on.
    pub listen: String,
    /// Names that the server is reached by, besides its own address: `host` or `host:port`.
    pub hosts: Vec<String>,
    /// Folders that keys without a tenant may work in, with everything below. Unset: the folder the
    /// server was started in. Administrators may work everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspaces: Option<Vec<String>>,
    /// How much one key may ask.
    pub rate: RateConfig,
    /// Tenants, by name.
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

/// How much one key may ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RateConfig {
    /// Requests in a second, for as long as it likes. Unset: what one busy page needs, many times.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub per_second: Option<u32>,
    /// Requests at once, after a pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub burst: Option<u32>,
}

/// One tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TenantConfig {
    /// Folders that its keys may work in, with everything below. Unset or empty: a folder of its own
    /// in the home of the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspaces: Option<Vec<String>>,
}

/// Traces of runs, for those who collect them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TelemetryConfig {
    /// Where traces go, by OTLP over HTTP. Unset: as `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` or
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` says, else nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uri"))]
    pub endpoint: Option<String>,
    /// Headers of every request there. Where the environment names the endpoint, those of
    /// `OTEL_EXPORTER_OTLP_HEADERS` and `OTEL_EXPORTER_OTLP_TRACES_HEADERS` go along.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Secret>,
    /// Whether instructions, arguments and results go along.
    pub capture_content: bool,
}

/// The log on stderr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LogConfig {
    /// How it is written.
    pub format: LogFormat,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One line of JSON for each record.
    Json,
}
