//! Sends spans to a collector: OTLP over HTTP as protobuf.
//!
//! Sending is implemented here, because the standard exporter reads the environment (headers,
//! compression, timeouts) on its own and follows redirects. The few messages are written field by
//! field ([`crate::protobuf`]); the tests read them with OpenTelemetry's own types. JSON would need
//! no encoder, but not every receiver accepts it.

use std::time::Duration;

use reqwest::StatusCode;
use sortie_base::http;
use sortie_core::time::Timestamp;

use crate::config::{Target, TelemetryError};
use crate::names;
use crate::protobuf::{self, Field, Writer};
use crate::span::{Span, SpanEvent, SpanKind, SpanStatus, Value};

/// Longest time for connecting to the collector.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of one request: collectors answer at once or not at all.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Limit of a response: it contains the number of rejected spans and the reason.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// Limit of a collector's message in a log line.
const MAX_WORDS_CHARS: usize = 200;
/// Name of the instrumentation scope.
const SCOPE: &str = "sortie";
/// `STATUS_CODE_ERROR` of a span.
const STATUS_ERROR: u64 = 2;
const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;

/// The outcome of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Accepted; the collector rejected so many spans for this reason.
    Accepted { refused: u64, words: String },
    /// Failed; a retry may help.
    Later(String),
    /// Failed permanently; a retry cannot help.
    Refused(String),
}

/// The HTTP client of a collector.
#[derive(Debug)]
pub(crate) struct Collector {
    client: reqwest::Client,
    target: Target,
}

impl Collector {
    pub(crate) fn new(target: Target) -> Result<Self, TelemetryError> {
        let client = http::client()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(REQUEST_TIMEOUT)
            .build()
            .map_err(TelemetryError::Client)?;
        Ok(Self { client, target })
    }

    pub(crate) const fn target(&self) -> &Target {
        &self.target
    }

    pub(crate) async fn send(&self, spans: &[Span]) -> Sent {
        let body = encode(spans, &self.target.service_version);
        let request = self
            .client
            .post(self.target.url.clone())
            .headers(self.target.headers.clone())
            .header(reqwest::header::CONTENT_TYPE, "application/x-protobuf")
            .body(body);
        match request.send().await {
            Ok(response) => understand(response).await,
            // The URL in the error may contain a password.
            Err(error) => Sent::Later(without_address(error)),
        }
    }
}

async fn understand(mut response: reqwest::Response) -> Sent {
    let status = response.status();
    if !status.is_success() {
        let words = format!("the collector returned {status}");
        // The OTLP specification lists these as retryable, and no others.
        return match status {
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Sent::Later(words),
            _ => Sent::Refused(words),
        };
    }
    let mut body = Vec::new();
    // A truncated body still means success: the status came first.
    while let Ok(Some(chunk)) = response.chunk().await {
        if body.len() + chunk.len() > MAX_ANSWER_BYTES {
            body.clear();
            break;
        }
        body.extend_from_slice(&chunk);
    }
    accepted(&body)
}

/// Reads an `ExportTraceServiceResponse`; one that cannot be read rejects nothing.
fn accepted(body: &[u8]) -> Sent {
    let (mut refused, mut words) = (0, String::new());
    let partial = protobuf::fields(body).find(|(number, _)| *number == 1);
    if let Some((_, Field::Bytes(partial))) = partial {
        for field in protobuf::fields(partial) {
            match field {
                // A negative count is a varint above the range of i64.
                (1, Field::Varint(count)) => refused = i64::try_from(count).map_or(0, |_| count),
                (2, Field::Bytes(text)) => {
                    let text = String::from_utf8_lossy(text);
                    words = text.chars().take(MAX_WORDS_CHARS).collect();
                }
                _ => {}
            }
        }
    }
    Sent::Accepted { refused, words }
}

fn without_address(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut words = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(deeper) = source {
        words = format!("{words}: {deeper}");
        source = deeper.source();
    }
    words
}

/// Writes an `ExportTraceServiceRequest`.
fn encode(spans: &[Span], service_version: &str) -> Vec<u8> {
    let resource = [
        (names::SERVICE_NAME, Value::Text(SCOPE.to_owned())),
        (
            names::SERVICE_VERSION,
            Value::Text(service_version.to_owned()),
        ),
    ];
    let mut request = Writer::default();
    request.message(1, |resource_spans| {
        resource_spans.message(1, |to| attributes(to, 1, &resource));
        resource_spans.message(2, |scope_spans| {
            scope_spans.message(1, |scope| {
                scope.text(1, SCOPE);
                scope.text(2, service_version);
            });
            for span in spans {
                scope_spans.message(2, |to| write_span(to, span));
            }
        });
    });
    request.into_bytes()
}

fn write_span(to: &mut Writer, span: &Span) {
    to.bytes(1, &span.trace.0);
    to.bytes(2, &span.id.0);
    if let Some(parent) = span.parent {
        to.bytes(4, &parent.0);
    }
    to.text(5, &span.name);
    let kind = match span.kind {
        SpanKind::Internal => 1,
        SpanKind::Client => 3,
    };
    to.varint(6, kind);
    to.fixed64(7, nanoseconds(span.start));
    to.fixed64(8, nanoseconds(span.end));
    attributes(to, 9, &span.attributes);
    for event in &span.events {
        to.message(11, |to| write_event(to, event));
    }
    match &span.status {
        SpanStatus::Unset => {}
        SpanStatus::Error(words) => to.message(15, |status| {
            status.text(2, words);
            status.varint(3, STATUS_ERROR);
        }),
    }
}

fn write_event(to: &mut Writer, event: &SpanEvent) {
    to.fixed64(1, nanoseconds(event.at));
    to.text(2, event.name);
    attributes(to, 3, &event.attributes);
}

fn attributes(to: &mut Writer, field: u32, attributes: &[(&str, Value)]) {
    for (name, value) in attributes {
        to.message(field, |pair| {
            pair.text(1, name);
            pair.message(2, |any| write_value(any, value));
        });
    }
}

fn write_value(any: &mut Writer, value: &Value) {
    match value {
        Value::Text(text) => any.text(1, text),
        Value::Bool(yes) => any.varint(2, u64::from(*yes)),
        // Negative numbers are written in two's complement.
        Value::Int(number) => any.varint(3, number.cast_unsigned()),
        Value::Float(number) => any.fixed64(4, number.to_bits()),
        Value::Texts(texts) => any.message(5, |array| {
            for text in texts {
                array.message(1, |any| any.text(1, text));
            }
        }),
    }
}

fn nanoseconds(at: Timestamp) -> u64 {
    let milliseconds = u64::try_from(at.0).unwrap_or(0);
    milliseconds.saturating_mul(NANOSECONDS_PER_MILLISECOND)
}
