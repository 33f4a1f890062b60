//! Encodes requests for servers that implement Chat.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use sortie_core::ports::model::{ModelError, ModelRequest};
use sortie_core::ports::tool::ToolSpec;

use super::{CONTENT_FIELD, DETAILS_FIELD};
use crate::history::{
    Bound, CallOut, DataUrl, Entry, Level, Outcome, Part, Picture, TextOf, answer_tokens,
    cache_key, entries, schema, temperature,
};
use crate::parameters::Parameters;
use crate::{Dialect, EmptyContent, MaxTokensField, Mode, ReasoningBack, SystemRole, Thinking};

/// The assistant message between tool results and a user message, for servers that require one.
const BRIDGE: &str = "Understood.";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(flatten)]
    thinking: ThinkingOptions<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<String>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
    messages: Vec<Message<'a>>,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Declaration<'a>,
}

#[derive(Serialize)]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Parameters<'a>,
}

#[derive(Default, Serialize)]
struct ThinkingOptions<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Toggle>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enable_thinking: Option<bool>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Reasoning<'a> {
    Effort(&'a str),
    Enabled(bool),
}

#[derive(Serialize)]
struct Toggle {
    r#type: &'static str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponseFormat<'a> {
    JsonObject,
    JsonSchema { json_schema: JsonSchema<'a> },
}

#[derive(Serialize)]
struct JsonSchema<'a> {
    name: &'static str,
    strict: bool,
    schema: &'a Value,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Default, Serialize)]
struct Message<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_details: Option<&'a Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    #[serde(serialize_with = "null")]
    Null,
    Text(Cow<'a, str>),
    Parts(Vec<ContentPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentPart<'a> {
    Text { text: Cow<'a, str> },
    Thinking { thinking: [ThinkingText<'a>; 1] },
    ImageUrl { image_url: ImageUrl<'a> },
}

#[derive(Serialize)]
struct ThinkingText<'a> {
    r#type: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: DataUrl<'a>,
}

#[derive(Serialize)]
struct Call<'a> {
    id: Cow<'a, str>,
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    arguments: TextOf<'a>,
}

fn null<S: Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_none()
}

/// Builds the body of a request.
pub(crate) fn body(
    dialect: &Dialect,
    model: &str,
    request: &ModelRequest,
    mode: Mode,
) -> Result<Vec<u8>, ModelError> {
    let limit = answer_tokens(dialect, request);
    let has_tools = !request.tools.is_empty();
    let is_stream = mode == Mode::Streaming;
    let (max_tokens, max_completion_tokens) = match dialect.max_tokens_field {
        MaxTokensField::MaxTokens => (limit, None),
        MaxTokensField::MaxCompletionTokens => (None, limit),
    };
    let body = Body {
        model,
        tools: request.tools.iter().map(tool).collect(),
        tool_choice: (dialect.tool_choice && has_tools).then_some("auto"),
        parallel_tool_calls: dialect.parallel_tool_calls.filter(|_| has_tools),
        max_tokens,
        max_completion_tokens,
        temperature: temperature(dialect, request),
        thinking: thinking(dialect, request),
        response_format: response_format(dialect, request),
        prompt_cache_key: cache_key(dialect, request),
        stream: is_stream,
        stream_options: (is_stream && dialect.stream_usage).then_some(StreamOptions {
            include_usage: true,
        }),
        extra: &dialect.extra,
        messages: messages(dialect, request),
    };
    crate::to_bytes(&body)
}

fn tool(spec: &ToolSpec) -> Tool<'_> {
    Tool {
        r#type: "function",
        function: Declaration {
            name: &spec.name,
            description: &spec.description,
            parameters: Parameters(&spec.parameters),
        },
    }
}

fn thinking<'a>(dialect: &Dialect, request: &'a ModelRequest) -> ThinkingOptions<'a> {
    let (word, is_on) = match Level::of(request) {
        Level::Unset => return ThinkingOptions::default(),
        Level::Off => ("none", false),
        Level::Named(word) => (word, true),
    };
    let mut options = ThinkingOptions::default();
    match dialect.thinking {
        Thinking::OpenaiEffort | Thinking::OllamaThink => options.reasoning_effort = Some(word),
        Thinking::OpenrouterReasoning => {
            options.reasoning = Some(match is_on {
                true => Reasoning::Effort(word),
                false => Reasoning::Enabled(false),
            });
        }
        Thinking::Toggle => {
            let r#type = if is_on { "enabled" } else { "disabled" };
            options.thinking = Some(Toggle { r#type });
        }
        Thinking::QwenToggle => options.enable_thinking = Some(is_on),
        Thinking::None
        | Thinking::AnthropicAdaptive
        | Thinking::AnthropicBudget
        | Thinking::GeminiLevel
        | Thinking::GeminiBudget => {}
    }
    options
}

fn response_format<'a>(dialect: &Dialect, request: &'a ModelRequest) -> Option<ResponseFormat<'a>> {
    match schema(dialect, request) {
        Bound::Free => None,
        Bound::Object => Some(ResponseFormat::JsonObject),
        Bound::Schema(schema) => Some(ResponseFormat::JsonSchema {
            json_schema: JsonSchema {
                name: "result",
                strict: dialect.strict_schema,
                schema,
            },
        }),
    }
}

fn messages<'a>(dialect: &Dialect, request: &'a ModelRequest) -> Vec<Message<'a>> {
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.is_empty() {
        let role = match dialect.system_role {
            SystemRole::System => "system",
            SystemRole::Developer => "developer",
        };
        messages.push(plain(role, Cow::Borrowed(&*request.system)));
    }
    let mut after_results = false;
    for entry in entries(dialect, request) {
        match entry {
            Entry::User(text) => {
                if after_results && !dialect.user_after_tools {
                    messages.push(plain("assistant", Cow::Borrowed(BRIDGE)));
                }
                after_results = false;
                messages.push(plain("user", Cow::Borrowed(text)));
            }
            Entry::Answered(parts) => {
                after_results = false;
                messages.push(answered(dialect, parts));
            }
            Entry::Results(outcomes) => {
                after_results = true;
                add_results(dialect, outcomes, &mut messages);
            }
        }
    }
    messages
}

fn plain<'a>(role: &'static str, text: Cow<'a, str>) -> Message<'a> {
    Message {
        role,
        content: Some(Content::Text(text)),
        ..Message::default()
    }
}

/// One assistant message, while its parts are assigned to the fields of the format.
#[derive(Default)]
struct Sorted<'a> {
    text: Option<Cow<'a, str>>,
    thoughts: Vec<&'a str>,
    calls: Vec<Call<'a>>,
    message: Message<'a>,
}

fn answered<'a>(dialect: &Dialect, parts: Vec<Part<'a>>) -> Message<'a> {
    let mut sorted = Sorted::default();
    for part in parts {
        match part {
            Part::Text(text) => append(&mut sorted.text, text),
            Part::Call(call) => sorted.calls.push(call_out(call)),
            Part::Reasoning { text, native } => match dialect.reasoning_back {
                ReasoningBack::Never => {}
                ReasoningBack::Same | ReasoningBack::Always => sorted.reasoning(text, native),
            },
        }
    }
    sorted.finish(dialect)
}

impl<'a> Sorted<'a> {
    fn reasoning(&mut self, text: &'a str, native: &'a Value) {
        match native["field"].as_str() {
            Some(DETAILS_FIELD) => self.message.reasoning_details = native.get("item"),
            Some(CONTENT_FIELD) => self.thoughts.push(text),
            Some("reasoning") => append(&mut self.message.reasoning, text),
            Some("reasoning_content") => append(&mut self.message.reasoning_content, text),
            Some(_) | None => {}
        }
    }

    fn finish(self, dialect: &Dialect) -> Message<'a> {
        let mut message = self.message;
        let is_bare = message.reasoning_content.is_none() && !self.calls.is_empty();
        if dialect.reasoning_back == ReasoningBack::Always && is_bare {
            message.reasoning_content = Some(Cow::Borrowed(""));
        }
        message.role = "assistant";
        message.content = content(dialect, self.text, self.thoughts);
        message.tool_calls = self.calls;
        message
    }
}

fn content<'a>(
    dialect: &Dialect,
    text: Option<Cow<'a, str>>,
    thoughts: Vec<&'a str>,
) -> Option<Content<'a>> {
    if !thoughts.is_empty() {
        let thoughts = thoughts.into_iter().map(|text| ContentPart::Thinking {
            thinking: [ThinkingText {
                r#type: "text",
                text,
            }],
        });
        let text = text.map(|text| ContentPart::Text { text });
        return Some(Content::Parts(thoughts.chain(text).collect()));
    }
    match (text, dialect.empty_content) {
        (Some(text), _) => Some(Content::Text(text)),
        (None, EmptyContent::Null) => Some(Content::Null),
        (None, EmptyContent::EmptyText) => Some(Content::Text(Cow::Borrowed(""))),
        (None, EmptyContent::Omit) => None,
    }
}

/// Appends text on a new line.
fn append<'a>(words: &mut Option<Cow<'a, str>>, more: &'a str) {
    match words {
        None => *words = Some(Cow::Borrowed(more)),
        Some(words) => {
            let words = words.to_mut();
            words.push('\n');
            words.push_str(more);
        }
    }
}

fn call_out(call: CallOut<'_>) -> Call<'_> {
    Call {
        id: call.id,
        r#type: "function",
        function: Function {
            name: call.name,
            arguments: TextOf(call.arguments),
        },
    }
}

/// Adds each result as a separate message; images follow in the user's role, because results cannot
/// contain them.
fn add_results<'a>(dialect: &Dialect, outcomes: Vec<Outcome<'a>>, messages: &mut Vec<Message<'a>>) {
    let mut pictures = Vec::new();
    for outcome in outcomes {
        pictures.extend(outcome.pictures);
        messages.push(Message {
            role: "tool",
            content: Some(Content::Text(outcome.text)),
            tool_call_id: Some(outcome.id),
            name: dialect.tool_result_name.then_some(outcome.name),
            ..Message::default()
        });
    }
    if !pictures.is_empty() {
        if !dialect.user_after_tools {
            messages.push(plain("assistant", Cow::Borrowed(BRIDGE)));
        }
        messages.push(shown(pictures));
    }
}

fn shown(pictures: Vec<Picture<'_>>) -> Message<'_> {
    let note = format!("[{} image(s) from the tool results above]", pictures.len());
    let text = ContentPart::Text {
        text: Cow::Owned(note),
    };
    let images = pictures.into_iter().map(|picture| ContentPart::ImageUrl {
        image_url: ImageUrl {
            url: DataUrl(picture),
        },
    });
    Message {
        role: "user",
        content: Some(Content::Parts(
            std::iter::once(text).chain(images).collect(),
        )),
        ..Message::default()
    }
}
