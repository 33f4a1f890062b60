//! What a shell command still does after its process has died.

use rustix::process::{Pid, Signal, kill_process_group};

use crate::life::runs;
use crate::world::World;

/// A child whose command goes on without its runtime, and has an effect much later.
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

/// In the group of the command.
const STAYS: &str = "echo early >> ledger.txt; echo $$ > pid; sleep 1000; echo late >> ledger.txt";
/// In a session of its own, below a shell that waits for it.
const LEAVES: &str = "echo early >> ledger.txt; setsid sh -c 'echo $$ > pid; sleep 1000; echo late >> ledger.txt' & wait";

/// A process that a failing test does not leave behind.
struct Orphan(Pid);

impl Drop for Orphan {
    fn drop(&mut self) {
        if runs(self.0) {
            // It leads its group, and may have ended just now.
            kill_process_group(self.0, Signal::KILL).ok();
        }
    }
}

fn check(command: &str) {
    let world = World::new();
    let model = world.scenario(&LATE.replace("COMMAND", command));
    // A sandbox dies with its runtime; without one the command is found by its mark.
    let bare = ["-c", "sandbox.mode=off"];
    let mut run = world.start(&["run", "top", "--yes", bare[0], bare[1], "--model", &model]);
    let orphan = Orphan(world.pid_in("pid"));
    run.signal(Signal::KILL);
    assert_eq!(run.end().code, None);
    assert!(runs(orphan.0), "it outlives its runtime: {command}");
    let resumed = world.ok(&["resume", "-v"]);
    assert!(
        resumed.err.contains("had left running"),
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
fn the_model_looks_only_when_what_a_crash_left_has_ended() {
    check(STAYS);
    check(LEAVES);
}
