//! What people and models said, for operators who want it in their traces. Bounded, and cut between
//! characters. What is in a journal went through the redactor before.

use serde_json::{Value as Json, json};
use sortie_core::{Arguments, Block, StopReason};

/// The most bytes of one text in an attribute: backends refuse or cut much longer ones.
pub(crate) const MAX_TEXT_BYTES: usize = 8 * 1024;
/// The most parts of one message: an answer with a thousand calls is still one attribute.
const MAX_PARTS: usize = 64;

/// A text that is not too long for an attribute.
pub(crate) fn cut(text: &str) -> String {
    if text.len() <= MAX_TEXT_BYTES {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MAX_TEXT_BYTES);
    format!("{}…", &text[..end])
}

/// The arguments of a call.
pub(crate) fn arguments(arguments: &Arguments) -> String {
    match arguments {
        Arguments::Json(value) => cut(&value.to_string()),
        Arguments::Malformed { raw, .. } => cut(raw),
    }
}

/// One message as the conventions want a list of them.
pub(crate) fn message(role: &str, text: &str) -> String {
    json!([{"role": role, "parts": [{"type": "text", "content": cut(text)}]}]).to_string()
}

/// What an agent is told.
pub(crate) fn instructions(prompt: &str) -> String {
    json!([{"type": "text", "content": cut(prompt)}]).to_string()
}

/// An answer of the model.
pub(crate) fn answer(blocks: &[Block], stop: StopReason) -> String {
    let parts: Vec<Json> = blocks.iter().take(MAX_PARTS).map(part).collect();
    json!([{"role": "assistant", "parts": parts, "finish_reason": finish_reason(stop)}]).to_string()
}

fn part(block: &Block) -> Json {
    match block {
        Block::Text { text } => json!({"type": "text", "content": cut(text)}),
        Block::Reasoning { text, .. } => json!({"type": "reasoning", "content": cut(text)}),
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
    fn long_texts_are_cut_between_characters() {
        let long = "界".repeat(MAX_TEXT_BYTES);
        let cut = cut(&long);
        assert!(cut.len() <= MAX_TEXT_BYTES + "…".len());
        assert!(cut.ends_with("界…"));
        assert_eq!(super::cut("short"), "short");
    }

    #[test]
    fn a_cut_message_is_still_json() {
        let long = "\"quote\\".repeat(MAX_TEXT_BYTES);
        let parsed: Json = serde_json::from_str(&message("user", &long)).unwrap();
        assert_eq!(parsed[0]["role"], "user");
    }
}
