//! Asking a model.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{Arguments, RunId, SharedMessage, StopReason, ToolSpec, Usage};

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
}

/// Hears what a model says before it is done. Nothing here is kept.
pub trait DeltaSink: Send + Sync {
    /// The model wrote this much more.
    fn text(&self, delta: &str);
}

/// A sink that hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDeltas;

impl DeltaSink for NoDeltas {
    fn text(&self, _delta: &str) {}
}

/// All that a model needs for one turn.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// Who asks; scripted models answer by it, vendors may use it as a cache key.
    pub asker: Asker,
    /// The model's name without its directory's prefix.
    pub model: String,
    /// Who the model is.
    pub system: Arc<str>,
    /// What it may call; empty for the last, tool-free call.
    pub tools: Arc<[ToolSpec]>,
    /// What happened so far.
    pub messages: Vec<SharedMessage>,
    /// How hard to think.
    pub thinking: Option<String>,
}

/// Who asks a model.
#[derive(Clone, Debug)]
pub struct Asker {
    /// The run.
    pub run: RunId,
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
        native: Option<serde_json::Value>,
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

/// Why a model did not answer. Whether to ask again is decided where the error is born.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What went wrong and what to do.
    pub message: String,
    /// Whether asking again may help.
    pub retryable: bool,
}

impl ModelError {
    /// Asking again will not help.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            retryable: false,
        }
    }

    /// Asking again may help.
    pub fn retryable(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            retryable: true,
        }
    }
}
