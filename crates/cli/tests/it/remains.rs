//! Shell commands that keep running after their runtime and their supervisor have died.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::life::runs;
use crate::world::{Running, World};

/// A child whose command continues without its runtime and has an effect much later.
const LATE: &str = r#"
  - when: { agent: main, turn: 1 }
    calls:
      - { tool: task, args: { description: runner, prompt: Run., subagent_type: code } }
  - when: { agent: main }
    say: It is back.
  - when: { label: runner, turn: 1 }
    calls:
      - { tool: exec, args: { command: "COMMAND" } }
  - when: { label: runner, last_result_status: interrupted }
    expect: { last_result_contains: Verify first }
    calls: [{ tool: read_file, args: { path: ledger.txt } }]
  - when: { label: runner }
    say: "The ledger says {{result:1}}"
"#;

/// A process in the group of the command.
const STAYS: &str = "echo early >> ledger.txt; echo $$ > pid; sleep 1000; echo late >> ledger.txt";
/// A process in its own session, below a shell that waits for it.
const LEAVES: &str = "echo early >> ledger.txt; setsid sh -c 'echo $$ > pid; sleep 1000; echo late >> ledger.txt' & wait";

/// A process that is killed on drop, also if the test fails.
struct Orphan(Pid);

impl Drop for Orphan {
    fn drop(&mut self) {
        if runs(self.0) {
            // The process leads its group, and may have just ended.
            kill_process_group(self.0, Signal::KILL).ok();
        }
    }
}

/// Returns the supervisor of a command: its ancestor that the runtime started.
fn supervisor(run: &Running, command: Pid) -> Pid {
    let mut process = command;
    loop {
        let number = process.as_raw_nonzero();
        let status = std::fs::read_to_string(format!("/proc/{number}/status")).unwrap();
        let mut lines = status.lines();
        let parent = lines.find_map(|line| line.strip_prefix("PPid:")).unwrap();
        let parent: i32 = parent.trim().parse().unwrap();
        if u32::try_from(parent).unwrap() == run.pid() {
            return process;
        }
        process = Pid::from_raw(parent).expect("the runtime is above its command");
    }
}

/// Starts the command and kills the runtime. A sandbox dies with its runtime, and so does a command
/// without one as long as its supervisor lives, so the supervisor is killed first, while the runtime
/// is stopped and cannot record that. (A stopped supervisor would not do: when the runtime dies, the
/// kernel sends SIGHUP to a group without a parent that has stopped members.)
fn crash(world: &World, command: &str) -> Orphan {
    let model = world.scenario(&LATE.replace("COMMAND", command));
    let bare = ["-c", "sandbox.mode=off"];
    let mut run = world.start(&["run", "top", "--yes", bare[0], bare[1], "--model", &model]);
    let orphan = Orphan(world.pid_in("pid"));
    let supervisor = supervisor(&run, orphan.0);
    run.signal(Signal::STOP);
    kill_process(supervisor, Signal::KILL).unwrap();
    run.signal(Signal::KILL);
    assert_eq!(run.end().code, None);
    assert!(runs(orphan.0), "it outlives its supervisor: {command}");
    orphan
}

fn check(command: &str) {
    let world = World::new();
    let orphan = crash(&world, command);
    let resumed = world.ok(&["resume", "-v"]);
    assert!(
        resumed.err.contains("left running"),
        "{command}: {resumed:#?}"
    );
    world.until("the orphan is gone", |_| !runs(orphan.0));
    let looked = world.task("runner")["result"].as_str().unwrap().to_owned();
    assert!(looked.contains("early"), "{command}: {looked}");
    assert!(!looked.contains("late"), "{command}: {looked}");
    let ledger = std::fs::read_to_string(world.workspace().join("ledger.txt")).unwrap();
    assert_eq!(ledger, "early\n", "{command}");
}

#[test]
fn model_resumes_only_after_leftover_processes_have_ended() {
    check(STAYS);
    check(LEAVES);
}

#[test]
fn a_command_without_a_sandbox_ends_with_its_runtime() {
    for command in [STAYS, LEAVES] {
        let world = World::new();
        let model = world.scenario(&LATE.replace("COMMAND", command));
        let bare = ["-c", "sandbox.mode=off"];
        let mut run = world.start(&["run", "top", "--yes", bare[0], bare[1], "--model", &model]);
        let orphan = Orphan(world.pid_in("pid"));
        run.signal(Signal::KILL);
        assert_eq!(run.end().code, None);
        world.until("the command is gone", |_| !runs(orphan.0));
    }
}

#[test]
fn cancel_and_delete_stop_leftover_processes_first() {
    for command in [STAYS, LEAVES] {
        for (words, label) in [
            (["tasks", "cancel"], "runner"),
            (["tasks", "cancel"], "main"),
            (["tasks", "delete"], "main"),
        ] {
            let world = World::new();
            let orphan = crash(&world, command);
            let is_meant = |task: &&serde_json::Value| {
                if label == "main" {
                    task["parent_id"].is_null()
                } else {
                    task["label"] == label
                }
            };
            let tasks = world.tasks();
            let task = tasks.iter().find(is_meant).expect("it was made");
            let id = task["task_id"].as_str().unwrap();
            let mut arguments = words.to_vec();
            arguments.push(id);
            world.ok(&arguments);
            assert!(!runs(orphan.0), "{arguments:?} of {label}: {command}");
        }
    }
}

#[test]
fn cancel_through_a_server_stops_leftover_processes() {
    let world = World::new();
    let orphan = crash(&world, STAYS);
    let server = world.serve();
    let tasks = world.tasks();
    let task = tasks.iter().find(|task| task["parent_id"].is_null());
    let id = task.expect("it was made")["task_id"].as_str().unwrap();
    world.sortie(&["tasks", "cancel", id]);
    world.until("the orphan is gone", |_| !runs(orphan.0));
    drop(server);
}
