//! Tests: no file tool uses a file that policy denies, whatever path leads to it.

use std::path::Path;

use serde_json::{Value, json};
use sortie_core::ports::tool::Tool;

use crate::testing::{Delegation, Folder, Rules, answer_with, preview};
use crate::{EditFile, Glob, Grep, ListDir, ReadFile, WriteFile};

fn folder() -> Folder {
    let folder = Folder::with(&[
        ("open/f", "text\n"),
        ("open/own.env", "text\n"),
        ("secret/key", "text\n"),
        ("secret/deep/key", "text\n"),
        ("top.txt", "text\n"),
    ]);
    folder.link("open/way", Path::new("../secret"));
    folder.link("open/key", Path::new("../secret/key"));
    folder
}

async fn check(tool: &dyn Tool, arguments: Value, expected: &str) {
    let folder = folder();
    let rules = Delegation {
        permits: Rules::deny(&["secret", "open/own.env", "later"]),
        ..Delegation::default()
    };
    let reply = answer_with(tool, &folder, arguments.clone(), &rules).await;
    let text = reply.map_or_else(|failure| format!("! {failure}"), |answer| answer.text);
    assert_eq!(text, expected, "{arguments}");
    assert_eq!(folder.read("secret/key"), "text\n");
    assert!(!folder.path().join("later").exists());
}

fn refused(path: &str, rule: &str) -> String {
    format!(
        "! {path} may not be used: rule `{rule}` denies it. Work with another file, or report it."
    )
}

#[tokio::test]
async fn read_tools_respect_policy() {
    let tool = ReadFile::default();
    check(&tool, json!({"path": "open/f"}), "1\ttext\n").await;
    for path in [
        "secret/key",
        "open/way/key",
        "open/key",
        "open/../secret/key",
    ] {
        check(&tool, json!({"path": path}), &refused(path, "secret")).await;
    }
    check(
        &tool,
        json!({"path": "open/own.env"}),
        &refused("open/own.env", "open/own.env"),
    )
    .await;
    // The file is not suggested as a similar name either.
    check(
        &tool,
        json!({"path": "open/own.en"}),
        "! open/own.en does not exist. Find the right path with list_dir or glob.",
    )
    .await;
}

#[tokio::test]
async fn write_tools_respect_policy() {
    let tool = WriteFile::default();
    for (path, rule) in [
        ("secret/key", "secret"),
        ("secret/new", "secret"),
        ("open/way/key", "secret"),
        ("open/way/a/b", "secret"),
        ("later/a/b", "later"),
    ] {
        let arguments = json!({"path": path, "content": "x"});
        check(&tool, arguments.clone(), &refused(path, rule)).await;
        let rules = Delegation {
            permits: Rules::deny(&["secret", "later"]),
            ..Delegation::default()
        };
        let seen = preview(&tool, &folder(), &arguments, &rules).await;
        assert!(!seen.contains("-text"), "{seen}");
    }
    let arguments = json!({"path": "open/way/key", "old_string": "text", "new_string": "x"});
    check(
        &EditFile::default(),
        arguments,
        &refused("open/way/key", "secret"),
    )
    .await;
}

#[tokio::test]
async fn listing_and_search_tools_respect_policy() {
    let list = ListDir::default();
    check(
        &list,
        json!({"depth": 3}),
        "open/\n  f (5 B)\n  key -> ../secret/key\n  way -> ../secret\ntop.txt (5 B)\n(2 left out: policy does not permit them)",
    )
    .await;
    check(
        &list,
        json!({"path": "secret"}),
        &refused("secret", "secret"),
    )
    .await;
    check(
        &list,
        json!({"path": "open/way"}),
        &refused("open/way", "secret"),
    )
    .await;
    let left_out = "(2 left out: policy does not permit them)";
    check(
        &Glob::default(),
        json!({"pattern": "top*"}),
        &format!("top.txt\n{left_out}"),
    )
    .await;
    check(
        &Grep::default(),
        json!({"pattern": "text"}),
        &format!("open/f:1:text\ntop.txt:1:text\n{left_out}"),
    )
    .await;
    check(
        &Grep::default(),
        json!({"pattern": "text", "path": "open/key"}),
        &refused("open/key", "secret"),
    )
    .await;
}
