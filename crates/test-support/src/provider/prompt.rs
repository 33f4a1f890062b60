//! A prompt, decoded from any wire format.

use std::sync::Arc;

use serde_json::Value;
use sortie_core::ports::model::Wire;

/// Returns the wire format of a path.
pub(super) fn wire_of(path: &str) -> Option<Wire> {
    let path = path.split('?').next().unwrap_or_default();
    let is_gemini = [":generateContent", ":streamGenerateContent"]
        .iter()
        .any(|method| path.ends_with(method));
    if is_gemini {
        return Some(Wire::Gemini);
    }
    [
        ("/v1/messages", Wire::Anthropic),
        ("/chat/completions", Wire::Chat),
        ("/responses", Wire::Responses),
    ]
    .into_iter()
    .find_map(|(end, wire)| path.ends_with(end).then_some(wire))
}

#[derive(Clone, Debug)]
pub struct ReceivedPrompt {
    /// Its number among the requests that the rate limit accepted, from 1.
    pub nth: usize,
    pub wire: Wire,
    pub streaming: bool,
    pub model: String,
    pub system: String,
    /// The names of its tools.
    pub tools: Vec<String>,
    /// The turn of its conversation, from 1.
    pub turn: usize,
    /// The first user message.
    pub task: String,
    /// The last content: the user's text, or tool results, one after the other.
    pub last: String,
    pub body: Value,
    /// Whether it marks what to cache.
    pub is_marked: bool,
    /// The whole prompt as one text, without cache marks.
    pub(super) text: Arc<str>,
}

/// The role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    System,
    User,
    Model,
    Tool,
}

impl ReceivedPrompt {
    pub(super) fn read(wire: Wire, path: &str, body: Value) -> Self {
        let messages = match wire {
            Wire::Anthropic => anthropic(&body),
            Wire::Chat => chat(&body),
            Wire::Responses => responses(&body),
            Wire::Gemini => gemini(&body),
        };
        let texts = |role: Role| {
            let messages = messages.iter().filter(move |(who, _)| *who == role);
            messages.map(|(_, text)| text.as_str())
        };
        let last_role = messages.last().map(|(role, _)| *role);
        let last: Vec<&str> = messages
            .iter()
            .rev()
            .take_while(|(role, _)| Some(*role) == last_role)
            .map(|(_, text)| text.as_str())
            .collect();
        Self {
            nth: 0,
            wire,
            streaming: path.contains(":streamGenerateContent") || body["stream"] == true,
            model: model(wire, path, &body),
            system: texts(Role::System).collect::<Vec<_>>().join("\n"),
            tools: tools(wire, &body),
            turn: answers(&messages) + 1,
            task: texts(Role::User).next().unwrap_or_default().to_owned(),
            last: last.into_iter().rev().collect::<Vec<_>>().join("\n"),
            is_marked: body.to_string().contains("\"cache_control\""),
            text: text_of(wire, &body).into(),
            body,
        }
    }
}

fn model(wire: Wire, path: &str, body: &Value) -> String {
    match wire {
        Wire::Gemini => path
            .split_once("/models/")
            .and_then(|(_, rest)| rest.split_once(':'))
            .map_or("", |(model, _)| model)
            .to_owned(),
        Wire::Anthropic | Wire::Chat | Wire::Responses => text(&body["model"]),
    }
}

fn tools(wire: Wire, body: &Value) -> Vec<String> {
    let tools = match wire {
        Wire::Gemini => items(&body["tools"][0]["functionDeclarations"]),
        Wire::Anthropic | Wire::Chat | Wire::Responses => items(&body["tools"]),
    };
    let name = |tool: &Value| match wire {
        Wire::Chat => text(&tool["function"]["name"]),
        Wire::Anthropic | Wire::Responses | Wire::Gemini => text(&tool["name"]),
    };
    tools.map(name).collect()
}

/// Counts the completions so far: consecutive assistant messages are one.
fn answers(messages: &[(Role, String)]) -> usize {
    let turns = messages.chunk_by(|left, right| left.0 == right.0);
    turns.filter(|turn| turn[0].0 == Role::Model).count()
}

fn anthropic(body: &Value) -> Vec<(Role, String)> {
    let mut messages = vec![(Role::System, joined(&body["system"]))];
    for message in items(&body["messages"]) {
        let is_model = message["role"] == "assistant";
        for block in items(&message["content"]) {
            messages.push(match text(&block["type"]).as_str() {
                "tool_result" => (Role::Tool, joined(&block["content"])),
                _ if is_model => (Role::Model, text(&block["text"])),
                _ => (Role::User, text(&block["text"])),
            });
        }
    }
    messages
}

fn chat(body: &Value) -> Vec<(Role, String)> {
    let role = |message: &Value| match text(&message["role"]).as_str() {
        "system" | "developer" => Role::System,
        "assistant" => Role::Model,
        "tool" => Role::Tool,
        _ => Role::User,
    };
    items(&body["messages"])
        .map(|message| (role(message), joined(&message["content"])))
        .collect()
}

fn responses(body: &Value) -> Vec<(Role, String)> {
    let mut messages = vec![(Role::System, text(&body["instructions"]))];
    for item in items(&body["input"]) {
        messages.push(match text(&item["type"]).as_str() {
            "function_call_output" => (Role::Tool, joined(&item["output"])),
            "function_call" | "reasoning" => (Role::Model, String::new()),
            _ => match text(&item["role"]).as_str() {
                "assistant" => (Role::Model, joined(&item["content"])),
                "system" | "developer" => (Role::System, joined(&item["content"])),
                _ => (Role::User, joined(&item["content"])),
            },
        });
    }
    messages
}

fn gemini(body: &Value) -> Vec<(Role, String)> {
    let mut messages = vec![(Role::System, joined(&body["systemInstruction"]["parts"]))];
    for content in items(&body["contents"]) {
        let is_model = content["role"] == "model";
        for part in items(&content["parts"]) {
            messages.push(match part["functionResponse"].get("response") {
                Some(response) => (
                    Role::Tool,
                    text(&response["output"]) + &text(&response["error"]),
                ),
                None if is_model => (Role::Model, text(&part["text"])),
                None => (Role::User, text(&part["text"])),
            });
        }
    }
    messages
}

/// Returns the whole prompt: tools, system prompt, history; without cache marks, which move.
fn text_of(wire: Wire, body: &Value) -> String {
    let keys: &[&str] = match wire {
        Wire::Anthropic => &["tools", "system", "messages"],
        Wire::Chat => &["tools", "messages"],
        Wire::Responses => &["tools", "instructions", "input"],
        Wire::Gemini => &["tools", "systemInstruction", "contents"],
    };
    let parts = keys.iter().map(|key| unmarked(&body[*key]).to_string());
    parts.collect()
}

fn unmarked(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(unmarked).collect(),
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| *key != "cache_control")
            .map(|(key, value)| (key.clone(), unmarked(value)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns a text, or the texts of a list of parts.
fn joined(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => items(value).map(|part| text(&part["text"])).collect(),
    }
}
