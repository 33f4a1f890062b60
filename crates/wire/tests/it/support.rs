//! Requests as the runtime makes them, and replies rendered for assertions.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sortie_core::id::{BlobId, CallId, RunId};
use sortie_core::message::{
    Arguments, Block, ImageRef, Message, ResultStatus, SharedMessage, ToolCall, ToolResult, Usage,
};
use sortie_core::ports::model::{
    AnswerPart, DeltaSink, Images, ModelAnswer, ModelError, ModelRequest, PromptOrigin,
    RateLimitWait, TurnOptions, Wire,
};
use sortie_core::ports::tool::ToolSpec;
use sortie_wire::{Decoder, Dialect, Mode, decode_whole, encode};

pub(crate) const FORMATS: [Wire; 4] = [Wire::Anthropic, Wire::Chat, Wire::Responses, Wire::Gemini];

/// Records the text that the decoder passes to the sink.
#[derive(Debug, Default)]
pub(crate) struct Recorder(Mutex<String>);

impl DeltaSink for Recorder {
    fn text(&self, delta: &str) {
        self.0.lock().unwrap().push_str(delta);
    }
    fn rate_limited(&self, _wait: Option<RateLimitWait>) {}
}

impl Recorder {
    pub(crate) fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

/// Parses a dialect from a few lines of data, in the form of a vendor's entry.
pub(crate) fn dialect(data: Value) -> Dialect {
    serde_json::from_value(data).unwrap()
}

pub(crate) fn request(messages: Vec<Message>) -> ModelRequest {
    let run = |number| RunId::from_uuid(uuid::Uuid::from_u128(number));
    ModelRequest {
        origin: PromptOrigin {
            run: run(7),
            root: run(1),
            cache_key: format!("{}/explore", run(1)),
            agent: "explore".to_owned(),
            label: "look".to_owned(),
            task: "look around".to_owned(),
            depth: 1,
            turn: 1,
        },
        model: "vendor/model".to_owned(),
        system: Arc::from("You explore."),
        tools: Arc::new([
            tool(
                "read_file",
                "Reads a file.",
                json!({"path": {"type": "string"}}),
            ),
            tool("list_files", "Lists files.", json!({})),
        ]),
        messages: messages.into_iter().map(Arc::new).collect(),
        images: Images::default(),
        options: TurnOptions::default(),
    }
}

fn tool(name: &str, description: &str, properties: Value) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({"type": "object", "properties": properties}),
    }
}

pub(crate) fn user(text: &str) -> Message {
    Message::User {
        text: text.to_owned(),
    }
}

pub(crate) fn assistant(blocks: Vec<Block>) -> Message {
    Message::Assistant { blocks }
}

pub(crate) fn text(text: &str) -> Block {
    Block::Text {
        text: text.to_owned(),
    }
}

pub(crate) fn call(id: &str, provider_id: Option<&str>, name: &str, arguments: Value) -> Block {
    Block::Call(ToolCall {
        id: CallId::from_stored(id),
        provider_id: provider_id.map(str::to_owned),
        name: name.to_owned(),
        arguments: Arguments::Json(arguments),
    })
}

pub(crate) fn result(id: &str, provider_id: Option<&str>, text: &str) -> ToolResult {
    ToolResult {
        call: CallId::from_stored(id),
        provider_id: provider_id.map(str::to_owned),
        text: text.to_owned(),
        status: ResultStatus::Ok,
        full: None,
        images: Vec::new(),
    }
}

pub(crate) fn tools(results: Vec<ToolResult>) -> Message {
    Message::Tools { results }
}

/// Returns the blocks that a run stores for a reply.
pub(crate) fn blocks(answer: &ModelAnswer, turn: u32) -> Vec<Block> {
    let block = |(index, part): (usize, &AnswerPart)| match part.clone() {
        AnswerPart::Text(text) => Block::Text { text },
        AnswerPart::Reasoning { text, native } => Block::Reasoning { text, native },
        AnswerPart::Call {
            provider_id,
            name,
            arguments,
        } => Block::Call(ToolCall {
            id: CallId::new(turn, index),
            provider_id,
            name,
            arguments,
        }),
    };
    answer.parts.iter().enumerate().map(block).collect()
}

/// Returns the history after a reply; the result of each call is the call's own name.
pub(crate) fn continued(mut messages: Vec<Message>, answer: &ModelAnswer) -> Vec<Message> {
    let blocks = blocks(answer, 1);
    let results = blocks.iter().filter_map(|block| match block {
        Block::Call(call) => Some(ToolResult::not_run(call, ResultStatus::Ok, &call.name)),
        Block::Text { .. } | Block::Reasoning { .. } => None,
    });
    let results: Vec<ToolResult> = results.collect();
    messages.push(assistant(blocks));
    messages.push(tools(results));
    messages
}

/// Returns a request whose last result contains an image of the three bytes `png`.
pub(crate) fn with_picture() -> ModelRequest {
    let bytes: Arc<[u8]> = Arc::from(b"png".as_slice());
    let blob = BlobId::of(&bytes);
    let mut shown = result("1-0", Some("call_1"), "a picture");
    shown.images.push(ImageRef {
        media_type: "image/png".to_owned(),
        blob: blob.clone(),
    });
    let mut request = request(vec![
        user("Look."),
        assistant(vec![call(
            "1-0",
            Some("call_1"),
            "read_file",
            json!({"path": "a.png"}),
        )]),
        tools(vec![shown]),
    ]);
    request.images = Arc::new([(blob, bytes)].into());
    request
}

pub(crate) fn body(dialect: &Dialect, request: &ModelRequest) -> String {
    let encoded = encode(dialect, "model-1", request, Mode::Streaming).unwrap();
    String::from_utf8(encoded.body).unwrap()
}

pub(crate) fn body_json(dialect: &Dialect, request: &ModelRequest) -> Value {
    serde_json::from_str(&body(dialect, request)).unwrap()
}

pub(crate) fn shared(messages: Vec<Message>) -> Vec<SharedMessage> {
    messages.into_iter().map(Arc::new).collect()
}

/// Decodes a stream in one chunk.
pub(crate) fn stream(dialect: &Dialect, bytes: &[u8]) -> (Result<ModelAnswer, ModelError>, String) {
    chunks(dialect, &[bytes])
}

/// Decodes a stream in chunks; returns the shown text second.
pub(crate) fn chunks(
    dialect: &Dialect,
    chunks: &[&[u8]],
) -> (Result<ModelAnswer, ModelError>, String) {
    let recorder = Recorder::default();
    let mut decoder = Decoder::new(dialect);
    for chunk in chunks {
        if let Err(error) = decoder.bytes(chunk, &recorder) {
            assert_eq!(decoder.end(), Err(error.clone()), "a failure lasts");
            return (Err(error), recorder.text());
        }
    }
    assert_eq!(decoder.shown(), !recorder.text().is_empty());
    (decoder.end(), recorder.text())
}

pub(crate) fn whole(dialect: &Dialect, bytes: &[u8]) -> (Result<ModelAnswer, ModelError>, String) {
    let recorder = Recorder::default();
    let answer = decode_whole(dialect, bytes, &recorder);
    (answer, recorder.text())
}

/// Renders an outcome in a few lines.
pub(crate) fn rendered((outcome, shown): (Result<ModelAnswer, ModelError>, String)) -> String {
    let answer = match outcome {
        Ok(answer) => answer,
        Err(error) => {
            let shown = if error.shown { ", shown" } else { "" };
            return format!("{}{shown}: {error}", error.fault.name());
        }
    };
    let mut lines = format!(
        "{:?} {:?} {}\n",
        answer.stop,
        answer.model,
        counted(answer.usage)
    );
    for part in &answer.parts {
        // Writing to a String cannot fail.
        writeln!(lines, "{}", part_line(part)).ok();
    }
    write!(lines, "shown {shown:?}").ok();
    lines
}

fn counted(usage: Usage) -> String {
    let count = |count: Option<u64>| count.map_or("?".to_owned(), |count| count.to_string());
    format!(
        "in {} out {} read {} write {}",
        count(usage.input_tokens),
        count(usage.output_tokens),
        count(usage.cache_read_tokens),
        count(usage.cache_write_tokens),
    )
}

pub(crate) fn part_line(part: &AnswerPart) -> String {
    match part {
        AnswerPart::Text(text) => format!("text {text:?}"),
        AnswerPart::Reasoning { text, native: None } => format!("reasoning {text:?}"),
        AnswerPart::Reasoning {
            text,
            native: Some(native),
        } => format!("reasoning {text:?} {native}"),
        AnswerPart::Call {
            provider_id,
            name,
            arguments,
        } => {
            let id = provider_id.as_deref().unwrap_or("-");
            match arguments {
                Arguments::Json(value) => format!("call {id} {name} {value}"),
                Arguments::Malformed { raw, error } => {
                    format!("call {id} {name} malformed {raw:?}: {error}")
                }
            }
        }
    }
}

/// Renders a body with one field per line, in the order in which it was written.
pub(crate) fn pretty(body: &str) -> String {
    let mut lines = String::new();
    let mut depth = 0_usize;
    let mut in_text = false;
    let mut letters = body.chars().peekable();
    while let Some(letter) = letters.next() {
        lines.push(letter);
        match letter {
            '\\' if in_text => lines.extend(letters.next()),
            '"' => in_text = !in_text,
            '{' | '[' | ',' | '}' | ']' | ':' if in_text => {}
            '{' | '[' if !matches!(letters.peek(), Some('}' | ']')) => {
                depth += 1;
                new_line(&mut lines, depth);
            }
            ',' => new_line(&mut lines, depth),
            ':' => lines.push(' '),
            '{' | '[' | '}' | ']' => {}
            _ => {}
        }
        if !in_text && matches!(letters.peek(), Some('}' | ']')) && !matches!(letter, '{' | '[') {
            depth -= 1;
            new_line(&mut lines, depth);
        }
    }
    lines
}

fn new_line(lines: &mut String, depth: usize) {
    lines.push('\n');
    lines.extend(std::iter::repeat_n("  ", depth));
}
