//! A span as plain data. Its ids are made from what it is about, so that the same journal always
//! gives the same spans, whoever folds it and however often.

use sha2::{Digest as _, Sha256};
use sortie_core::{CallId, RunId, Seq, Timestamp};

/// The trace of a tree of runs: the id of its first run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId(pub [u8; 16]);

impl TraceId {
    /// The trace of the tree that begins with this run.
    pub fn of(root: RunId) -> Self {
        Self(root.as_u128().to_be_bytes())
    }
}

/// Names one span within its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId(pub [u8; 8]);

impl SpanId {
    /// The span of a run.
    pub fn of_run(run: RunId) -> Self {
        Self::hashed(&format!("run/{run}"))
    }

    /// The span of a question: named by the journal entry that ended it.
    pub fn of_chat(run: RunId, seq: Seq) -> Self {
        Self::hashed(&format!("chat/{run}/{seq}"))
    }

    /// The span of a call.
    pub fn of_call(run: RunId, call: &CallId) -> Self {
        Self::hashed(&format!("call/{run}/{call}"))
    }

    fn hashed(what: &str) -> Self {
        let digest = Sha256::digest(what.as_bytes());
        let mut id = [0; 8];
        id.copy_from_slice(&digest[..8]);
        // All zeros would mean "no span"; nobody will ever see it.
        if id == [0; 8] {
            id[7] = 1;
        }
        Self(id)
    }
}

/// What kind of work a span is, for whoever draws it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Inside this process.
    Internal,
    /// A question to somebody outside.
    Client,
}

/// How a span ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpanStatus {
    /// Nothing to remark.
    Unset,
    /// It failed; the words are empty where content is not captured.
    Error(String),
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A list of texts.
    Texts(Vec<String>),
    /// A whole number.
    Int(i64),
    /// Any number.
    Float(f64),
    /// Yes or no.
    Bool(bool),
}

/// Attributes, in the order in which they were given.
pub type Attributes = Vec<(&'static str, Value)>;

/// Something that happened at one moment of a span.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanEvent {
    /// What.
    pub name: &'static str,
    /// When.
    pub at: Timestamp,
    /// What there is to say about it.
    pub attributes: Attributes,
}

/// A stretch of work.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The tree of runs that it belongs to.
    pub trace: TraceId,
    /// Which it is.
    pub id: SpanId,
    /// The span that it is a part of; `None` for the first run of a tree.
    pub parent: Option<SpanId>,
    /// `{operation} {what}`, as the conventions want it.
    pub name: String,
    /// What kind of work.
    pub kind: SpanKind,
    /// When it began.
    pub start: Timestamp,
    /// When it ended; never before it began.
    pub end: Timestamp,
    /// How it ended.
    pub status: SpanStatus,
    /// What there is to say about it.
    pub attributes: Attributes,
    /// What happened meanwhile.
    pub events: Vec<SpanEvent>,
}

impl Span {
    /// The value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&Value> {
        let mut attributes = self.attributes.iter();
        attributes.find_map(|(key, value)| (*key == name).then_some(value))
    }
}
