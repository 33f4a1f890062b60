//! What a model reads and says, in Sortie's own words rather than any vendor's.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{BlobId, CallId, RunId};

/// One message of a run's history. Shared, because history is handed to the model every turn.
pub type SharedMessage = Arc<Message>;

/// One message of a run's history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// What a person or a parent asked.
    User {
        /// The words.
        text: String,
    },
    /// What the model said.
    Assistant {
        /// Text, reasoning and calls in their original order.
        blocks: Vec<Block>,
    },
    /// The answers to the calls of the message before; one for each, in order.
    Tools {
        /// The answers.
        results: Vec<ToolResult>,
    },
    /// Something the runtime tells the model: a child's announcement, a steer, a limit reached.
    /// Sent in the user's role, but framed so that it cannot pass for the user's words.
    Notice {
        /// The framed text.
        text: String,
    },
}

/// A part of what the model said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Words for the reader.
    Text {
        /// The words.
        text: String,
    },
    /// Words the model wrote for itself.
    Reasoning {
        /// The words, if the vendor shows them.
        text: String,
        /// The vendor's own item, to be sent back unchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Value>,
    },
    /// A tool call.
    Call(ToolCall),
}

/// A tool call, as the model made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Sortie's id of the call.
    pub id: CallId,
    /// The vendor's id, sent back with the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The tool's name as the model spelled it.
    pub name: String,
    /// The arguments.
    pub arguments: Arguments,
}

/// The arguments of a call: understood, or kept as they came so that nobody has to guess.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arguments {
    /// A JSON value.
    Json(Value),
    /// Text that is not JSON. The tool never runs; the model is told.
    Malformed {
        /// What came.
        raw: String,
        /// What is wrong with it.
        error: String,
    },
}

/// How deep JSON of a model or its vendor may be nested. Journals are read by a parser with a bound
/// of its own, and such a value stands a few levels deep in its event.
pub const MAX_JSON_DEPTH: usize = 64;

/// Whether a JSON value is nested deeper than [`MAX_JSON_DEPTH`].
pub fn is_too_deep(value: &Value) -> bool {
    fn exceeds(value: &Value, left: usize) -> bool {
        let Some(left) = left.checked_sub(1) else {
            return true;
        };
        match value {
            Value::Array(items) => items.iter().any(|item| exceeds(item, left)),
            Value::Object(fields) => fields.values().any(|field| exceeds(field, left)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }
    exceeds(value, MAX_JSON_DEPTH)
}

/// The one answer to a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call it answers.
    pub call: CallId,
    /// The vendor's id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// What the model reads: bounded.
    pub text: String,
    /// How it went.
    pub status: ResultStatus,
    /// The whole text, where `text` was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<BlobId>,
    /// Pictures that belong to the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageRef>,
}

/// A picture in a history: its bytes are a blob of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRef {
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub media_type: String,
    /// Its bytes.
    pub blob: BlobId,
}

/// How a tool call went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultStatus {
    /// It did what was asked.
    Ok,
    /// It did not; the text says what to do next.
    Error,
    /// Policy or a person refused it; nothing ran.
    Denied,
    /// The process died while it ran; the outcome is unknown.
    Interrupted,
}

/// One line of a run's todo list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// What is to be done.
    pub content: String,
    /// How far it is.
    pub status: TodoStatus,
}

/// How far a todo is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Begun.
    InProgress,
    /// Done.
    Completed,
}

/// What a run has used. Unknown is `None`, never zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens sent.
    pub input_tokens: Option<u64>,
    /// Tokens received.
    pub output_tokens: Option<u64>,
    /// Tokens read from the provider's cache.
    pub cache_read_tokens: Option<u64>,
    /// Tokens written to the provider's cache.
    pub cache_write_tokens: Option<u64>,
    /// Money, estimated.
    pub cost_usd: Option<f64>,
}

impl Usage {
    /// The sum, where either side is known.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: add(self.input_tokens, other.input_tokens, u64::saturating_add),
            output_tokens: add(self.output_tokens, other.output_tokens, u64::saturating_add),
            cache_read_tokens: add(
                self.cache_read_tokens,
                other.cache_read_tokens,
                u64::saturating_add,
            ),
            cache_write_tokens: add(
                self.cache_write_tokens,
                other.cache_write_tokens,
                u64::saturating_add,
            ),
            cost_usd: add(self.cost_usd, other.cost_usd, |a, b| a + b),
        }
    }

    /// Tokens in both directions, where known.
    pub fn total_tokens(self) -> Option<u64> {
        add(self.input_tokens, self.output_tokens, u64::saturating_add)
    }
}

fn add<T>(left: Option<T>, right: Option<T>, sum: impl Fn(T, T) -> T) -> Option<T> {
    match (left, right) {
        (Some(left), Some(right)) => Some(sum(left, right)),
        (Some(known), None) | (None, Some(known)) => Some(known),
        (None, None) => None,
    }
}

/// A child as its parent knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildRef {
    /// The child's run.
    pub run: RunId,
    /// The agent it runs.
    pub agent: String,
    /// Its label.
    pub label: String,
}
