//! Configures the export of traces: from the configuration, else from the standard variables of
//! OpenTelemetry.

use std::sync::Arc;
use std::time::Duration;

use sortie_runtime::Runtime;
use sortie_store::DurableStore;
use sortie_telemetry::{Endpoint, Telemetry, TelemetryConfig};
use sortie_text::t;

use crate::Options;
use crate::notices::Notices;

/// The most time that sending the last spans may take.
const FLUSH_LIMIT: Duration = Duration::from_secs(3);
/// The collector's address for all signals.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// The collector's address for traces; no path is appended to it.
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
/// Headers of every request: `name=value,name=value`, values percent-encoded.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
/// Headers of requests with traces; they override those of [`HEADERS`].
const TRACES_HEADERS: &str = "OTEL_EXPORTER_OTLP_TRACES_HEADERS";
/// Disables telemetry if `true`.
const DISABLED: &str = "OTEL_SDK_DISABLED";

/// Starts to export traces, if a collector is configured. A failure is reported, and the runtime
/// works without traces.
pub(crate) fn start(
    options: &Options,
    notices: &Notices,
    runtime: &Runtime,
    store: Arc<DurableStore>,
) -> Option<Telemetry> {
    let config = config(options)?;
    match Telemetry::start(&config, runtime.subscribe(), store) {
        Ok(telemetry) => Some(telemetry),
        Err(error) => {
            let problem = sortie_core::error::with_causes(&error);
            notices.send(t!(options.lang, "telemetry-off", problem = problem));
            None
        }
    }
}

/// Flushes pending spans. Call it after the runtime has shut down.
pub(crate) async fn flush(telemetry: Option<Telemetry>) {
    if let Some(telemetry) = telemetry {
        telemetry.stop(FLUSH_LIMIT).await;
    }
}

/// Returns the values of all headers, which may be secrets.
pub(crate) fn header_values(options: &Options) -> Vec<String> {
    let headers = config(options).map(|config| config.headers);
    let headers = headers.into_iter().flatten();
    headers.map(|(_, value)| value).collect()
}

/// Returns the collector and what to send there; `None` if telemetry is off.
fn config(options: &Options) -> Option<TelemetryConfig> {
    let configured = &options.config.telemetry;
    // OpenTelemetry defines that an empty value counts as unset.
    let variable = |name: &str| {
        let value = options.environment.text(name)?.trim();
        (!value.is_empty()).then(|| value.to_owned())
    };
    if variable(DISABLED).is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return None;
    }
    let of_environment = || {
        let traces = variable(TRACES_ENDPOINT).map(Endpoint::Traces);
        traces.or_else(|| variable(ENDPOINT).map(Endpoint::Base))
    };
    let (endpoint, mut headers) = match &configured.endpoint {
        Some(endpoint) => (Endpoint::Base(endpoint.clone()), Headers::default()),
        // Headers of the environment belong to the collector that the environment names.
        None => {
            let endpoint = of_environment()?;
            let mut headers = Headers::default();
            for value in [HEADERS, TRACES_HEADERS].into_iter().filter_map(variable) {
                headers.set_all(parse_headers(&value));
            }
            (endpoint, headers)
        }
    };
    let of_configuration = configured.headers.iter();
    headers.set_all(
        of_configuration
            .map(|(name, value)| (name.clone(), value.expose().to_owned()))
            .collect(),
    );
    Some(TelemetryConfig {
        endpoint,
        headers: headers.0,
        capture_content: configured.capture_content,
        service_version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// Headers with unique names.
#[derive(Default)]
struct Headers(Vec<(String, String)>);

impl Headers {
    /// Sets headers; a later value replaces an earlier one of the same name.
    fn set_all(&mut self, pairs: Vec<(String, String)>) {
        for (name, value) in pairs {
            self.0
                .retain(|(other, _)| !other.eq_ignore_ascii_case(&name));
            self.0.push((name, value));
        }
    }
}

fn parse_headers(text: &str) -> Vec<(String, String)> {
    text.split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.trim().to_owned(), decoded(value.trim())))
        .filter(|(name, _)| !name.is_empty())
        .collect()
}

/// Decodes percent-encoding; malformed sequences stay as they are.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let byte = after
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let (byte, length) = byte.map_or((*first, 0), |byte| (byte, 2));
        bytes.push(byte);
        rest = after.get(length..).unwrap_or_default();
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_environment() {
        let pairs = parse_headers("api-key=a%20b=, x = y,, =z,broken");
        let expected = [("api-key", "a b="), ("x", "y")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(pairs, expected);
        assert_eq!(decoded("100%"), "100%");
        assert_eq!(decoded("%zz%e4%bd%a0"), "%zz你");
    }
}
