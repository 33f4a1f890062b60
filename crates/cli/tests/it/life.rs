//! Locks, signals and crashes.

use rustix::process::{Pid, Signal, test_kill_process};
use serde_json::Value;

use crate::world::World;

/// One child reports, the other never does.
const HALF: &str = r#"
  - when: { agent: main, turn: 1 }
    say: Two are out.
    calls:
      - { tool: task, args: { description: quick, prompt: Be quick., subagent_type: explore } }
      - { tool: task, args: { description: slow, prompt: Be slow., subagent_type: explore } }
  - when: { agent: main, turn: 2 }
    say: "Both are back: {{result:1}}"
  - when: { label: quick }
    say: quick as a flash
  - when: { label: slow }
    fault: { kind: hang }
"#;

/// Returns the scenario with a reply in place of the hanging prompt.
fn patient(rules: &str) -> String {
    rules.replace("fault: { kind: hang }", "say: slow and steady")
}

fn statuses(world: &World) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = world
        .tasks()
        .iter()
        .map(|task| {
            let word = |name: &str| task[name].as_str().unwrap().to_owned();
            (word("label"), word("status"))
        })
        .collect();
    all.sort();
    all
}

fn expect_statuses(world: &World, expected: &[(&str, &str)]) {
    let expected: Vec<(String, String)> = expected
        .iter()
        .map(|(label, status)| ((*label).to_owned(), (*status).to_owned()))
        .collect();
    assert_eq!(statuses(world), expected);
}

#[test]
fn locked_store_error_names_the_holder() {
    let world = World::new();
    let model = world.scenario(HALF);
    let mut first = world.start(&["run", "top", "--model", &model]);
    first.wait_for_line("[explore] quick - done");
    let second = world.sortie(&["run", "another", "--model", &model]);
    assert_eq!(second.code, Some(3), "{second:#?}");
    let owner = format!(
        "`sortie run top --model {model}` (pid {}, since ",
        first.pid()
    );
    let words = second.err.replace('…', "");
    let shared = owner.chars().take(60).collect::<String>();
    assert!(
        words.contains(&format!("error: The store is in use by {shared}")),
        "{words}"
    );
    assert!(
        words.contains(&format!("(pid {}, since 20", first.pid())),
        "{words}"
    );
    assert!(words.contains("hint: Wait until it has ended"), "{words}");
    let delete = world.sortie(&["tasks", "delete", "ffffffff"]);
    assert_eq!(delete.code, Some(3), "{delete:#?}");
    let id = world.task("quick")["task_id"].as_str().unwrap().to_owned();
    assert_eq!(
        world.ok(&["tasks", "result", &id]).out,
        "quick as a flash\n"
    );
    assert_eq!(world.task("slow")["status"], "running");
}

#[test]
fn interrupt_cancels_all_runs_and_keeps_partial_results() {
    let world = World::new();
    let model = world.scenario(HALF);
    let mut run = world.start(&["run", "top", "--model", &model]);
    run.wait_for_line("[explore] quick - done")
        .signal(Signal::INT);
    let output = run.end();
    assert_eq!(output.code, Some(130), "{output:#?}");
    assert_eq!(output.out, "");
    for expected in [
        "Cancelling; waiting until everything has stopped.",
        "  [explore] slow - cancelled (0 tools, ",
        "error: Cancelled by a person: stopped with Ctrl-C",
        "Text so far:\n    Two are out.",
        "Kept: the result of [explore] quick (sortie tasks result ",
        "For everything that was kept: sortie tasks show ",
    ] {
        assert!(output.err.contains(expected), "{expected}: {}", output.err);
    }
    expect_statuses(
        &world,
        &[
            ("quick", "completed"),
            ("slow", "cancelled"),
            ("top", "cancelled"),
        ],
    );
    assert_eq!(world.ok(&["resume"]).err, "There is nothing to resume.\n");
}

/// Whether the process runs: a zombie does not.
pub(crate) fn runs(pid: Pid) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    match state {
        Ok(state) => !state.contains(") Z "),
        Err(_) => test_kill_process(pid).is_ok(),
    }
}

/// Returns a scenario whose command line contains a unique word, and the word, by which the process
/// is found from outside its sandbox.
fn busy_shell() -> (String, String) {
    let seconds = format!("600.{}", std::process::id());
    let script = r#"
  - when: { turn: 1 }
    calls: [{ tool: exec, args: { command: "exec sleep SECONDS" } }]
  - say: never
"#;
    (script.replace("SECONDS", &seconds), seconds)
}

/// Whether a process with this word in its command line runs.
fn is_running(word: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap();
    processes.filter_map(Result::ok).any(|process| {
        let words = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        words
            .split(|byte| *byte == 0)
            .any(|part| part == word.as_bytes())
    })
}

/// The settings with a sandbox and without one.
const CONFINED_AND_BARE: [&str; 2] = ["sandbox.mode=required", "sandbox.mode=off"];

#[test]
fn an_interrupt_leaves_no_process_behind() {
    for sandbox in CONFINED_AND_BARE {
        let world = World::new();
        let (script, word) = busy_shell();
        let model = world.scenario(&script);
        let mut run = world.start(&["run", "top", "--yes", "-c", sandbox, "--model", &model]);
        world.until("the command runs", |_| is_running(&word));
        run.signal(Signal::INT);
        assert_eq!(run.end().code, Some(130), "{sandbox}");
        world.until("the shell command is gone", |_| !is_running(&word));
    }
}

#[test]
fn second_interrupt_exits_at_once_and_leaves_no_process() {
    for sandbox in CONFINED_AND_BARE {
        let world = World::new();
        let (script, word) = busy_shell();
        let model = world.scenario(&script);
        let mut run = world.start(&["run", "top", "--yes", "-c", sandbox, "--model", &model]);
        world.until("the command runs", |_| is_running(&word));
        run.signal(Signal::INT)
            .wait_for_line("Cancelling;")
            .signal(Signal::INT);
        assert_eq!(run.end().code, Some(130), "{sandbox}");
        world.until("the shell command is gone", |_| !is_running(&word));
    }
}

#[test]
fn kill_of_the_runtime_ends_its_sandboxed_commands() {
    let world = World::new();
    let (script, word) = busy_shell();
    let model = world.scenario(&script);
    let mut run = world.start(&["run", "top", "--yes", "--model", &model]);
    world.until("the command runs", |_| is_running(&word));
    run.signal(Signal::KILL);
    assert_eq!(run.end().code, None);
    world.until("the shell command is gone", |_| !is_running(&word));
}

#[test]
fn terminated_run_can_be_resumed() {
    let world = World::new();
    let model = world.scenario(HALF);
    let mut run = world.start(&["run", "top", "--model", &model]);
    run.wait_for_line("[explore] quick - done")
        .signal(Signal::TERM);
    let output = run.end();
    assert_eq!(output.code, Some(143), "{output:#?}");
    assert!(
        output.err.contains("continue them with `sortie resume`."),
        "{}",
        output.err
    );
    world.scenario(&patient(HALF));
    let resumed = world.ok(&["resume"]);
    assert!(
        resumed.out.starts_with("Both are back: ") && resumed.out.contains("\nquick as a flash\n"),
        "{resumed:#?}"
    );
    assert!(resumed.err.contains("Continuing: "), "{resumed:#?}");
    assert!(
        resumed.err.contains("  [explore] slow - done"),
        "{resumed:#?}"
    );
    assert!(!resumed.err.contains("[explore] quick"), "{resumed:#?}");
    expect_statuses(
        &world,
        &[
            ("quick", "completed"),
            ("slow", "completed"),
            ("top", "completed"),
        ],
    );
}

#[test]
fn killed_run_can_be_resumed() {
    let world = World::new();
    let model = world.scenario(HALF);
    let mut run = world.start(&["run", "top", "--model", &model]);
    run.wait_for_line("[explore] quick - done")
        .signal(Signal::KILL);
    assert_eq!(run.end().code, None);
    let doctor = world.ok(&["doctor"]).out;
    assert!(doctor.contains("No process runs them"), "{doctor}");
    world.scenario(&patient(HALF));
    let resumed = world.json(&["resume", "--json"]);
    let ended: Vec<&Value> = resumed.as_array().unwrap().iter().collect();
    assert_eq!(ended.len(), 1, "{resumed}");
    assert_eq!(ended[0]["status"], "completed");
    assert_eq!(ended[0]["label"], "top");
    expect_statuses(
        &world,
        &[
            ("quick", "completed"),
            ("slow", "completed"),
            ("top", "completed"),
        ],
    );
    assert_eq!(world.json(&["resume", "--json"]), Value::Array(Vec::new()));
}

#[test]
fn one_run_can_be_resumed_by_its_id() {
    let world = World::new();
    let model = world.scenario("  - say: here I am\n");
    world.ok(&["spawn", "wait", "--detach", "--model", &model]);
    let id = world.task("wait")["task_id"].as_str().unwrap().to_owned();
    let output = world.ok(&["resume", &id]);
    assert_eq!(output.out, "here I am\n");
    let again = world.ok(&["resume", &id]);
    assert!(
        again.err.contains("has already ended: completed"),
        "{again:#?}"
    );
    assert_eq!(world.sortie(&["resume", "ffffffff"]).code, Some(4));
}

#[test]
fn run_reports_unfinished_runs_of_earlier_processes() {
    let world = World::new();
    let model = world.scenario("  - say: done\n");
    world.ok(&["spawn", "wait", "--detach", "--model", &model]);
    let output = world.ok(&["run", "top", "--model", &model]);
    assert!(
        output
            .err
            .starts_with("1 unfinished task of an earlier process continues as well"),
        "{output:#?}"
    );
    assert_eq!(output.out, "done\n");
}
