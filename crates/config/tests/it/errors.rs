//! Tests that an invalid value is rejected with its file, its key, the value and the expected type.

use std::fs;

use insta::assert_snapshot;
use sortie_config::{ConfigError, MAX_FILE_BYTES, MAX_PROBLEMS};

use crate::support::Case;

fn check(text: &str, expected: &str) {
    let report = Case::new().user(text).report();
    assert_eq!(report, format!("error: user.toml:{expected}"), "{text}");
}

#[test]
fn types() {
    check(
        "model = 3",
        "1: model: expected text in quotation marks, found 3",
    );
    check(
        "\n\nlang = true",
        "3: lang: expected text in quotation marks, found true",
    );
    check("subagents = 3", "1: subagents: expected a table, found 3");
    check(
        "[[providers]]",
        "1: providers: expected a table, found a list",
    );
    check(
        "agents.x = 'y'",
        "1: agents.x: expected a table, found text",
    );
    check(
        "fallbacks = 'a/b'",
        "1: fallbacks: expected a list of texts, found text",
    );
    check(
        "fallbacks = ['a/b', 3]",
        "1: fallbacks: expected a list of texts, found 3",
    );
    check(
        "temperature = 'hot'",
        "1: temperature: expected a number, found text",
    );
    check(
        "temperature = {}",
        "1: temperature: expected a number, found a table",
    );
    check(
        "max_tokens = 1.5",
        "1: max_tokens: expected a whole number, found 1.5",
    );
    check(
        "max_tokens = 1979-05-27",
        "1: max_tokens: expected a whole number, found a date or time",
    );
    check(
        "[subagents]\n\nmaxConcurrent = '5'",
        "3: subagents.max_concurrent: expected a whole number, found text",
    );
    check(
        "[subagents]\nenabled = 1",
        "2: subagents.enabled: expected true or false, found 1",
    );
}

#[test]
fn ranges() {
    check(
        "temperature = 2.1",
        "1: temperature: expected 0 to 2, found 2.1",
    );
    check(
        "temperature = -1",
        "1: temperature: expected 0 to 2, found -1",
    );
    check(
        "temperature = nan",
        "1: temperature: expected 0 to 2, found nan",
    );
    check(
        "temperature = inf",
        "1: temperature: expected 0 to 2, found inf",
    );
    check(
        "max_tokens = 0",
        "1: max_tokens: expected 1 to 10000000, found 0",
    );
    check(
        "subagents = { max_concurrent = 0 }",
        "1: subagents.max_concurrent: expected 1 to 10000, found 0",
    );
    check(
        "subagents.max_depth = 9223372036854775807",
        "1: subagents.max_depth: expected 0 to 32, found 9223372036854775807",
    );
    check(
        "models.'a/b'.price.input = -0.5",
        "1: models.\"a/b\".price.input: expected 0 to 1000000, found -0.5",
    );
}

#[test]
fn words_and_texts() {
    check(
        "lang = 'english'",
        "1: lang: expected en, zh, found \"english\"",
    );
    check(
        "[subagents]\ndefault_cleanup = 'remove'",
        "2: subagents.default_cleanup: expected keep, delete, found \"remove\"",
    );
    check(
        "model = ' '",
        "1: model: is empty; remove the key to leave it unset",
    );
    check(
        "thinking = \"a\\nb\"",
        "1: thinking: contains a non-printable character, such as a line break",
    );
    check(
        "agents.\"\".model = 'inherit'",
        "1: agents.\"\": is empty; remove the key to leave it unset",
    );
}

#[test]
fn addresses_and_variables() {
    check(
        "providers.x.base_url = 'ftp://x'",
        "1: providers.x.base_url: expected an address that begins with https:// or http://",
    );
    check(
        "providers.x.baseUrl = 'https://me:sk-secret@x'",
        "1: providers.x.base_url: the address must not contain a user or a password; use api_key or headers",
    );
    check(
        "providers.x.api_key_env = 'sk-secret'",
        "1: providers.x.api_key_env: expected the name of an environment variable \
         (A-Z, 0-9 and _), not the key itself",
    );
}

#[test]
fn all_problems_are_reported_at_once_with_their_layers() {
    let case = Case::new()
        .user("temperature = 3\nmodel = 1")
        .project("[main]\n# why\nmax_iterations = 0")
        .variable("SORTIE__MAX_TOKENS", "many")
        .assign("subagents.enabled=maybe");
    assert_snapshot!(case.report(), @r#"
    error: user.toml:2: model: expected text in quotation marks, found 1
    user.toml:1: temperature: expected 0 to 2, found 3
    sortie.toml:3: main.max_iterations: expected 1 to 10000, found 0
    environment variable SORTIE__MAX_TOKENS: max_tokens: expected a whole number, found text
    flag -c: subagents.enabled: expected true or false, found text
    "#);
}

#[test]
fn problems_are_bounded() {
    let keys: String = (0..500).map(|n| format!("agents.a{n} = 1\n")).collect();
    let error = Case::new().user(keys).load().unwrap_err();
    let ConfigError::Invalid { problems, more } = error else {
        panic!("{error}");
    };
    assert_eq!((problems.len(), more), (MAX_PROBLEMS, 500 - MAX_PROBLEMS));
}

#[test]
fn syntax_errors_are_reported_with_line_and_column() {
    for (text, place) in [
        ("model = ", "1:9: "),
        ("lang = 'zh'\n[subagents\n", "2:11: "),
        ("\u{feff}# 中文\r\nmodel == 'x'", "2:8: "),
        ("a = 1\na = 2", "2:1: "),
        ("'中文' = [1,\n", "1:11: "),
    ] {
        let report = Case::new().project(text).report();
        let expected = format!("error: sortie.toml:{place}");
        assert!(report.starts_with(&expected), "{text:?}: {report}");
    }
}

#[test]
fn unreadable_files_are_rejected() {
    let report = Case::new().user(b"\xff\xfe").report();
    assert_eq!(report, "error: user.toml is not UTF-8 text");
    let large = vec![b' '; usize::try_from(MAX_FILE_BYTES).unwrap() + 1];
    let report = Case::new().user(large).report();
    assert_eq!(report, "error: user.toml is larger than 1048576 bytes");
    let mut case = Case::new();
    fs::create_dir(case.path("folder")).unwrap();
    case.sources.user_file = Some(case.path("folder"));
    assert_eq!(case.report(), "error: folder is not a regular file");
}

#[test]
fn deep_nesting_does_not_end_the_process() {
    for text in [
        format!("a = {}", "[".repeat(200_000)),
        format!("{} = 1", vec!["a"; 200_000].join(".")),
        format!("[{}]", vec!["a"; 200_000].join(".")),
        format!("a = {}", "{a=".repeat(200_000)),
    ] {
        assert!(Case::new().project(text).load().is_err());
    }
}
