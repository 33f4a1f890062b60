//! OpenAI Chat Completions and compatible APIs.

mod body;

pub(crate) use body::body;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sortie_core::event::StopReason;
use sortie_core::ports::model::ModelError;

use crate::bounds;
use crate::bounds::too_long;
use crate::decoder::Flow;
use crate::draft::{CallDraft, Draft, Piece};

/// The fields in which reasoning arrives as plain text.
pub(crate) const REASONING_FIELDS: [&str; 2] = ["reasoning_content", "reasoning"];
/// The field in which reasoning arrives as a list of items, which are sent back unchanged.
pub(crate) const DETAILS_FIELD: &str = "reasoning_details";
/// Marks reasoning that arrived as a part of the content.
pub(crate) const CONTENT_FIELD: &str = "content";

/// The state between two events.
#[derive(Debug)]
pub(crate) struct Stream {
    origin: String,
    /// The index of each call in the draft, by the server's own number.
    places: BTreeMap<u64, usize>,
    last_call: Option<usize>,
    /// The index of the `reasoning_details` items in the draft, and their size.
    details: Option<usize>,
    details_bytes: usize,
    /// Whether the model sent an explicit refusal.
    is_refusal: bool,
}

/// Handles `[DONE]`: the reply is complete, even if the server sends no stop reason.
pub(crate) fn done(draft: &mut Draft) {
    if draft.stop.is_none() && !draft.is_empty() {
        draft.stop = Some(StopReason::EndTurn);
    }
}

impl Stream {
    pub(crate) fn new(origin: String) -> Self {
        Self {
            origin,
            places: BTreeMap::new(),
            last_call: None,
            details: None,
            details_bytes: 0,
            is_refusal: false,
        }
    }

    pub(crate) fn event(&mut self, event: Value, draft: &mut Draft) -> Result<Flow, ModelError> {
        head(&event, draft);
        let Some(choice) = first_choice(event) else {
            return Ok(Flow::More);
        };
        // Kimi reports usage inside the choice.
        usage(&choice["usage"], draft);
        let delta = &choice["delta"];
        self.text_delta(delta, draft)?;
        for call in calls(delta) {
            self.call(call, draft)?;
        }
        self.stop(&choice, draft)?;
        Ok(Flow::More)
    }

    pub(crate) fn whole(&mut self, answer: Value, draft: &mut Draft) -> Result<(), ModelError> {
        head(&answer, draft);
        let Some(choice) = first_choice(answer) else {
            return Ok(());
        };
        let message = &choice["message"];
        self.text_delta(message, draft)?;
        for call in calls(message) {
            // The calls of a whole document are complete: none continues another.
            self.places.clear();
            self.last_call = None;
            self.call(call, draft)?;
        }
        self.stop(&choice, draft)?;
        // A whole document cannot be cut off: without a stop reason the reply is complete.
        draft.stop = draft.stop.or(Some(StopReason::EndTurn));
        Ok(())
    }

    fn text_delta(&mut self, delta: &Value, draft: &mut Draft) -> Result<(), ModelError> {
        self.reasoning(delta, draft)?;
        self.content(&delta["content"], draft)?;
        if let Some(refusal) = delta["refusal"].as_str().filter(|text| !text.is_empty()) {
            draft.push_text(refusal)?;
            self.is_refusal = true;
        }
        Ok(())
    }

    fn stop(&self, choice: &Value, draft: &mut Draft) -> Result<(), ModelError> {
        let reason = choice["finish_reason"].as_str().unwrap_or_default();
        if !reason.is_empty() {
            let stop = stop_reason(reason)?;
            // An explicit refusal counts as one, whichever stop reason the server sends.
            draft.stop = Some(match self.is_refusal {
                true => StopReason::Refusal,
                false => stop,
            });
        }
        Ok(())
    }

    fn reasoning(&mut self, delta: &Value, draft: &mut Draft) -> Result<(), ModelError> {
        for field in REASONING_FIELDS {
            let Some(text) = delta[field].as_str().filter(|text| !text.is_empty()) else {
                continue;
            };
            self.think(text, field, draft)?;
            break;
        }
        if let Some(items) = delta[DETAILS_FIELD]
            .as_array()
            .filter(|items| !items.is_empty())
        {
            self.add_details(items, draft)?;
        }
        Ok(())
    }

    fn content(&mut self, content: &Value, draft: &mut Draft) -> Result<(), ModelError> {
        if let Some(text) = content.as_str() {
            return draft.push_text(text);
        }
        // Mistral's content may be a list that contains its thinking.
        for part in content.as_array().into_iter().flatten() {
            match part["type"].as_str().unwrap_or_default() {
                "text" => draft.push_text(part["text"].as_str().unwrap_or_default())?,
                "thinking" => {
                    self.think(&thinking_text(&part["thinking"]), CONTENT_FIELD, draft)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn think(&mut self, text: &str, field: &str, draft: &mut Draft) -> Result<(), ModelError> {
        let open = draft.last_reasoning(|native| native["field"] == field);
        let at = match open.or(self.details) {
            Some(at) => at,
            None => draft.push(Piece::Reasoning {
                text: String::new(),
                native: Some(json!({"wire": self.origin, "field": field})),
            })?,
        };
        draft.extend_text(at, text)
    }

    fn add_details(&mut self, pieces: &[Value], draft: &mut Draft) -> Result<(), ModelError> {
        let at = match self.details.or(draft.last_reasoning(|_| true)) {
            Some(at) => at,
            None => draft.push(Piece::Reasoning {
                text: String::new(),
                native: None,
            })?,
        };
        let Some(native) = draft.native(at) else {
            return Ok(());
        };
        if self.details.replace(at).is_none() {
            *native = Some(json!({"wire": self.origin, "field": DETAILS_FIELD, "item": []}));
        }
        let items = native
            .as_mut()
            .and_then(|native| native.get_mut("item")?.as_array_mut());
        let Some(items) = items else {
            return Ok(());
        };
        for piece in pieces {
            self.details_bytes += piece.to_string().len();
            if self.details_bytes > bounds::TEXT_BYTES {
                return Err(too_long("the answer's reasoning", bounds::TEXT_BYTES));
            }
            add_detail(items, piece);
        }
        Ok(())
    }

    fn call(&mut self, call: &Value, draft: &mut Draft) -> Result<(), ModelError> {
        let id = call["id"].as_str().filter(|id| !id.is_empty());
        let number = call["index"].as_u64();
        let at = match self.open_call(number, id, call, draft) {
            Some(at) => at,
            None => {
                let at = draft.push(Piece::Call(CallDraft::default()))?;
                self.last_call = Some(at);
                if let Some(number) = number {
                    self.places.insert(number, at);
                }
                at
            }
        };
        let function = &call["function"];
        if let Some(open) = draft.call(at) {
            if open.id.is_none() {
                open.id = id.map(str::to_owned);
            }
            if open.name.is_empty() {
                open.name = function["name"].as_str().unwrap_or_default().to_owned();
            }
        }
        match &function["arguments"] {
            Value::String(text) => draft.extend_arguments(at, text),
            Value::Null => Ok(()),
            // Some servers send a value where the format specifies text.
            value @ (Value::Object(_) | Value::Array(_) | Value::Bool(_) | Value::Number(_)) => {
                draft.extend_arguments(at, &value.to_string())
            }
        }
    }

    /// Returns the call that a delta belongs to. Servers that number every call 0, or none, assign
    /// an id to each; a delta without number and id continues the last call, unless it has a name.
    fn open_call(
        &self,
        number: Option<u64>,
        id: Option<&str>,
        call: &Value,
        draft: &mut Draft,
    ) -> Option<usize> {
        let at = match number {
            Some(number) => *self.places.get(&number)?,
            None => self.last_call?,
        };
        let open = draft.call(at)?;
        let is_other = match (id, open.id.as_deref()) {
            (Some(id), Some(open)) => id != open,
            (Some(_) | None, None) | (None, Some(_)) => {
                let name = call["function"]["name"].as_str().unwrap_or_default();
                number.is_none() && !name.is_empty() && !open.name.is_empty()
            }
        };
        (!is_other).then_some(at)
    }
}

/// Adds a delta of an item: to the last item if number and kind match, else as a new one.
fn add_detail(items: &mut Vec<Value>, piece: &Value) {
    let is_same = |item: &Value| {
        piece["index"].is_u64() && item["index"] == piece["index"] && item["type"] == piece["type"]
    };
    let open = items
        .last_mut()
        .filter(|item| is_same(item))
        .and_then(Value::as_object_mut);
    match (open, piece.as_object()) {
        (Some(item), Some(fields)) => {
            for (key, more) in fields {
                extend(item.entry(key).or_insert(Value::Null), key, more);
            }
        }
        (Some(_) | None, Some(_) | None) => items.push(piece.clone()),
    }
}

/// Merges a field of a later delta: text is appended, other values are replaced.
fn extend(known: &mut Value, key: &str, more: &Value) {
    match (known, more) {
        (Value::String(text), Value::String(more))
            if matches!(key, "text" | "summary" | "data") =>
        {
            text.push_str(more);
        }
        (_, Value::Null) => {}
        (known, more) => *known = more.clone(),
    }
}

fn thinking_text(thinking: &Value) -> String {
    match thinking {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

fn calls(text_delta: &Value) -> impl Iterator<Item = &Value> {
    text_delta["tool_calls"].as_array().into_iter().flatten()
}

fn first_choice(mut event: Value) -> Option<Value> {
    let choices = event.get_mut("choices")?.as_array_mut()?;
    let first = choices
        .iter()
        .position(|choice| choice["index"].as_u64().unwrap_or(0) == 0)?;
    Some(choices.swap_remove(first))
}

fn head(event: &Value, draft: &mut Draft) {
    if let Some(model) = event["model"].as_str().filter(|model| !model.is_empty()) {
        model.clone_into(&mut draft.model);
    }
    usage(&event["usage"], draft);
    usage(&event["x_groq"]["usage"], draft);
}

fn stop_reason(reason: &str) -> Result<StopReason, ModelError> {
    Ok(match reason {
        "tool_calls" | "function_call" => StopReason::ToolUse,
        "length" | "max_tokens" | "model_length" => StopReason::MaxTokens,
        "content_filter" | "sensitive" => StopReason::ContentFilter,
        "refusal" => StopReason::Refusal,
        "error" | "network_error" | "insufficient_system_resource" => {
            return Err(ModelError::retryable(format!(
                "the server ended the completion early ({reason}); a retry may help"
            )));
        }
        _ => StopReason::EndTurn,
    })
}

fn usage(usage: &Value, draft: &mut Draft) {
    if !usage.is_object() {
        return;
    }
    let details = &usage["prompt_tokens_details"];
    let known = &mut draft.usage;
    let first = |counts: [&Value; 3]| counts.iter().find_map(|count| count.as_u64());
    known.input_tokens = usage["prompt_tokens"].as_u64().or(known.input_tokens);
    known.output_tokens = output_tokens(usage).or(known.output_tokens);
    known.cache_read_tokens = first([
        &details["cached_tokens"],
        &usage["prompt_cache_hit_tokens"],
        &usage["cached_tokens"],
    ])
    .or(known.cache_read_tokens);
    known.cache_write_tokens = first([
        &details["cache_write_tokens"],
        &details["cache_creation_input_tokens"],
        &usage["cache_creation_input_tokens"],
    ])
    .or(known.cache_write_tokens);
}

/// Returns the output tokens. Some servers count reasoning separately, which their total reveals.
fn output_tokens(usage: &Value) -> Option<u64> {
    let written = usage["completion_tokens"].as_u64()?;
    let thought = usage["completion_tokens_details"]["reasoning_tokens"].as_u64();
    let read = usage["prompt_tokens"].as_u64();
    let (Some(thought), Some(read), Some(total)) = (thought, read, usage["total_tokens"].as_u64())
    else {
        return Some(written);
    };
    let is_apart = total == read.saturating_add(written).saturating_add(thought);
    Some(if is_apart {
        written.saturating_add(thought)
    } else {
        written
    })
}
