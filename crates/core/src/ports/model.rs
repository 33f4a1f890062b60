//! Asking a model.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::StopReason;
use crate::id::{BlobId, RunId};
use crate::message::{Arguments, SharedMessage, Usage};
use crate::ports::tool::ToolSpec;
use crate::run::Sampling;
use crate::time::Timestamp;

/// Something that can answer a turn.
///
/// Implementers guarantee that dropping the future stops the request, and that a cut-off stream is
/// an error and never a short answer.
#[async_trait]
pub trait Model: Send + Sync + fmt::Debug {
    /// Answers one turn, telling `deltas` what it says while it says it.
    async fn turn(
        &self,
        request: ModelRequest,
        deltas: &dyn DeltaSink,
    ) -> Result<ModelAnswer, ModelError>;
}

/// Finds the model behind a name such as `offline` or `vendor/model`.
pub trait ModelDirectory: Send + Sync + fmt::Debug {
    /// The model, or a sentence that says what to do.
    fn find(&self, name: &str) -> Result<Arc<dyn Model>, ModelError>;
    /// What its answers cost at most, as far as that is known.
    fn terms(&self, name: &str) -> Terms;
    /// How busy the models are that were asked so far; none where nobody counts.
    fn states(&self, _now: Timestamp) -> Vec<ModelState> {
        Vec::new()
    }
}

/// How busy a model is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelState {
    /// Its whole name.
    pub model: String,
    /// Whether it is asked: `ready`, `paused` by its provider, `resting` after failures, or `trying`
    /// again.
    pub state: String,
    /// Questions under way.
    pub in_flight: u32,
    /// How many may be.
    pub limit: Option<u32>,
    /// Questions that wait.
    pub queued: u32,
    /// Until when nobody asks it, if so.
    pub paused_until: Option<Timestamp>,
}

/// What the answers of a model cost at most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Terms {
    /// US dollars for a million tokens; `None` if nobody knows.
    pub price: Option<TokenPrice>,
    /// The most tokens of one answer, if the model is known to have a limit.
    pub max_output: Option<u64>,
}

/// US dollars for a million tokens, at the dearest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenPrice {
    /// Tokens read, whether they come from a cache, go to one, or neither.
    pub input: f64,
    /// Tokens written.
    pub output: f64,
}

/// Hears what happens to a question before it is answered. Nothing here is kept.
pub trait DeltaSink: Send + Sync {
    /// The model wrote this much more.
    fn text(&self, delta: &str);
    /// The question waits for the provider's rate limit, or no longer does.
    fn held(&self, held: Option<Held>);
}

/// A question that waits for its provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its place among the questions to the same model, from 1.
    pub position: u32,
    /// When the provider said to come back, if it did.
    pub resumes_in_ms: Option<u64>,
}

/// A sink that hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDeltas;

impl DeltaSink for NoDeltas {
    fn text(&self, _delta: &str) {}
    fn held(&self, _held: Option<Held>) {}
}

/// All that a model needs for one turn.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// Who asks; scripted models answer by it, vendors may use it as a cache key.
    pub asker: Asker,
    /// The model's whole name, as the directory knows it.
    pub model: String,
    /// Who the model is.
    pub system: Arc<str>,
    /// What it may call; empty for the last, tool-free call.
    pub tools: Arc<[ToolSpec]>,
    /// What happened so far.
    pub messages: Vec<SharedMessage>,
    /// The bytes of the images that the messages show.
    pub images: Images,
    /// How to answer.
    pub options: TurnOptions,
}

/// The bytes behind the images of a history, by name.
pub type Images = Arc<BTreeMap<BlobId, Arc<[u8]>>>;

/// How a model should answer a turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnOptions {
    /// How hard to think: `default`, `low`, `high`, or the vendor's own word.
    pub thinking: Option<String>,
    /// How freely to choose words.
    pub sampling: Sampling,
    /// The JSON schema that the final answer has to fit.
    pub schema: Option<Arc<Value>>,
    /// Whether another model is asked if this one cannot answer soon.
    pub has_fallback: bool,
    /// Whether the model wrote its tool call as text when it was asked before: it is asked again
    /// with the tools described in its prompt, unless the configuration forbids that.
    pub in_words: bool,
}

/// Who asks a model.
#[derive(Clone, Debug)]
pub struct Asker {
    /// The run.
    pub run: RunId,
    /// The first run of its tree: what runs of one tree share, their caches may too.
    pub root: RunId,
    /// Its agent.
    pub agent: String,
    /// Its label.
    pub label: String,
    /// Its task.
    pub task: String,
    /// How far below the root.
    pub depth: u32,
    /// Which turn of the run, from 1.
    pub turn: u32,
}

/// What a model said.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelAnswer {
    /// In the order it was said.
    pub parts: Vec<AnswerPart>,
    /// Why it stopped.
    pub stop: StopReason,
    /// What it cost.
    pub usage: Usage,
    /// The model that really answered.
    pub model: String,
    /// How long the question waited for the provider's rate limit.
    pub held_ms: u64,
}

/// A part of a model's answer, before the run gives its calls their ids.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerPart {
    /// Words for the reader.
    Text(String),
    /// Words for itself.
    Reasoning {
        /// The words.
        text: String,
        /// The vendor's own item.
        native: Option<Value>,
    },
    /// A call.
    Call {
        /// The vendor's id, if it gave one.
        provider_id: Option<String>,
        /// The tool.
        name: String,
        /// The arguments.
        arguments: Arguments,
    },
}

/// Why a model did not answer. What may help is decided where the error is born.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What kind of failure, and so what may help.
    pub fault: Fault,
    /// What went wrong and what to do.
    pub message: String,
    /// Whether somebody may have read a part of the answer that is now void.
    pub shown: bool,
}

/// The kinds of failure of a model, by what may help.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Fault {
    /// The network, the provider's servers, or an answer that was cut off: asking again may help.
    Transient,
    /// The provider wants fewer questions.
    RateLimited {
        /// When it wants the next one, if it said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
    /// The key is missing or not good, or the account is empty: a person has to act.
    Auth,
    /// The history is longer than the model can read: it has to be compacted.
    ContextOverflow,
    /// The provider's filter refused the question.
    ContentFilter,
    /// The provider does not understand the question, or there is no such model.
    BadRequest,
    /// The reply is a tool call that the model wrote as text. Nothing ran; the turn is asked again
    /// with the tools described in the prompt.
    TextCall {
        /// What the reply cost.
        usage: Usage,
    },
    /// Somebody stopped it.
    Cancelled,
}

impl Fault {
    /// Whether asking the same model the same question again may help.
    pub const fn is_retryable(self) -> bool {
        match self {
            Self::Transient | Self::RateLimited { .. } | Self::TextCall { .. } => true,
            Self::Auth
            | Self::ContextOverflow
            | Self::ContentFilter
            | Self::BadRequest
            | Self::Cancelled => false,
        }
    }

    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::RateLimited { .. } => "rate_limited",
            Self::Auth => "auth",
            Self::ContextOverflow => "context_overflow",
            Self::ContentFilter => "content_filter",
            Self::BadRequest => "bad_request",
            Self::TextCall { .. } => "text_call",
            Self::Cancelled => "cancelled",
        }
    }
}

impl ModelError {
    /// A failure of this kind that nobody has seen a part of an answer before.
    pub fn new(fault: Fault, message: impl Into<String>) -> Self {
        Self {
            fault,
            message: message.into(),
            shown: false,
        }
    }

    /// Asking again will not help.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self::new(Fault::BadRequest, message)
    }

    /// Asking again may help.
    pub fn retryable(message: impl Into<String>) -> Self {
        Self::new(Fault::Transient, message)
    }
}
