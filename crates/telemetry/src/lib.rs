//! OpenTelemetry traces of runs, made from their journals and from nothing else.
//!
//! [`spans`] folds the journal of an ended run into spans, purely; [`Telemetry`] does so for each run
//! that ends, and sends them to a collector by OTLP over HTTP. Nothing of it is instrumentation: what
//! is not in the journal is not in the trace, and the same journal gives the same spans.

mod config;
mod content;
mod fold;
mod names;
mod otlp;
mod span;
mod telemetry;

pub use config::{Endpoint, TelemetryConfig, TelemetryError};
pub use fold::{Capture, spans};
pub use span::{Attributes, Span, SpanEvent, SpanId, SpanKind, SpanStatus, TraceId, Value};
pub use telemetry::{Exported, Telemetry};
