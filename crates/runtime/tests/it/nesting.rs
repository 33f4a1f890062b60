//! A child has no children unless an operator allows it, under whatever tool name it tries.

use sortie_core::ports::tool::Touches;
use sortie_core::run::Status;
use sortie_test_support::stage::{Play, Stage};

use crate::props::Canary;

const TRIES_EVERYTHING: &str = r#"
  - when: { agent: main, turn: 1 }
    calls: [{ tool: task, args: { description: kid, prompt: "try", subagent_type: general } }]
  - when: { agent: main }
    say: "Back."
  - when: { turn: 1 }
    expect: { tools_exclude: [task, spawn_subagent, subagents] }
    calls:
      - { tool: task, args: { description: d, prompt: p, subagent_type: general } }
      - { tool: Task, args: { description: d, prompt: p, agent_type: general } }
      - { tool: Agent, args: { description: d, prompt: p, subagent_type: general } }
      - { tool: spawn, args: { task: t, label: l } }
      - { tool: spawn_subagent, args: { task: t } }
      - { tool: sessions_spawn, args: { task: t } }
      - { tool: subagents, args: { action: list } }
      - { tool: delegate, args: { task: t } }
  - say: "No way."
"#;

async fn labels(stage: &Stage) -> Vec<String> {
    let records = stage.records().await;
    records.into_iter().map(|record| record.label).collect()
}

/// Returns the beginnings of the results of a first turn.
async fn answers(stage: &Stage, label: &str) -> String {
    let seen = stage.seen(label, 2).await;
    let answers: Vec<&str> = seen
        .lines()
        .filter(|line| line.starts_with("result"))
        .map(|line| line.split(" (").next().unwrap_or(line))
        .collect();
    answers.join("\n")
}

#[tokio::test]
async fn a_child_cannot_spawn_under_any_name() {
    let stage = Play::new(TRIES_EVERYTHING).begin().await;
    let main = stage.play("let a child try").await;
    assert_eq!(main.status, Status::Completed);
    assert_eq!(labels(&stage).await, ["main", "kid"]);
    insta::assert_snapshot!(answers(&stage, "kid").await, @r#"
    result 1-0 denied: Denied: task may not be called here
    result 1-1 denied: Denied: Task may not be called here
    result 1-2 denied: Denied: Agent may not be called here
    result 1-3 denied: Denied: spawn may not be called here
    result 1-4 denied: Denied: spawn_subagent may not be called here
    result 1-5 denied: Denied: sessions_spawn may not be called here
    result 1-6 denied: Denied: subagents may not be called here
    result 1-7 error: Error: there is no tool 'delegate'. You can call: read_file, list_dir, glob, grep, write_file, edit_file, exec, todo_write, ask.
    "#);
}

#[tokio::test]
async fn a_background_task_cannot_spawn_either() {
    let stage = Play::new(TRIES_EVERYTHING).begin().await;
    let task = stage.create(stage.new_task("general", "kid")).await;
    stage.end_of(task).await;
    assert_eq!(labels(&stage).await, ["kid"]);
}

#[tokio::test]
async fn max_depth_two_allows_grandchildren_and_no_deeper() {
    let stage = Play::new(
        r#"
  - when: { depth: 0, turn: 1 }
    calls: [{ tool: task, args: { description: kid, prompt: "go on", subagent_type: general } }]
  - when: { depth: 1, turn: 1 }
    calls: [{ tool: task, args: { description: grandkid, prompt: "go on", subagent_type: general } }]
  - when: { depth: 2, turn: 1 }
    calls: [{ tool: task, args: { description: too deep, prompt: "go on", subagent_type: general } }]
  - when: { depth: 2 }
    expect: { last_result_status: denied }
    say: "I was refused."
  - say: "{{result:1}}"
"#,
    )
    .set(|settings| settings.caps.max_depth = 2)
    .begin()
    .await;
    stage.play("go deep").await;
    assert_eq!(labels(&stage).await, ["main", "kid", "grandkid"]);
    insta::assert_snapshot!(answers(&stage, "grandkid").await, @"result 1-0 denied: Denied: task may not be called here");
    let seen = stage.seen("main", 2).await;
    let marks = seen.matches("----- begin subagent output").count();
    assert!(seen.contains("I was refused.") && marks == 2, "{seen}");
}

#[tokio::test]
async fn default_deny_applies_to_custom_tools() {
    let memory = Canary::new("memory_save", Touches::Nothing);
    let spawner = Canary::new("my_own_spawner", Touches::Runs);
    let harmless = Canary::new("sing", Touches::Nothing);
    let mut play = Play::new(
        r#"
  - when: { agent: main, turn: 1 }
    expect: { tools_include: [memory_save, my_own_spawner, sing] }
    calls:
      - { tool: memory_save }
      - { tool: task, args: { description: kid, prompt: "try", subagent_type: general } }
  - when: { agent: main }
    say: "Back."
  - when: { turn: 1 }
    expect: { tools_include: [sing], tools_exclude: [memory_save, my_own_spawner] }
    calls: [{ tool: memory_save }, { tool: my_own_spawner }, { tool: sing }]
  - say: "No way."
"#,
    );
    play.more_tools = vec![memory.clone(), spawner.clone(), harmless.clone()];
    let stage = play.begin().await;
    let main = stage.play("let a child try").await;
    assert_eq!(main.status, Status::Completed);
    insta::assert_snapshot!(answers(&stage, "kid").await, @r"
    result 1-0 denied: Denied: memory_save may not be called here
    result 1-1 denied: Denied: my_own_spawner may not be called here
    result 1-2 ok: a command may take 300 s
    ");
    assert_eq!((memory.runs(), spawner.runs(), harmless.runs()), (1, 0, 1));
}
