//! OpenTelemetry traces of runs, computed only from their journals.
//!
//! [`spans`] folds the journal of an ended run into spans, purely; [`Telemetry`] does so for each run
//! that ends, and sends them to a collector by OTLP over HTTP. The engine is not instrumented: what
//! is not in the journal is not in the trace, and the same journal gives the same spans.

mod config;
mod content;
mod fold;
mod names;
mod otlp;
mod protobuf;
mod span;
mod telemetry;

pub use config::{Endpoint, TelemetryConfig, TelemetryError};
pub use fold::{Capture, spans};
pub use span::{Attributes, Span, SpanEvent, SpanId, SpanKind, SpanStatus, TraceId, Value};
pub use telemetry::{Exported, Telemetry};
