//! OpenAI Chat Completions.

use serde_json::{Value, json};

use super::data;
use crate::provider::answer::{Answer, CallPart, Part, Stop, pieces};
use crate::provider::prompt::ReceivedPrompt;

pub(super) fn events(answer: &Answer, prompt: &ReceivedPrompt) -> Vec<String> {
    let mut events = vec![chunk(
        answer,
        &json!({"role": "assistant", "content": ""}),
        None,
    )];
    let mut calls = 0;
    for part in &answer.parts {
        for delta in deltas(part, &mut calls) {
            events.push(chunk(answer, &delta, None));
        }
    }
    events.push(chunk(answer, &json!({}), Some(stop(answer.stop))));
    if prompt.body["stream_options"]["include_usage"] == true {
        let mut last = frame(answer, "chat.completion.chunk", &json!([]));
        last["usage"] = usage(answer);
        events.push(data(&last));
    }
    events.push("data: [DONE]\n\n".to_owned());
    events
}

pub(super) fn whole(answer: &Answer) -> Value {
    let mut message = json!({"role": "assistant", "content": null});
    let mut calls = Vec::new();
    for part in &answer.parts {
        match part {
            Part::Thought(thought) => message["reasoning_content"] = json!(thought),
            Part::Text(text) => message["content"] = json!(text),
            Part::Refusal(text) => message["refusal"] = json!(text),
            Part::Call(call) => calls.push(opened(call, call.arguments.as_str())),
        }
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let choice = json!({"index": 0, "message": message, "finish_reason": stop(answer.stop)});
    let mut body = frame(answer, "chat.completion", &json!([choice]));
    body["usage"] = usage(answer);
    body
}

fn deltas(part: &Part, calls: &mut usize) -> Vec<Value> {
    let text = |text: &str, key: &str| -> Vec<Value> {
        pieces(text).map(|piece| json!({key: piece})).collect()
    };
    match part {
        Part::Thought(thought) => text(thought, "reasoning_content"),
        Part::Text(words) => text(words, "content"),
        Part::Refusal(words) => text(words, "refusal"),
        Part::Call(call) => {
            let index = *calls;
            *calls += 1;
            call_deltas(call, index)
        }
    }
}

fn call_deltas(call: &CallPart, index: usize) -> Vec<Value> {
    let mut first = opened(call, "");
    first["index"] = json!(index);
    let rest = pieces(&call.arguments)
        .map(|piece| json!({"index": index, "function": {"arguments": piece}}));
    std::iter::once(first)
        .chain(rest)
        .map(|piece| json!({"tool_calls": [piece]}))
        .collect()
}

fn opened(call: &CallPart, arguments: &str) -> Value {
    let mut opened =
        json!({"type": "function", "function": {"name": call.name, "arguments": arguments}});
    if let Some(id) = &call.id {
        opened["id"] = json!(id);
    }
    opened
}

fn chunk(answer: &Answer, delta: &Value, finish_reason: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
    data(&frame(answer, "chat.completion.chunk", &json!([choice])))
}

fn frame(answer: &Answer, object: &str, choices: &Value) -> Value {
    json!({
        "id": format!("chatcmpl-{}", answer.number),
        "object": object,
        "created": 1_767_225_600,
        "model": answer.model,
        "choices": choices
    })
}

fn usage(answer: &Answer) -> Value {
    let tokens = answer.tokens;
    json!({
        "prompt_tokens": tokens.input(),
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input() + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read}
    })
}

fn stop(stop: Stop) -> &'static str {
    match stop {
        Stop::Done | Stop::Refusal => "stop",
        Stop::Calls | Stop::Malformed => "tool_calls",
        Stop::Length => "length",
        Stop::Filter => "content_filter",
    }
}
