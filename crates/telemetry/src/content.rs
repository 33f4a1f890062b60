//! What people and models said, for operators who want it in their traces. Bounded, and cut between
//! characters. What is in a journal went through the redactor before.

use serde_json::{Value as Json, json};
use sortie_base::truncate::truncate_bytes;
use sortie_core::{Arguments, Block, StopReason};

/// The most bytes of one text in an attribute: backends refuse or cut much longer ones.
pub(crate) const MAX_TEXT_BYTES: usize = 8 * 1024;
/// The most parts of one message: an answer with a thousand calls is still one attribute.
const MAX_PARTS: usize = 64;

/// Truncates a text to the size of an attribute.
pub(crate) fn truncate(text: &str) -> String {
    truncate_bytes(text, MAX_TEXT_BYTES)
}

/// The arguments of a call.
pub(crate) fn arguments(arguments: &Arguments) -> String {
    match arguments {
        Arguments::Json(value) => truncate(&value.to_string()),
        Arguments::Malformed { raw, .. } => truncate(raw),
    }
}

/// One message as the conventions want a list of them.
pub(crate) fn message(role: &str, text: &str) -> String {
    json!([{"role": role, "parts": [{"type": "text", "content": truncate(text)}]}]).to_string()
}

/// What an agent is told.
pub(crate) fn instructions(prompt: &str) -> String {
    json!([{"type": "text", "content": truncate(prompt)}]).to_string()
}

/// An answer of the model.
pub(crate) fn answer(blocks: &[Block], stop: StopReason) -> String {
    let parts: Vec<Json> = blocks.iter().take(MAX_PARTS).map(part).collect();
    json!([{"role": "assistant", "parts": parts, "finish_reason": finish_reason(stop)}]).to_string()
}

fn part(block: &Block) -> Json {
    match block {
        Block::Text { text } => json!({"type": "text", "content": truncate(text)}),
        Block::Reasoning { text, .. } => json!({"type": "reasoning", "content": truncate(text)}),
        Block::Call(call) => json!({
            "type": "tool_call",
            "id": call.id,
            "name": call.name,
            "arguments": arguments(&call.arguments),
        }),
    }
}

/// The conventions' word for why a model stopped.
pub(crate) const fn finish_reason(stop: StopReason) -> &'static str {
    match stop {
        StopReason::EndTurn => "stop",
        StopReason::ToolUse => "tool_call",
        StopReason::MaxTokens => "length",
        StopReason::Refusal => "refusal",
        StopReason::ContentFilter => "content_filter",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_truncated_between_characters() {
        let long = "界".repeat(MAX_TEXT_BYTES);
        let short = truncate(&long);
        assert!(short.len() <= MAX_TEXT_BYTES + "…".len());
        assert!(short.ends_with("界…"));
        assert_eq!(truncate("short"), "short");
    }

    #[test]
    fn a_truncated_message_is_valid_json() {
        let long = "\"quote\\".repeat(MAX_TEXT_BYTES);
        let parsed: Json = serde_json::from_str(&message("user", &long)).unwrap();
        assert_eq!(parsed[0]["role"], "user");
    }
}
