//! Messages of a model's history, independent of any vendor's format.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{BlobId, CallId, RunId};

/// A shared message: the history is passed to the model on every turn.
pub type SharedMessage = Arc<Message>;

/// One message of a run's history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// The instruction of a person or a parent.
    User { text: String },
    Assistant {
        /// Text, reasoning and calls in their original order.
        blocks: Vec<Block>,
    },
    /// The results of the previous message's calls: one for each, in order.
    Tools { results: Vec<ToolResult> },
    /// A notice from the runtime: a child's announcement, a message, a limit that was reached. Sent
    /// in the user role, but framed so that it cannot pass for the user's words.
    Notice { text: String },
}

/// A part of a completion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    Text {
        text: String,
    },
    /// Reasoning that the model does not address to the reader.
    Reasoning {
        /// Empty if the vendor hides it.
        text: String,
        /// The vendor's own item, sent back unchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Value>,
    },
    Call(ToolCall),
}

/// A tool call, as the model made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Id that Sortie gave the call.
    pub id: CallId,
    /// The vendor's id, sent back with the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The tool's name as the model wrote it.
    pub name: String,
    pub arguments: Arguments,
}

/// The arguments of a call. Text that is not JSON is kept as it arrived instead of being repaired
/// by guessing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arguments {
    Json(Value),
    /// Not JSON. The tool does not run; its result tells the model so.
    Malformed {
        raw: String,
        error: String,
    },
}

/// How deep JSON from a model or a vendor may nest. The parser that reads journals has its own
/// limit, and such a value stands a few levels deep in its event.
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

/// The result of a tool call. Every call has exactly one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    pub call: CallId,
    /// The vendor's id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The text that the model reads, truncated to its limit.
    pub text: String,
    pub status: ResultStatus,
    /// The full text, if `text` was truncated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<BlobId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageRef>,
}

/// An image in a history. Its bytes are a blob of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRef {
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub media_type: String,
    pub blob: BlobId,
}

/// How a tool call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultStatus {
    Ok,
    /// The tool failed; the text tells the model what to do next.
    Error,
    /// Policy or an approver denied the call; nothing ran.
    Denied,
    /// The process died during the call; the outcome is unknown.
    Interrupted,
}

/// One item of a run's todo list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    pub content: String,
    pub status: TodoStatus,
}

/// The state of a todo item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    Pending,
    InProgress,
    Completed,
}

/// Tokens and cost. `None` means unknown, never zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    /// Tokens read from the provider's prompt cache.
    pub cache_read_tokens: Option<u64>,
    /// Tokens written to the provider's prompt cache.
    pub cache_write_tokens: Option<u64>,
    /// Estimated from the price list.
    pub cost_usd: Option<f64>,
}

impl Usage {
    /// Adds two usages; an unknown side does not make the sum unknown.
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

    /// Returns input plus output tokens.
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

/// A child, as its parent's journal refers to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildRef {
    pub run: RunId,
    pub agent: String,
    pub label: String,
}
