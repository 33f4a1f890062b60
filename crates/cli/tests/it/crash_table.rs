//! The crash table of ARCHITECTURE.md, row by row: a real process dies at exactly that point, and
//! the next process recovers.

use std::os::unix::process::ExitStatusExt;

use rustix::process::Signal;
use serde_json::Value;

use crate::world::{Running, World};

/// A main agent with a child of each recovery class, and one in the background.
const SCENARIO: &str = r#"
  - when: { agent: main, turn: 1 }
    calls:
      - { tool: task, args: { description: reader, prompt: Read., subagent_type: explore } }
      - { tool: task, args: { description: writer, prompt: Write., subagent_type: code } }
      - { tool: task, args: { description: runner, prompt: Run., subagent_type: code } }
      - { tool: spawn_subagent, args: { task: Stay in the back., label: background } }
  - when: { agent: main, notice_contains: "Subagent 'background'" }
    say: All four are back.
  - when: { agent: main }
    say: Three are back.
  - when: { label: reader, turn: 1 }
    calls: [{ tool: read_file, args: { path: note.txt } }]
  - when: { label: writer, turn: 1 }
    calls: [{ tool: write_file, args: { path: out.txt, content: written } }]
  - when: { label: runner, turn: 1 }
    calls: [{ tool: exec, args: { command: "echo line >> ledger.txt" } }]
  - when: { label: runner, last_result_status: interrupted }
    expect: { last_result_contains: Verify first }
    calls: [{ tool: read_file, args: { path: ledger.txt } }]
  - when: { depth: 1 }
    say: "{{label}} is done."
"#;

/// The state of a world after its process has crashed once and was resumed.
struct Aftermath {
    world: World,
}

impl Aftermath {
    /// Kills the process at the `nth` visit of a crash point, and resumes.
    fn of(point: &str, nth: u32) -> Self {
        let world = World::new();
        world.write("note.txt", "hello\n");
        let model = world.scenario(SCENARIO);
        let died = world
            .command(&["run", "top", "--model", &model, "--yes"])
            .env("SORTIE_CRASH_AT", format!("{point}:{nth}"))
            .output()
            .unwrap();
        assert_eq!(
            died.status.signal(),
            Some(9),
            "{point}:{nth} was never reached: {}",
            String::from_utf8_lossy(&died.stderr)
        );
        world.ok(&["resume"]);
        Self { world }
    }

    fn events(&self, label: &str) -> Vec<Value> {
        let task = self.world.task(label);
        let id = task["task_id"].as_str().unwrap();
        let out = self.world.ok(&["tasks", "events", id, "--json"]).out;
        out.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Asserts that every run completed once and every result was delivered once.
    fn nothing_is_lost_or_doubled(&self) -> &Self {
        let mut seen: Vec<(String, String, String)> = self
            .world
            .tasks()
            .iter()
            .map(|task| {
                let word = |name: &str| task[name].as_str().unwrap().to_owned();
                (word("label"), word("status"), word("delivery"))
            })
            .collect();
        seen.sort();
        let expected = ["background", "reader", "runner", "top", "writer"].map(|label| {
            let delivery = if label == "top" {
                "not_required"
            } else {
                "delivered"
            };
            (
                label.to_owned(),
                "completed".to_owned(),
                delivery.to_owned(),
            )
        });
        assert_eq!(seen, expected);
        assert_eq!(self.world.task("top")["result"], "All four are back.");
        let mut arrived: Vec<String> = self
            .events("top")
            .iter()
            .filter(|event| event["event"] == "inbox_taken")
            .flat_map(|event| event["items"].as_array().unwrap().clone())
            .map(|item| item["label"].as_str().unwrap().to_owned())
            .collect();
        arrived.sort();
        assert_eq!(arrived, ["background", "reader", "runner", "writer"]);
        let checked = self.world.ok(&["doctor"]);
        assert!(checked.out.contains("none damaged"), "{}", checked.out);
        self
    }

    /// Returns the statuses of a run's calls, in order.
    fn call_statuses(&self, label: &str) -> Vec<String> {
        self.events(label)
            .iter()
            .filter(|event| event["event"] == "tool_finished")
            .map(|event| event["result"]["status"].as_str().unwrap().to_owned())
            .collect()
    }

    fn ledger(&self) -> String {
        std::fs::read_to_string(self.world.workspace().join("ledger.txt")).unwrap_or_default()
    }

    fn count(&self, label: &str, name: &str) -> usize {
        self.events(label)
            .iter()
            .filter(|event| event["event"] == name)
            .count()
    }
}

#[test]
fn before_admit() {
    for nth in 1..=4 {
        let after = Aftermath::of("before-admit", nth);
        after.nothing_is_lost_or_doubled();
        assert_eq!(after.ledger(), "line\n");
    }
}

#[test]
fn after_admit_before_the_answer_is_journaled() {
    for nth in 1..=4 {
        let after = Aftermath::of("after-admit", nth);
        after.nothing_is_lost_or_doubled();
        assert_eq!(after.ledger(), "line\n");
    }
}

#[test]
fn after_claim() {
    for nth in 1..=5 {
        let after = Aftermath::of("after-claim", nth);
        after.nothing_is_lost_or_doubled();
        let recovered = ["top", "reader", "writer", "runner", "background"]
            .iter()
            .flat_map(|label| after.events(label))
            .filter(|event| event["event"] == "claimed" && event["recovered"] == true)
            .count();
        assert!(recovered > 0, "nobody was claimed again");
    }
}

#[test]
fn after_a_model_answer_before_append() {
    for nth in 1..=6 {
        let after = Aftermath::of("after-model-answer", nth);
        after.nothing_is_lost_or_doubled();
        assert_eq!(after.count("reader", "answered"), 2, "answers count once");
    }
}

/// Runs one child with one tool, and kills the process after the tool has run.
fn tool_ran(call: &str, follow_up: &str) -> World {
    let world = World::new();
    world.write("note.txt", "hello\n");
    let model = world.scenario(&format!(
        r#"
  - when: {{ turn: 1 }}
    calls: [{call}]
  {follow_up}
  - say: done
"#
    ));
    let died = world
        .command(&[
            "spawn", "work", "--agent", "code", "--model", &model, "--yes",
        ])
        .env("SORTIE_CRASH_AT", "after-tool:1")
        .output()
        .unwrap();
    assert_eq!(died.status.signal(), Some(9), "{died:?}");
    world.ok(&["resume"]);
    assert_eq!(world.task("work")["status"], "completed");
    world
}

#[test]
fn after_a_repeatable_tool_it_runs_again() {
    let after = Aftermath {
        world: tool_ran("{ tool: read_file, args: { path: note.txt } }", ""),
    };
    assert_eq!(after.call_statuses("work"), ["ok"]);
    assert_eq!(after.count("work", "intended"), 0);
}

#[test]
fn after_a_reconcilable_tool_its_effect_is_checked() {
    let after = Aftermath {
        world: tool_ran(
            "{ tool: write_file, args: { path: out.txt, content: written } }",
            "",
        ),
    };
    assert_eq!(after.call_statuses("work"), ["ok"]);
    assert_eq!(after.count("work", "intended"), 1, "it did not run again");
    let written = std::fs::read_to_string(after.world.workspace().join("out.txt")).unwrap();
    assert_eq!(written, "written");
}

#[test]
fn after_an_interrupted_once_tool_the_model_must_verify_first() {
    let after = Aftermath {
        world: tool_ran(
            r#"{ tool: exec, args: { command: "echo line >> ledger.txt" } }"#,
            "- when: { last_result_status: interrupted }\n    expect: { last_result_contains: Verify first }\n    say: I looked",
        ),
    };
    assert_eq!(after.call_statuses("work"), ["interrupted"]);
    assert_eq!(after.ledger(), "line\n", "it ran once");
    assert_eq!(after.world.task("work")["result"], "I looked");
}

#[test]
fn after_finish_the_outbox_delivers() {
    for nth in 1..=4 {
        Aftermath::of("after-finish", nth).nothing_is_lost_or_doubled();
    }
}

#[test]
fn after_the_move_to_the_inbox() {
    for nth in 1..=4 {
        Aftermath::of("after-deliver", nth).nothing_is_lost_or_doubled();
    }
}

#[test]
fn after_the_parent_took_its_inbox() {
    for nth in 1..=2 {
        Aftermath::of("after-take-inbox", nth).nothing_is_lost_or_doubled();
    }
}

#[test]
fn after_an_outside_sink_accepted() {
    let world = World::new();
    let model = world.scenario("  - say: done\n");
    let results = world.workspace().join("results.jsonl");
    let report_to = format!("file:{}", results.display());
    let died = world
        .command(&[
            "spawn",
            "work",
            "--model",
            &model,
            "--report-to",
            &report_to,
        ])
        .env("SORTIE_CRASH_AT", "after-sink:1")
        .output()
        .unwrap();
    assert_eq!(died.status.signal(), Some(9), "{died:?}");
    world.ok(&["resume"]);
    let lines: Vec<Value> = std::fs::read_to_string(results)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let id = world.task("work")["task_id"].clone();
    assert_eq!(lines.len(), 2, "delivered again");
    assert!(lines.iter().all(|line| line["key"] == id), "{lines:?}");
    assert_eq!(world.task("work")["delivery"], "delivered");
}

/// The result of a child that has just ended may still be in the outbox: deletion waits for its
/// delivery.
#[test]
fn a_child_that_just_ended_can_be_deleted() {
    for is_served in [false, true] {
        let world = World::new();
        world.write("note.txt", "hello\n");
        let model = world.scenario(SCENARIO);
        let mut command = world.command(&["run", "top", "--model", &model, "--yes"]);
        command.env("SORTIE_BREAK", "outbox");
        let mut died = Running::start(command);
        died.wait_for_line("[code] runner - done")
            .signal(Signal::KILL);
        assert_eq!(died.end().code, None);
        let is_owed = |task: &Value| task["delivery"] == "pending" && task["status"] == "completed";
        let ended = world.tasks().into_iter().find(is_owed).unwrap();
        let _server = is_served.then(|| world.serve());
        let deleted = world.json(&[
            "tasks",
            "delete",
            ended["task_id"].as_str().unwrap(),
            "--json",
        ]);
        assert_eq!(deleted["deleted"], 1, "{deleted}");
    }
}

/// The control: with delivery disabled, the same checks must fail.
#[test]
fn control_with_delivery_disabled_fails_the_checks() {
    let world = World::new().with("SORTIE_BREAK", "outbox");
    let model = world.scenario(SCENARIO);
    world.write("note.txt", "hello\n");
    let mut running = world.start(&["run", "top", "--model", &model, "--yes"]);
    running.wait_for_line("[code] runner - done");
    let all = world.tasks();
    let undelivered = all
        .iter()
        .filter(|task| task["status"] == "completed" && task["delivery"] == "pending")
        .count();
    assert!(undelivered > 0, "{all:?}");
    assert_eq!(world.task("top")["status"], "running");
}
