use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Writes `yaml@line | body`, or the error.
fn render(text: &str) -> String {
    match split(text) {
        Ok(Document {
            yaml: Some(yaml),
            yaml_line,
            body,
        }) => format!("{yaml:?}@{yaml_line} | {body:?}"),
        Ok(document) => format!("{:?}", document.body),
        Err(error) => error.to_string(),
    }
}

#[test]
fn fences() {
    for (text, expected) in [
        ("---\na: 1\n---\nbody\n", r#""a: 1\n"@2 | "body\n""#),
        ("\u{feff}---\na: 1\n---\nbody", r#""a: 1\n"@2 | "body""#),
        (
            "---\r\na: 1\r\n---\r\nbody\r\n",
            r#""a: 1\r\n"@2 | "body\r\n""#,
        ),
        ("---  \na: 1\n--- \t\nbody", r#""a: 1\n"@2 | "body""#),
        ("\n\n---\na: 1\n---\nbody", r#""a: 1\n"@4 | "body""#),
        ("---\na: 1\n...\nbody", r#""a: 1\n"@2 | "body""#),
        ("---\n---\nbody", r#"""@2 | "body""#),
        ("---\na: 1\n---", r#""a: 1\n"@2 | """#),
        (
            "---\na: |\n  ---\n  x\n---\n---\n",
            r#""a: |\n  ---\n  x\n"@2 | "---\n""#,
        ),
        ("----\na: 1\n----\n", r#""----\na: 1\n----\n""#),
        (" ---\na: 1\n---\n", r#"" ---\na: 1\n---\n""#),
        ("# Title\n---\n", r##""# Title\n---\n""##),
        ("", r#""""#),
        (
            "\n---\na: 1\n",
            "the front matter that begins on line 2 is never closed; end it with a line `---`",
        ),
        (
            "---",
            "the front matter that begins on line 1 is never closed; end it with a line `---`",
        ),
    ] {
        assert_eq!(render(text), expected, "{text:?}");
    }
}

#[test]
fn values_keep_their_types_and_words_stay_words() {
    let parsed = parse("a: 1\nb: on\nc: [x, 2.5]\nd: {e: null}\nf: true\n", 2).unwrap();
    let keys: Vec<Value> = parsed.keys.into_values().collect();
    assert_eq!(
        Value::Array(keys),
        json!([1, "on", ["x", 2.5], {"e": null}, true])
    );
    assert_eq!(parsed.lines["d"], 5);
    assert!(parse("", 2).unwrap().keys.is_empty());
    assert!(parse("# only a comment\n", 2).unwrap().keys.is_empty());
}

#[test]
fn a_colon_in_a_description_is_repaired_and_reported() {
    let yaml = "name: x\ndescription: Use it when: the user's text #1 says so\ntools: Read\n";
    let parsed = parse(yaml, 2).unwrap();
    assert_eq!(parsed.mended, Some(3));
    assert_eq!(
        parsed.keys["description"],
        "Use it when: the user's text #1 says so"
    );
    assert_eq!(parsed.keys["tools"], "Read");
    // A comment after another key remains a comment.
    let yaml = "description: a: b\npermissionMode: plan # note: careful\n";
    assert_eq!(parse(yaml, 2).unwrap().keys["permissionMode"], "plan");
}

#[test]
fn errors_name_the_line_of_the_file() {
    for (yaml, line, expected) in [
        ("name: x\ntools: [a, b\n", 3, ""),
        ("name: x\nname: y\n", 3, "duplicate"),
        ("- a\n- b\n", 2, ""),
        ("just words\n", 2, ""),
        ("a: *nobody\n", 2, ""),
        ("a: 'open\n", 2, ""),
    ] {
        let error = parse(yaml, 2).unwrap_err();
        assert!(
            error.line() >= 2 && error.line() <= line + 1,
            "{yaml:?}: {error:?}"
        );
        let message = error.to_string().to_lowercase();
        assert!(message.contains(expected), "{yaml:?}: {message}");
        assert!(message.chars().count() < 300, "{message}");
    }
}

#[test]
fn bombs_are_refused() {
    let laughs: String = (1..30).fold("a0: &a0 [x, x, x, x]\n".to_owned(), |text, level| {
        let inner = format!("*a{}", level - 1);
        text + &format!("a{level}: &a{level} [{inner}, {inner}, {inner}, {inner}]\n")
    });
    let deep = format!("a: {}{}", "[".repeat(200), "]".repeat(200));
    let wide = format!("a: [{}]", "x,".repeat(20_000));
    let long = format!("a: {}", "x".repeat(MAX_FRONT_MATTER_BYTES));
    for (name, yaml) in [
        ("laughs", laughs),
        ("deep", deep),
        ("wide", wide),
        ("long", long),
    ] {
        assert!(parse(&yaml, 2).is_err(), "{name}");
    }
    // A positive control: an alias by itself is fine.
    let parsed = parse("a: &a [x]\nb: *a\n", 2).unwrap();
    assert_eq!(parsed.keys["b"], json!(["x"]));
}

proptest! {
    #[test]
    fn nothing_panics_and_nothing_is_lost(text in "(-{2,4}|\\.{3}|[a-z: #'\"\\[\\]{}|>&*!\u{feff}é\t]|\r?\n){0,60}") {
        match split(&text) {
            Ok(document) => {
                prop_assert!(text.ends_with(document.body));
                if let Some(yaml) = document.yaml {
                    prop_assert!(text.contains(yaml));
                    prop_assert!(parse(yaml, document.yaml_line).is_ok() || !yaml.is_empty());
                }
            }
            Err(error) => prop_assert!(error.line() >= 1),
        }
    }

    #[test]
    fn any_yaml_is_read_or_refused(yaml in "\\PC{0,200}") {
        if let Err(error) = parse(&yaml, 7) {
            prop_assert!(error.line() >= 7);
        }
    }

    #[test]
    fn the_text_between_fences_is_returned(yaml in "([a-z]{1,5}: [a-z]{0,5}\n){0,5}", body in "\\PC{0,50}") {
        let text = format!("---\n{yaml}---\n{body}");
        let document = split(&text).unwrap();
        prop_assert_eq!(document.yaml, Some(yaml.as_str()));
        prop_assert_eq!(document.body, body.as_str());
    }
}
