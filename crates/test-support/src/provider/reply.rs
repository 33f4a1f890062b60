//! What the provider does with a request.

use std::time::Duration;

use serde_json::Value;

/// A reply: a completion, or one of the ways to fail.
#[derive(Clone, Debug)]
pub enum Reply {
    Text(String),
    Calls(Vec<Call>),
    /// Reasoning, then another reply.
    Thinking(String, Box<Self>),
    /// Another reply, after a delay before its first byte.
    SlowFirstByte(Duration, Box<Self>),
    /// Another reply, in chunks of so many bytes.
    InPieces(usize, Box<Self>),
    /// Another reply, which names another model.
    OtherModelName(String, Box<Self>),
    /// Another reply, without the wire format's end marker, if it has one.
    NoDone(Box<Self>),

    /// A rejection with this status; for 429, with a `Retry-After` of so many seconds.
    Status(u16, Option<u64>),
    /// A rejection because the prompt exceeds the model's context.
    ContextOverflow,
    /// A connection that is reset before the first byte.
    Reset,
    /// Some text, then a reset.
    ResetMidway,
    Endless,
    /// Some text, then silence on an open connection.
    Stall,
    /// A completion that ends in the middle of the arguments of a `write_file`.
    CutInCall(Ending),
    /// A call that was truncated because the completion reached its token limit.
    TokenLimitInCall,
    /// A call of this tool with arguments that are not JSON.
    MalformedArguments(String, String),
    /// These calls, all with the same id.
    DuplicateIds(Vec<Call>),
    /// These calls, without an id.
    MissingIds(Vec<Call>),
    /// A `write_file` with a content of so many bytes.
    HugeArguments(usize),
    /// A completion without content.
    Empty,
    /// Text that contains invalid UTF-8.
    InvalidUtf8,
    /// The model declines, in the form of its wire format.
    Refusal,
    /// The content filter stops the completion, in the form of its wire format.
    ContentFilter,
    /// A success status, some text, then an error.
    ErrorInStream,
    /// A web page with this status.
    Html(u16),
}

/// How a truncated response ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// In the middle of a chunk.
    Abrupt,
    /// As if it were complete: the connection is closed properly.
    Clean,
}

/// A tool call in a reply.
#[derive(Clone, Debug)]
pub struct Call {
    pub name: String,
    pub arguments: Value,
}

impl Reply {
    /// Returns a reply with text.
    pub fn text(words: &str) -> Self {
        Self::Text(words.to_owned())
    }

    /// Returns a reply with one call.
    pub fn call(name: &str, arguments: Value) -> Self {
        Self::Calls(vec![Call::new(name, arguments)])
    }
}

impl Call {
    pub fn new(name: &str, arguments: Value) -> Self {
        Self {
            name: name.to_owned(),
            arguments,
        }
    }
}
