//! Content of prompts, calls and completions, for operators who enable it in traces. Truncated between
//! characters. The journal is already redacted.

use serde_json::{Value as Json, json};
use sortie_base::truncate::truncate_bytes;
use sortie_core::event::StopReason;
use sortie_core::message::{Arguments, Block};

/// Limit of a text in an attribute: backends refuse or truncate much longer ones.
pub(crate) const MAX_TEXT_BYTES: usize = 8 * 1024;
/// Limit of parts of one message: a completion with a thousand calls is still one attribute.
const MAX_PARTS: usize = 64;

/// Truncates a text to the size of an attribute.
pub(crate) fn truncate(text: &str) -> String {
    truncate_bytes(text, MAX_TEXT_BYTES)
}

/// Returns the arguments of a call as text.
pub(crate) fn arguments(arguments: &Arguments) -> String {
    match arguments {
        Arguments::Json(value) => truncate(&value.to_string()),
        Arguments::Malformed { raw, .. } => truncate(raw),
    }
}

/// Returns a list of one message, in the format of the semantic conventions.
pub(crate) fn message(role: &str, text: &str) -> String {
    json!([{"role": role, "parts": [{"type": "text", "content": truncate(text)}]}]).to_string()
}

/// Returns the system prompt, in the format of the semantic conventions.
pub(crate) fn instructions(prompt: &str) -> String {
    json!([{"type": "text", "content": truncate(prompt)}]).to_string()
}

/// Returns a completion, in the format of the semantic conventions.
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

/// Returns the finish reason in the terms of the semantic conventions.
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
