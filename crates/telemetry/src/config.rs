//! Settings of telemetry, checked once.

use std::fmt;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::fold::Capture;

/// The path for traces below the endpoint.
const TRACES_PATH: [&str; 2] = ["v1", "traces"];

/// The address of a collector.
#[derive(Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// Its base address, for example `http://127.0.0.1:4318`; `/v1/traces` is added unless it ends
    /// so.
    Base(String),
    /// The complete URL for traces.
    Traces(String),
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An address may contain a password.
        f.write_str(match self {
            Self::Base(_) => "Base(..)",
            Self::Traces(_) => "Traces(..)",
        })
    }
}

#[derive(Clone)]
pub struct TelemetryConfig {
    /// Address of the collector.
    pub endpoint: Endpoint,
    /// Headers to send with every request. Their values are secrets.
    pub headers: Vec<(String, String)>,
    /// Whether prompts, arguments, results and completions are sent.
    pub capture_content: bool,
    /// Version of the sending program.
    pub service_version: String,
}

impl fmt::Debug for TelemetryConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The values of headers are keys.
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("TelemetryConfig")
            .field("endpoint", &self.endpoint)
            .field("headers", &names)
            .field("capture_content", &self.capture_content)
            .finish_non_exhaustive()
    }
}

/// Why telemetry cannot start. No message quotes a value: it may be a secret.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The endpoint is not a valid URL.
    #[error("the telemetry endpoint is not an http or https address")]
    Endpoint,
    /// A header cannot be sent.
    #[error("the telemetry header {name:?} has a name or a value that HTTP does not allow")]
    Header { name: String },
    /// The HTTP client could not be created.
    #[error("the HTTP client of telemetry cannot start")]
    Client(#[source] reqwest::Error),
}

/// Settings of telemetry after validation.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) capture: Capture,
    pub(crate) service_version: String,
}

impl Target {
    pub(crate) fn parse(config: &TelemetryConfig) -> Result<Self, TelemetryError> {
        let mut headers = HeaderMap::new();
        for (name, value) in &config.headers {
            let (key, value) =
                header(name, value).ok_or_else(|| TelemetryError::Header { name: name.clone() })?;
            headers.insert(key, value);
        }
        Ok(Self {
            url: url(&config.endpoint).ok_or(TelemetryError::Endpoint)?,
            headers,
            capture: if config.capture_content {
                Capture::Content
            } else {
                Capture::Facts
            },
            service_version: config.service_version.clone(),
        })
    }

    /// Returns the target without secret parts of the URL.
    pub(crate) fn shown(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        match self.url.port_or_known_default() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }
}

fn url(endpoint: &Endpoint) -> Option<Url> {
    let (Endpoint::Base(text) | Endpoint::Traces(text)) = endpoint;
    let mut url = Url::parse(text.trim()).ok()?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return None;
    }
    let whole = TRACES_PATH.join("/");
    match endpoint {
        Endpoint::Base(_) if !url.path().trim_end_matches('/').ends_with(&whole) => {
            let mut path = url.path_segments_mut().ok()?;
            path.pop_if_empty().extend(TRACES_PATH);
        }
        Endpoint::Base(_) | Endpoint::Traces(_) => {}
    }
    Some(url)
}

fn header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
    let mut value = HeaderValue::from_str(value.trim()).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(endpoint: &str, headers: &[(&str, &str)]) -> TelemetryConfig {
        let owned = headers.iter();
        TelemetryConfig {
            endpoint: Endpoint::Base(endpoint.to_owned()),
            headers: owned
                .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
                .collect(),
            capture_content: false,
            service_version: "1".to_owned(),
        }
    }

    #[test]
    fn endpoints_lead_to_traces() {
        for (endpoint, expected) in [
            (
                "http://127.0.0.1:4318",
                Some("http://127.0.0.1:4318/v1/traces"),
            ),
            (
                "http://127.0.0.1:4318/",
                Some("http://127.0.0.1:4318/v1/traces"),
            ),
            (
                "https://x.example/otlp/",
                Some("https://x.example/otlp/v1/traces"),
            ),
            (
                "https://x.example/v1/traces",
                Some("https://x.example/v1/traces"),
            ),
            (
                "https://x.example/v1/traces/",
                Some("https://x.example/v1/traces/"),
            ),
            ("x.example:4318", None),
            ("file:///etc/passwd", None),
            ("", None),
        ] {
            let parsed = Target::parse(&config(endpoint, &[]));
            let url = parsed.ok().map(|target| target.url.to_string());
            assert_eq!(url.as_deref(), expected, "{endpoint}");
        }
    }

    #[test]
    fn an_endpoint_for_traces_is_used_as_it_is() {
        for (endpoint, expected) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/"),
            ("http://127.0.0.1:4318/take", "http://127.0.0.1:4318/take"),
        ] {
            let exact = TelemetryConfig {
                endpoint: Endpoint::Traces(endpoint.to_owned()),
                ..config("", &[])
            };
            assert_eq!(Target::parse(&exact).unwrap().url.as_str(), expected);
        }
    }

    #[test]
    fn secrets_are_in_no_debug_and_no_error() {
        let secret = "hunter2-hunter2";
        let address = format!("http://me:{secret}@127.0.0.1:1");
        let config_of = |value: &str| config(&address, &[("x-key", value)]);
        let good = config_of(secret);
        let target = Target::parse(&good).unwrap();
        let bad = Target::parse(&config_of(&format!("{secret}\n{secret}"))).unwrap_err();
        let shown = target.shown();
        let texts = [format!("{good:?}"), shown, format!("{bad} {bad:?}")];
        for text in texts {
            assert!(!text.contains(secret), "{text}");
        }
        assert!(format!("{:?}", target.headers).contains("Sensitive"));
    }
}
