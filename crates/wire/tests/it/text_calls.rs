//! Tool calls that a model wrote as text, and answers that only look like them.

use proptest::prelude::*;
use serde_json::{Value, json};
use sortie_core::ports::tool::ToolSpec;
use sortie_wire::{TextCall, may_be_text_call, text_call};

fn tools() -> Vec<ToolSpec> {
    let tool = |name: &str, parameters: Value| ToolSpec {
        name: name.to_owned(),
        description: "Does it.".to_owned(),
        parameters,
    };
    vec![
        tool(
            "read_file",
            json!({
                "type": "object",
                "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
                "required": ["path"],
            }),
        ),
        tool("list_dir", json!({"type": "object", "properties": {}})),
    ]
}

fn read(text: &str) -> Option<TextCall> {
    text_call(text, &tools(), None)
}

/// Returns whether the text is a call that could run as it stands.
fn is_whole_call(text: &str) -> bool {
    read(text).is_some_and(|call| call.is_offered && call.fits && !call.has_lead)
}

/// Returns the known spellings of a call by models.
fn spellings(name: &str, arguments: &Value) -> Vec<String> {
    let object = json!({"name": name, "arguments": arguments});
    let text = arguments.to_string();
    let bare = [
        object.clone(),
        json!({"name": name, "parameters": arguments}),
        json!({"tool": name, "arguments": arguments}),
        json!({"tool": name, "tool_arguments": arguments, "thought": "I look."}),
        json!({"tool_name": name, "tool_input": arguments}),
        json!({"function": name, "args": arguments}),
        json!({"function": {"name": name, "arguments": arguments}}),
        json!({"type": "function", "name": name, "parameters": arguments}),
        json!({"type": "function", "function": {"name": name, "arguments": text}}),
        json!({"id": "call_1", "type": "function", "function": {"name": name, "arguments": text}}),
        json!({"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}),
        json!({"function_call": {"name": name, "arguments": text}}),
        json!({"action": name, "action_input": arguments}),
        json!({"name": format!("functions.{name}"), "arguments": arguments}),
        json!({name: arguments}),
        json!([object]),
        json!([object, object]),
    ];
    let mut all: Vec<String> = bare.iter().map(Value::to_string).collect();
    all.extend(bare.iter().map(|value| format!("{value:#}")));
    for word in ["", "json", "tool_code", "tool_call", "tool"] {
        all.push(format!("```{word}\n{object:#}\n```"));
    }
    all.extend([
        format!("<tool_call>\n{object}\n</tool_call>"),
        format!("<tool_call>{object}</tool_call>\n<tool_call>{object}</tool_call>"),
        format!("<tool_call>\n{object}"),
        format!("<function_call>{object}</function_call>"),
        format!("<tool_call>\n{object}\n</tool_call><|im_end|>"),
        format!("```xml\n<tool_call>\n{object}\n</tool_call>\n```"),
        format!("[TOOL_CALLS][{object}]"),
        format!("[TOOL_CALLS] [{object}]</s>"),
        format!("[TOOL_CALLS]{name}[ARGS]{arguments}"),
        format!("[TOOL_CALLS]{name}{arguments}"),
        format!("<|python_tag|>{object}"),
        format!("<|python_tag|>{object}; {object}<|eom_id|>"),
        format!("<function={name}>{arguments}</function>"),
        format!("<function={name}>{arguments}</function><|eom_id|>"),
        format!("{object}\n{object}"),
        format!("{object};{object}"),
    ]);
    all
}

#[test]
fn every_spelling_of_a_call_is_recognised() {
    for spelling in spellings("read_file", &json!({"path": "src/a.rs"})) {
        assert!(
            is_whole_call(&spelling),
            "{spelling}: {:?}",
            read(&spelling)
        );
        assert!(may_be_text_call(&spelling), "{spelling}");
        let thoughts = "I have to read the file. ".repeat(40);
        let thought = format!("<think>\n{thoughts}\n</think>\n\n{spelling}");
        assert!(is_whole_call(&thought), "{thought}");
        let led = format!("I will read the file.\n\n{spelling}");
        let call = read(&led).unwrap_or_else(|| panic!("{led}"));
        assert!(call.is_offered && call.has_lead, "{led}: {call:?}");
    }
}

#[test]
fn a_call_without_a_name_or_arguments_of_ours_is_recognised_only_alone() {
    for spelling in spellings("fly_to_moon", &json!({"speed": 1})) {
        // `{"fly_to_moon": {…}}` and `fly_to_moon(…)` are ambiguous.
        let is_data = spelling.replace(char::is_whitespace, "") == r#"{"fly_to_moon":{"speed":1}}"#;
        let call = read(&spelling);
        assert_eq!(call.is_none(), is_data, "{spelling}: {call:?}");
        assert!(!call.is_some_and(|call| call.is_offered), "{spelling}");
        assert_eq!(
            read(&format!("For example:\n\n{spelling}")),
            None,
            "{spelling}"
        );
    }
    let wrong = r#"{"name": "read_file", "arguments": {"file": "a"}}"#;
    let call = read(wrong).expect("a call");
    assert!(call.is_offered && !call.fits, "{call:?}");
}

#[test]
fn calls_that_are_no_json_are_recognised() {
    for text in [
        "{'name': 'read_file', 'arguments': {'path': 'a'}}",
        "```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}\n```",
        "{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\nb\"}}",
        "```tool_code\nprint(default_api.read_file(path=\"a\"))\n```",
        "```tool_code\nread_file(path='a')\n```",
        "[read_file(path=\"a\")]",
        "<|tool_call_start|>[read_file(path=\"a\")]<|tool_call_end|>",
        "<function=read_file>\n<parameter=path>\na\n</parameter>\n</function>",
        "<tool_call>\n<function=read_file>\n<parameter=path>a</parameter>\n</function>\n</tool_call>",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0\
         <|tool_call_argument_begin|>{\"path\": \"a\"}<|tool_call_end|><|tool_calls_section_end|>",
    ] {
        assert!(read(text).is_some(), "{text}");
    }
}

#[test]
fn short_calls_are_recognised() {
    assert!(is_whole_call(r#"{"tool": "read_file", "path": "a"}"#));
    assert!(is_whole_call(r#"{"tool": "list_dir"}"#));
    assert!(is_whole_call(r#"{"name": "list_dir", "arguments": "{}"}"#));
}

#[test]
fn answers_stay_answers() {
    let call = r#"{"name": "read_file", "arguments": {"path": "a"}}"#;
    let long = "It reads the file. ".repeat(40);
    for answer in [
        String::new(),
        "The port is 8137.".to_owned(),
        "{}".to_owned(),
        "[]".to_owned(),
        "[1, 2, 3]".to_owned(),
        "[the manual](https://example.com)".to_owned(),
        "<p>Hello</p>".to_owned(),
        "<tool_call> is the tag that Qwen writes around a call.".to_owned(),
        "Qwen writes `<tool_call>{…}</tool_call>` around a call".to_owned(),
        r#"{"name": "demo", "version": "1.0.0"}"#.to_owned(),
        r#"{"name": "Ann", "age": 7}"#.to_owned(),
        r#"{"port": 8137}"#.to_owned(),
        r#"{"command": "npx", "args": ["-y", "server"]}"#.to_owned(),
        r#"{"name": "get_weather", "description": "Weather.", "parameters": {"type": "object"}}"#
            .to_owned(),
        "```json\n{\"port\": 8137}\n```".to_owned(),
        "```rust\nfn main() {}\n```".to_owned(),
        format!("{call}\nThat is how a call looks."),
        format!("The model wrote this:\n```json\n{call}\n```\nNothing ran."),
        format!("First:\n```json\n{call}\n```\nThen:\n```json\n{call}\n```"),
        format!("{long}\n```json\n{call}\n```"),
        format!("{long}\n{call}"),
        format!("The line {call}"),
    ] {
        assert_eq!(read(&answer), None, "{answer}");
    }
}

#[test]
fn a_result_that_fits_its_schema_is_no_call() {
    let schema = json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
        "required": ["name", "arguments"],
    });
    let text = r#"{"name": "read_file", "arguments": {"path": "a"}}"#;
    assert_eq!(text_call(text, &tools(), Some(&schema)), None);
    let other = json!({"type": "object", "properties": {"port": {}}, "required": ["port"]});
    assert!(text_call(text, &tools(), Some(&other)).is_some());
}

#[test]
fn text_is_held_back_only_while_it_may_be_a_call() {
    for beginning in ["", " ", "`", "``", "```", "{", "[", "<", "\n```json\n{\"a"] {
        assert!(may_be_text_call(beginning), "{beginning:?}");
    }
    for beginning in ["T", "The", "`a", "``a", "- {", "1"] {
        assert!(!may_be_text_call(beginning), "{beginning:?}");
    }
}

/// Generates text as it occurs in files, including quotes, fences, tags and line ends.
fn content() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[ -~]{0,12}",
        Just("\n".to_owned()),
        Just("```".to_owned()),
        Just("\n```json\n".to_owned()),
        Just("</tool_call>".to_owned()),
        Just("<tool_call>".to_owned()),
        Just("</function>".to_owned()),
        Just("{\"name\": \"x\"}".to_owned()),
        Just("é漢\u{2028}".to_owned()),
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn calls_with_any_arguments_are_recognised(path in content(), limit in any::<u32>(), at in any::<prop::sample::Index>()) {
        let all = spellings("read_file", &json!({"path": path, "limit": limit}));
        let spelling = at.get(&all);
        prop_assert!(read(spelling).is_some_and(|call| call.is_offered), "{spelling}");
        prop_assert!(may_be_text_call(spelling));
    }

    #[test]
    fn calls_quoted_within_an_answer_are_none(before in "[A-Z][a-z ]{1,40}", after in "[A-Z][a-z ]{1,40}\\.", at in any::<prop::sample::Index>()) {
        let all = spellings("read_file", &json!({"path": "a"}));
        let quoted = format!("{before}:\n\n{}\n\n{after}", at.get(&all));
        prop_assert_eq!(read(&quoted), None, "{}", quoted);
    }

    #[test]
    fn prose_is_no_call_and_no_text_fails(text in "[A-Za-z][A-Za-z0-9 ,.\n]{0,200}", any in content()) {
        prop_assert_eq!(read(&text), None);
        read(&any);
        read(&format!("<tool_call>{any}"));
        read(&format!("<function={any}"));
        read(&format!("```json\n{any}\n```"));
    }
}
