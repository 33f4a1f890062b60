//! Anthropic Messages.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};
use sortie_core::event::StopReason;
use sortie_core::ports::model::{ModelError, ModelRequest};
use sortie_core::ports::tool::ToolSpec;

use crate::decoder::Flow;
use crate::draft::{CallDraft, Draft, Piece};
use crate::history::{
    Base64Of, Bound, Entry, Level, ObjectOf, Outcome, Part, answer_tokens, entries, schema,
    temperature, thinking_tokens,
};
use crate::parameters::Parameters;
use crate::{Dialect, Mode, Thinking};

/// The format requires a limit; this one allows a call that writes a long file.
const DEFAULT_MAX_TOKENS: u64 = 32_000;
/// The thinking budgets in tokens at low, medium and high.
const BUDGETS: [u64; 3] = [4096, 16_384, 32_768];
/// The tokens reserved for the reply if the budget would use the whole limit.
const ANSWER_TOKENS: u64 = 4096;
/// The smallest budget that the format accepts.
const LEAST_BUDGET: u64 = 1024;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<[Content<'a>; 1]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoice>,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<ThinkingOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    stream: bool,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
    messages: Vec<Message<'a>>,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: Parameters<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Mark>,
}

#[derive(Serialize)]
struct ToolChoice {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    disable_parallel_tool_use: Option<bool>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ThinkingOptions {
    Adaptive,
    Disabled,
    Enabled { budget_tokens: u64 },
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<OutputFormat<'a>>,
}

#[derive(Serialize)]
struct OutputFormat<'a> {
    r#type: &'static str,
    schema: &'a Value,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Vec<Content<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
    Image {
        source: Source<'a>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: ObjectOf<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: Vec<Self>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
}

#[derive(Serialize)]
struct Source<'a> {
    r#type: &'static str,
    media_type: &'a str,
    data: Base64Of<'a>,
}

/// Marks the end of the cached part of the prompt.
#[derive(Clone, Copy, Serialize)]
struct Mark {
    r#type: &'static str,
}

const MARK: Mark = Mark {
    r#type: "ephemeral",
};

/// Builds the body of a request.
pub(crate) fn body(
    dialect: &Dialect,
    model: &str,
    request: &ModelRequest,
    mode: Mode,
) -> Result<Vec<u8>, ModelError> {
    let mark = dialect.cache_marks.then_some(MARK);
    let entries = entries(dialect, request);
    let options = thinking(dialect, request, &entries)?;
    let most = dialect.output_limit.unwrap_or(u64::MAX);
    let limit = answer_tokens(dialect, request).unwrap_or(DEFAULT_MAX_TOKENS.min(most));
    let mut messages: Vec<Message<'_>> = entries.into_iter().map(message).collect();
    set_marks(&mut messages, mark);
    let body = Body {
        model,
        system: (!request.system.is_empty()).then(|| [text_block(&request.system, mark)]),
        tools: tools(&request.tools, mark),
        tool_choice: tool_choice(dialect, request),
        max_tokens: raised(limit, options.as_ref()),
        // The format refuses a temperature together with thinking.
        temperature: match &options {
            Some(ThinkingOptions::Adaptive | ThinkingOptions::Enabled { .. }) => None,
            Some(ThinkingOptions::Disabled) | None => temperature(dialect, request),
        },
        output_config: output_config(dialect, request),
        thinking: options,
        stream: mode == Mode::Streaming,
        extra: &dialect.extra,
        messages,
    };
    crate::to_bytes(&body)
}

fn text_block(text: &str, cache_control: Option<Mark>) -> Content<'_> {
    Content::Text {
        text: Cow::Borrowed(text),
        cache_control,
    }
}

fn tools(specs: &[ToolSpec], mark: Option<Mark>) -> Vec<Tool<'_>> {
    let last = specs.len().saturating_sub(1);
    let tools = specs.iter().enumerate().map(|(at, spec)| Tool {
        name: &spec.name,
        description: &spec.description,
        input_schema: Parameters(&spec.parameters),
        cache_control: mark.filter(|_| at == last),
    });
    tools.collect()
}

fn tool_choice(dialect: &Dialect, request: &ModelRequest) -> Option<ToolChoice> {
    let is_serial = dialect.parallel_tool_calls == Some(false);
    let is_needed = (dialect.tool_choice || is_serial) && !request.tools.is_empty();
    is_needed.then_some(ToolChoice {
        r#type: "auto",
        disable_parallel_tool_use: is_serial.then_some(true),
    })
}

fn thinking(
    dialect: &Dialect,
    request: &ModelRequest,
    entries: &[Entry<'_>],
) -> Result<Option<ThinkingOptions>, ModelError> {
    let level = Level::of(request);
    Ok(match (dialect.thinking, level) {
        (_, Level::Unset) => None,
        (Thinking::AnthropicAdaptive, Level::Named(_)) => Some(ThinkingOptions::Adaptive),
        (Thinking::AnthropicBudget, Level::Named(word)) if may_think(entries) => {
            let tokens = thinking_tokens(word, BUDGETS)?;
            let most = dialect.output_limit.map_or(u64::MAX, |limit| limit / 2);
            Some(ThinkingOptions::Enabled {
                budget_tokens: tokens.min(most).max(LEAST_BUDGET),
            })
        }
        (Thinking::AnthropicBudget, Level::Off) => Some(ThinkingOptions::Disabled),
        // The newest models refuse to disable thinking; the lowest effort is the closest setting.
        (Thinking::AnthropicAdaptive, Level::Off) => None,
        (
            Thinking::AnthropicBudget
            | Thinking::None
            | Thinking::OpenaiEffort
            | Thinking::GeminiLevel
            | Thinking::GeminiBudget
            | Thinking::Toggle
            | Thinking::QwenToggle
            | Thinking::OpenrouterReasoning
            | Thinking::OllamaThink,
            Level::Off | Level::Named(_),
        ) => None,
    })
}

/// Returns whether thinking with a budget can be requested: between calls, the servers require the
/// preceding reply to begin with its thinking, and that of another model is not available.
fn may_think(entries: &[Entry<'_>]) -> bool {
    let mut last = entries.iter().rev().skip_while(|entry| match entry {
        Entry::Results(_) => true,
        Entry::User(_) | Entry::Answered(_) => false,
    });
    match last.next() {
        Some(Entry::Answered(parts)) => matches!(parts.first(), Some(Part::Reasoning { .. })),
        Some(Entry::User(_) | Entry::Results(_)) | None => true,
    }
}

/// Returns the limit of the reply, raised by the thinking budget.
fn raised(limit: u64, options: Option<&ThinkingOptions>) -> u64 {
    match options {
        Some(ThinkingOptions::Enabled { budget_tokens }) if limit <= *budget_tokens => {
            budget_tokens + limit.min(ANSWER_TOKENS)
        }
        Some(
            ThinkingOptions::Enabled { .. } | ThinkingOptions::Adaptive | ThinkingOptions::Disabled,
        )
        | None => limit,
    }
}

fn output_config<'a>(dialect: &Dialect, request: &'a ModelRequest) -> Option<OutputConfig<'a>> {
    let effort = match (dialect.thinking, Level::of(request)) {
        (Thinking::AnthropicAdaptive, Level::Named(word)) => Some(word),
        (Thinking::AnthropicAdaptive, Level::Off) => Some("low"),
        (_, Level::Unset | Level::Off | Level::Named(_)) => None,
    };
    let format = match schema(dialect, request) {
        Bound::Schema(schema) => Some(OutputFormat {
            r#type: "json_schema",
            schema,
        }),
        Bound::Object | Bound::Free => None,
    };
    (effort.is_some() || format.is_some()).then_some(OutputConfig { effort, format })
}

fn message(entry: Entry<'_>) -> Message<'_> {
    match entry {
        Entry::User(text) => Message {
            role: "user",
            content: vec![text_block(text, None)],
        },
        Entry::Answered(parts) => Message {
            role: "assistant",
            content: parts.into_iter().map(content).collect(),
        },
        Entry::Results(outcomes) => Message {
            role: "user",
            content: outcomes.into_iter().map(result).collect(),
        },
    }
}

fn content(part: Part<'_>) -> Content<'_> {
    match part {
        Part::Text(text) => text_block(text, None),
        Part::Reasoning { text, native } => match native["redacted"].as_str() {
            Some(data) => Content::RedactedThinking { data },
            None => Content::Thinking {
                thinking: text,
                signature: native["signature"].as_str().unwrap_or_default(),
            },
        },
        Part::Call(call) => Content::ToolUse {
            id: call.id,
            name: call.name,
            input: call.arguments,
            cache_control: None,
        },
    }
}

fn result(outcome: Outcome<'_>) -> Content<'_> {
    let text = (!outcome.text.is_empty()).then_some(Content::Text {
        text: outcome.text,
        cache_control: None,
    });
    let images = outcome.pictures.iter().map(|picture| Content::Image {
        source: Source {
            r#type: "base64",
            media_type: picture.media_type,
            data: Base64Of(picture.bytes),
        },
    });
    Content::ToolResult {
        tool_use_id: outcome.id,
        content: text.into_iter().chain(images).collect(),
        is_error: outcome.failed,
        cache_control: None,
    }
}

/// Marks the end of the last message and of the one before it: a turn later the cache still
/// matches, however many calls were made in between. With system and tools these are the four marks
/// that are allowed.
fn set_marks(messages: &mut [Message<'_>], mark: Option<Mark>) {
    for message in messages.iter_mut().rev().take(2) {
        for content in message.content.iter_mut().rev() {
            if content.set_mark(mark) {
                break;
            }
        }
    }
}

impl Content<'_> {
    /// Sets the mark; returns whether this kind of content can carry it.
    fn set_mark(&mut self, mark: Option<Mark>) -> bool {
        match self {
            Self::Text { cache_control, .. }
            | Self::ToolUse { cache_control, .. }
            | Self::ToolResult { cache_control, .. } => {
                *cache_control = mark;
                true
            }
            Self::Image { .. } | Self::Thinking { .. } | Self::RedactedThinking { .. } => false,
        }
    }
}

/// The state between two events.
#[derive(Debug)]
pub(crate) struct Stream {
    origin: String,
    /// The index of each block in the draft; blocks of unknown kinds have none.
    places: BTreeMap<u64, usize>,
}

impl Stream {
    pub(crate) fn new(origin: String) -> Self {
        Self {
            origin,
            places: BTreeMap::new(),
        }
    }

    pub(crate) fn event(&mut self, event: &Value, draft: &mut Draft) -> Result<Flow, ModelError> {
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => head(&event["message"], draft),
            "content_block_start" => {
                if let Some(at) = self.block(&event["content_block"], draft)? {
                    self.places.insert(index(event), at);
                }
            }
            "content_block_delta" => {
                if let Some(at) = self.places.get(&index(event)) {
                    self.delta(*at, &event["delta"], draft)?;
                }
            }
            "message_delta" => {
                tail(&event["delta"], draft);
                usage(&event["usage"], draft);
            }
            "message_stop" => return Ok(Flow::Done),
            // A ping, the end of a block, or an event that was introduced later.
            _ => {}
        }
        Ok(Flow::More)
    }

    pub(crate) fn whole(&mut self, message: &Value, draft: &mut Draft) -> Result<(), ModelError> {
        head(message, draft);
        for block in message["content"].as_array().into_iter().flatten() {
            self.block(block, draft)?;
        }
        tail(message, draft);
        Ok(())
    }

    fn block(&self, block: &Value, draft: &mut Draft) -> Result<Option<usize>, ModelError> {
        let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
        let piece = match block["type"].as_str().unwrap_or_default() {
            "text" => Piece::Text(text("text")),
            "thinking" => Piece::Reasoning {
                text: text("thinking"),
                native: Some(json!({"wire": self.origin, "signature": text("signature")})),
            },
            "redacted_thinking" => Piece::Reasoning {
                text: String::new(),
                native: Some(json!({"wire": self.origin, "redacted": text("data")})),
            },
            "tool_use" => Piece::Call(CallDraft {
                id: block["id"].as_str().map(str::to_owned),
                name: text("name"),
                raw: String::new(),
                // An empty object at the start of a stream is only a placeholder.
                value: block
                    .get("input")
                    .filter(|input| !input.as_object().is_some_and(Map::is_empty))
                    .cloned(),
            }),
            _ => return Ok(None),
        };
        draft.push(piece).map(Some)
    }

    fn delta(&self, at: usize, delta: &Value, draft: &mut Draft) -> Result<(), ModelError> {
        let text = |key: &str| delta[key].as_str().unwrap_or_default();
        match delta["type"].as_str().unwrap_or_default() {
            "text_delta" => draft.extend_text(at, text("text")),
            "thinking_delta" => draft.extend_text(at, text("thinking")),
            "input_json_delta" => draft.extend_arguments(at, text("partial_json")),
            "signature_delta" => {
                if let Some(native) = draft.native(at) {
                    let signature = text("signature");
                    *native = Some(json!({"wire": self.origin, "signature": signature}));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn index(event: &Value) -> u64 {
    event["index"].as_u64().unwrap_or_default()
}

fn head(message: &Value, draft: &mut Draft) {
    draft.model = message["model"].as_str().unwrap_or_default().to_owned();
    usage(&message["usage"], draft);
}

fn tail(delta: &Value, draft: &mut Draft) {
    let Some(reason) = delta["stop_reason"].as_str() else {
        return;
    };
    draft.stop = Some(match reason {
        "tool_use" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::Refusal,
        _ => StopReason::EndTurn,
    });
}

/// Reads the usage. Counts are cumulative, and `input_tokens` excludes cache reads and writes.
fn usage(usage: &Value, draft: &mut Draft) {
    let count = |key: &str| usage[key].as_u64();
    let known = &mut draft.usage;
    known.cache_read_tokens = count("cache_read_input_tokens").or(known.cache_read_tokens);
    known.cache_write_tokens = count("cache_creation_input_tokens").or(known.cache_write_tokens);
    known.output_tokens = count("output_tokens").or(known.output_tokens);
    if let Some(fresh) = count("input_tokens") {
        let cached = [known.cache_read_tokens, known.cache_write_tokens];
        let add = |sum: u64, count| sum.saturating_add(count);
        known.input_tokens = Some(cached.into_iter().flatten().fold(fresh, add));
    }
}
