//! No single call and no state of a repository stops the process, or the server for other tenants.

use std::process::Command;

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

use super::stage::{call, calls_in};
use crate::server::{request, send};
use crate::world::World;

/// Returns calls that overflow the stack or never end if code recurses over what a model wrote.
fn endless_calls() -> Vec<Value> {
    let mut calls = Vec::new();
    for path in ["a/".repeat(2_000) + "b", "../".repeat(1_300) + "b"] {
        calls.push(call("read_file", json!({ "path": path })));
        calls.push(call("list_dir", json!({ "path": path })));
        calls.push(call("glob", json!({ "path": path, "pattern": "*" })));
        calls.push(call("grep", json!({ "path": path, "pattern": "x" })));
        calls.push(call("write_file", json!({ "path": path, "content": "x" })));
        calls.push(call(
            "edit_file",
            json!({ "path": path, "old_string": "a", "new_string": "b" }),
        ));
        calls.push(call("exec", json!({ "command": "true", "workdir": path })));
    }
    for pattern in ["(".repeat(10_000), "[".repeat(10_000), "(a|".repeat(5_000)] {
        calls.push(call("grep", json!({ "pattern": pattern })));
    }
    calls.push(call("glob", json!({ "pattern": "{".repeat(1_000) })));
    for command in [
        "(".repeat(20_000),
        "$(".repeat(20_000),
        "`".repeat(20_001),
        "if true; then ".repeat(5_000),
        "\"$(".repeat(10_000),
        "<(".repeat(10_000),
        "! ".repeat(20_000) + "true",
        "sh -c '".repeat(5_000),
        "a=".to_owned() + &"${a:-".repeat(10_000),
        "((".repeat(10_000),
        "case x in ".repeat(5_000),
    ] {
        calls.push(call(
            "exec",
            json!({ "command": command, "timeout_seconds": 5 }),
        ));
    }
    calls
}

#[test]
fn no_call_ends_the_process() {
    let world = World::new();
    let calls = endless_calls();
    let answers = calls_in(&world, &[], &calls);
    assert_eq!(answers.len(), calls.len(), "each call has one result");
    for (call, answer) in calls.iter().zip(&answers).take(14) {
        assert_ne!(answer.status, "ok", "{}: {answer:?}", call["tool"]);
    }
}

/// The last schema doubles the work with each definition: it once kept the process busy for ever.
#[test]
fn endless_schema_gets_an_error_result() {
    let mut doubling = serde_json::Map::new();
    for at in 0..60 {
        let next = json!({ "$ref": format!("#/$defs/d{}", at + 1) });
        doubling.insert(format!("d{at}"), json!({ "allOf": [next, next] }));
    }
    doubling.insert("d60".to_owned(), json!({}));
    for (schema, words) in [
        (json!({"$ref": "#"}), "refers to itself"),
        (json!({"allOf": [{"$ref": "#"}]}), "refers to itself"),
        (
            json!({"$defs": doubling, "$ref": "#/$defs/d0"}),
            "too often to be checked",
        ),
    ] {
        let world = World::new();
        let arguments = json!({ "task": "t", "result_schema": schema });
        let answers = calls_in(&world, &[], &[call("spawn_subagent", arguments)]);
        assert_eq!(answers.len(), 1);
        let text = &answers[0].text;
        assert!(text.contains(words), "{words}: {text}");
    }
}

/// Starts a server whose administrator and tenant have different workspaces.
fn shared_server(world: &World) -> (String, String) {
    let theirs = world.folder().join("theirs");
    std::fs::create_dir_all(&theirs).unwrap();
    let theirs = theirs.canonicalize().unwrap().display().to_string();
    let file = world.folder().join(".config/sortie/config.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let text = format!("[server.tenants.acme]\nworkspaces = ['{theirs}']\n");
    std::fs::write(&file, text).unwrap();
    let made = ["keys", "create", "--role", "operator", "--name", "k"];
    let made = world.ok(&[&made[..], &["--tenant", "acme"]].concat());
    (made.out.trim().to_owned(), theirs)
}

/// Asserts that the same process still completes a task of the other tenant.
fn other_tenant_works(world: &World, key: &str, folder: &str, pid: &Value) {
    let body = json!({"message": "x", "model": "offline", "workspace": folder});
    let (status, made) = send(world, key, "POST /api/tasks", &body.to_string());
    assert_eq!(status, 201, "{made}");
    world.until("the other tenant's task ends", |world| {
        let (_, body) = request(world, key, "GET", "/api/tasks");
        let all: Value = serde_json::from_str(&body).unwrap();
        let tasks = all.as_array().unwrap();
        tasks.iter().all(|task| task["status"] == "completed")
    });
    assert_eq!(world.json(&["status", "--json"])["pid"], *pid);
}

#[test]
fn a_server_survives_the_calls_of_one_tenant() {
    let world = World::new();
    let (key, theirs) = shared_server(&world);
    let server = world.serve();
    let pid = json!(server.pid());
    let calls = endless_calls();
    let answers = calls_in(&world, &[], &calls);
    assert_eq!(answers.len(), calls.len(), "each call has one result");
    other_tenant_works(&world, &key, &theirs, &pid);
}

#[test]
fn repository_with_fifos_blocks_only_its_own_task() {
    let world = World::new();
    let (key, theirs) = shared_server(&world);
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=a", "-c", "user.email=a@example.com"]);
        command.args(arguments).current_dir(world.workspace());
        let done = command.env("HOME", world.folder()).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {done:?}");
    };
    git(&["init", "-q"]);
    world.write("first.txt", "first\n");
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "first"]);
    let server = world.serve();
    let pid = json!(server.pid());
    let model = world.scenario("  - say: done\n");
    let run = ["run", "look", "--yes", "--json", "--model", &model];
    let run = [&run[..], &["--isolation", "worktree"]].concat();
    for name in ["index", "HEAD"] {
        let place = world.workspace().join(".git").join(name);
        let kept = std::fs::read(&place).unwrap();
        std::fs::remove_file(&place).unwrap();
        mkfifoat(CWD, &place, Mode::RUSR | Mode::WUSR).unwrap();
        // Several at once: each would block a worker thread.
        let stuck: Vec<_> = (0..4).map(|_| world.start(&run)).collect();
        other_tenant_works(&world, &key, &theirs, &pid);
        for one in stuck {
            let output = one.end();
            assert_ne!(output.code, Some(0), "{output:?}");
            assert!(
                output.out.contains(name) || output.err.contains(name),
                "{output:?}"
            );
        }
        std::fs::remove_file(&place).unwrap();
        std::fs::write(&place, kept).unwrap();
    }
    world.ok(&run);
}
