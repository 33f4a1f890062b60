//! A span as plain data. Its ids are derived from run and call ids, so that the same journal always
//! gives the same spans.

use sha2::{Digest as _, Sha256};
use sortie_core::id::{CallId, RunId, Seq};
use sortie_core::time::Timestamp;

/// The trace id of a tree of runs: the id of its root run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId(pub [u8; 16]);

impl TraceId {
    /// Returns the trace id of the tree with this root run.
    pub fn of(root: RunId) -> Self {
        Self(root.as_u128().to_be_bytes())
    }
}

/// The id of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId(pub [u8; 8]);

impl SpanId {
    /// Returns the span id of a run.
    pub fn of_run(run: RunId) -> Self {
        Self::hashed(&format!("run/{run}"))
    }

    /// Returns the span id of a model call: derived from the journal entry that ended it.
    pub fn of_chat(run: RunId, seq: Seq) -> Self {
        Self::hashed(&format!("chat/{run}/{seq}"))
    }

    /// Returns the span id of a tool call.
    pub fn of_call(run: RunId, call: &CallId) -> Self {
        Self::hashed(&format!("call/{run}/{call}"))
    }

    fn hashed(what: &str) -> Self {
        let digest = Sha256::digest(what.as_bytes());
        let mut id = [0; 8];
        id.copy_from_slice(&digest[..8]);
        // All zeros would mean "no span"; this practically never happens.
        if id == [0; 8] {
            id[7] = 1;
        }
        Self(id)
    }
}

/// The span kind of OpenTelemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Work inside this process.
    Internal,
    /// A request to a remote service.
    Client,
}

/// How a span ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpanStatus {
    /// Ended without an error.
    Unset,
    /// Failed; the message is empty if content is not captured.
    Error(String),
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Text(String),
    /// A list of texts.
    Texts(Vec<String>),
    Int(i64),
    Float(f64),
    Bool(bool),
}

/// Attributes, in insertion order.
pub type Attributes = Vec<(&'static str, Value)>;

/// An event of a span.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanEvent {
    pub name: &'static str,
    pub at: Timestamp,
    pub attributes: Attributes,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Trace id of the tree of runs.
    pub trace: TraceId,
    pub id: SpanId,
    /// The parent span; `None` for the root run.
    pub parent: Option<SpanId>,
    /// `{operation} {what}`, as the semantic conventions require.
    pub name: String,
    pub kind: SpanKind,
    pub start: Timestamp,
    /// End of the span, never before `start`.
    pub end: Timestamp,
    pub status: SpanStatus,
    pub attributes: Attributes,
    pub events: Vec<SpanEvent>,
}

impl Span {
    /// Returns the value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&Value> {
        let mut attributes = self.attributes.iter();
        attributes.find_map(|(key, value)| (*key == name).then_some(value))
    }
}
