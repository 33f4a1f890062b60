//! Deviations of single vendors, and which vendor gets reasoning back.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sortie_core::message::{Block, Message};
use sortie_core::ports::model::{ModelAnswer, ModelRequest};

use crate::support::{
    assistant, body_json, call, continued, dialect, request, result, stream, text, tools, user,
    whole,
};

fn check(quirks: Value, messages: Vec<Message>, expected: &[(&str, Value)]) {
    let body = body_json(&dialect(quirks.clone()), &request(messages));
    for (pointer, expected) in expected {
        let found = body.pointer(pointer).cloned().unwrap_or(json!("absent"));
        assert_eq!(found, *expected, "{quirks} {pointer}\n{body:#}");
    }
}

fn called(id: Option<&str>) -> Vec<Message> {
    vec![
        user("hi"),
        assistant(vec![call("1-0", id, "list_files", json!({}))]),
        tools(vec![result("1-0", id, "a.rs")]),
        user("and now?"),
    ]
}

#[test]
fn fields_of_chat() {
    let absent = json!("absent");
    for (quirks, pointer, expected) in [
        (json!({}), "/stream_options", json!({"include_usage": true})),
        (
            json!({"stream_usage": false}),
            "/stream_options",
            absent.clone(),
        ),
        (json!({}), "/tool_choice", absent.clone()),
        (json!({"tool_choice": true}), "/tool_choice", json!("auto")),
        (
            json!({"parallel_tool_calls": true}),
            "/parallel_tool_calls",
            json!(true),
        ),
        (json!({}), "/messages/0/role", json!("system")),
        (
            json!({"system_role": "developer"}),
            "/messages/0/role",
            json!("developer"),
        ),
        (json!({}), "/messages/2/content", Value::Null),
        (
            json!({"empty_content": "empty_text"}),
            "/messages/2/content",
            json!(""),
        ),
        (
            json!({"empty_content": "omit"}),
            "/messages/2/content",
            absent.clone(),
        ),
        (json!({}), "/messages/2/tool_calls/0/id", json!("call_1")),
        (
            json!({"tool_ids": "nine_alphanumeric"}),
            "/messages/2/tool_calls/0/id",
            json!("74196fe72"),
        ),
        (
            json!({"tool_ids": "nine_alphanumeric"}),
            "/messages/3/tool_call_id",
            json!("74196fe72"),
        ),
        (json!({}), "/messages/3/name", absent.clone()),
        (
            json!({"tool_result_name": true}),
            "/messages/3/name",
            json!("list_files"),
        ),
        (json!({}), "/messages/4/role", json!("user")),
        (
            json!({"user_after_tools": false}),
            "/messages/4/role",
            json!("assistant"),
        ),
        (
            json!({"user_after_tools": false}),
            "/messages/5/role",
            json!("user"),
        ),
        (json!({}), "/messages/2/reasoning_content", absent.clone()),
        (
            json!({"reasoning_back": "always"}),
            "/messages/2/reasoning_content",
            json!(""),
        ),
        (json!({}), "/prompt_cache_key", absent),
        (
            json!({"extra": {"tool_stream": true}}),
            "/tool_stream",
            json!(true),
        ),
    ] {
        check(quirks, called(Some("call_1")), &[(pointer, expected)]);
    }
}

#[test]
fn the_cache_key_is_that_of_the_origin() {
    let key = |change: fn(&mut ModelRequest)| {
        let mut request = request(vec![user("hi")]);
        change(&mut request);
        let dialect = dialect(json!({"format": "responses", "prompt_cache_key": true}));
        let key = body_json(&dialect, &request)["prompt_cache_key"].take();
        key.as_str().unwrap().to_owned()
    };
    let first = key(|_| {});
    assert_eq!(first.len(), 32);
    assert_eq!(
        first,
        key(|request| request.origin.task = "other".to_owned())
    );
    // The planner decides which runs share one: those of an agent in a tree, and forks.
    assert_ne!(
        first,
        key(|request| request.origin.cache_key = "other".to_owned())
    );
}

#[test]
fn ids_fit_and_pair() {
    let long = "x".repeat(65);
    for format in ["anthropic", "chat", "responses"] {
        for given in [
            None,
            Some("functions.list_files:0"),
            Some(long.as_str()),
            Some(""),
        ] {
            let body = body_json(&dialect(json!({"format": format})), &request(called(given)));
            let (id, answered) = match format {
                "anthropic" => (
                    "/messages/1/content/0/id",
                    "/messages/2/content/0/tool_use_id",
                ),
                "chat" => ("/messages/2/tool_calls/0/id", "/messages/3/tool_call_id"),
                _ => ("/input/1/call_id", "/input/2/call_id"),
            };
            let id = body.pointer(id).unwrap().as_str().unwrap();
            assert_eq!(body.pointer(answered).unwrap(), id);
            assert!((1..=64).contains(&id.len()), "{format} {given:?} {id}");
        }
    }
    check(
        json!({}),
        called(None),
        &[("/messages/3/tool_call_id", json!("1-0"))],
    );
    check(
        json!({}),
        called(Some("functions.list_files:0")),
        &[("/messages/3/tool_call_id", json!("functions.list_files:0"))],
    );
}

#[test]
fn an_id_that_a_server_gives_again_and_again_is_sent_once() {
    let mut messages = Vec::new();
    for turn in 1..5 {
        let id = format!("{turn}-0");
        messages.push(assistant(vec![call(
            &id,
            Some("call_0"),
            "list_files",
            json!({}),
        )]));
        messages.push(tools(vec![result(&id, Some("call_0"), "a.rs")]));
    }
    let body = body_json(&dialect(json!({"format": "responses"})), &request(messages));
    let items = body["input"].as_array().unwrap();
    let ids: BTreeSet<&str> = items
        .iter()
        .filter_map(|item| item["call_id"].as_str())
        .collect();
    assert_eq!(ids.len(), 4, "{ids:?}");
    for pair in items.chunks(2) {
        assert_eq!(pair[0]["call_id"], pair[1]["call_id"]);
    }
}

/// Sends the reply of a vendor back to it; returns the assistant message, or its parts.
fn back(quirks: &Value, answer: &ModelAnswer, pointer: &str) -> Value {
    let history = continued(vec![user("hi")], answer);
    let body = body_json(&dialect(quirks.clone()), &request(history));
    body.pointer(pointer).cloned().unwrap_or_default()
}

fn answer_of(quirks: &Value, fixture: &str) -> ModelAnswer {
    let dialect = dialect(quirks.clone());
    let (answer, _) = match fixture.starts_with('{') {
        true => whole(&dialect, fixture.as_bytes()),
        false => stream(&dialect, fixture.as_bytes()),
    };
    answer.unwrap()
}

#[test]
fn reasoning_goes_back_as_each_vendor_wants_it() {
    let anthropic = json!({"format": "anthropic", "cache_marks": false});
    let answer = answer_of(&anthropic, include_str!("fixtures/anthropic_tools.sse"));
    let sent = back(&anthropic, &answer, "/messages/1/content");
    assert_eq!(
        sent[0],
        json!({"type": "thinking", "thinking": "Two files to read.", "signature": "EqQBCgIYAhIM"})
    );
    assert_eq!(
        sent[1],
        json!({"type": "redacted_thinking", "data": "EmwKAhgB"})
    );
    assert_eq!(
        sent[2],
        json!({"type": "text", "text": "I read both — 看看。"})
    );
    assert_eq!(
        sent[3],
        json!({"type": "tool_use", "id": "toolu_01", "name": "read_file", "input": {"path": "a.rs"}})
    );

    let responses = json!({"format": "responses"});
    let answer = answer_of(&responses, include_str!("fixtures/responses_tools.sse"));
    assert_eq!(
        back(&responses, &answer, "/input/1"),
        json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAAAB",
            "summary": [{"type": "summary_text", "text": "Read it"}]})
    );

    let gemini = json!({"format": "gemini"});
    let answer = answer_of(&gemini, include_str!("fixtures/gemini_tools.sse"));
    let sent = back(&gemini, &answer, "/contents/1/parts");
    assert_eq!(sent[1]["thoughtSignature"], "CtEBAQ==");
    assert_eq!(sent[1]["functionCall"]["args"], json!({"path": "a.rs"}));
    assert_eq!(sent[2].get("thoughtSignature"), None);
    let answer = answer_of(&gemini, include_str!("fixtures/gemini_text.sse"));
    assert_eq!(
        back(&gemini, &answer, "/contents/1/parts"),
        json!([{"text": "All good."}, {"text": "", "thoughtSignature": "c2lnbg=="}])
    );

    let deepseek = json!({"format": "chat", "vendor": "deepseek"});
    let answer = answer_of(&deepseek, include_str!("fixtures/deepseek_reasoning.sse"));
    assert_eq!(
        back(&deepseek, &answer, "/messages/2/reasoning_content"),
        "先看文件"
    );
    let never = json!({"format": "chat", "vendor": "deepseek", "reasoning_back": "never"});
    assert_eq!(
        back(&never, &answer, "/messages/2/reasoning_content"),
        Value::Null
    );

    let openrouter = json!({"format": "chat", "vendor": "openrouter"});
    let answer = answer_of(&openrouter, include_str!("fixtures/openrouter_details.sse"));
    assert_eq!(
        back(&openrouter, &answer, "/messages/2/reasoning_details"),
        json!([{"type": "reasoning.text", "text": "Let me look.", "signature": "sig==",
            "format": "anthropic-claude-v1", "index": 0}])
    );

    let mistral = json!({"format": "chat", "vendor": "mistral"});
    let answer = answer_of(&mistral, include_str!("fixtures/mistral_list.json"));
    assert_eq!(
        back(&mistral, &answer, "/messages/2/content"),
        json!([{"type": "thinking", "thinking": [{"type": "text", "text": "Think first."}]},
            {"type": "text", "text": "Bonjour."}])
    );
}

#[test]
fn reasoning_is_not_sent_to_other_vendors() {
    let vendors = [
        (
            json!({"format": "anthropic"}),
            include_str!("fixtures/anthropic_tools.sse"),
        ),
        (
            json!({"format": "responses"}),
            include_str!("fixtures/responses_tools.sse"),
        ),
        (
            json!({"format": "gemini"}),
            include_str!("fixtures/gemini_tools.sse"),
        ),
        (
            json!({"format": "chat", "vendor": "deepseek"}),
            include_str!("fixtures/deepseek_reasoning.sse"),
        ),
        (
            json!({"format": "chat", "vendor": "openrouter"}),
            include_str!("fixtures/openrouter_details.sse"),
        ),
        (
            json!({"format": "chat", "vendor": "mistral"}),
            include_str!("fixtures/mistral_list.json"),
        ),
    ];
    let secrets = [
        "EqQBCgIYAhIM",
        "EmwKAhgB",
        "gAAAAB",
        "CtEBAQ==",
        "先看",
        "sig==",
        "Think first",
    ];
    for (from, fixture) in &vendors {
        let answer = answer_of(from, fixture);
        for (to, _) in vendors.iter().filter(|(to, _)| to != from) {
            let sent = back(to, &answer, "").to_string();
            let leaked = secrets.iter().find(|secret| sent.contains(**secret));
            assert_eq!(leaked, None, "{from} to {to}: {sent}");
        }
    }
}

#[test]
fn gemini_gets_a_mark_on_calls_of_others_where_it_wants_one() {
    let signed = json!({"format": "gemini", "signed_calls": true});
    let part = "/contents/1/parts/0/thoughtSignature";
    check(
        signed,
        called(None),
        &[(part, json!("skip_thought_signature_validator"))],
    );
    check(
        json!({"format": "gemini"}),
        called(None),
        &[(part, json!("absent"))],
    );
}

#[test]
fn empty_messages_are_left_out() {
    let foreign = Block::Reasoning {
        text: "Hm.".to_owned(),
        native: None,
    };
    let messages = vec![user(" "), assistant(vec![foreign, text(" ")]), user("hi")];
    check(
        json!({"format": "anthropic", "cache_marks": false}),
        messages,
        &[(
            "/messages",
            json!([
                {"role": "user", "content": [{"type": "text", "text": "(empty message)"}]},
                {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            ]),
        )],
    );
    // Anthropic refuses a message that ends with thinking.
    let own = Block::Reasoning {
        text: "Hm.".to_owned(),
        native: Some(json!({"wire": "anthropic", "signature": "x"})),
    };
    check(
        json!({"format": "anthropic"}),
        vec![user("hi"), assistant(vec![text("So"), own])],
        &[("/messages/1/content/1", json!("absent"))],
    );
}

#[test]
fn the_phase_of_a_message_is_sent_back() {
    let responses = json!({"format": "responses"});
    let document = json!({
        "model": "gpt", "status": "completed", "output": [
            {"type": "message", "phase": "commentary",
                "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "call_id": "c1", "name": "read_file", "arguments": "{}"},
        ]
    });
    let (answer, _) = whole(&dialect(responses.clone()), document.to_string().as_bytes());
    let answer = answer.unwrap();
    assert_eq!(
        back(&responses, &answer, "/input/1"),
        json!({"role": "assistant", "phase": "commentary", "content": "I look."})
    );
    // Other formats do not receive the field.
    let chat = json!({"format": "chat"});
    let sent = back(&chat, &answer, "/messages");
    assert!(!sent.to_string().contains("commentary"), "{sent}");
}
