//! Where traces of runs go: as configured, else as the standard variables of OpenTelemetry say.

use sortie_telemetry::{Endpoint, TelemetryConfig};

use crate::settings::Settings;

/// Where collectors are, for everything.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Where they take traces: an address that nothing is added to.
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
/// What requests to them carry: `name=value,name=value`, values percent-encoded.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
/// What requests with traces carry besides, and rather.
const TRACES_HEADERS: &str = "OTEL_EXPORTER_OTLP_TRACES_HEADERS";
/// Switches everything off.
const DISABLED: &str = "OTEL_SDK_DISABLED";

/// What to send where; `None` if nobody wants traces.
pub(crate) fn config(settings: &Settings) -> Option<TelemetryConfig> {
    let configured = &settings.configuration.config().telemetry;
    // OpenTelemetry says that an empty value counts as none.
    let variable = |name: &str| {
        let value = settings.provider_variables.get(name)?.trim();
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
        // Headers of the environment are for the place that the environment names.
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

/// Headers, each name once.
#[derive(Default)]
struct Headers(Vec<(String, String)>);

impl Headers {
    /// Adds these; of those that are there already, the last one counts.
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

/// The text without percent-encoding; what is not encoded well stays as it is.
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
