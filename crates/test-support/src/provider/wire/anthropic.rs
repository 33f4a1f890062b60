//! Anthropic Messages.

use serde_json::{Value, json};

use super::{Grievance, event};
use crate::provider::answer::{Answer, Part, Stop, pieces};

pub(super) fn events(answer: &Answer) -> Vec<String> {
    let mut events = vec![
        named(
            &json!({"type": "message_start", "message": head(answer, &json!([]), &Value::Null, 1)}),
        ),
        named(&json!({"type": "ping"})),
    ];
    for (index, part) in answer.parts.iter().enumerate() {
        let opened =
            json!({"type": "content_block_start", "index": index, "content_block": opened(part)});
        events.push(named(&opened));
        for delta in deltas(part) {
            let delta = json!({"type": "content_block_delta", "index": index, "delta": delta});
            events.push(named(&delta));
        }
        events.push(named(
            &json!({"type": "content_block_stop", "index": index}),
        ));
    }
    events.push(named(&json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop(answer.stop), "stop_sequence": null},
        "usage": {"output_tokens": answer.tokens.output}
    })));
    events.push(named(&json!({"type": "message_stop"})));
    events
}

pub(super) fn whole(answer: &Answer) -> Value {
    let content: Vec<Value> = answer.parts.iter().map(block).collect();
    let stop = json!(stop(answer.stop));
    head(answer, &content.into(), &stop, answer.tokens.output)
}

pub(super) fn refusal(grievance: Grievance) -> Value {
    let (kind, message) = match grievance {
        Grievance::Overflow => (
            "invalid_request_error",
            "prompt is too long: 214748 tokens > 200000 maximum",
        ),
        Grievance::Filter | Grievance::Blocked => (
            "invalid_request_error",
            "Output blocked by content filtering policy",
        ),
        Grievance::Status(401 | 403) => ("authentication_error", "invalid x-api-key"),
        Grievance::Status(429) => (
            "rate_limit_error",
            "This request would exceed your organization's rate limit.",
        ),
        Grievance::Status(529) => ("overloaded_error", "Overloaded"),
        Grievance::Status(500..) => ("api_error", "Internal server error"),
        Grievance::Status(_) => ("invalid_request_error", "messages: field required"),
    };
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
}

fn named(value: &Value) -> String {
    event(value["type"].as_str().unwrap_or_default(), value)
}

fn head(answer: &Answer, content: &Value, stop_reason: &Value, output: u64) -> Value {
    json!({
        "id": format!("msg_{}", answer.number),
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": null,
        "usage": {
            "input_tokens": answer.tokens.fresh,
            "cache_creation_input_tokens": answer.tokens.cache_write,
            "cache_read_input_tokens": answer.tokens.cache_read,
            "output_tokens": output
        }
    })
}

fn opened(part: &Part) -> Value {
    match part {
        Part::Thought(_) => json!({"type": "thinking", "thinking": "", "signature": ""}),
        Part::Text(_) | Part::Refusal(_) => json!({"type": "text", "text": ""}),
        Part::Call(call) => {
            json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}})
        }
    }
}

fn deltas(part: &Part) -> Vec<Value> {
    let spoken = |text: &str, kind: &str, key: &str| -> Vec<Value> {
        pieces(text)
            .map(|piece| json!({"type": kind, key: piece}))
            .collect()
    };
    match part {
        Part::Thought(thought) => {
            let mut deltas = spoken(thought, "thinking_delta", "thinking");
            deltas.push(json!({"type": "signature_delta", "signature": signature(thought)}));
            deltas
        }
        Part::Text(words) | Part::Refusal(words) => spoken(words, "text_delta", "text"),
        Part::Call(call) => spoken(&call.arguments, "input_json_delta", "partial_json"),
    }
}

fn block(part: &Part) -> Value {
    match part {
        Part::Thought(thought) => {
            json!({"type": "thinking", "thinking": thought, "signature": signature(thought)})
        }
        Part::Text(text) | Part::Refusal(text) => json!({"type": "text", "text": text}),
        Part::Call(call) => {
            json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.value()})
        }
    }
}

fn signature(thought: &str) -> String {
    format!("signed-{}", thought.len())
}

fn stop(stop: Stop) -> &'static str {
    match stop {
        Stop::Done | Stop::Filter => "end_turn",
        Stop::Calls | Stop::Malformed => "tool_use",
        Stop::Length => "max_tokens",
        Stop::Refusal => "refusal",
    }
}
