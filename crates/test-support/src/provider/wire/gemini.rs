//! Google Gemini `generateContent`.

use serde_json::{Value, json};

use super::{Grievance, data};
use crate::provider::answer::{Answer, Part, Stop, pieces};

pub(super) fn events(answer: &Answer) -> Vec<String> {
    let mut events = Vec::new();
    for part in &answer.parts {
        for piece in streamed(part) {
            events.push(data(&chunk(answer, &json!([piece]), None)));
        }
    }
    let last = json!([{"text": ""}]);
    events.push(data(&chunk(answer, &last, Some(answer.stop))));
    events
}

pub(super) fn whole(answer: &Answer) -> Value {
    let parts: Vec<Value> = answer.parts.iter().map(part).collect();
    chunk(answer, &parts.into(), Some(answer.stop))
}

pub(super) fn refusal(grievance: Grievance) -> Value {
    let (code, status, message) = match grievance {
        Grievance::Blocked => {
            return json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
                "usageMetadata": {"promptTokenCount": 8, "totalTokenCount": 8}});
        }
        Grievance::Overflow => (
            400,
            "INVALID_ARGUMENT",
            "The input token count (1214748) exceeds the maximum number of tokens allowed (1048576).",
        ),
        Grievance::Filter => (400, "INVALID_ARGUMENT", "The prompt is not allowed."),
        Grievance::Status(code @ (401 | 403)) => (
            code,
            "PERMISSION_DENIED",
            "API key not valid. Please pass a valid API key.",
        ),
        Grievance::Status(429) => (
            429,
            "RESOURCE_EXHAUSTED",
            "Resource has been exhausted (e.g. check quota).",
        ),
        Grievance::Status(code @ 500..) => (
            code,
            "UNAVAILABLE",
            "The model is overloaded. Please try again later.",
        ),
        Grievance::Status(code) => (code, "INVALID_ARGUMENT", "Invalid JSON payload received."),
    };
    json!({"error": {"code": code, "message": message, "status": status}})
}

fn streamed(part: &Part) -> Vec<Value> {
    let words = |text: &str| -> Vec<String> { pieces(text).map(str::to_owned).collect() };
    match part {
        Part::Thought(text) => words(text)
            .into_iter()
            .map(|piece| json!({"text": piece, "thought": true}))
            .collect(),
        Part::Text(text) | Part::Refusal(text) => words(text)
            .into_iter()
            .map(|piece| json!({"text": piece}))
            .collect(),
        Part::Call(_) => vec![self::part(part)],
    }
}

fn part(part: &Part) -> Value {
    match part {
        Part::Thought(text) => json!({"text": text, "thought": true}),
        Part::Text(text) | Part::Refusal(text) => json!({"text": text}),
        Part::Call(call) => {
            let mut made = json!({"name": call.name, "args": call.value()});
            if let Some(id) = &call.id {
                made["id"] = json!(id);
            }
            json!({"functionCall": made, "thoughtSignature": format!("signed-{}", call.name)})
        }
    }
}

fn chunk(answer: &Answer, parts: &Value, stop: Option<Stop>) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if let Some(stop) = stop {
        candidate["finishReason"] = json!(word(stop));
        if stop == Stop::Malformed {
            candidate["finishMessage"] = json!("Malformed function call: write_file(path=");
        }
    }
    let tokens = answer.tokens;
    json!({
        "candidates": [candidate],
        "modelVersion": answer.model,
        "responseId": format!("r{}", answer.number),
        "usageMetadata": {
            "promptTokenCount": tokens.input(),
            "candidatesTokenCount": tokens.output,
            "cachedContentTokenCount": tokens.cache_read,
            "totalTokenCount": tokens.input() + tokens.output
        }
    })
}

fn word(stop: Stop) -> &'static str {
    match stop {
        Stop::Done | Stop::Calls => "STOP",
        Stop::Length => "MAX_TOKENS",
        Stop::Refusal => "PROHIBITED_CONTENT",
        Stop::Filter => "SAFETY",
        Stop::Malformed => "MALFORMED_FUNCTION_CALL",
    }
}
