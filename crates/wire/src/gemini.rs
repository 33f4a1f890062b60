//! Google Gemini `generateContent`.
//!
//! A call may carry a signature of the thoughts before it, which must be sent back with it. The
//! signature is stored as reasoning without text directly before the call.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json};
use sortie_core::event::StopReason;
use sortie_core::ports::model::{Fault, ModelError, ModelRequest};
use sortie_core::ports::tool::ToolSpec;

use crate::Dialect;
use crate::decoder::Flow;
use crate::dialect::Thinking;
use crate::draft::{CallDraft, Draft, Piece};
use crate::history::{
    Base64Of, Bound, Entry, Level, ObjectOf, Outcome, Part, Picture, answer_tokens, entries,
    schema, temperature, thinking_tokens,
};
use crate::parameters::Parameters;

/// The thinking budgets in tokens at low, medium and high.
const BUDGETS: [u64; 3] = [1024, 8192, 24_576];
/// The signature that the vendor requires on calls of other models, whose thoughts it cannot have
/// signed.
const UNSIGNED: &str = "skip_thought_signature_validator";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<SystemInstruction<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[Tools<'a>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig>,
    generation_config: GenerationConfig<'a>,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
    contents: Vec<Content<'a>>,
}

#[derive(Serialize)]
struct SystemInstruction<'a> {
    parts: [ContentPart<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    parameters_json_schema: Parameters<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig {
    function_calling_config: CallingConfig,
}

#[derive(Serialize)]
struct CallingConfig {
    mode: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'a Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum ThinkingConfig<'a> {
    ThinkingLevel(&'a str),
    ThinkingBudget(u64),
}

#[derive(Serialize)]
struct Content<'a> {
    role: &'static str,
    parts: Vec<ContentPart<'a>>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct ContentPart<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<InlineData<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<FunctionCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<FunctionResponse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InlineData<'a> {
    mime_type: &'a str,
    data: Base64Of<'a>,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Cow<'a, str>>,
    name: Cow<'a, str>,
    args: ObjectOf<'a>,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Cow<'a, str>>,
    name: Cow<'a, str>,
    response: Reply<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<ContentPart<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Reply<'a> {
    Output(Cow<'a, str>),
    Error(Cow<'a, str>),
}

/// Builds the body of a request.
pub(crate) fn body(dialect: &Dialect, request: &ModelRequest) -> Result<Vec<u8>, ModelError> {
    let (response_mime_type, response_json_schema) = match schema(dialect, request) {
        Bound::Free => (None, None),
        Bound::Object => (Some("application/json"), None),
        Bound::Schema(schema) => (Some("application/json"), Some(schema)),
    };
    let has_tools = !request.tools.is_empty();
    let body = Body {
        system_instruction: (!request.system.is_empty()).then(|| SystemInstruction {
            parts: [words(Cow::Borrowed(&*request.system))],
        }),
        tools: has_tools.then(|| [tools(&request.tools)]),
        tool_config: (has_tools && dialect.tool_choice).then_some(ToolConfig {
            function_calling_config: CallingConfig { mode: "AUTO" },
        }),
        generation_config: GenerationConfig {
            max_output_tokens: answer_tokens(dialect, request),
            temperature: temperature(dialect, request),
            thinking_config: thinking(dialect, request)?,
            response_mime_type,
            response_json_schema,
        },
        extra: &dialect.extra,
        contents: entries(dialect, request)
            .into_iter()
            .flat_map(|entry| contents(dialect, entry))
            .collect(),
    };
    crate::to_bytes(&body)
}

fn tools(specs: &[ToolSpec]) -> Tools<'_> {
    let declarations = specs.iter().map(|spec| Declaration {
        name: &spec.name,
        description: &spec.description,
        parameters_json_schema: Parameters(&spec.parameters),
    });
    Tools {
        function_declarations: declarations.collect(),
    }
}

fn thinking<'a>(
    dialect: &Dialect,
    request: &'a ModelRequest,
) -> Result<Option<ThinkingConfig<'a>>, ModelError> {
    Ok(match (dialect.thinking, Level::of(request)) {
        (Thinking::GeminiLevel, Level::Named(word)) => Some(ThinkingConfig::ThinkingLevel(word)),
        (Thinking::GeminiBudget, Level::Named(word)) => Some(ThinkingConfig::ThinkingBudget(
            thinking_tokens(word, BUDGETS)?,
        )),
        (Thinking::GeminiBudget, Level::Off) => Some(ThinkingConfig::ThinkingBudget(0)),
        // Thinking by level cannot be disabled.
        (_, Level::Unset | Level::Off | Level::Named(_)) => None,
    })
}

fn words(text: Cow<'_, str>) -> ContentPart<'_> {
    ContentPart {
        text: Some(text),
        ..ContentPart::default()
    }
}

fn image(picture: Picture<'_>) -> ContentPart<'_> {
    ContentPart {
        inline_data: Some(InlineData {
            mime_type: picture.media_type,
            data: Base64Of(picture.bytes),
        }),
        ..ContentPart::default()
    }
}

fn contents<'a>(dialect: &Dialect, entry: Entry<'a>) -> Vec<Content<'a>> {
    match entry {
        Entry::User(text) => vec![Content {
            role: "user",
            parts: vec![words(Cow::Borrowed(text))],
        }],
        Entry::Answered(parts) => vec![Content {
            role: "model",
            parts: answered(dialect, parts),
        }],
        Entry::Results(outcomes) => results(dialect, outcomes),
    }
}

fn answered<'a>(dialect: &Dialect, parts: Vec<Part<'a>>) -> Vec<ContentPart<'a>> {
    let mut sent = Vec::with_capacity(parts.len());
    let mut signature = None;
    let mut has_called = false;
    for part in parts {
        match part {
            Part::Reasoning { text: _, native } => {
                sent.extend(
                    signature
                        .replace(native["signature"].as_str())
                        .flatten()
                        .map(signed),
                );
            }
            Part::Text(text) => sent.push(ContentPart {
                thought_signature: signature.take().flatten(),
                ..words(Cow::Borrowed(text))
            }),
            Part::Call(call) => {
                // Only the first call of a reply is signed.
                let unsigned = (dialect.signed_calls && !has_called).then_some(UNSIGNED);
                has_called = true;
                sent.push(ContentPart {
                    thought_signature: signature.take().flatten().or(unsigned),
                    function_call: Some(FunctionCall {
                        id: call.has_vendor_id.then_some(call.id),
                        name: call.name,
                        args: call.arguments,
                    }),
                    ..ContentPart::default()
                });
            }
        }
    }
    sent.extend(signature.flatten().map(signed));
    sent
}

/// Returns a trailing signature as a part without text, as it arrived.
fn signed(signature: &str) -> ContentPart<'_> {
    ContentPart {
        thought_signature: Some(signature),
        ..words(Cow::Borrowed(""))
    }
}

fn results<'a>(dialect: &Dialect, outcomes: Vec<Outcome<'a>>) -> Vec<Content<'a>> {
    let mut after = Vec::new();
    let mut parts = Vec::with_capacity(outcomes.len());
    for outcome in outcomes {
        let images: Vec<ContentPart<'a>> = outcome.pictures.into_iter().map(image).collect();
        let inside = if dialect.images_in_results {
            images
        } else {
            after.extend(images);
            Vec::new()
        };
        parts.push(ContentPart {
            function_response: Some(FunctionResponse {
                id: outcome.has_vendor_id.then_some(outcome.id),
                name: outcome.name,
                response: match outcome.failed {
                    true => Reply::Error(outcome.text),
                    false => Reply::Output(outcome.text),
                },
                parts: inside,
            }),
            ..ContentPart::default()
        });
    }
    let mut contents = vec![Content {
        role: "user",
        parts,
    }];
    if !after.is_empty() {
        let note = format!("[{} image(s) from the tool results above]", after.len());
        after.insert(0, words(Cow::Owned(note)));
        contents.push(Content {
            role: "user",
            parts: after,
        });
    }
    contents
}

/// The state between two events.
#[derive(Debug)]
pub(crate) struct Stream {
    origin: String,
}

impl Stream {
    pub(crate) fn new(origin: String) -> Self {
        Self { origin }
    }

    pub(crate) fn event(
        &mut self,
        mut event: Value,
        draft: &mut Draft,
    ) -> Result<Flow, ModelError> {
        head(&event, draft);
        if let Some(reason) = event["promptFeedback"]["blockReason"].as_str() {
            return Err(ModelError::new(
                Fault::ContentFilter,
                format!(
                    "the provider's content filter rejected the prompt ({reason}); rephrase it"
                ),
            ));
        }
        let candidate = event
            .get_mut("candidates")
            .and_then(|candidates| candidates.get_mut(0))
            .map(Value::take)
            .unwrap_or_default();
        for part in candidate["content"]["parts"]
            .as_array()
            .into_iter()
            .flatten()
        {
            self.part(part, draft)?;
        }
        stop(&candidate, draft)?;
        // Usage may follow the stop reason, so the reply ends with the stream.
        Ok(Flow::More)
    }

    fn part(&self, part: &Value, draft: &mut Draft) -> Result<(), ModelError> {
        if part["thought"] == true {
            let text = part["text"].as_str().unwrap_or_default();
            return think(text, draft);
        }
        if let Some(text) = part["text"].as_str() {
            draft.push_text(text)?;
        }
        if let Some(signature) = part["thoughtSignature"].as_str() {
            draft.push(Piece::Reasoning {
                text: String::new(),
                native: Some(json!({"wire": self.origin, "signature": signature})),
            })?;
        }
        if let Some(call) = part.get("functionCall") {
            draft.push(Piece::Call(CallDraft {
                id: call["id"].as_str().map(str::to_owned),
                name: call["name"].as_str().unwrap_or_default().to_owned(),
                raw: String::new(),
                value: call.get("args").filter(|args| !args.is_null()).cloned(),
            }))?;
        }
        Ok(())
    }
}

fn think(text: &str, draft: &mut Draft) -> Result<(), ModelError> {
    let at = match draft.last_reasoning(Value::is_null) {
        Some(at) => at,
        None => draft.push(Piece::Reasoning {
            text: String::new(),
            native: None,
        })?,
    };
    draft.extend_text(at, text)
}

fn head(event: &Value, draft: &mut Draft) {
    if let Some(model) = event["modelVersion"].as_str() {
        model.clone_into(&mut draft.model);
    }
    let usage = &event["usageMetadata"];
    let count = |key: &str| usage[key].as_u64();
    let sum =
        |first: &str, second: &str| Some(count(first)?.saturating_add(count(second).unwrap_or(0)));
    let known = &mut draft.usage;
    known.input_tokens = sum("promptTokenCount", "toolUsePromptTokenCount").or(known.input_tokens);
    known.output_tokens = sum("candidatesTokenCount", "thoughtsTokenCount")
        .or(count("thoughtsTokenCount"))
        .or(known.output_tokens);
    known.cache_read_tokens = count("cachedContentTokenCount").or(known.cache_read_tokens);
}

fn stop(candidate: &Value, draft: &mut Draft) -> Result<(), ModelError> {
    let Some(reason) = candidate["finishReason"].as_str() else {
        return Ok(());
    };
    draft.stop = Some(match reason {
        "MAX_TOKENS" => StopReason::MaxTokens,
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "IMAGE_SAFETY"
        | "LANGUAGE" => StopReason::ContentFilter,
        // The model gets an error result, as for any call that cannot be parsed.
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" => {
            let message = candidate["finishMessage"].as_str().unwrap_or(reason);
            draft.push(Piece::Call(CallDraft {
                raw: message.to_owned(),
                ..CallDraft::default()
            }))?;
            StopReason::ToolUse
        }
        _ => StopReason::EndTurn,
    });
    Ok(())
}
