//! The model port: one turn from a prompt to a completion.

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

words! {
    /// The protocol that a provider speaks.
    Wire {
        /// The Messages API of Anthropic.
        Anthropic = "anthropic",
        /// OpenAI's Chat Completions, and the many that speak it too.
        Chat = "chat",
        /// The Responses API of OpenAI.
        Responses = "responses",
        /// The API of Google's Gemini models.
        Gemini = "gemini",
    }
}

words! {
    /// How a model is offered tools, and how it calls them.
    ToolSetting {
        /// By the provider's own tool calls, until the provider refuses them.
        Auto = "auto",
        /// By the provider's own tool calls.
        Native = "native",
        /// In the prompt; the model answers with one JSON object.
        Schema = "schema",
        /// In the prompt; the model answers with a fenced block.
        Fenced = "fenced",
    }
}

/// A model that completes turns.
///
/// Implementers guarantee that dropping the future stops the request, and that a stream that breaks
/// off is an error and never a short completion.
#[async_trait]
pub trait Model: Send + Sync + fmt::Debug {
    /// Completes one turn and passes text to `deltas` as it arrives.
    async fn turn(
        &self,
        request: ModelRequest,
        deltas: &dyn DeltaSink,
    ) -> Result<ModelAnswer, ModelError>;
}

/// Finds models by names such as `offline` or `vendor/model`.
pub trait ModelDirectory: Send + Sync + fmt::Debug {
    /// Returns the model; the error tells the user what to do.
    fn find(&self, name: &str) -> Result<Arc<dyn Model>, ModelError>;
    /// Returns the highest prices of its completions, as far as they are known.
    fn terms(&self, name: &str) -> Terms;
    /// Returns the load of the models that were used so far; empty for directories that do not
    /// count.
    fn states(&self, _now: Timestamp) -> Vec<ModelState> {
        Vec::new()
    }
}

/// The load of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelState {
    /// Full name of the model, `vendor/model`.
    pub model: String,
    /// `ready`, `paused` by its provider, `resting` after failures, or `trying` again.
    pub state: String,
    pub in_flight: u32,
    /// The maximum of `in_flight`.
    pub limit: Option<u32>,
    /// Prompts in the queue.
    pub queued: u32,
    /// Until when no prompt is sent.
    pub paused_until: Option<Timestamp>,
}

/// The price and size limits of a model's completions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Terms {
    /// US dollars for a million tokens; `None` if unknown.
    pub price: Option<TokenPrice>,
    /// The maximum tokens of one completion, if known.
    pub max_output: Option<u64>,
}

/// US dollars for a million tokens, at the highest rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenPrice {
    /// Input tokens, whether read from a cache, written to one, or neither.
    pub input: f64,
    /// Output tokens, reasoning included.
    pub output: f64,
}

/// Receives what happens to a prompt before its completion arrives. Nothing of it is stored.
pub trait DeltaSink: Send + Sync {
    /// The model generated more text.
    fn text(&self, delta: &str);
    /// The provider's rate limit delays the prompt, or no longer does.
    fn rate_limited(&self, wait: Option<RateLimitWait>);
}

/// A prompt that a rate limit delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimitWait {
    /// Its position among the prompts to the same model, from 1.
    pub position: u32,
    /// When the provider accepts prompts again, if it said so.
    pub resumes_in_ms: Option<u64>,
}

/// A sink that discards everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDeltas;

impl DeltaSink for NoDeltas {
    fn text(&self, _delta: &str) {}
    fn rate_limited(&self, _wait: Option<RateLimitWait>) {}
}

/// A prompt: everything a model needs for one turn.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The run that prompts. Scripted models reply by it; vendors may use it as a cache key.
    pub origin: PromptOrigin,
    /// The full name, as the directory knows it.
    pub model: String,
    pub system: Arc<str>,
    /// Empty for the last prompt, which must be answered without tools.
    pub tools: Arc<[ToolSpec]>,
    pub messages: Vec<SharedMessage>,
    /// The bytes of the images in `messages`.
    pub images: Images,
    pub options: TurnOptions,
}

/// The bytes of the images in a history, by blob.
pub type Images = Arc<BTreeMap<BlobId, Arc<[u8]>>>;

/// Options of one turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnOptions {
    /// The reasoning effort: `default`, `low`, `high`, or a vendor's own value.
    pub thinking: Option<String>,
    pub sampling: Sampling,
    /// The JSON schema that the final completion must match.
    pub schema: Option<Arc<Value>>,
    /// Whether another model is prompted if this one cannot reply soon.
    pub has_fallback: bool,
    /// Whether the model's previous completion wrote its tool call as text. The turn is repeated
    /// with the tools described in the prompt, unless the configuration forbids it.
    pub after_text_call: bool,
}

/// The run that prompts a model.
#[derive(Clone, Debug)]
pub struct PromptOrigin {
    pub run: RunId,
    /// The root run of its tree.
    pub root: RunId,
    /// Names the group of prompts that share a prompt cache: those of one agent in one tree, and the
    /// runs that were forked with this prompt.
    pub cache_key: String,
    pub agent: String,
    pub label: String,
    pub task: String,
    /// The distance from the root.
    pub depth: u32,
    /// The turn of the run, from 1.
    pub turn: u32,
}

/// A model's completion and its usage.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelAnswer {
    /// In the order of generation.
    pub parts: Vec<AnswerPart>,
    pub stop: StopReason,
    pub usage: Usage,
    /// The model that replied, which may differ from the requested one.
    pub model: String,
    /// How long the provider's rate limit delayed the prompt.
    pub held_ms: u64,
}

/// A part of a completion, before the run assigns ids to its calls.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerPart {
    Text(String),
    /// Reasoning that the model does not address to the reader.
    Reasoning {
        text: String,
        /// The vendor's own item.
        native: Option<Value>,
    },
    Call {
        /// The vendor's id, if it gave one.
        provider_id: Option<String>,
        name: String,
        arguments: Arguments,
    },
}

/// Why a model returned no completion. The code that creates the error decides what may help.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    pub fault: Fault,
    /// What went wrong and what to do.
    pub message: String,
    /// Whether a viewer may have read a part of the discarded completion.
    pub shown: bool,
}

/// The kinds of failure of a model, by what may help.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Fault {
    /// The network, the provider's servers, or a stream that broke off: a retry may help.
    Transient,
    /// The provider limits the rate of prompts.
    RateLimited {
        /// When the provider accepts the next prompt, if it said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
    /// The API key is missing or invalid, or the account is empty: a person has to act.
    Auth,
    /// The history exceeds the model's context: it has to be compacted.
    ContextOverflow,
    /// The provider's content filter rejected the prompt.
    ContentFilter,
    /// The provider rejected the prompt as invalid, or the model does not exist.
    BadRequest,
    /// The completion is a tool call written as text. Nothing ran; the turn is repeated with the
    /// tools described in the prompt.
    TextCall {
        /// The usage of the discarded completion.
        usage: Usage,
    },
    Cancelled,
}

impl Fault {
    /// Whether repeating the same prompt may help.
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

    /// Returns the name in JSON.
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
    /// Returns a failure without a partly shown completion.
    pub fn new(fault: Fault, message: impl Into<String>) -> Self {
        Self {
            fault,
            message: message.into(),
            shown: false,
        }
    }

    /// Returns a failure that a retry does not resolve.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self::new(Fault::BadRequest, message)
    }

    /// Returns a failure that a retry may resolve.
    pub fn retryable(message: impl Into<String>) -> Self {
        Self::new(Fault::Transient, message)
    }
}
