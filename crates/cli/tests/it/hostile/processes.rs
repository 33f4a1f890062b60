//! P4: every process that a command started is gone after a timeout, a cancel, or the death of
//! Sortie.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::stage::{FILTER_OFF, call, calls_in};
use crate::world::World;

/// The promise is two seconds. A machine that is busy with other tests gets more: these tests show
/// that the processes end at all, and `sortie-sandbox` measures the time.
const SOON: Duration = Duration::from_secs(10);

/// Commands that leave a process behind; `MARK` is a number of seconds that no other process
/// sleeps.
const DAEMONS: &[&str] = &[
    "sleep MARK & wait",
    "setsid sleep MARK & wait",
    "(setsid sh -c 'sleep MARK' >/dev/null 2>&1 </dev/null &); sleep MARK",
    "env -i setsid nohup sleep MARK >/dev/null 2>&1 & disown; sleep MARK",
    "perl -e 'if (!fork) { setpgrp; $SIG{TERM} = $SIG{HUP} = $SIG{INT} = \"IGNORE\"; %ENV = (); fork and exit; exec \"sleep\", \"MARK\" }'; sleep MARK",
    "trap '' TERM HUP INT; while :; do sleep MARK; done",
];

/// Returns all daemons in one command, with a mark that is unique to this test.
fn daemons(mark: &str) -> String {
    let each = DAEMONS
        .iter()
        .map(|command| format!("( {} ) &", command.replace("MARK", mark)));
    each.collect::<Vec<_>>().join("\n") + "\n: > started; wait"
}

/// Returns how many processes of this machine sleep for this many seconds.
fn sleepers(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let words = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let sleeps = format!("sleep\0{mark}\0");
    words.filter(|words| *words == sleeps.as_bytes()).count()
}

fn assert_none_left(mark: &str, what: &str) {
    let deadline = Instant::now() + SOON;
    while sleepers(mark) > 0 {
        assert!(
            Instant::now() < deadline,
            "{} are left after {what}",
            sleepers(mark)
        );
        std::thread::yield_now();
    }
}

/// Starts a run and waits until its command has started all processes.
fn started(world: &World, flags: &[&str], mark: &str) -> crate::world::Running {
    let first = json!({ "when": { "turn": 1 }, "calls": [call("exec", json!({ "command": daemons(mark) }))] });
    let model = world.scenario(&format!("  - {first}\n  - say: done\n"));
    let run = ["run", "x", "--yes", "--model", &model];
    let running = world.start(&[&run, flags].concat());
    world.until("the daemons run", |world| {
        world.workspace().join("started").exists() && sleepers(mark) >= DAEMONS.len()
    });
    running
}

/// Returns a mark that no other test and no other execution of this one uses.
fn mark(number: u32) -> String {
    format!("{}{number}", std::process::id())
}

#[test]
fn nothing_is_left_after_a_timeout() {
    for (number, flags) in [(10, &[][..]), (11, &FILTER_OFF)] {
        let world = World::new();
        let mark = mark(number);
        let command = json!({ "command": daemons(&mark), "timeout_seconds": 2 });
        let answers = calls_in(&world, flags, &[call("exec", command)]);
        assert!(answers[0].text.contains("timed out"), "{answers:?}");
        assert!(world.workspace().join("started").exists());
        assert_none_left(&mark, "a timeout");
    }
}

#[test]
fn nothing_is_left_after_the_end() {
    let world = World::new();
    let mark = mark(20);
    let command = daemons(&mark).replace("; wait", "");
    let answers = calls_in(
        &world,
        &FILTER_OFF,
        &[call("exec", json!({ "command": command }))],
    );
    assert_eq!(answers[0].status, "ok", "{answers:?}");
    assert_none_left(&mark, "the end");
}

#[test]
fn nothing_is_left_after_a_cancel() {
    for (number, flags) in [(30, &[][..]), (31, &FILTER_OFF)] {
        let world = World::new();
        let mark = mark(number);
        let mut running = started(&world, flags, &mark);
        running.signal(Signal::INT);
        assert_none_left(&mark, "a cancel");
        running.end();
    }
}

#[test]
fn nothing_is_left_after_sortie_was_killed() {
    for (number, flags) in [(40, &[][..]), (41, &FILTER_OFF)] {
        let world = World::new();
        let mark = mark(number);
        let mut running = started(&world, flags, &mark);
        running.signal(Signal::KILL);
        assert_none_left(&mark, "a kill");
    }
}

/// If the supervisor is killed too, the processes stay: `remains.rs` covers that case.
#[test]
fn a_kill_ends_commands_without_a_sandbox_too() {
    let world = World::new();
    let mark = mark(50);
    let mut running = started(
        &world,
        &["-c", "sandbox.mode=off", FILTER_OFF[0], FILTER_OFF[1]],
        &mark,
    );
    running.signal(Signal::KILL);
    running.end();
    assert_none_left(&mark, "a kill without a sandbox");
}
