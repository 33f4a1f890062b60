//! A server and workers that share a PostgreSQL database. Each has a home of its own.

use std::collections::BTreeSet;

use rustix::process::Signal;
use serde_json::Value;

use crate::database;
use crate::life::runs;
use crate::world::{Running, World};

/// Two steps: a command that is not repeated, and the result.
const STEPS: &str = r#"
  - when: { turn: 1 }
    latency_ms: 300
    calls: [{ tool: exec, args: { command: "echo step >> ledger.txt" } }]
  - when: { turn: 2 }
    latency_ms: 300
    say: "The work is done."
"#;

/// A command that takes longer than the test.
const ENDLESS: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: exec, args: { command: "echo $$ > pid; sleep 1000" } }]
  - when: { last_result_status: interrupted }
    say: "It was interrupted."
"#;

/// A home whose configuration names a new database and a short lease.
fn world() -> World {
    let schema = database::schema();
    World::new()
        .with("SORTIE__STORE", &schema.address(&schema.folder))
        .with("SORTIE__LEASE_SECONDS", "3")
}

/// Lets commands see their real process ids.
fn without_sandbox(world: World) -> World {
    world.with("SORTIE__SANDBOX__MODE", "off")
}

/// Starts a worker with a home of its own.
fn worker(world: &World, name: &str, arguments: &[&str]) -> Running {
    let mut command = world.command(&[&["worker"], arguments].concat());
    command.env("SORTIE_HOME", world.folder().join(name));
    let mut worker = Running::start(command);
    worker.wait_for_line("executes tasks of the shared store");
    worker
}

fn spawn(world: &World, model: &str, arguments: &[&str]) -> Running {
    let usual = ["spawn", "Do the work", "--yes", "--model", model];
    world.start(&[&usual, arguments].concat())
}

fn listed(world: &World) -> Vec<Value> {
    let workers = world.json(&["workers", "--json"]);
    workers.as_array().unwrap().clone()
}

/// Returns the status of the only task; empty before there is one.
fn status(world: &World) -> String {
    let tasks = world.tasks();
    let status = tasks.first().and_then(|task| task["status"].as_str());
    status.unwrap_or_default().to_owned()
}

fn ledger(world: &World) -> String {
    std::fs::read_to_string(world.workspace().join("ledger.txt")).unwrap_or_default()
}

/// Asserts that no entry was written under an older claim than the one before it.
fn assert_one_owner_at_a_time(world: &World, task: &Value) {
    let id = task["task_id"].as_str().unwrap();
    let lines = world.ok(&["tasks", "events", id, "--json"]).out;
    let entries: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let epochs: Vec<i64> = entries
        .iter()
        .map(|entry| entry["epoch"].as_i64().unwrap())
        .collect();
    assert!(epochs.is_sorted(), "{epochs:?}");
    let claims = entries.iter().filter(|entry| entry["event"] == "claimed");
    let claims: Vec<i64> = claims
        .map(|entry| entry["claim"].as_i64().unwrap())
        .collect();
    let different: BTreeSet<_> = claims.iter().collect();
    assert_eq!(different.len(), claims.len(), "{claims:?}");
}

#[test]
fn a_task_runs_where_its_label_is_and_the_server_reports_its_events() {
    let world = world();
    let model = world.scenario(STEPS);
    let _server = world.serve();
    let mut worker = worker(&world, "gpu", &["--label", "gpu", "--limit", "2"]);
    let said = spawn(&world, &model, &["--require", "gpu"]).end();
    assert_eq!(said.out, "The work is done.\n", "{said:#?}");
    assert_eq!(ledger(&world), "step\n");
    let workers = listed(&world);
    assert_eq!(workers.len(), 2, "{workers:#?}");
    let gpu = workers.iter().find(|worker| worker["is_front"] == false);
    let gpu = gpu.unwrap();
    assert_eq!(gpu["labels"], serde_json::json!(["gpu"]), "{gpu}");
    assert_eq!(gpu["lanes"][1]["limit"], 2, "{gpu}");
    assert_eq!(gpu["state"], "active", "{gpu}");

    worker.signal(Signal::TERM);
    let ended = worker.end();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(listed(&world).len(), 1);
    let waiting = world.json(&[
        "spawn",
        "Do more",
        "--detach",
        "--require",
        "gpu",
        "--model",
        &model,
        "--json",
    ]);
    assert_eq!(waiting["status"], "pending");
}

/// A main run that waits for a child.
const ONE_CHILD: &str = r#"
  - when: { agent: main, turn: 1 }
    calls: [{ tool: task, args: { description: look, prompt: Look., subagent_type: explore } }]
  - when: { agent: main, turn: 2 }
    expect: { last_result_contains: it is here }
    say: "It is back."
  - when: { label: look }
    latency_ms: 200
    say: it is here
"#;

#[test]
fn a_server_without_slots_leaves_main_runs_and_children_to_workers() {
    let refused = World::new().sortie(&["serve", "--limit", "0"]);
    assert!(refused.err.contains("needs workers"), "{refused:#?}");

    let world = world();
    let model = world.scenario(ONE_CHILD);
    let _server = world.serve_with(&["--limit", "0"]);
    let _mains = worker(&world, "mains", &["--lane", "main"]);
    let _children = worker(&world, "children", &["--lane", "subagent"]);
    let said = world.ok(&["run", "Look around", "--model", &model]);
    assert_eq!(said.out, "It is back.\n", "{said:#?}");
    let tasks = world.tasks();
    assert_eq!(tasks.len(), 2, "{tasks:#?}");
    assert!(tasks.iter().all(|task| task["status"] == "completed"));
    assert_eq!(world.task("look")["delivery"], "delivered");
    world.ok(&["audit", "verify"]);
}

#[test]
fn cancel_reaches_a_command_on_another_worker() {
    let world = without_sandbox(world());
    let model = world.scenario(ENDLESS);
    let _server = world.serve();
    let _worker = worker(&world, "gpu", &["--label", "gpu"]);
    let client = spawn(&world, &model, &["--require", "gpu"]);
    let command = world.pid_in("pid");
    let task = world.tasks()[0]["task_id"].as_str().unwrap().to_owned();
    world.ok(&["tasks", "cancel", &task]);
    let said = client.end();
    assert_ne!(said.code, Some(0), "{said:#?}");
    world.until("the command ends", |_| !runs(command));
    assert_eq!(world.tasks()[0]["status"], "cancelled");
}

#[test]
fn a_task_of_a_killed_worker_continues_in_another() {
    let world = world();
    let model = world.scenario(STEPS);
    let _server = world.serve();
    let mut first = worker(&world, "first", &["--label", "gpu"]);
    let client = spawn(&world, &model, &["--require", "gpu"]);
    world.until("it runs", |world| status(world) == "running");
    first.signal(Signal::KILL);
    let _second = worker(&world, "second", &["--label", "gpu"]);
    let said = client.end();
    assert_eq!(said.out, "The work is done.\n", "{said:#?}");
    assert_eq!(ledger(&world), "step\n");
    assert_one_owner_at_a_time(&world, &world.tasks()[0]);
    world.until("the list shows the loss", |world| {
        let workers = listed(world);
        workers.iter().any(|worker| worker["state"] == "lost")
    });
}

#[test]
fn a_worker_that_drains_gives_its_task_to_another() {
    let world = world();
    let model = world.scenario(STEPS);
    let mut first = worker(&world, "first", &[]);
    let queued = world.json(&[
        "spawn", "Do it", "--yes", "--detach", "--model", &model, "--json",
    ]);
    assert!(queued["task_id"].is_string(), "{queued}");
    world.until("it runs", |world| status(world) == "running");
    first.signal(Signal::TERM);
    let ended = first.end();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.err.contains("back in the queue"), "{ended:#?}");
    let _second = worker(&world, "second", &[]);
    world.until("it ends", |world| world.tasks()[0]["status"] == "completed");
    assert_eq!(ledger(&world), "step\n");
    let task = &world.tasks()[0];
    assert_one_owner_at_a_time(&world, task);
}

/// A command that takes longer than a lease, and less than a worker that drains waits for it.
const SLOW: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: exec, args: { command: "echo $$ > pid; until [ -e go ]; do sleep 0.1; done; sleep 4.2; echo step >> ledger.txt" } }]
  - when: { last_result_status: interrupted }
    say: "It was interrupted."
  - say: "The work is done."
"#;

#[test]
fn a_worker_that_drains_renews_its_leases_until_its_commands_end() {
    let world = without_sandbox(world());
    let model = world.scenario(SLOW);
    let mut first = worker(&world, "first", &[]);
    world.json(&[
        "spawn", "Do it", "--yes", "--detach", "--model", &model, "--json",
    ]);
    world.pid_in("pid");
    let _second = worker(&world, "second", &[]);
    std::fs::write(world.workspace().join("go"), "").unwrap();
    first.signal(Signal::TERM);
    assert_eq!(first.end().code, Some(0));
    world.until("it ends", |world| status(world) == "completed");
    let task = &world.tasks()[0];
    assert_eq!(task["result"], "The work is done.", "{task}");
    assert_eq!(ledger(&world), "step\n");
    assert_one_owner_at_a_time(&world, task);
}

/// A main run that reads the replies to its spawns while the children are still executed.
const THREE_CHILDREN: &str = r#"
  - when: { agent: main, turn: 1 }
    calls:
      - { tool: spawn_subagent, args: { task: t, label: c1, agentId: explore } }
      - { tool: spawn_subagent, args: { task: t, label: c2, agentId: explore } }
      - { tool: spawn_subagent, args: { task: t, label: c3, agentId: explore } }
  - when: { agent: main, turn: 2 }
    expect: { last_result_contains: "[c3] started" }
    say: "All started."
  - when: { agent: main }
    say: "Noted."
  - latency_ms: 1500
    say: "found"
"#;

#[test]
fn replies_to_spawns_count_the_slots_of_all_workers() {
    let world = world();
    let model = world.scenario(THREE_CHILDREN);
    let _server = world.serve_with(&["--limit", "1"]);
    let _children = worker(&world, "children", &["--lane", "subagent", "--limit", "4"]);
    world.ok(&["run", "Look around", "--model", &model]);
    // The model has checked the replies before it said this.
    let tasks = world.tasks();
    let main = tasks.iter().find(|task| task["parent_id"].is_null());
    let id = main.unwrap()["task_id"].as_str().unwrap();
    let transcript = world.ok(&["tasks", "transcript", id]).out;
    assert!(transcript.contains("All started."), "{transcript}");
}

#[test]
fn a_worker_that_was_stopped_longer_than_its_lease_ends_its_commands() {
    let world = without_sandbox(world());
    let model = world.scenario(ENDLESS);
    let _server = world.serve();
    let mut first = worker(&world, "first", &["--label", "gpu"]);
    let client = spawn(&world, &model, &["--require", "gpu"]);
    let command = world.pid_in("pid");
    first.signal(Signal::STOP);
    let _second = worker(&world, "second", &["--label", "gpu"]);
    let said = client.end();
    assert_eq!(said.out, "It was interrupted.\n", "{said:#?}");
    first.signal(Signal::CONT);
    world.until("the command ends", |_| !runs(command));
    assert_one_owner_at_a_time(&world, &world.tasks()[0]);
    world.ok(&["audit", "verify"]);
}

#[test]
fn a_worker_needs_a_database() {
    let refused = World::new().sortie(&["worker"]);
    assert_ne!(refused.code, Some(0));
    assert!(
        refused.err.contains("set store = \"postgres://"),
        "{refused:#?}"
    );
}
