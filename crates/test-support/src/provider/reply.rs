//! What a provider can be told to do with a request.

use std::time::Duration;

use serde_json::Value;

/// What becomes of a request: an answer, or one of the ways in which there is none.
#[derive(Clone, Debug)]
pub enum Reply {
    /// These words.
    Text(String),
    /// These calls.
    Calls(Vec<Call>),
    /// A thought, and then another reply.
    Thinking(String, Box<Self>),
    /// Another reply, after a wait before its first byte.
    SlowFirstByte(Duration, Box<Self>),
    /// Another reply, in chunks of so many bytes.
    InPieces(usize, Box<Self>),
    /// Another reply, in the name of another model.
    OtherModelName(String, Box<Self>),
    /// Another reply, without the mark that it is over; where the wire has none, as it is.
    NoDone(Box<Self>),

    /// A refusal with this status; for 429, with a `Retry-After` of so many seconds.
    Status(u16, Option<u64>),
    /// A refusal because the prompt is longer than the model can read.
    ContextOverflow,
    /// A connection that is reset before the first byte.
    Reset,
    /// Some words, and then a reset.
    ResetMidway,
    /// Words without end.
    Endless,
    /// Some words, and then silence on an open connection.
    Stall,
    /// An answer that ends in the middle of the arguments of a `write_file`.
    CutInCall(Ending),
    /// A call that was cut because the answer reached its limit of tokens.
    TokenLimitInCall,
    /// A call of this tool with arguments that are not JSON.
    MalformedArguments(String, String),
    /// These calls, all with the same id.
    DuplicateIds(Vec<Call>),
    /// These calls, without an id.
    MissingIds(Vec<Call>),
    /// A `write_file` with a content of so many bytes.
    HugeArguments(usize),
    /// An answer without anything in it.
    Empty,
    /// Words with bytes in them that are no characters.
    InvalidUtf8,
    /// The model declines, in the way of its wire.
    Refusal,
    /// The provider's filter stops the answer, in the way of its wire.
    ContentFilter,
    /// A good status, some words, and then a refusal.
    ErrorInStream,
    /// A web page with this status.
    Html(u16),
}

/// How an answer that is cut off ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// In the middle of a chunk.
    Abrupt,
    /// As if it were complete: the connection says that nothing follows.
    Clean,
}

/// A call in a reply.
#[derive(Clone, Debug)]
pub struct Call {
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Value,
}

impl Reply {
    /// These words.
    pub fn text(words: &str) -> Self {
        Self::Text(words.to_owned())
    }

    /// One call.
    pub fn call(name: &str, arguments: Value) -> Self {
        Self::Calls(vec![Call::new(name, arguments)])
    }
}

impl Call {
    /// A call of this tool.
    pub fn new(name: &str, arguments: Value) -> Self {
        Self {
            name: name.to_owned(),
            arguments,
        }
    }
}
