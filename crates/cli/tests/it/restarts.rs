//! Servers that are killed and restarted while commands use them.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::world::{CommandOutput, Running, World};

/// Kills of the server around a request, each at a different instant.
const KILLS: u64 = 24;
/// Requests in flight at each kill.
const CLIENTS: u64 = 3;
/// A request is sent within this time after its command was started.
const SPREAD_MS: u64 = 400;
/// How often the test tries to start a server while a command holds the store.
const ATTEMPTS: u32 = 200;
/// Servers that are killed and immediately replaced.
const REPLACED: u64 = 20;

/// Returns instants that are spread evenly and visited in no order: multiples of an odd number,
/// modulo the range.
fn instant(number: u64) -> Duration {
    Duration::from_millis(number * 167 % SPREAD_MS)
}

/// Kills a server after a delay.
fn kill_after(server: &mut Running, wait: Duration) {
    let due = Instant::now() + wait;
    while Instant::now() < due {
        std::thread::yield_now();
    }
    server.signal(Signal::KILL);
}

/// Starts a server on another port and with another secret. A command that found no server may hold
/// the store for a moment.
fn serve_again(world: &World) -> Running {
    for _ in 0..ATTEMPTS {
        let mut server = world.start(&["serve", "--listen", "127.0.0.1:0"]);
        if server.wait_for_line_or_end("Serving ") {
            return server;
        }
        let output = server.end();
        assert!(output.err.contains("The store is in use by"), "{output:#?}");
    }
    panic!("the store never became free");
}

/// Whether a command was started while no server ran and another command held the store.
fn took_turns(output: &CommandOutput) -> bool {
    output.code == Some(3) && output.err.contains("The store is in use by")
}

#[test]
fn runs_are_created_once_and_followed_across_server_kills() {
    let world = World::new();
    let model = world.scenario("  - say: here I am\n");
    let mut server = world.serve();
    let mut made = 0;
    for kill in 0..KILLS {
        let clients: Vec<Running> = (0..CLIENTS)
            .map(|number| {
                let label = format!("run {kill}.{number}");
                world.start(&["run", &label, "--model", &model])
            })
            .collect();
        kill_after(&mut server, instant(kill));
        server = serve_again(&world);
        for client in clients {
            let output = client.end();
            if took_turns(&output) {
                continue;
            }
            assert_eq!(output.code, Some(0), "kill {kill}: {output:#?}");
            assert_eq!(output.out, "here I am\n", "kill {kill}: {output:#?}");
            made += 1;
        }
    }
    drop(server);
    let tasks = world.tasks();
    let mut labels: Vec<_> = tasks.iter().map(|task| task["message"].clone()).collect();
    labels.sort_by_key(ToString::to_string);
    labels.dedup();
    assert_eq!(labels.len(), tasks.len(), "none was made twice");
    assert_eq!(
        tasks.len(),
        made,
        "none was made that its command does not know of"
    );
    assert!(made as u64 > KILLS * CLIENTS / 2, "{made}");
}

#[test]
fn commands_that_change_a_task_survive_a_server_restart() {
    let world = World::new();
    let model = world.scenario("  - fault: { kind: hang }\n");
    let mut server = world.serve();
    for number in 0..5 {
        let label = format!("task {number}");
        let made = ["spawn", &label, "--detach", "--json", "--model", &model];
        let made = world.json(&made);
        let id = made["task_id"].as_str().unwrap();
        let commands: [&[&str]; 4] = [
            &["tasks", "pause", id],
            &["tasks", "resume", id],
            &["tasks", "cancel", id],
            &["tasks", "delete", id],
        ];
        for (kind, arguments) in commands.into_iter().enumerate() {
            if arguments[1] == "delete" {
                world.until("it has ended", |world| {
                    world.json(&["tasks", "show", id, "--json"])["status"] == "cancelled"
                });
            }
            let client = world.start(arguments);
            kill_after(&mut server, instant(number * 4 + kind as u64));
            server = serve_again(&world);
            let output = client.end();
            assert_eq!(output.code, Some(0), "{arguments:?}: {output:#?}");
        }
    }
    assert_eq!(world.tasks().len(), 0);
}

#[test]
fn server_starts_right_after_another_was_killed() {
    let world = World::new();
    let mut server = world.serve();
    for number in 0..REPLACED {
        kill_after(&mut server, instant(number) / 8);
        let next = world.serve();
        drop(std::mem::replace(&mut server, next));
    }
    server.signal(Signal::TERM);
    assert_eq!(server.end().code, Some(0));
}
