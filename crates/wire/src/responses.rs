//! OpenAI Responses.
//!
//! Nothing is stored at the vendor: reasoning travels with the history, encrypted.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};
use sortie_core::event::StopReason;
use sortie_core::ports::model::{ModelError, ModelRequest};
use sortie_core::ports::tool::ToolSpec;

use crate::classify::refused;
use crate::decoder::Flow;
use crate::draft::{CallDraft, Draft, Piece};
use crate::history::{
    Bound, DataUrl, Entry, Level, Outcome, Part, TextOf, answer_tokens, cache_key, entries, schema,
    temperature,
};
use crate::parameters::Parameters;
use crate::{Dialect, Mode, Thinking, bounds};

const ENCRYPTED: [&str; 1] = ["reasoning.encrypted_content"];

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<String>,
    store: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<&'static [&'static str]>,
    stream: bool,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
    input: Vec<Item<'a>>,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: Parameters<'a>,
    /// Sent explicitly: the format's default is strict, which requires schemas of a special form.
    strict: bool,
}

#[derive(Serialize)]
struct Reasoning<'a> {
    effort: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

#[derive(Serialize)]
struct Text<'a> {
    format: TextFormat<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum TextFormat<'a> {
    JsonObject,
    JsonSchema {
        name: &'static str,
        strict: bool,
        schema: &'a Value,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Item<'a> {
    Message {
        role: &'static str,
        /// Whether the message is commentary or the final answer; newer models require it in the
        /// history.
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'a str>,
        content: &'a str,
    },
    Native(&'a Value),
    Call {
        r#type: &'static str,
        call_id: Cow<'a, str>,
        name: Cow<'a, str>,
        arguments: TextOf<'a>,
    },
    Result {
        r#type: &'static str,
        call_id: Cow<'a, str>,
        output: Output<'a>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Output<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<OutputPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OutputPart<'a> {
    InputText { text: Cow<'a, str> },
    InputImage { image_url: DataUrl<'a> },
}

/// Builds the body of a request.
pub(crate) fn body(
    dialect: &Dialect,
    model: &str,
    request: &ModelRequest,
    mode: Mode,
) -> Result<Vec<u8>, ModelError> {
    let has_tools = !request.tools.is_empty();
    let body = Body {
        model,
        instructions: &request.system,
        tools: request.tools.iter().map(tool).collect(),
        tool_choice: (dialect.tool_choice && has_tools).then_some("auto"),
        parallel_tool_calls: dialect.parallel_tool_calls.filter(|_| has_tools),
        max_output_tokens: answer_tokens(dialect, request),
        temperature: temperature(dialect, request),
        reasoning: reasoning(dialect, request),
        text: text(dialect, request),
        prompt_cache_key: cache_key(dialect, request),
        store: false,
        // Models without reasoning refuse a request for it.
        include: (dialect.thinking != Thinking::None).then_some(&ENCRYPTED),
        stream: mode == Mode::Streaming,
        extra: &dialect.extra,
        input: entries(dialect, request)
            .into_iter()
            .flat_map(items)
            .collect(),
    };
    crate::to_bytes(&body)
}

fn tool(spec: &ToolSpec) -> Tool<'_> {
    Tool {
        r#type: "function",
        name: &spec.name,
        description: &spec.description,
        parameters: Parameters(&spec.parameters),
        strict: false,
    }
}

fn reasoning<'a>(dialect: &Dialect, request: &'a ModelRequest) -> Option<Reasoning<'a>> {
    if dialect.thinking != Thinking::OpenaiEffort {
        return None;
    }
    match Level::of(request) {
        Level::Unset => None,
        Level::Off => Some(Reasoning {
            effort: "none",
            summary: None,
        }),
        Level::Named(effort) => Some(Reasoning {
            effort,
            summary: dialect.reasoning_summary.then_some("auto"),
        }),
    }
}

fn text<'a>(dialect: &Dialect, request: &'a ModelRequest) -> Option<Text<'a>> {
    let format = match schema(dialect, request) {
        Bound::Free => return None,
        Bound::Object => TextFormat::JsonObject,
        Bound::Schema(schema) => TextFormat::JsonSchema {
            name: "result",
            strict: dialect.strict_schema,
            schema,
        },
    };
    Some(Text { format })
}

fn items(entry: Entry<'_>) -> Vec<Item<'_>> {
    match entry {
        Entry::User(content) => vec![Item::Message {
            role: "user",
            phase: None,
            content,
        }],
        Entry::Answered(parts) => {
            let mut phase = None;
            let items = parts.into_iter();
            items
                .filter_map(|part| answered(part, &mut phase))
                .collect()
        }
        Entry::Results(outcomes) => outcomes.into_iter().map(result).collect(),
    }
}

/// Returns the item of a part; the phase of a message is stored in the part before it.
fn answered<'a>(part: Part<'a>, phase: &mut Option<&'a str>) -> Option<Item<'a>> {
    match part {
        Part::Text(content) => Some(Item::Message {
            role: "assistant",
            phase: phase.take(),
            content,
        }),
        Part::Reasoning { text: _, native } => {
            if let Some(named) = native.get("phase").and_then(Value::as_str) {
                *phase = Some(named);
            }
            native.get("item").map(Item::Native)
        }
        Part::Call(call) => Some(Item::Call {
            r#type: "function_call",
            call_id: call.id,
            name: call.name,
            arguments: TextOf(call.arguments),
        }),
    }
}

fn result(outcome: Outcome<'_>) -> Item<'_> {
    let output = if outcome.pictures.is_empty() {
        Output::Text(outcome.text)
    } else {
        let text =
            (!outcome.text.is_empty()).then_some(OutputPart::InputText { text: outcome.text });
        let images = outcome
            .pictures
            .into_iter()
            .map(|picture| OutputPart::InputImage {
                image_url: DataUrl(picture),
            });
        Output::Parts(text.into_iter().chain(images).collect())
    };
    Item::Result {
        r#type: "function_call_output",
        call_id: outcome.id,
        output,
    }
}

/// The state between two events.
#[derive(Debug)]
pub(crate) struct Stream {
    dialect: Dialect,
    origin: String,
    slots: BTreeMap<u64, Slot>,
}

/// An item of the reply while it arrives.
#[derive(Debug, Default)]
struct Slot {
    /// The item as the server last sent it whole.
    item: Value,
    is_done: bool,
    /// The deltas of its text or arguments, for items that are never sent whole.
    pieces: String,
    is_shown: bool,
}

impl Stream {
    pub(crate) fn new(dialect: &Dialect) -> Self {
        Self {
            dialect: dialect.clone(),
            origin: dialect.origin(),
            slots: BTreeMap::new(),
        }
    }

    pub(crate) fn event(
        &mut self,
        mut event: Value,
        draft: &mut Draft,
    ) -> Result<Flow, ModelError> {
        let at = event["output_index"].as_u64().unwrap_or_default();
        let delta = event["delta"].as_str().unwrap_or_default();
        match event["type"].as_str().unwrap_or_default() {
            "response.output_text.delta" | "response.refusal.delta" => {
                let slot = self.slot(at)?;
                slot.pieces.push_str(delta);
                slot.is_shown = true;
                draft.fresh.push_str(delta);
            }
            "response.function_call_arguments.delta" => self.slot(at)?.pieces.push_str(delta),
            "response.output_item.added" => self.slot(at)?.item = take(&mut event, "item"),
            "response.output_item.done" => {
                let slot = self.slot(at)?;
                slot.item = take(&mut event, "item");
                slot.is_done = true;
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.whole(take(&mut event, "response"), draft)?;
                return Ok(Flow::Done);
            }
            _ => {}
        }
        Ok(Flow::More)
    }

    /// Decodes the final response, and completes it with the deltas.
    pub(crate) fn whole(
        &mut self,
        mut response: Value,
        draft: &mut Draft,
    ) -> Result<(), ModelError> {
        if response["status"] == "failed" {
            return Err(refused(&self.dialect, &response));
        }
        for (at, item) in (0..).zip(array(take(&mut response, "output"))) {
            let slot = self.slot(at)?;
            if !slot.is_done {
                slot.item = item;
                slot.is_done = true;
            }
        }
        for slot in std::mem::take(&mut self.slots).into_values() {
            self.item(slot, draft)?;
        }
        head(&response, draft);
        Ok(())
    }

    fn slot(&mut self, at: u64) -> Result<&mut Slot, ModelError> {
        if self.slots.len() >= bounds::PARTS && !self.slots.contains_key(&at) {
            return Err(ModelError::retryable(format!(
                "the completion exceeds the limit of {} items",
                bounds::PARTS
            )));
        }
        Ok(self.slots.entry(at).or_default())
    }

    fn item(&self, slot: Slot, draft: &mut Draft) -> Result<(), ModelError> {
        match slot.item["type"].as_str().unwrap_or_default() {
            "message" => {
                if let Some(phase) = slot.item["phase"].as_str() {
                    draft.push(self.phase(phase))?;
                }
                message(slot, draft)
            }
            "function_call" => draft.push(Piece::Call(call(slot))).map(drop),
            "reasoning" => draft.push(self.reasoning(slot.item)).map(drop),
            // Calls of the vendor's own tools, and kinds that were introduced later.
            _ => Ok(()),
        }
    }

    /// Returns the phase of a message as a part of its own, which only this wire reads.
    fn phase(&self, phase: &str) -> Piece {
        Piece::Reasoning {
            text: String::new(),
            native: Some(json!({"wire": self.origin, "phase": phase})),
        }
    }

    fn reasoning(&self, mut item: Value) -> Piece {
        let texts: Vec<&str> = ["summary", "content"]
            .iter()
            .flat_map(|key| item[*key].as_array().into_iter().flatten())
            .filter_map(|part| part["text"].as_str())
            .collect();
        let text = texts.join("\n");
        // An item without its encrypted content could be resolved only if the vendor had stored it.
        let native = item["encrypted_content"].is_string().then(|| {
            json!({"wire": self.origin, "item": {
                "type": "reasoning",
                "id": take(&mut item, "id"),
                "summary": array(take(&mut item, "summary")),
                "encrypted_content": take(&mut item, "encrypted_content"),
            }})
        });
        Piece::Reasoning { text, native }
    }
}

fn message(slot: Slot, draft: &mut Draft) -> Result<(), ModelError> {
    let parts = slot.item["content"].as_array();
    let mut text = String::new();
    for part in parts.into_iter().flatten() {
        match part["type"].as_str().unwrap_or_default() {
            "output_text" => text.push_str(part["text"].as_str().unwrap_or_default()),
            "refusal" => {
                text.push_str(part["refusal"].as_str().unwrap_or_default());
                draft.stop = Some(StopReason::Refusal);
            }
            _ => {}
        }
    }
    if text.is_empty() {
        text = slot.pieces;
    }
    let unshown = draft.fresh.len();
    draft.push(Piece::Text(text))?;
    if slot.is_shown {
        draft.fresh.truncate(unshown);
    }
    Ok(())
}

fn call(mut slot: Slot) -> CallDraft {
    let raw = match take(&mut slot.item, "arguments") {
        Value::String(text) if !text.is_empty() => text,
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => slot.pieces,
    };
    CallDraft {
        id: slot.item["call_id"].as_str().map(str::to_owned),
        name: slot.item["name"].as_str().unwrap_or_default().to_owned(),
        raw,
        value: None,
    }
}

fn head(response: &Value, draft: &mut Draft) {
    draft.model = response["model"].as_str().unwrap_or_default().to_owned();
    let usage = &response["usage"];
    draft.usage.input_tokens = usage["input_tokens"].as_u64();
    draft.usage.output_tokens = usage["output_tokens"].as_u64();
    draft.usage.cache_read_tokens = usage["input_tokens_details"]["cached_tokens"].as_u64();
    draft.usage.cache_write_tokens = usage["input_tokens_details"]["cache_write_tokens"].as_u64();
    let stop = match response["status"].as_str().unwrap_or("completed") {
        "completed" => Some(StopReason::EndTurn),
        "incomplete" => match response["incomplete_details"]["reason"].as_str() {
            Some("content_filter") => Some(StopReason::ContentFilter),
            Some(_) | None => Some(StopReason::MaxTokens),
        },
        // Cancelled, or incomplete.
        _ => None,
    };
    // A refusal in the text remains a refusal.
    draft.stop = stop.map(|stop| draft.stop.unwrap_or(stop));
}

fn take(value: &mut Value, key: &str) -> Value {
    value.get_mut(key).map(Value::take).unwrap_or_default()
}

fn array(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            Vec::new()
        }
    }
}
