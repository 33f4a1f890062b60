//! Models without tool calls: the same work, in steps that are JSON or fenced blocks.

use serde_json::{Value, json};
use sortie_test_support::provider::{Provider, Reply, Wire};

use super::site::{Site, model};

/// Runs a model that can only write, and that reads a file before it answers.
fn check(tools: &str, call: &str, answer: &str) {
    let provider = Provider::in_turn(vec![Reply::text(call), Reply::text(answer)]);
    let name = model(Wire::Chat);
    let site = Site::new(provider, &format!("[models.{name:?}]\ntools = {tools:?}\n"));
    site.world.write("notes.txt", "the notes\n");
    let (output, task) = site.run(&name, &[]);
    assert_eq!(task["status"], "completed", "{tools}: {task:#} {output:#?}");
    assert_eq!(task["result"], "It says: the notes", "{tools}");
    assert_eq!(task["tool_calls"], 1, "{tools}: {task:#}");
    let requests = site.provider.requests();
    for request in &requests {
        let body: Value = serde_json::from_slice(&request.raw).unwrap();
        assert_eq!(body.get("tools"), None, "{tools}: no tools are offered");
        let constrained = body["response_format"]["type"] == "json_schema";
        assert_eq!(constrained, tools == "schema", "{tools}");
    }
    let last = &requests.last().unwrap().prompt.last;
    assert!(last.contains("the notes"), "{tools}: {last}");
}

#[test]
fn schema_mode_steps_run_tools_like_native_calls() {
    let step = json!({"tool": "read_file", "tool_arguments": {"path": "notes.txt"}}).to_string();
    check(
        "schema",
        &step,
        &json!({"answer": "It says: the notes"}).to_string(),
    );
    check(
        "fenced",
        &format!("I look.\n```tool\n{step}\n```"),
        "It says: the notes",
    );
}
