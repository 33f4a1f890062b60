//! Measures how long a decision takes.

use std::hint::black_box;
use std::time::Instant;

use sortie_policy::Compiled;

use crate::stage::{policy, with_call};

/// The number of measured rounds.
const ROUNDS: u32 = 200;
/// The number of decisions about each call in a round.
const CALLS: u32 = 100;

/// Returns a policy of ten layers with forty rules.
fn typical() -> Compiled {
    let layers = [
        "global: deny exec(curl *), exec(wget *), read_file(.env), read_file(**/*.pem); ask exec(git push *)",
        "provider: deny mcp__mail__*, mcp__calendar__*",
        "agent: allow group:fs, exec, web_fetch, task, todo_write, mcp__*",
        "agent: approve exec(git status), exec(git diff *), exec(cargo test *), exec(ls *)",
        "group: deny screenshot, send_media, message",
        "sandbox: deny exec(docker *), exec(sudo *)",
        "subagent: deny memory_*, cron, gateway, spawn, sessions_list, sessions_send; except task",
        "subagent: deny group:spawn(); except task",
        "parent: allow *",
        "spawn: allow read_file, grep, write_file(src/**), exec, web_fetch(domain:docs.rs), web_fetch(domain:*.rs); deny write_file(src/generated/**)",
    ]
    .map(|layer| layer.replace("group:spawn()", "process_control"));
    let layers: Vec<&str> = layers.iter().map(String::as_str).collect();
    let compiled = Compiled::new(
        &policy(&layers, "default"),
        &["exec(cargo build)".to_owned()],
    );
    assert_eq!(compiled.unreadable(), None);
    compiled
}

/// Run with `--release -- --ignored --nocapture` to see the numbers.
#[test]
#[ignore = "a measurement for people to read"]
fn nanoseconds_for_each_decision() {
    let compiled = typical();
    for text in [
        "todo_write",
        "grep src",
        "read_file src/main.rs",
        "write_file src/main.rs",
        "web_fetch https://docs.rs/serde",
        "exec git status",
        "exec cargo test --workspace && git diff --stat",
    ] {
        with_call(text, true, |call| {
            let decision = compiled.decide(call).decision;
            let each = best(|| drop(black_box(compiled.decide(black_box(call)))));
            println!("{each:>8} ns  {decision:<5}  {text}");
        });
    }
    let each = best(|| drop(black_box(sortie_shell::read(black_box("git status")))));
    println!("{each:>8} ns  of which reading `git status`");
}

/// Returns the nanoseconds of the best round, which excludes the load of other programs.
fn best(work: impl Fn()) -> u128 {
    let round = || {
        let started = Instant::now();
        for _ in 0..CALLS {
            work();
        }
        started.elapsed().as_nanos() / u128::from(CALLS)
    };
    (0..ROUNDS).map(|_| round()).min().unwrap_or_default()
}
