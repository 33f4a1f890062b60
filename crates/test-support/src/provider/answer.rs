//! A completion, before it is encoded for a wire format.

use serde_json::Value;

/// The approximate bytes of a token.
const BYTES_PER_TOKEN: usize = 4;

/// The reported usage of a completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Input tokens that were not in the cache.
    pub fresh: u64,
    /// Input tokens from the cache.
    pub cache_read: u64,
    /// Input tokens written to the cache.
    pub cache_write: u64,
    pub output: u64,
}

impl Tokens {
    /// Returns all input tokens.
    pub fn input(&self) -> u64 {
        self.fresh + self.cache_read + self.cache_write
    }
}

/// Returns the approximate tokens of so many bytes.
pub(super) fn tokens(bytes: usize) -> u64 {
    (bytes / BYTES_PER_TOKEN) as u64
}

#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// Makes its ids unique.
    pub(super) number: usize,
    pub(super) model: String,
    pub(super) parts: Vec<Part>,
    pub(super) stop: Stop,
    pub(super) tokens: Tokens,
}

/// A part of a completion.
#[derive(Clone, Debug)]
pub(super) enum Part {
    Thought(String),
    Text(String),
    Call(CallPart),
    /// Text by which the model declines, on wire formats that mark it.
    Refusal(String),
}

/// A tool call in a completion.
#[derive(Clone, Debug)]
pub(super) struct CallPart {
    pub(super) id: Option<String>,
    pub(super) name: String,
    /// As text, which may not be JSON.
    pub(super) arguments: String,
}

/// Why a completion stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Done,
    Calls,
    Length,
    Refusal,
    Filter,
    /// The provider itself could not read the call; only Gemini reports that.
    Malformed,
}

impl Part {
    /// Returns its approximate length.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Thought(text) | Self::Text(text) | Self::Refusal(text) => text.len(),
            Self::Call(call) => call.name.len() + call.arguments.len(),
        }
    }
}

impl CallPart {
    /// Returns the arguments as a value, for wire formats without text: text that is not JSON stays
    /// a string.
    pub(super) fn value(&self) -> Value {
        serde_json::from_str(&self.arguments)
            .unwrap_or_else(|_| Value::String(self.arguments.clone()))
    }
}

/// Splits a text into the pieces of a stream: word by word.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}
