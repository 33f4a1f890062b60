//! Faults of servers, none of which may become a wrong reply.

use serde_json::{Value, json};
use sortie_core::ports::model::Wire;
use sortie_wire::{Dialect, bounds};

use crate::support::{rendered, stream, whole};

/// Returns a Chat stream of these events, without the final `[DONE]`.
fn chat_events(events: &[Value]) -> String {
    events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect()
}

fn delta(delta: Value) -> Value {
    json!({"model": "m", "choices": [{"index": 0, "delta": delta}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn call_delta(index: u64, id: &str, name: &str, arguments: &str) -> Value {
    delta(json!({"tool_calls": [
        {"index": index, "id": id, "function": {"name": name, "arguments": arguments}}
    ]}))
}

/// Checks the rendered lines of the reply, except the first, which contains counts.
fn check(format: Wire, stream_text: &str, expected: &str) {
    let shown = rendered(stream(&Dialect::new(format), stream_text.as_bytes()));
    assert!(
        shown.contains(expected),
        "{stream_text}\n--- wanted\n{expected}\n--- got\n{shown}"
    );
}

fn check_chat(events: &[Value], expected: &str) {
    check(Wire::Chat, &chat_events(events), expected);
}

const CUT: &str = "the completion ended early";

#[test]
fn a_missing_end_after_a_reason_to_stop_is_complete() {
    check_chat(
        &[delta(json!({"content": "hi"})), finish("stop")],
        "EndTurn \"m\"",
    );
    check(
        Wire::Anthropic,
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n",
        "EndTurn",
    );
    // The truncated line contained nothing relevant.
    let cut = chat_events(&[delta(json!({"content": "hi"})), finish("stop")]) + "data: {\"usa";
    check(Wire::Chat, &cut, "text \"hi\"");
}

#[test]
fn an_end_without_a_stop_reason_is_complete_if_the_server_reports_it() {
    let message = chat_events(&[delta(json!({"content": "hi"}))]) + "data: [DONE]\n\n";
    check(Wire::Chat, &message, "EndTurn \"m\"");
    check(Wire::Chat, "data: [DONE]\n\n", CUT);
}

#[test]
fn a_cut_off_stream_is_never_a_short_answer() {
    for fixture in [
        (
            Wire::Anthropic,
            include_str!("fixtures/anthropic_tools.sse"),
        ),
        (Wire::Chat, include_str!("fixtures/openai_chat_tools.sse")),
        (
            Wire::Responses,
            include_str!("fixtures/responses_tools.sse"),
        ),
        (Wire::Gemini, include_str!("fixtures/gemini_tools.sse")),
    ] {
        let (format, text) = fixture;
        let complete = rendered(stream(&Dialect::new(format), text.as_bytes()));
        // An event without a final blank line is decoded, but its text is no longer passed to the
        // sink.
        let parts = |rendered: &str| -> Vec<String> {
            let lines = rendered.lines().skip(1);
            let parts = lines.filter(|line| !line.starts_with("shown"));
            parts.map(str::to_owned).collect()
        };
        for length in 0..text.len() {
            let shown = rendered(stream(&Dialect::new(format), &text.as_bytes()[..length]));
            let is_whole = parts(&shown) == parts(&complete);
            assert!(
                shown.starts_with("transient") || is_whole,
                "{format:?} {length}: {shown}"
            );
        }
    }
    check(Wire::Responses, "", CUT);
    check_chat(&[call_delta(0, "c", "read_file", "{\"pa")], CUT);
    check_chat(&[delta(json!({"content": "hi"}))], "transient, shown: ");
    check_chat(&[delta(json!({"refusal": "No"}))], "transient, shown: ");
}

#[test]
fn arguments_are_never_guessed() {
    let call = |arguments: &str, reason: &str| {
        chat_events(&[call_delta(0, "c", "f", arguments), finish(reason)])
    };
    let cases = [
        ("", "tool_calls", "call c f {}"),
        ("  ", "tool_calls", "call c f {}"),
        ("{\"a\":1}", "tool_calls", "call c f {\"a\":1}"),
        (
            "{\"a\":1",
            "tool_calls",
            "call c f malformed \"{\\\"a\\\":1\": the arguments are not JSON",
        ),
        ("{\"a\":1}}", "tool_calls", "malformed"),
        (
            "[1]",
            "tool_calls",
            "malformed \"[1]\": the arguments have to be one JSON object",
        ),
        ("null", "tool_calls", "malformed \"null\""),
        ("\"x\"", "tool_calls", "malformed"),
        ("{'a':1}", "tool_calls", "malformed"),
        ("{\"a\":1", "length", "inside this call"),
        ("", "length", "inside this call"),
        (
            "{\"a\":1}",
            "length",
            "MaxTokens \"m\" in ? out ? read ? write ?\ncall c f {\"a\":1}",
        ),
    ];
    for (arguments, reason, expected) in cases {
        check(Wire::Chat, &call(arguments, reason), expected);
    }
    let deep = "[".repeat(1000);
    check(
        Wire::Chat,
        &call(&format!("{{\"a\":{deep}"), "tool_calls"),
        "malformed",
    );
    check(
        Wire::Gemini,
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"f\",\"args\":[1]}}]},\
         \"finishReason\":\"STOP\"}]}\n\n",
        "malformed \"[1]\"",
    );
    check(
        Wire::Gemini,
        "data: {\"candidates\":[{\"finishReason\":\"MALFORMED_FUNCTION_CALL\",\
         \"finishMessage\":\"print(f(\"}]}\n\n",
        "call -  malformed \"print(f(\"",
    );
}

#[test]
fn ids_and_names_of_calls_may_be_missing_or_doubled() {
    let ends = finish("tool_calls");
    check_chat(&[call_delta(0, "", "f", "{}"), ends.clone()], "call - f {}");
    check_chat(&[call_delta(0, "c", "", "{}"), ends.clone()], "call c  {}");
    check_chat(
        &[
            call_delta(0, "c", "f", "{}"),
            call_delta(1, "c", "f", "{}"),
            call_delta(2, "c", "g", "{}"),
            ends.clone(),
        ],
        "call c f {}\ncall c-2 f {}\ncall c-3 g {}",
    );
    // A server that sends no number: an id or a name begins a new call.
    let bare = |id: Value, name: Value, arguments: &str| {
        delta(
            json!({"tool_calls": [{"id": id, "function": {"name": name, "arguments": arguments}}]}),
        )
    };
    check_chat(
        &[
            bare(json!("a"), json!("f"), "{\"x\""),
            bare(Value::Null, Value::Null, ":1}"),
            bare(json!("b"), json!("f"), "{}"),
            bare(Value::Null, json!("g"), "{}"),
            ends.clone(),
        ],
        "call a f {\"x\":1}\ncall b f {}\ncall - g {}",
    );
    // Some servers repeat id and name in every delta.
    check_chat(
        &[
            call_delta(0, "c", "f", "{\"x\""),
            call_delta(0, "c", "f", ":1}"),
            ends,
        ],
        "call c f {\"x\":1}\nshown",
    );
}

#[test]
fn empty_answers_are_empty() {
    check_chat(
        &[delta(json!({"content": ""})), finish("stop")],
        "EndTurn \"m\" in ? out ? read ? write ?\nshown \"\"",
    );
    check_chat(&[finish("tool_calls")], "EndTurn");
    check(
        Wire::Gemini,
        "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n",
        "EndTurn \"\" in ? out ? read ? write ?\nshown \"\"",
    );
}

#[test]
fn every_stop_is_one_of_ours() {
    let chat = [
        ("stop", "EndTurn"),
        ("length", "MaxTokens"),
        ("content_filter", "ContentFilter"),
        ("sensitive", "ContentFilter"),
        ("something_new", "EndTurn"),
        (
            "network_error",
            "transient, shown: the server ended the completion early (network_error)",
        ),
    ];
    for (reason, expected) in chat {
        check_chat(&[delta(json!({"content": "x"})), finish(reason)], expected);
    }
    check_chat(
        &[delta(json!({"refusal": "No."})), finish("stop")],
        "Refusal \"m\"",
    );
    check_chat(
        &[call_delta(0, "c", "f", "{}"), finish("stop")],
        "ToolUse \"m\"",
    );
    let anthropic = [
        ("end_turn", "EndTurn"),
        ("stop_sequence", "EndTurn"),
        ("pause_turn", "EndTurn"),
        ("max_tokens", "MaxTokens"),
        ("model_context_window_exceeded", "MaxTokens"),
        ("refusal", "Refusal"),
    ];
    for (reason, expected) in anthropic {
        let event = json!({"type": "message_delta", "delta": {"stop_reason": reason}});
        check(Wire::Anthropic, &format!("data: {event}\n\n"), expected);
    }
    let gemini = [
        ("STOP", "EndTurn"),
        ("MAX_TOKENS", "MaxTokens"),
        ("SAFETY", "ContentFilter"),
        ("PROHIBITED_CONTENT", "ContentFilter"),
    ];
    for (reason, expected) in gemini {
        let event = json!({"candidates": [{"finishReason": reason}]});
        check(Wire::Gemini, &format!("data: {event}\n\n"), expected);
    }
    let responses = [
        (
            json!({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}),
            "MaxTokens",
        ),
        (
            json!({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}),
            "ContentFilter",
        ),
        (json!({"status": "completed"}), "EndTurn"),
        (json!({"status": "cancelled"}), CUT),
    ];
    for (response, expected) in responses {
        let event = json!({"type": "response.completed", "response": response});
        check(Wire::Responses, &format!("data: {event}\n\n"), expected);
    }
}

#[test]
fn an_error_inside_a_good_answer_is_an_error() {
    let cases = [
        (
            Wire::Anthropic,
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
            "transient: the provider: Overloaded",
        ),
        (
            Wire::Anthropic,
            json!({"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down"}}),
            "rate_limited: ",
        ),
        (
            Wire::Anthropic,
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
            "context_overflow: ",
        ),
        (
            Wire::Anthropic,
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "bad"}}),
            "bad_request: ",
        ),
        (
            Wire::Chat,
            json!({"error": {"message": "The server had an error", "type": "server_error"}}),
            "transient: ",
        ),
        (
            Wire::Chat,
            json!({"error": {"code": 502, "message": "Upstream broke"}, "choices": []}),
            "transient: ",
        ),
        (
            Wire::Chat,
            json!({"error": {"code": 429, "message": "Slow"}}),
            "rate_limited: ",
        ),
        (
            Wire::Chat,
            json!({"error": "model runner has unexpectedly stopped"}),
            "transient: the provider: model runner",
        ),
        (
            Wire::Chat,
            json!({"object": "error", "message": "This model's maximum context length is 8192 tokens", "code": 400}),
            "context_overflow: ",
        ),
        (
            Wire::Responses,
            json!({"type": "error", "code": "rate_limit_exceeded", "message": "Rate limit reached"}),
            "rate_limited: ",
        ),
        (
            Wire::Responses,
            json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": "server_error", "message": "Sorry"}}}),
            "transient: ",
        ),
        (
            Wire::Responses,
            json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": "context_length_exceeded", "message": "Too long"}}}),
            "context_overflow: ",
        ),
        (
            Wire::Gemini,
            json!({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}),
            "transient: ",
        ),
        (
            Wire::Gemini,
            json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}),
            "content_filter: ",
        ),
    ];
    for (format, event, expected) in cases {
        check(format, &format!("data: {event}\n\n"), expected);
        // Some servers send a document although a stream was requested.
        let document = rendered(whole(&Dialect::new(format), event.to_string().as_bytes()));
        let is_event = event["type"] == "response.failed";
        assert!(
            is_event || document.starts_with(expected),
            "{event}\n{document}"
        );
        let sniffed = rendered(stream(&Dialect::new(format), event.to_string().as_bytes()));
        assert!(
            is_event || sniffed.starts_with(expected),
            "{event}\n{sniffed}"
        );
    }
    check(
        Wire::Chat,
        "error: {\"code\":500,\"message\":\"slot broke\"}\n\n",
        "transient: ",
    );
    check_chat(
        &[
            delta(json!({"content": "x"})),
            json!({"error": {"message": "broke"}}),
        ],
        "transient, shown: ",
    );
}

#[test]
fn a_body_that_is_no_reply_is_described_in_the_error() {
    let page = "<!DOCTYPE html>\n<html><body>502 Bad Gateway</body></html>\n";
    for format in [Wire::Anthropic, Wire::Chat, Wire::Responses, Wire::Gemini] {
        check(format, page, "transient: the server returned a web page");
        let answer = rendered(whole(&Dialect::new(format), page.as_bytes()));
        assert!(answer.contains("web page"), "{answer}");
        check(format, "data: hello\n\n", "not JSON");
        check(format, "hello\nworld\n", CUT);
        let answer = rendered(whole(&Dialect::new(format), b""));
        assert!(answer.contains("returned an empty response"), "{answer}");
        let answer = rendered(whole(&Dialect::new(format), b"{\"model\":\"m\",\"cho"));
        assert!(answer.contains(CUT), "{answer}");
    }
}

#[test]
fn a_document_instead_of_a_stream_is_read() {
    let document = include_str!("fixtures/openai_chat_whole.json");
    check(
        Wire::Chat,
        document,
        "call call_x grep {\"pattern\":\"main\"}",
    );
}

#[test]
fn bytes_that_are_not_text_are_an_error() {
    let chat = Dialect::new(Wire::Chat);
    let broken = b"data: {\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}\n\n";
    assert!(rendered(stream(&chat, broken)).contains("not UTF-8"));
}

#[test]
fn a_changed_model_is_reported() {
    check_chat(
        &[
            json!({"model": "other-model", "choices": []}),
            finish("stop"),
        ],
        "\"other-model\"",
    );
}

#[test]
fn an_exceeded_limit_is_named_in_the_error() {
    let chat = Dialect::new(Wire::Chat);
    let refused = |events: &mut dyn Iterator<Item = Value>, expected: &str| {
        let text: String = events.map(|event| format!("data: {event}\n\n")).collect();
        let shown = rendered(stream(&chat, text.as_bytes()));
        assert!(
            shown.starts_with("transient") && shown.contains(expected),
            "{shown}"
        );
    };
    let megabyte = "x".repeat(1 << 20);
    let megabytes = |count| std::iter::repeat_n(megabyte.as_str(), count);
    refused(
        &mut megabytes((bounds::ARGUMENT_BYTES >> 20) + 1)
            .map(|text| call_delta(0, "c", "f", text)),
        "a call's arguments exceeds the limit of 4 MiB",
    );
    refused(
        &mut megabytes((bounds::TEXT_BYTES >> 20) + 1).map(|text| delta(json!({"content": text}))),
        "the answer's text exceeds the limit of 16 MiB",
    );
    refused(
        &mut (0..=bounds::CALLS as u64)
            .map(|index| call_delta(index, &format!("c{index}"), "f", "{}")),
        "the limit of 256 calls",
    );
    refused(
        &mut std::iter::once(json!({"ignored": "x".repeat(bounds::LINE_BYTES)})),
        "a line exceeds the limit of 8 MiB",
    );
    refused(
        &mut megabytes(65).map(|text| json!({"ignored": text})),
        "the answer exceeds the limit of 64 MiB",
    );
}
