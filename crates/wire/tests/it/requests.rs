//! Encoded requests: whole bodies, one snapshot for each format.

use std::sync::Arc;

use insta::assert_snapshot;
use serde_json::{Value, json};
use sortie_core::id::CallId;
use sortie_core::message::{Arguments, Block, Message, ResultStatus, ToolCall};
use sortie_core::ports::model::{ModelRequest, Wire};
use sortie_wire::{Dialect, Mode, encode};

use crate::support::{
    assistant, body, body_json, call, dialect, pretty, request, result, text, tools, user,
    with_picture,
};

/// Returns a conversation that covers all cases: reasoning of this and of another vendor, parallel
/// calls, one without an id, one that failed, arguments that were not JSON, a notice.
fn conversation(native: Value) -> ModelRequest {
    let reasoning = |text: &str, native: Value| Block::Reasoning {
        text: text.to_owned(),
        native: Some(native),
    };
    let malformed = Block::Call(ToolCall {
        id: CallId::new(2, 0),
        provider_id: Some("call_3".to_owned()),
        name: "no such tool!".to_owned(),
        arguments: Arguments::Malformed {
            raw: "{\"path\": ".to_owned(),
            error: "not JSON".to_owned(),
        },
    });
    let mut failed = result("1-1", None, "No such folder.");
    failed.status = ResultStatus::Error;
    request(vec![
        user("Look around."),
        assistant(vec![
            reasoning("Two at once.", native),
            reasoning("Foreign.", json!({"wire": "elsewhere", "signature": "x"})),
            text("I look."),
            call("1-0", Some("call_1"), "read_file", json!({"path": "a.rs"})),
            call("1-1", None, "list_files", json!({})),
        ]),
        tools(vec![result("1-0", Some("call_1"), "fn main() {}"), failed]),
        assistant(vec![malformed]),
        tools(vec![result("2-0", Some("call_3"), "")]),
        Message::Notice {
            text: "One turn is left.".to_owned(),
        },
    ])
}

#[test]
fn anthropic() {
    let native = json!({"wire": "anthropic", "signature": "c2ln"});
    let body = body(&Dialect::new(Wire::Anthropic), &conversation(native));
    assert_snapshot!(pretty(&body));
}

#[test]
fn chat() {
    let native = json!({"wire": "chat", "field": "reasoning_content"});
    let body = body(&Dialect::new(Wire::Chat), &conversation(native));
    assert_snapshot!(pretty(&body));
}

#[test]
fn responses() {
    let item =
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"});
    let dialect = dialect(json!({"format": "responses", "thinking": "openai_effort"}));
    let native = json!({"wire": "responses", "item": item});
    assert_snapshot!(pretty(&body(&dialect, &conversation(native))));
}

#[test]
fn gemini() {
    let native = json!({"wire": "gemini", "signature": "c2ln"});
    let body = body(&Dialect::new(Wire::Gemini), &conversation(native));
    assert_snapshot!(pretty(&body));
}

fn check_path(dialect: Value, mode: Mode, expected: &str) {
    let encoded = encode(
        &crate::support::dialect(dialect),
        "gpt-5 mini",
        &request(vec![user("hi")]),
        mode,
    );
    assert_eq!(encoded.unwrap().path, expected);
}

#[test]
fn paths() {
    check_path(
        json!({"format": "anthropic"}),
        Mode::Streaming,
        "/v1/messages",
    );
    check_path(json!({"format": "chat"}), Mode::Whole, "/chat/completions");
    check_path(json!({"wire": "responses"}), Mode::Streaming, "/responses");
    check_path(
        json!({"format": "gemini"}),
        Mode::Streaming,
        "/models/gpt-5%20mini:streamGenerateContent?alt=sse",
    );
    check_path(
        json!({"format": "gemini"}),
        Mode::Whole,
        "/models/gpt-5%20mini:generateContent",
    );
    check_path(
        json!({"path": "/openai/deployments/{model}/chat/completions?api-version=2025-04-01"}),
        Mode::Streaming,
        "/openai/deployments/gpt-5%20mini/chat/completions?api-version=2025-04-01",
    );
}

/// Checks one field of a body by its JSON pointer.
fn check(quirks: Value, change: impl Fn(&mut ModelRequest), expected: &[(&str, Value)]) {
    let mut request = request(vec![user("hi")]);
    change(&mut request);
    let body = body_json(&dialect(quirks.clone()), &request);
    for (pointer, expected) in expected {
        let found = body.pointer(pointer).cloned().unwrap_or(json!("absent"));
        assert_eq!(found, *expected, "{quirks} {pointer}\n{body:#}");
    }
}

fn absent() -> Value {
    json!("absent")
}

#[test]
fn thinking_levels_are_data() {
    let level = |word: &str| {
        let word = word.to_owned();
        move |request: &mut ModelRequest| request.options.thinking = Some(word.clone())
    };
    let cases = [
        (
            "anthropic",
            "anthropic_adaptive",
            "high",
            "/thinking",
            json!({"type": "adaptive"}),
        ),
        (
            "anthropic",
            "anthropic_adaptive",
            "max",
            "/output_config",
            json!({"effort": "max"}),
        ),
        (
            "anthropic",
            "anthropic_adaptive",
            "off",
            "/thinking",
            absent(),
        ),
        (
            "anthropic",
            "anthropic_adaptive",
            "off",
            "/output_config",
            json!({"effort": "low"}),
        ),
        (
            "anthropic",
            "anthropic_adaptive",
            "default",
            "/thinking",
            absent(),
        ),
        (
            "anthropic",
            "anthropic_budget",
            "low",
            "/thinking",
            json!({"type": "enabled", "budget_tokens": 4096}),
        ),
        (
            "anthropic",
            "anthropic_budget",
            "low",
            "/max_tokens",
            json!(32_000),
        ),
        (
            "anthropic",
            "anthropic_budget",
            "high",
            "/max_tokens",
            json!(36_864),
        ),
        (
            "anthropic",
            "anthropic_budget",
            "12000",
            "/thinking/budget_tokens",
            json!(12_000),
        ),
        ("anthropic", "none", "high", "/thinking", absent()),
        (
            "chat",
            "openai_effort",
            "low",
            "/reasoning_effort",
            json!("low"),
        ),
        (
            "chat",
            "openai_effort",
            "off",
            "/reasoning_effort",
            json!("none"),
        ),
        (
            "chat",
            "openai_effort",
            "default",
            "/reasoning_effort",
            absent(),
        ),
        (
            "chat",
            "ollama_think",
            "none",
            "/reasoning_effort",
            json!("none"),
        ),
        (
            "chat",
            "toggle",
            "high",
            "/thinking",
            json!({"type": "enabled"}),
        ),
        (
            "chat",
            "toggle",
            "off",
            "/thinking",
            json!({"type": "disabled"}),
        ),
        (
            "chat",
            "qwen_toggle",
            "off",
            "/enable_thinking",
            json!(false),
        ),
        (
            "chat",
            "openrouter_reasoning",
            "high",
            "/reasoning",
            json!({"effort": "high"}),
        ),
        (
            "chat",
            "openrouter_reasoning",
            "off",
            "/reasoning",
            json!({"enabled": false}),
        ),
        (
            "chat",
            "gemini_level",
            "high",
            "/reasoning_effort",
            absent(),
        ),
        (
            "responses",
            "openai_effort",
            "xhigh",
            "/reasoning",
            json!({"effort": "xhigh", "summary": "auto"}),
        ),
        (
            "responses",
            "openai_effort",
            "high",
            "/include",
            json!(["reasoning.encrypted_content"]),
        ),
        ("responses", "none", "high", "/include", absent()),
        ("responses", "none", "high", "/store", json!(false)),
        (
            "gemini",
            "gemini_level",
            "low",
            "/generationConfig/thinkingConfig",
            json!({"thinkingLevel": "low"}),
        ),
        (
            "gemini",
            "gemini_level",
            "off",
            "/generationConfig/thinkingConfig",
            absent(),
        ),
        (
            "gemini",
            "gemini_budget",
            "high",
            "/generationConfig/thinkingConfig",
            json!({"thinkingBudget": 24_576}),
        ),
        (
            "gemini",
            "gemini_budget",
            "off",
            "/generationConfig/thinkingConfig",
            json!({"thinkingBudget": 0}),
        ),
    ];
    for (format, thinking, word, pointer, expected) in cases {
        check(
            json!({"format": format, "thinking": thinking}),
            level(word),
            &[(pointer, expected)],
        );
    }
    let unknown = dialect(json!({"format": "anthropic", "thinking": "anthropic_budget"}));
    let mut request = request(vec![user("hi")]);
    request.options.thinking = Some("hard".to_owned());
    let error = encode(&unknown, "m", &request, Mode::Whole).unwrap_err();
    assert!(error.message.contains("thinking level \"hard\""), "{error}");
}

#[test]
fn thinking_and_temperature_exclude_each_other_at_anthropic() {
    let hot = |request: &mut ModelRequest| {
        request.options.sampling.temperature = Some(0.5);
        request.options.thinking = Some("high".to_owned());
    };
    let adaptive = json!({"format": "anthropic", "thinking": "anthropic_adaptive"});
    check(adaptive, hot, &[("/temperature", absent())]);
    check(
        json!({"format": "anthropic"}),
        hot,
        &[("/temperature", json!(0.5))],
    );
    check(
        json!({"format": "chat", "temperature": false}),
        hot,
        &[("/temperature", absent())],
    );
}

#[test]
fn thinking_with_a_budget_needs_its_own_thoughts_before_results() {
    let budget = dialect(json!({"format": "anthropic", "thinking": "anthropic_budget"}));
    let thinks = |native: Value| {
        let mut request = conversation(native);
        request.messages.truncate(3);
        request.options.thinking = Some("low".to_owned());
        !body_json(&budget, &request)["thinking"].is_null()
    };
    assert!(thinks(json!({"wire": "anthropic", "signature": "c2ln"})));
    assert!(!thinks(json!({"wire": "elsewhere"})));
}

#[test]
fn limits_and_temperature() {
    let limited = |request: &mut ModelRequest| {
        request.options.sampling.max_tokens = Some(100);
        request.options.sampling.temperature = Some(0.2);
    };
    let unlimited = |_: &mut ModelRequest| {};
    for (format, limit, heat) in [
        ("anthropic", "/max_tokens", "/temperature"),
        ("chat", "/max_tokens", "/temperature"),
        ("responses", "/max_output_tokens", "/temperature"),
        (
            "gemini",
            "/generationConfig/maxOutputTokens",
            "/generationConfig/temperature",
        ),
    ] {
        let quirks = json!({"format": format, "output_limit": 64, "default_max_tokens": 7});
        check(
            json!({"format": format}),
            limited,
            &[(limit, json!(100)), (heat, json!(0.2))],
        );
        check(quirks.clone(), limited, &[(limit, json!(64))]);
        check(quirks, unlimited, &[(limit, json!(7))]);
        let unset = if format == "anthropic" {
            json!(32_000)
        } else {
            absent()
        };
        check(json!({"format": format}), unlimited, &[(limit, unset)]);
    }
    let small = json!({"format": "anthropic", "output_limit": 4096});
    check(small, unlimited, &[("/max_tokens", json!(4096))]);
    let field = json!({"format": "chat", "max_tokens_field": "max_completion_tokens"});
    check(
        field,
        limited,
        &[
            ("/max_completion_tokens", json!(100)),
            ("/max_tokens", absent()),
        ],
    );
}

#[test]
fn schemas() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let bound = |request: &mut ModelRequest| {
        request.options.schema = Some(Arc::new(schema.clone()));
    };
    let named = json!({"name": "result", "strict": false, "schema": schema});
    let cases = [
        (
            "anthropic",
            "/output_config/format",
            json!({"type": "json_schema", "schema": schema}),
        ),
        (
            "chat",
            "/response_format",
            json!({"type": "json_schema", "json_schema": named}),
        ),
        ("responses", "/text/format/schema", schema.clone()),
        (
            "gemini",
            "/generationConfig/responseJsonSchema",
            schema.clone(),
        ),
    ];
    for (format, pointer, expected) in cases {
        check(json!({"format": format}), bound, &[(pointer, expected)]);
        check(
            json!({"format": format, "schema": "none"}),
            bound,
            &[(pointer, absent())],
        );
        let alone = json!({"format": format, "schema_with_tools": false});
        check(alone, bound, &[(pointer, absent())]);
    }
    let object = json!({"format": "chat", "schema": "object"});
    check(
        object,
        bound,
        &[("/response_format", json!({"type": "json_object"}))],
    );
    let strict = json!({"format": "chat", "strict_schema": true});
    check(
        strict,
        bound,
        &[("/response_format/json_schema/strict", json!(true))],
    );
    let alone = |request: &mut ModelRequest| {
        bound(request);
        request.tools = Arc::new([]);
    };
    let quirks = json!({"format": "chat", "schema_with_tools": false});
    check(
        quirks,
        alone,
        &[
            ("/response_format/type", json!("json_schema")),
            ("/tools", absent()),
        ],
    );
}

#[test]
fn pictures_go_where_the_format_has_them() {
    let url = "data:image/png;base64,cG5n";
    let show = |request: &mut ModelRequest| *request = with_picture();
    let source = json!({"type": "base64", "media_type": "image/png", "data": "cG5n"});
    let inline = json!({"inlineData": {"mimeType": "image/png", "data": "cG5n"}});
    check(
        json!({"format": "anthropic"}),
        show,
        &[("/messages/2/content/0/content/1/source", source)],
    );
    check(
        json!({"format": "responses"}),
        show,
        &[(
            "/input/2/output/1",
            json!({"type": "input_image", "image_url": url}),
        )],
    );
    check(
        json!({"format": "gemini"}),
        show,
        &[("/contents/3/parts/1", inline.clone())],
    );
    check(
        json!({"format": "gemini", "images_in_results": true}),
        show,
        &[
            ("/contents/2/parts/0/functionResponse/parts/0", inline),
            ("/contents/3", absent()),
        ],
    );
    check(
        json!({"format": "chat", "images": true}),
        show,
        &[
            ("/messages/3/content", json!("a picture")),
            (
                "/messages/4/content/1",
                json!({"type": "image_url", "image_url": {"url": url}}),
            ),
        ],
    );
    let left_out = "a picture\n[1 image(s) left out: this model does not accept images]";
    check(
        json!({"format": "chat"}),
        show,
        &[
            ("/messages/3/content", json!(left_out)),
            ("/messages/4", absent()),
        ],
    );
    check(
        json!({"format": "responses", "images": false}),
        show,
        &[("/input/2/output", json!(left_out))],
    );
    // The blob is missing.
    let lost = |request: &mut ModelRequest| {
        *request = with_picture();
        request.images = Arc::default();
    };
    check(
        json!({"format": "responses"}),
        lost,
        &[("/input/2/output", json!(left_out))],
    );
}
