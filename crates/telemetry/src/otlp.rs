//! Sends spans to a collector: OTLP over HTTP as protobuf.
//!
//! The message types are OpenTelemetry's own. Sending is implemented here, because the standard exporter reads
//! the environment (headers, compression, timeouts) on its own and follows redirects.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value as ProtoValue;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{
    ResourceSpans, ScopeSpans, Span as ProtoSpan, Status, span, status,
};
use prost::Message as _;
use reqwest::{StatusCode, redirect};
use sortie_core::time::Timestamp;

use crate::config::{Target, TelemetryError};
use crate::names;
use crate::span::{Attributes, Span, SpanEvent, SpanKind, SpanStatus, Value};

/// Timeout of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of one request: collectors answer at once or not at all.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Limit of a response: it contains the number of rejected spans and the reason.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// Limit of a collector's message in a log line.
const MAX_WORDS_CHARS: usize = 200;
/// Name of the instrumentation scope.
const SCOPE: &str = "sortie";
const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;

/// The outcome of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Accepted; the collector rejected so many spans for this reason.
    Accepted { refused: u64, words: String },
    /// Failed; a retry may help.
    Later(String),
    /// Failed permanently.
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
        let client = reqwest::Client::builder()
            // Otherwise the client reads proxy settings from the environment.
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(REQUEST_TIMEOUT)
            // A redirect would send the keys to a host that the operator did not configure.
            .redirect(redirect::Policy::none())
            .referer(false)
            .user_agent(concat!("sortie/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(TelemetryError::Client)?;
        Ok(Self { client, target })
    }

    pub(crate) const fn target(&self) -> &Target {
        &self.target
    }

    /// Sends one request.
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
        let words = format!("it answered {status}");
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
    let answer = ExportTraceServiceResponse::decode(body.as_slice()).unwrap_or_default();
    let partial = answer.partial_success.unwrap_or_default();
    Sent::Accepted {
        refused: u64::try_from(partial.rejected_spans).unwrap_or(0),
        words: partial
            .error_message
            .chars()
            .take(MAX_WORDS_CHARS)
            .collect(),
    }
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

fn encode(spans: &[Span], service_version: &str) -> Vec<u8> {
    let attributes = vec![
        (names::SERVICE_NAME, Value::Text(SCOPE.to_owned())),
        (
            names::SERVICE_VERSION,
            Value::Text(service_version.to_owned()),
        ),
    ];
    let request = ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource {
                attributes: pairs(&attributes),
                ..Resource::default()
            }),
            scope_spans: vec![ScopeSpans {
                scope: Some(InstrumentationScope {
                    name: SCOPE.to_owned(),
                    version: service_version.to_owned(),
                    ..InstrumentationScope::default()
                }),
                spans: spans.iter().map(proto).collect(),
                schema_url: String::new(),
            }],
            schema_url: String::new(),
        }],
    };
    request.encode_to_vec()
}

fn proto(span: &Span) -> ProtoSpan {
    let kind = match span.kind {
        SpanKind::Internal => span::SpanKind::Internal,
        SpanKind::Client => span::SpanKind::Client,
    };
    let (code, message) = match &span.status {
        SpanStatus::Unset => (status::StatusCode::Unset, String::new()),
        SpanStatus::Error(words) => (status::StatusCode::Error, words.clone()),
    };
    ProtoSpan {
        trace_id: span.trace.0.to_vec(),
        span_id: span.id.0.to_vec(),
        parent_span_id: span.parent.map(|id| id.0.to_vec()).unwrap_or_default(),
        name: span.name.clone(),
        kind: kind.into(),
        start_time_unix_nano: nanoseconds(span.start),
        end_time_unix_nano: nanoseconds(span.end),
        attributes: pairs(&span.attributes),
        events: span.events.iter().map(event).collect(),
        status: Some(Status {
            message,
            code: code.into(),
        }),
        ..ProtoSpan::default()
    }
}

fn event(event: &SpanEvent) -> span::Event {
    span::Event {
        time_unix_nano: nanoseconds(event.at),
        name: event.name.to_owned(),
        attributes: pairs(&event.attributes),
        dropped_attributes_count: 0,
    }
}

fn pairs(attributes: &Attributes) -> Vec<KeyValue> {
    let pairs = attributes.iter().map(|(name, value)| KeyValue {
        key: (*name).to_owned(),
        value: Some(AnyValue {
            value: Some(any(value)),
        }),
        ..KeyValue::default()
    });
    pairs.collect()
}

fn any(value: &Value) -> ProtoValue {
    match value {
        Value::Text(text) => ProtoValue::StringValue(text.clone()),
        Value::Texts(texts) => ProtoValue::ArrayValue(ArrayValue {
            values: texts
                .iter()
                .map(|text| AnyValue {
                    value: Some(ProtoValue::StringValue(text.clone())),
                })
                .collect(),
        }),
        Value::Int(number) => ProtoValue::IntValue(*number),
        Value::Float(number) => ProtoValue::DoubleValue(*number),
        Value::Bool(yes) => ProtoValue::BoolValue(*yes),
    }
}

fn nanoseconds(at: Timestamp) -> u64 {
    let milliseconds = u64::try_from(at.0).unwrap_or(0);
    milliseconds.saturating_mul(NANOSECONDS_PER_MILLISECOND)
}
