//! `sortie tasks report`: the numbers of a small tree, in every form.

use serde_json::Value;

use crate::world::World;

/// Two siblings read the same file and search for the same word; one of them lists a folder too.
const TREE: &str = r#"
  - when: { agent: main, turn: 1 }
    say: I send two out.
    calls:
      - { tool: task, args: { description: first, prompt: "Read the notes, first.", subagent_type: explore } }
      - { tool: task, args: { description: second, prompt: "Read the notes, second.", subagent_type: explore } }
  - when: { agent: main, turn: 2 }
    say: all done
  - when: { label: first, turn: 1 }
    calls:
      - { tool: read_file, args: { path: notes.md } }
      - { tool: grep, args: { pattern: coin } }
      - { tool: list_dir, args: { path: src } }
  - when: { label: second, turn: 1 }
    calls:
      - { tool: read_file, args: { path: ./notes.md } }
      - { tool: grep, args: { pattern: coin } }
  - when: { label: first }
    say: a coin
  - when: { label: second }
    say: the same coin
"#;

fn delegated() -> (World, Value) {
    let world = World::new();
    world.write("notes.md", &"a coin lies here\n".repeat(400));
    world.write("src/main.rs", "fn main() {}\n");
    let model = world.scenario(TREE);
    world.ok(&["run", "top", "--model", &model]);
    let top = world.task("top");
    (world, top)
}

fn handle(task: &Value) -> &str {
    task["handle"].as_str().unwrap()
}

#[test]
fn a_report_names_duplicate_work_and_what_stayed_out_of_the_parent() {
    let (world, top) = delegated();
    let report = world.json(&["tasks", "report", handle(&top), "--json"]);
    assert_eq!(report["task_id"], top["task_id"]);
    assert_eq!(report["ended"], true);
    // The scripted model reports no usage: its cost is unknown, and not zero.
    assert_eq!(report["cost_usd"], Value::Null);
    let tasks = report["tasks"].as_array().unwrap();
    let labels: Vec<&str> = tasks
        .iter()
        .map(|task| task["label"].as_str().unwrap())
        .collect();
    assert_eq!(labels, ["top", "first", "second"]);
    assert_eq!(tasks[1]["depth"], 1);
    assert_eq!(tasks[1]["tool_calls"], 3);
    assert_eq!(tasks[1]["completions"], 2);
    let duplicates = report["duplicates"].as_array().unwrap();
    let whats: Vec<(&str, &str)> = duplicates
        .iter()
        .map(|duplicate| {
            (
                duplicate["kind"].as_str().unwrap(),
                duplicate["what"].as_str().unwrap(),
            )
        })
        .collect();
    // The folder was listed by one of them only.
    assert!(whats.contains(&("file", "notes.md")), "{report:#}");
    assert!(whats.contains(&("search", "coin in .")), "{report:#}");
    assert_eq!(whats.len(), 2, "{report:#}");
    assert_eq!(duplicates[0]["calls"], 2);
    assert_eq!(duplicates[0]["tasks"].as_array().unwrap().len(), 2);
    let number = |value: &Value| value.as_i64().unwrap();
    assert!(number(&duplicates[0]["repeated_bytes"]) > 1_000);
    // Each child read the whole file; the parent read one line of each.
    let context = &report["context"];
    assert!(number(&context["children_bytes"]) > 10_000, "{report:#}");
    assert!(number(&context["parents_bytes"]) < 3_000, "{report:#}");
    assert_eq!(
        number(&context["saved_bytes"]),
        number(&context["children_bytes"]) - number(&context["parents_bytes"])
    );
    let estimate = &report["estimate"];
    assert!(
        number(&estimate["alone_prompt_bytes"]) > number(&estimate["delegated_prompt_bytes"]),
        "{report:#}"
    );
    // The path leads through a child and never through more time than passed.
    let steps = report["critical_path"].as_array().unwrap();
    let on_path: i64 = steps.iter().map(|step| number(&step["ms"])).sum();
    assert!(on_path <= number(&report["elapsed_ms"]) + steps.len() as i64);
    assert!(
        steps.iter().any(|step| step["task_id"] != top["task_id"]),
        "{report:#}"
    );
}

#[test]
fn the_report_of_a_subagent_is_that_of_its_own_tree() {
    let (world, _) = delegated();
    let first = world.task("first");
    let report = world.json(&["tasks", "report", handle(&first), "--json"]);
    assert_eq!(report["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(report["estimate"]["payoff"], "no_children");
    assert_eq!(report["duplicates"].as_array().unwrap().len(), 0);
}

#[test]
fn a_report_is_text_markdown_and_a_page_in_both_languages() {
    let (world, top) = delegated();
    let id = handle(&top);
    let text = world.ok(&["tasks", "report", id]).out;
    for expected in [
        "Delegation report: top",
        "An estimate",
        "notes.md",
        "Critical path",
    ] {
        assert!(text.contains(expected), "{expected} is missing: {text}");
    }
    let markdown = world.ok(&["tasks", "report", id, "--markdown"]).out;
    assert!(
        markdown.starts_with("# Delegation report: top\n"),
        "{markdown}"
    );
    assert!(markdown.contains("\n| --- |"), "{markdown}");
    let page = world.ok(&["tasks", "report", id, "--html"]).out;
    assert!(page.starts_with("<!doctype html>"), "{page}");
    assert!(page.trim_end().ends_with("</html>"), "{page}");
    // It needs no other file.
    for outside in ["http://", "https://", "<script", "<link", "url("] {
        assert!(!page.contains(outside), "{outside}: {page}");
    }
    let chinese = world.ok(&["--lang", "zh", "tasks", "report", id]).out;
    assert!(chinese.contains("委派报告：top"), "{chinese}");
    assert!(chinese.contains("估算"), "{chinese}");
}
