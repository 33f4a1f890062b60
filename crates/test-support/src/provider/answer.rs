//! An answer before it is said in the words of a wire.

use serde_json::Value;

/// About how many bytes are a token.
const BYTES_PER_TOKEN: usize = 4;

/// What an answer is said to have cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Read without the cache's help.
    pub fresh: u64,
    /// Read from the cache.
    pub cache_read: u64,
    /// Written to the cache.
    pub cache_write: u64,
    /// Answered.
    pub output: u64,
}

impl Tokens {
    /// All that was read, wherever it came from.
    pub fn input(&self) -> u64 {
        self.fresh + self.cache_read + self.cache_write
    }
}

/// About how many tokens so many bytes are.
pub(super) fn tokens(bytes: usize) -> u64 {
    (bytes / BYTES_PER_TOKEN) as u64
}

/// An answer, whole.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// A number that makes its ids its own.
    pub(super) number: usize,
    pub(super) model: String,
    pub(super) parts: Vec<Part>,
    pub(super) stop: Stop,
    pub(super) tokens: Tokens,
}

/// A part of an answer.
#[derive(Clone, Debug)]
pub(super) enum Part {
    Thought(String),
    Text(String),
    Call(CallPart),
    /// Words by which the model declines, on wires that tell them from others.
    Refusal(String),
}

/// A call in an answer.
#[derive(Clone, Debug)]
pub(super) struct CallPart {
    pub(super) id: Option<String>,
    pub(super) name: String,
    /// As text, which may be no JSON.
    pub(super) arguments: String,
}

/// Why an answer stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Done,
    Calls,
    Length,
    Refusal,
    Filter,
    /// The call could not be read by the provider itself; only Gemini says so.
    Malformed,
}

impl Part {
    /// About how long it is.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Thought(text) | Self::Text(text) | Self::Refusal(text) => text.len(),
            Self::Call(call) => call.name.len() + call.arguments.len(),
        }
    }
}

impl CallPart {
    /// The arguments as a value, for wires that have no text: text that is no JSON stays text.
    pub(super) fn value(&self) -> Value {
        serde_json::from_str(&self.arguments)
            .unwrap_or_else(|_| Value::String(self.arguments.clone()))
    }
}

/// A text in the pieces that a stream sends it in: word by word.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}
