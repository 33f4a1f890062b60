//! Where traces of runs go: as configured, else as the standard variables of OpenTelemetry say.

use sortie_telemetry::TelemetryConfig;

use crate::settings::Settings;

/// Where collectors are, for everything.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Where they take traces.
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
/// What requests to them carry: `name=value,name=value`, values percent-encoded.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
/// Switches everything off.
const DISABLED: &str = "OTEL_SDK_DISABLED";

/// What to send where; `None` if nobody wants traces.
pub(crate) fn config(settings: &Settings) -> Option<TelemetryConfig> {
    let configured = &settings.configuration.config().telemetry;
    let variable = |name: &str| settings.provider_variables.get(name).map(String::as_str);
    if variable(DISABLED).is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return None;
    }
    let endpoint = configured
        .endpoint
        .as_deref()
        .or_else(|| variable(TRACES_ENDPOINT))
        .or_else(|| variable(ENDPOINT))?;
    // Headers of the environment are for the place that the environment names.
    let mut headers = match &configured.endpoint {
        Some(_) => Vec::new(),
        None => variable(HEADERS).map(parse_headers).unwrap_or_default(),
    };
    for (name, value) in &configured.headers {
        headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        headers.push((name.clone(), value.expose().to_owned()));
    }
    Some(TelemetryConfig {
        endpoint: endpoint.to_owned(),
        headers,
        capture_content: configured.capture_content,
        service_version: env!("CARGO_PKG_VERSION").to_owned(),
    })
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
