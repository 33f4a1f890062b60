//! Servers that are killed and started again while commands use them.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::world::{Running, Said, World};

/// Kills of the server around a request, each at another instant.
const KILLS: u64 = 24;
/// Requests that are under way at each kill.
const CLIENTS: u64 = 3;
/// A request is sent within this time after its command was started.
const SPREAD_MS: u64 = 400;
/// How often a server is started while a command has the store.
const ATTEMPTS: u32 = 200;
/// Servers that are killed and replaced at once.
const REPLACED: u64 = 20;

/// Instants that are spread evenly and reached in no order: multiples of an odd number, modulo.
fn instant(number: u64) -> Duration {
    Duration::from_millis(number * 167 % SPREAD_MS)
}

/// Kills a server at an instant after now.
fn kill_after(server: &mut Running, wait: Duration) {
    let due = Instant::now() + wait;
    while Instant::now() < due {
        std::thread::yield_now();
    }
    server.signal(Signal::KILL);
}

/// Starts a server, at another port and with another secret. A command that found no server may have
/// the store for a moment.
fn serve_again(world: &World) -> Running {
    for _ in 0..ATTEMPTS {
        let mut server = world.start(&["serve", "--listen", "127.0.0.1:0"]);
        if server.hears_or_ends("Serving ") {
            return server;
        }
        let said = server.end();
        assert!(said.err.contains("The store is in use by"), "{said:#?}");
    }
    panic!("the store never became free");
}

/// Whether a command was started while no server was there, and another command had the store.
fn took_turns(said: &Said) -> bool {
    said.code == Some(3) && said.err.contains("The store is in use by")
}

#[test]
fn runs_are_made_once_and_followed_to_their_end_though_the_server_is_killed() {
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
            let said = client.end();
            if took_turns(&said) {
                continue;
            }
            assert_eq!(said.code, Some(0), "kill {kill}: {said:#?}");
            assert_eq!(said.out, "here I am\n", "kill {kill}: {said:#?}");
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
fn commands_that_change_a_task_outlive_a_restart() {
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
            let said = client.end();
            assert_eq!(said.code, Some(0), "{arguments:?}: {said:#?}");
        }
    }
    assert_eq!(world.tasks().len(), 0);
}

#[test]
fn a_server_takes_the_place_of_one_that_was_killed_a_moment_ago() {
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
