//! A reply while it arrives.

use std::collections::HashSet;

use serde_json::{Map, Value};
use sortie_core::event::StopReason;
use sortie_core::message::{Arguments, Usage};
use sortie_core::ports::model::{AnswerPart, ModelAnswer, ModelError};

use crate::bounds;
use crate::bounds::too_long;

/// The error message for a stream that ended too early.
pub(crate) const CUT_OFF: &str = "the completion ended early; a retry may help";
const CUT_ARGUMENTS: &str = "the completion reached its token limit inside this call, so nothing ran; call again with shorter arguments";

/// A reply while it arrives.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pieces: Vec<Piece>,
    text_bytes: usize,
    calls: usize,
    /// Text that was not yet passed to the sink.
    pub(crate) fresh: String,
    /// The usage reported so far.
    pub(crate) usage: Usage,
    /// The model name that the server reports.
    pub(crate) model: String,
    /// The stop reason; `None` while the stream continues.
    pub(crate) stop: Option<StopReason>,
}

/// A part while it arrives.
#[derive(Debug)]
pub(crate) enum Piece {
    Text(String),
    Reasoning { text: String, native: Option<Value> },
    Call(CallDraft),
}

/// A call while it arrives.
#[derive(Debug, Default)]
pub(crate) struct CallDraft {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    /// The arguments as text.
    pub(crate) raw: String,
    /// The arguments, if the wire sends them as a value; text takes precedence.
    pub(crate) value: Option<Value>,
}

impl Draft {
    /// Appends a part and returns its index.
    pub(crate) fn push(&mut self, piece: Piece) -> Result<usize, ModelError> {
        if self.pieces.len() >= bounds::PARTS {
            return Err(too_many("parts", bounds::PARTS));
        }
        match &piece {
            Piece::Text(text) => {
                self.count_text(text.len())?;
                self.fresh.push_str(text);
            }
            Piece::Reasoning { text, native: _ } => self.count_text(text.len())?,
            Piece::Call(call) => self.count_call(call)?,
        }
        self.pieces.push(piece);
        Ok(self.pieces.len() - 1)
    }

    /// Appends to the last text part, or begins one.
    pub(crate) fn push_text(&mut self, delta: &str) -> Result<(), ModelError> {
        if delta.is_empty() {
            return Ok(());
        }
        if !matches!(self.pieces.last(), Some(Piece::Text(_))) {
            self.push(Piece::Text(String::new()))?;
        }
        self.extend_text(self.pieces.len() - 1, delta)
    }

    /// Returns the index of the last part if it is reasoning whose item is of this kind.
    pub(crate) fn last_reasoning(&self, is_kind: impl Fn(&Value) -> bool) -> Option<usize> {
        match self.pieces.last()? {
            Piece::Reasoning { text: _, native } => {
                let native = native.as_ref().unwrap_or(&Value::Null);
                is_kind(native).then(|| self.pieces.len() - 1)
            }
            Piece::Text(_) | Piece::Call(_) => None,
        }
    }

    /// Appends to the text or reasoning at an index; a part of another kind is left unchanged.
    pub(crate) fn extend_text(&mut self, at: usize, delta: &str) -> Result<(), ModelError> {
        self.count_text(delta.len())?;
        match self.pieces.get_mut(at) {
            Some(Piece::Text(text)) => {
                text.push_str(delta);
                self.fresh.push_str(delta);
            }
            Some(Piece::Reasoning { text, native: _ }) => text.push_str(delta),
            Some(Piece::Call(_)) | None => {}
        }
        Ok(())
    }

    /// Appends to the arguments of the call at an index.
    pub(crate) fn extend_arguments(&mut self, at: usize, delta: &str) -> Result<(), ModelError> {
        let Some(call) = self.call(at) else {
            return Ok(());
        };
        if call.raw.len() + delta.len() > bounds::ARGUMENT_BYTES {
            return Err(too_long("a call's arguments", bounds::ARGUMENT_BYTES));
        }
        call.raw.push_str(delta);
        Ok(())
    }

    /// Returns the call at an index.
    pub(crate) fn call(&mut self, at: usize) -> Option<&mut CallDraft> {
        match self.pieces.get_mut(at) {
            Some(Piece::Call(call)) => Some(call),
            Some(Piece::Text(_) | Piece::Reasoning { .. }) | None => None,
        }
    }

    /// Returns the vendor's own item of the reasoning at an index.
    pub(crate) fn native(&mut self, at: usize) -> Option<&mut Option<Value>> {
        match self.pieces.get_mut(at) {
            Some(Piece::Reasoning { text: _, native }) => Some(native),
            Some(Piece::Text(_) | Piece::Call(_)) | None => None,
        }
    }

    /// Returns whether nothing has arrived yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the reply. A draft without a stop reason was cut off, which is an error.
    pub(crate) fn finish(self) -> Result<ModelAnswer, ModelError> {
        let stop = self.stop.ok_or_else(|| ModelError::retryable(CUT_OFF))?;
        let is_cut = matches!(stop, StopReason::MaxTokens);
        let last = self.pieces.len().saturating_sub(1);
        let mut ids = HashSet::new();
        let mut parts = Vec::with_capacity(self.pieces.len());
        for (at, piece) in self.pieces.into_iter().enumerate() {
            parts.extend(piece.finish(is_cut && at == last, &mut ids));
        }
        Ok(ModelAnswer {
            stop: agreed(stop, &parts),
            parts,
            usage: self.usage,
            model: self.model,
            held_ms: 0,
        })
    }

    fn count_text(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.text_bytes = self.text_bytes.saturating_add(bytes);
        if self.text_bytes > bounds::TEXT_BYTES {
            return Err(too_long("the answer's text", bounds::TEXT_BYTES));
        }
        Ok(())
    }

    fn count_call(&mut self, call: &CallDraft) -> Result<(), ModelError> {
        self.calls += 1;
        if self.calls > bounds::CALLS {
            return Err(too_many("calls", bounds::CALLS));
        }
        let value_bytes = call
            .value
            .as_ref()
            .map_or(0, |value| value.to_string().len());
        if call.raw.len().max(value_bytes) > bounds::ARGUMENT_BYTES {
            return Err(too_long("a call's arguments", bounds::ARGUMENT_BYTES));
        }
        Ok(())
    }
}

impl Piece {
    fn finish(self, is_cut: bool, ids: &mut HashSet<String>) -> Option<AnswerPart> {
        match self {
            Self::Text(text) => (!text.is_empty()).then_some(AnswerPart::Text(text)),
            Self::Reasoning { text, native } => (!text.is_empty() || native.is_some())
                .then_some(AnswerPart::Reasoning { text, native }),
            Self::Call(call) => Some(AnswerPart::Call {
                provider_id: call
                    .id
                    .filter(|id| !id.is_empty())
                    .map(|id| unique(id, ids)),
                name: call.name,
                arguments: understand(call.raw, call.value, is_cut),
            }),
        }
    }
}

/// Parses the arguments of a call: a JSON object, or else the raw text.
pub(crate) fn understand(raw: String, value: Option<Value>, is_cut: bool) -> Arguments {
    if raw.trim().is_empty() {
        return match value {
            Some(value) => object_or_malformed(value, None),
            None if is_cut => malformed(raw, CUT_ARGUMENTS),
            None => Arguments::Json(Value::Object(Map::new())),
        };
    }
    match serde_json::from_str(&raw) {
        Ok(value) => object_or_malformed(value, Some(raw)),
        Err(_) if is_cut => malformed(raw, CUT_ARGUMENTS),
        Err(error) => malformed(raw, &format!("the arguments are not JSON: {error}")),
    }
}

fn object_or_malformed(value: Value, raw: Option<String>) -> Arguments {
    if value.is_object() {
        return Arguments::Json(value);
    }
    let raw = raw.unwrap_or_else(|| value.to_string());
    malformed(raw, "the arguments have to be one JSON object")
}

fn malformed(raw: String, error: &str) -> Arguments {
    Arguments::Malformed {
        raw,
        error: error.to_owned(),
    }
}

/// Returns the id, with a numeric suffix if an earlier call of the reply has the same id.
fn unique(id: String, ids: &mut HashSet<String>) -> String {
    let chosen = (1..)
        .map(|count| match count {
            1 => id.clone(),
            _ => format!("{id}-{count}"),
        })
        .find(|chosen| !ids.contains(chosen))
        .unwrap_or(id);
    ids.insert(chosen.clone());
    chosen
}

/// Returns the stop reason, corrected to match the parts: servers differ in whether a reply with
/// calls has its own stop reason.
fn agreed(stop: StopReason, parts: &[AnswerPart]) -> StopReason {
    let calls = parts
        .iter()
        .any(|part| matches!(part, AnswerPart::Call { .. }));
    match stop {
        StopReason::EndTurn | StopReason::ToolUse if calls => StopReason::ToolUse,
        StopReason::EndTurn | StopReason::ToolUse => StopReason::EndTurn,
        StopReason::MaxTokens | StopReason::Refusal | StopReason::ContentFilter => stop,
    }
}

fn too_many(what: &str, most: usize) -> ModelError {
    ModelError::retryable(format!(
        "the completion exceeds the limit of {most} {what}; a retry may help"
    ))
}
