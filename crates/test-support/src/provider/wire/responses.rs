//! OpenAI Responses.

use serde_json::{Value, json};

use super::event;
use crate::provider::answer::{Answer, Part, Stop, pieces};

pub(super) fn events(answer: &Answer) -> Vec<String> {
    let mut events = vec![named(&json!({
        "type": "response.created",
        "response": response(answer, "in_progress", &json!([]))
    }))];
    for (index, part) in answer.parts.iter().enumerate() {
        let opened = item(answer, index, part, "in_progress");
        events.push(named(&json!({
            "type": "response.output_item.added", "output_index": index, "item": emptied(opened, part)
        })));
        events.extend(deltas(answer, index, part));
        events.push(named(&json!({
            "type": "response.output_item.done",
            "output_index": index,
            "item": item(answer, index, part, "completed")
        })));
    }
    let response = whole(answer);
    let kind = format!("response.{}", status(answer.stop));
    events.push(named(&json!({"type": kind, "response": response})));
    events
}

pub(super) fn whole(answer: &Answer) -> Value {
    let output: Vec<Value> = answer
        .parts
        .iter()
        .enumerate()
        .map(|(index, part)| item(answer, index, part, "completed"))
        .collect();
    response(answer, status(answer.stop), &output.into())
}

/// Returns an error in the middle of a completion.
pub(super) fn failed(refusal: &Value) -> String {
    named(&json!({
        "type": "response.failed",
        "response": {
            "id": "resp_failed", "object": "response", "status": "failed", "output": [],
            "error": {"code": "server_error", "message": refusal["error"]["message"]}
        }
    }))
}

fn named(value: &Value) -> String {
    event(value["type"].as_str().unwrap_or_default(), value)
}

fn response(answer: &Answer, status: &str, output: &Value) -> Value {
    let reason = match answer.stop {
        Stop::Length => json!({"reason": "max_output_tokens"}),
        Stop::Filter => json!({"reason": "content_filter"}),
        Stop::Done | Stop::Calls | Stop::Refusal | Stop::Malformed => Value::Null,
    };
    let tokens = answer.tokens;
    json!({
        "id": format!("resp_{}", answer.number),
        "object": "response",
        "created_at": 1_767_225_600,
        "status": status,
        "error": null,
        "incomplete_details": reason,
        "model": answer.model,
        "output": output,
        "usage": {
            "input_tokens": tokens.input(),
            "input_tokens_details": {"cached_tokens": tokens.cache_read},
            "output_tokens": tokens.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens.input() + tokens.output
        }
    })
}

fn item(answer: &Answer, index: usize, part: &Part, status: &str) -> Value {
    let id = |kind: &str| format!("{kind}_{}_{index}", answer.number);
    let message = |content: &Value| {
        json!({
            "id": id("msg"), "type": "message", "status": status, "role": "assistant",
            "content": [content]
        })
    };
    match part {
        Part::Thought(thought) => json!({
            "id": id("rs"), "type": "reasoning",
            "summary": [{"type": "summary_text", "text": thought}],
            "encrypted_content": format!("sealed-{}", thought.len())
        }),
        Part::Text(text) => {
            message(&json!({"type": "output_text", "text": text, "annotations": []}))
        }
        Part::Refusal(text) => message(&json!({"type": "refusal", "refusal": text})),
        Part::Call(call) => {
            let mut item = json!({
                "id": id("fc"), "type": "function_call", "status": status,
                "name": call.name, "arguments": call.arguments
            });
            if let Some(id) = &call.id {
                item["call_id"] = json!(id);
            }
            item
        }
    }
}

/// Returns an item before any of its content has arrived.
fn emptied(mut item: Value, part: &Part) -> Value {
    match part {
        Part::Thought(_) => item["summary"] = json!([]),
        Part::Text(_) | Part::Refusal(_) => item["content"] = json!([]),
        Part::Call(_) => item["arguments"] = json!(""),
    }
    item
}

fn deltas(answer: &Answer, index: usize, part: &Part) -> Vec<String> {
    let (kind, text) = match part {
        Part::Thought(text) => ("reasoning_summary_text", text),
        Part::Text(text) => ("output_text", text),
        Part::Refusal(text) => ("refusal", text),
        Part::Call(call) => ("function_call_arguments", &call.arguments),
    };
    let item_id = format!("item_{}_{index}", answer.number);
    let delta = |piece: &str| {
        named(&json!({
            "type": format!("response.{kind}.delta"), "output_index": index,
            "item_id": item_id, "content_index": 0, "delta": piece
        }))
    };
    pieces(text).map(delta).collect()
}

fn status(stop: Stop) -> &'static str {
    match stop {
        Stop::Done | Stop::Calls | Stop::Refusal | Stop::Malformed => "completed",
        Stop::Length | Stop::Filter => "incomplete",
    }
}
