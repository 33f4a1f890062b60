//! `sortie run` and `sortie spawn`, on a scripted model.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::world::World;

const TWO_BLOCKING: &str = r#"
  - when: { agent: main, turn: 1 }
    say: I send two out.
    calls:
      - { tool: task, args: { description: find auth, prompt: Find auth., subagent_type: explore } }
      - { tool: task, args: { description: find tests, prompt: Find tests., subagent_type: explore } }
  - when: { agent: main, turn: 2 }
    expect: { last_result_contains: tests are in tests/ }
    say: "Both are back."
  - when: { label: find auth, turn: 1 }
    latency_ms: 250
    calls: [{ tool: list_dir, args: { path: "." } }]
  - when: { label: find auth }
    say: auth is in auth.rs
  - when: { label: find tests }
    latency_ms: 250
    say: tests are in tests/
"#;

#[test]
fn blocking_tasks_run_side_by_side() {
    let world = World::new();
    let model = world.scenario(TWO_BLOCKING);
    let output = world.ok(&["run", "Look around", "--model", &model]);
    assert_eq!(output.out, "Both are back.\n");
    let mut lines: Vec<&str> = output
        .err
        .lines()
        .map(|line| line.split_once(", ").map_or(line, |(line, _)| line))
        .collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "  [explore] find auth - done (1 tool",
            "  [explore] find auth ...",
            "  [explore] find tests - done (0 tools",
            "  [explore] find tests ...",
        ]
    );
    let (auth, tests) = (world.task("find auth"), world.task("find tests"));
    let time = |task: &Value, name: &str| task[name].as_str().unwrap().to_owned();
    assert!(time(&auth, "started_at") < time(&tests, "completed_at"));
    assert!(time(&tests, "started_at") < time(&auth, "completed_at"));
}

const BACKGROUND: &str = r#"
  - when: { agent: main, turn: 1 }
    calls: [{ tool: spawn_subagent, args: { task: "Count the files.", label: counting, agentId: explore } }]
  - when: { agent: main, turn: 2 }
    expect: { last_result_contains: "Subagent [counting] started (ID: " }
    say: Somebody is counting.
  - when: { agent: main, notice_contains: seven files }
    say: There are seven.
  - when: { label: counting }
    latency_ms: 200
    say: seven files
"#;

#[test]
fn a_background_task_announces_its_result() {
    let world = World::new();
    let model = world.scenario(BACKGROUND);
    let output = world.ok(&["run", "How many files?", "--model", &model]);
    assert_eq!(output.out, "There are seven.\n");
    for expected in [
        "  [main] Somebody is counting.",
        "  [main] waiting for 1 subagent: counting",
        "  [explore] counting - done (0 tools, 0.",
    ] {
        assert!(output.err.contains(expected), "{expected}: {}", output.err);
    }
    assert_eq!(world.task("counting")["delivery"], "delivered");
}

/// The fields of the contract, and the queue position that goes with `pending`.
const TASK_FIELDS: [&str; 32] = [
    "agent",
    "cancel_requested",
    "child_session",
    "completed_at",
    "created_at",
    "delivery",
    "depth",
    "error",
    "handle",
    "label",
    "lane",
    "message",
    "model",
    "parent_id",
    "paused",
    "priority",
    "progress",
    "queue_position",
    "reason",
    "result",
    "root_id",
    "seq",
    "session_id",
    "started_at",
    "status",
    "task_id",
    "tenant",
    "tool_calls",
    "total_usage",
    "usage",
    "verdict",
    "waiting_on",
];

fn check_shape(task: &Value) {
    let fields: BTreeSet<&str> = task
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(fields, BTreeSet::from(TASK_FIELDS));
    let usage: Vec<&str> = task["usage"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let usage = usage.into_iter().collect::<BTreeSet<_>>();
    assert_eq!(
        usage,
        BTreeSet::from([
            "cache_read_tokens",
            "cache_write_tokens",
            "cost_usd",
            "input_tokens",
            "output_tokens"
        ])
    );
}

#[test]
fn every_command_gives_the_same_json() {
    let world = World::new();
    let model = world.scenario(TWO_BLOCKING);
    let run = world.json(&["run", "Look around", "--json", "--model", &model]);
    check_shape(&run);
    let id = run["task_id"].as_str().unwrap();
    assert_eq!(run["usage"]["input_tokens"], Value::Null);
    assert_eq!(run["model"], model.as_str());
    assert!(run["session_id"].as_str().unwrap().starts_with("cli:"));
    assert_eq!(
        run["child_session"],
        format!("subagent:{id}:{}", "19f9c9778a7dabc4")
    );
    // `show` returns further fields, and all fields that the others return.
    let shown = world.json(&["tasks", "show", id, "--json"]);
    for (name, value) in run.as_object().unwrap() {
        assert_eq!(&shown[name.as_str()], value, "{name}");
    }
    assert_eq!(world.json(&["tasks", "result", id, "--json"]), run);
    assert_eq!(world.task("Look around"), run);
    for task in world.tasks() {
        check_shape(&task);
    }
}

#[test]
fn stream_json_prints_all_events_and_the_task_last() {
    let world = World::new();
    let model = world.scenario(TWO_BLOCKING);
    let output = world.ok(&["run", "Look around", "--stream-json", "--model", &model]);
    let lines: Vec<Value> = output
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (task, events) = lines.split_last().unwrap();
    check_shape(task);
    let root = task["task_id"].as_str().unwrap();
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds[..2], ["queued", "started"], "{kinds:?}");
    for (kind, count) in [("started", 3), ("completed", 3), ("tool", 3)] {
        let found = kinds.iter().filter(|found| **found == kind).count();
        assert_eq!(found, count, "{kind}: {kinds:?}");
    }
    for event in events {
        assert_eq!(event["root_id"], root);
        assert!(event["task_seq"].is_i64() && event["session_id"] == task["session_id"]);
    }
}

#[test]
fn exit_codes_follow_the_outcome() {
    let check = |rules: &str, arguments: &[&str], code: i32, err: &str| {
        let world = World::new();
        let model = world.scenario(rules);
        let arguments: Vec<&str> = arguments
            .iter()
            .map(|word| if *word == "MODEL" { &model } else { *word })
            .collect();
        let output = world.sortie(&arguments);
        assert_eq!(output.code, Some(code), "{arguments:?}: {output:#?}");
        assert!(output.err.contains(err), "{arguments:?}: {output:#?}");
    };
    let run = ["run", "Do it", "--model", "MODEL"];
    check("  - say: done\n", &run, 0, "");
    check(
        "  - fault: { kind: error, message: no such luck }\n",
        &run,
        1,
        "error: The model call failed: no such luck",
    );
    check(
        "  - calls: [{ tool: list_dir, args: { path: '.' } }]\n",
        &[&run[..], &["--max-iterations", "1"]].concat(),
        1,
        "error: ",
    );
    check(
        "  - fault: { kind: hang }\n",
        &[&run[..], &["--timeout", "1"]].concat(),
        5,
        "error: It exceeded its deadline of 1.0 s.",
    );
    check(
        "  - say: done\n",
        &[&run[..], &["--agent", "wizard"]].concat(),
        4,
        "error: There is no agent 'wizard'.\n  hint: Known agents: explore, plan, code, general.",
    );
    check(
        "  - say: done\n",
        &["run", "Do it", "--model", "nobody/nothing"],
        2,
        "error: The model cannot be used: there is no provider",
    );
    check(
        "  - say: done\n",
        &["run", " "],
        2,
        "error: The instruction is empty.",
    );
    check(
        "  - say: done\n",
        &["run", "x", "--workspace", "missing"],
        2,
        "missing cannot be used as the workspace.\n  because: No such file",
    );
    check(
        "  - say: done\n",
        &["spawn", "x", "--report-to", "mail:me"],
        2,
        "error: 'mail:me' is not a valid delivery address.",
    );
    check("  - say: done\n", &["run"], 2, "Usage: sortie run");
}

#[test]
fn an_instruction_can_come_from_stdin() {
    let world = World::new();
    let model = world.scenario("  - when: { task: '*needle*' }\n    say: found it\n");
    let mut child = world
        .command(&["run", "-", "--model", &model])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"Look for\nthe needle.\n").unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "found it\n");
}

const CHANGES: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: exec, args: { command: "echo $OPENAI_API_KEY- > made.txt" } }]
  - when: { turn: 2 }
    say: "{{last_result}}"
"#;

#[test]
fn changes_need_an_approver_or_the_yes_flag() {
    let world = World::new().with("OPENAI_API_KEY", "sk-secret");
    let model = world.scenario(CHANGES);
    let made = world.workspace().join("made.txt");
    let refused = world.ok(&["run", "Make it", "--model", &model]);
    assert!(
        refused
            .out
            .starts_with("Refused: exec needs approval and no approver is available"),
        "{refused:#?}"
    );
    assert!(!made.exists());
    world.ok(&["run", "Make it", "--yes", "--model", &model]);
    assert_eq!(
        std::fs::read_to_string(made).unwrap(),
        "-\n",
        "a key of the environment reached a shell command"
    );
}

#[test]
fn spawn_prints_the_id_first_and_then_the_result() {
    let world = World::new();
    let model = world.scenario("  - say: nothing to see\n");
    let output = world.ok(&[
        "spawn",
        "Have a look",
        "--agent",
        "explore",
        "--label",
        "look",
        "--model",
        &model,
        "--report-to",
        "file:results.jsonl",
    ]);
    let task = world.task("look");
    let id = task["task_id"].as_str().unwrap();
    let handle = task["handle"].as_str().unwrap();
    let started =
        format!("Task {handle} [look] has started; waiting for its result. Ctrl-C cancels it.");
    assert_eq!(output.err.lines().next(), Some(started.as_str()));
    assert!(
        output.err.contains("  [explore] look - done (0 tools, 0."),
        "{}",
        output.err
    );
    assert_eq!(output.out, "nothing to see\n");
    assert_eq!(task["delivery"], "delivered");
    let report = std::fs::read_to_string(world.workspace().join("results.jsonl")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["result"], "nothing to see");
    assert_eq!(report["task_id"], id);
}

#[test]
fn offline_model_identifies_itself() {
    let output = World::new().ok(&["run", "What is love?", "--model", "offline"]);
    assert!(
        output.err.contains("The built-in offline model is in use"),
        "{}",
        output.err
    );
    let quiet = World::new().with("SORTIE_MODEL", "nobody/nothing");
    assert_eq!(quiet.sortie(&["run", "What is love?"]).code, Some(2));
}
