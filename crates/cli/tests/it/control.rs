//! Control of a plain `sortie run` from a second terminal.

use rustix::process::Signal;

use crate::world::{Running, World};

/// A child whose prompt never returns, beside one that is done.
const HANGS: &str = r#"
  - when: { agent: main, turn: 1 }
    calls:
      - { tool: task, args: { description: slow, prompt: Be slow., subagent_type: explore } }
  - when: { agent: main, turn: 2 }
    say: "the child: {{last_result}}"
  - when: { label: slow }
    fault: { kind: hang }
"#;

/// A run that waits in a command until the file `go` exists.
const WAITS: &str = r#"
  - when: { turn: 1 }
    calls:
      - { tool: exec, args: { command: "touch begun; until [ -e go ]; do sleep 0.05; done" } }
  - when: { turn: 2, history_contains: "look at the tests" }
    say: read
  - when: { turn: 2 }
    say: nothing was read
"#;

fn started(world: &World, rules: &str, line: &str) -> Running {
    let model = world.scenario(rules);
    let mut run = world.start(&["run", "top", "--model", &model, "--yes"]);
    run.wait_for_line(line);
    run
}

fn id(world: &World, label: &str) -> String {
    world.task(label)["task_id"].as_str().unwrap().to_owned()
}

/// Returns a run that waits in its command.
fn waiting(world: &World) -> Running {
    let model = world.scenario(WAITS);
    let run = world.start(&["run", "top", "--model", &model, "--yes"]);
    world.until("the command runs", |world| {
        world.workspace().join("begun").exists()
    });
    run
}

fn go(world: &World) {
    world.write("go", "");
}

#[test]
fn second_terminal_cancels_a_child_of_a_plain_run() {
    let world = World::new();
    let run = started(&world, HANGS, "[explore] slow");
    let child = id(&world, "slow");
    let done = world.json(&["tasks", "cancel", &child, "--reason", "too slow", "--json"]);
    assert_eq!(done["cancelled"], serde_json::json!([child]), "{done}");
    assert_eq!(done["left_for"], serde_json::Value::Null, "{done}");
    let output = run.end();
    assert_eq!(output.code, Some(0), "{output:#?}");
    assert!(output.out.contains("too slow"), "{output:#?}");
    assert_eq!(world.task("slow")["status"], "cancelled");
    assert_eq!(world.task("top")["status"], "completed");
    // By now it is too late, and says so.
    let again = world.ok(&["tasks", "cancel", &child]).out;
    assert!(again.contains("cancelled"), "{again}");
}

#[test]
fn second_terminal_cancels_a_whole_plain_run() {
    let world = World::new();
    let run = started(&world, HANGS, "[explore] slow");
    let root = id(&world, "top");
    let output = world.ok(&["tasks", "cancel", &root]).out;
    assert!(output.contains("2"), "{output}");
    let run = run.end();
    assert_eq!(run.code, Some(130), "{run:#?}");
    assert_eq!(world.task("slow")["status"], "cancelled");
    assert_eq!(world.task("top")["status"], "cancelled");
}

#[test]
fn second_terminal_steers_a_plain_run() {
    let world = World::new();
    let run = waiting(&world);
    let root = id(&world, "top");
    let output = world
        .ok(&["tasks", "steer", &root, "look at the tests"])
        .out;
    assert!(output.contains("reads it before its next step"), "{output}");
    go(&world);
    let run = run.end();
    assert_eq!(run.out, "read\n", "{run:#?}");
}

#[test]
fn second_terminal_pauses_and_resumes_a_plain_run() {
    let world = World::new();
    let mut run = waiting(&world);
    let root = id(&world, "top");
    let task = world.json(&["tasks", "pause", &root, "--json"]);
    assert_eq!(task["paused"], true, "{task}");
    go(&world);
    world.until("the run is released", |world| {
        world.task("top")["waiting_on"] == serde_json::Value::Null
    });
    run.wait_for_line("Paused from another terminal");
    assert!(!run.is_over());
    let task = world.json(&["tasks", "resume", &root, "--json"]);
    assert_eq!(task["paused"], false, "{task}");
    let run = run.end();
    assert_eq!(run.out, "nothing was read\n", "{run:#?}");
}

/// The owner is stopped, so that it cannot apply the cancellation, and then killed.
#[test]
fn cancellation_survives_the_death_of_the_owner() {
    let world = World::new();
    let mut run = started(&world, HANGS, "[explore] slow");
    let root = id(&world, "top");
    run.signal(Signal::STOP);
    let output = world
        .ok(&["tasks", "cancel", &root, "--reason", "enough"])
        .out;
    assert!(
        output.contains("has not applied it yet") && output.contains("sortie run top"),
        "{output}"
    );
    run.signal(Signal::KILL);
    run.end();
    assert_eq!(world.task("top")["status"], "running");
    world.sortie(&["resume"]);
    for label in ["top", "slow"] {
        let task = world.task(label);
        assert_eq!(task["status"], "cancelled", "{task}");
    }
    assert!(
        world.task("top")["error"]
            .as_str()
            .is_some_and(|error| error.contains("enough")),
        "{}",
        world.task("top")
    );
}

/// A message that was accepted is in the journal, although its run ended first.
#[test]
fn steering_left_for_a_killed_owner_reaches_the_run() {
    let world = World::new();
    let mut run = waiting(&world);
    let root = id(&world, "top");
    run.signal(Signal::STOP);
    world.ok(&["tasks", "steer", &root, "look at the tests"]);
    run.signal(Signal::KILL);
    run.end();
    go(&world);
    let resumed = world.ok(&["resume"]);
    assert!(resumed.out.contains("read\n"), "{resumed:#?}");
    assert!(!resumed.out.contains("nothing was read"), "{resumed:#?}");
}

#[test]
fn refused_operation_is_not_left() {
    let world = World::new();
    let run = started(&world, HANGS, "[explore] slow");
    let unknown = world.sortie(&["tasks", "cancel", "ffffffff"]);
    assert_eq!(unknown.code, Some(4), "{unknown:#?}");
    let root = id(&world, "top");
    let resumed = world.sortie(&["tasks", "steer", &root, &"x".repeat(100_001)]);
    assert_ne!(resumed.code, Some(0), "{resumed:#?}");
    world.ok(&["tasks", "cancel", &root]);
    run.end();
}

#[test]
fn second_terminal_cancels_the_session_of_a_plain_run() {
    let world = World::new();
    let run = started(&world, HANGS, "[explore] slow");
    let session = world.task("top")["session_id"].as_str().unwrap().to_owned();
    let none = world.json(&["tasks", "cancel", "--session", "web:none", "--json"]);
    assert_eq!(none["cancelled"], serde_json::json!([]), "{none}");
    let cancelled = world.ok(&["tasks", "cancel", "--session", &session]).out;
    assert!(cancelled.contains("2 active tasks"), "{cancelled}");
    assert_eq!(run.end().code, Some(130));
    assert_eq!(world.task("slow")["status"], "cancelled");
    assert_eq!(world.task("top")["status"], "cancelled");
}
