//! Responses as vendors send them.

use insta::assert_snapshot;
use serde_json::json;
use sortie_core::ports::model::Wire;
use sortie_wire::Dialect;

use crate::support::{dialect, rendered, stream, whole};

fn streamed(dialect: &Dialect, bytes: &str) -> String {
    rendered(stream(dialect, bytes.as_bytes()))
}

fn read(dialect: &Dialect, body: &str) -> String {
    rendered(whole(dialect, body.as_bytes()))
}

#[test]
fn anthropic() {
    let anthropic = Dialect::new(Wire::Anthropic);
    assert_snapshot!(streamed(&anthropic, include_str!("fixtures/anthropic_tools.sse")), @r##"
    ToolUse "claude-sonnet-4-5-20250929" in 2312 out 89 read 2000 write 300
    reasoning "Two files to read." {"signature":"EqQBCgIYAhIM","wire":"anthropic"}
    reasoning "" {"redacted":"EmwKAhgB","wire":"anthropic"}
    text "I read both — 看看。"
    call toolu_01 read_file {"path":"a.rs"}
    call toolu_02 list_files {}
    shown "I read both — 看看。"
    "##);
    assert_snapshot!(read(&anthropic, include_str!("fixtures/anthropic_whole.json")), @r##"
    ToolUse "claude-opus-4-5" in 5 out 7 read ? write ?
    reasoning "Easy." {"signature":"c2ln","wire":"anthropic"}
    text "Found it."
    call toolu_9 grep {"pattern":"main"}
    shown "Found it."
    "##);
}

#[test]
fn chat() {
    let chat = Dialect::new(Wire::Chat);
    assert_snapshot!(streamed(&chat, include_str!("fixtures/openai_chat_tools.sse")), @r##"
    ToolUse "gpt-4.1-2025-04-14" in 1200 out 40 read 1024 write ?
    text "Looking. "
    call call_a read_file {"path":"a.rs"}
    call call_b list_files {}
    shown "Looking. "
    "##);
    assert_snapshot!(read(&chat, include_str!("fixtures/openai_chat_whole.json")), @r##"
    ToolUse "gpt-4.1" in 9 out 3 read ? write ?
    text "Done."
    call call_x grep {"pattern":"main"}
    call call_x-2 grep {}
    shown "Done."
    "##);
}

#[test]
fn vendors_that_speak_chat() {
    let vendor = |name: &str| dialect(json!({"format": "chat", "vendor": name}));
    assert_snapshot!(streamed(&vendor("deepseek"), include_str!("fixtures/deepseek_reasoning.sse")), @r##"
    ToolUse "deepseek-reasoner" in 100 out 20 read 64 write ?
    reasoning "先看文件" {"field":"reasoning_content","wire":"chat:deepseek"}
    call call_00_x list_files {}
    shown ""
    "##);
    assert_snapshot!(streamed(&vendor("kimi"), include_str!("fixtures/kimi_usage.sse")), @r##"
    ToolUse "kimi-k2-thinking" in 50 out 8 read 32 write ?
    reasoning "Hm." {"field":"reasoning_content","wire":"chat:kimi"}
    call functions.read_file:0 read_file {"path":"a"}
    shown ""
    "##);
    assert_snapshot!(streamed(&vendor("openrouter"), include_str!("fixtures/openrouter_details.sse")), @r##"
    EndTurn "anthropic/claude-sonnet-4.5" in 30 out 12 read 10 write 20
    reasoning "Let me look." {"field":"reasoning_details","item":[{"format":"anthropic-claude-v1","index":0,"signature":"sig==","text":"Let me look.","type":"reasoning.text"}],"wire":"chat:openrouter"}
    text "Here."
    shown "Here."
    "##);
    assert_snapshot!(read(&vendor("mistral"), include_str!("fixtures/mistral_list.json")), @r##"
    EndTurn "magistral-medium-latest" in 4 out 6 read ? write ?
    reasoning "Think first." {"field":"content","wire":"chat:mistral"}
    text "Bonjour."
    shown "Bonjour."
    "##);
    assert_snapshot!(read(&vendor("xai"), include_str!("fixtures/xai_reasoning.json")), @r##"
    EndTurn "grok-4" in 10 out 102 read 4 write ?
    reasoning "Sure?" {"field":"reasoning_content","wire":"chat:xai"}
    text "Yes."
    shown "Yes."
    "##);
    assert_snapshot!(streamed(&vendor("ollama"), include_str!("fixtures/ollama_same_index.sse")), @r##"
    ToolUse "qwen3" in ? out ? read ? write ?
    call call_1 read_file {"path":"a"}
    call call_2 read_file {"path":"b"}
    shown ""
    "##);
}

#[test]
fn responses() {
    let responses = Dialect::new(Wire::Responses);
    assert_snapshot!(streamed(&responses, include_str!("fixtures/responses_tools.sse")), @r##"
    ToolUse "gpt-5-2025-08-07" in 400 out 60 read 256 write ?
    reasoning "Read it" {"item":{"encrypted_content":"gAAAAB","id":"rs_1","summary":[{"text":"Read it","type":"summary_text"}],"type":"reasoning"},"wire":"responses"}
    text "One moment."
    call call_1 read_file {"path":"a.rs"}
    shown "One moment."
    "##);
    assert_snapshot!(streamed(&responses, include_str!("fixtures/responses_cut.sse")), @r##"
    MaxTokens "gpt-5" in 4 out 16 read ? write ?
    call call_1 write_file malformed "{\"path\":\"a.rs\",\"content\":\"fn ma": the completion reached its token limit inside this call, so nothing ran; call again with shorter arguments
    shown ""
    "##);
    assert_snapshot!(read(&responses, include_str!("fixtures/responses_whole.json")), @r##"
    Refusal "gpt-5" in 4 out 6 read 0 write ?
    text "I cannot help with that."
    shown "I cannot help with that."
    "##);
}

#[test]
fn gemini() {
    let gemini = Dialect::new(Wire::Gemini);
    assert_snapshot!(streamed(&gemini, include_str!("fixtures/gemini_tools.sse")), @r##"
    ToolUse "gemini-3-pro-preview" in 90 out 55 read 64 write ?
    reasoning "Planning the reads."
    text "I look now."
    reasoning "" {"signature":"CtEBAQ==","wire":"gemini"}
    call - read_file {"path":"a.rs"}
    call - read_file {"path":"b.rs"}
    shown "I look now."
    "##);
    assert_snapshot!(streamed(&gemini, include_str!("fixtures/gemini_text.sse")), @r##"
    EndTurn "gemini-3-flash" in 5 out 3 read ? write ?
    text "All good."
    reasoning "" {"signature":"c2lnbg==","wire":"gemini"}
    shown "All good."
    "##);
    assert_snapshot!(read(&gemini, include_str!("fixtures/gemini_whole.json")), @r##"
    ToolUse "gemini-2.5-pro" in 7 out 3 read ? write ?
    call fc-1 list_files {}
    shown ""
    "##);
}
