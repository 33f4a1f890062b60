//! P9: tools of MCP servers have their own names, and a changed tool has to be approved again.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::server;
use super::stage::{Answer, answers, call, calls_in, exec};
use crate::world::World;

/// Returns the flags that configure this MCP server, and the folder in which it records its calls.
fn flags(world: &World, behaviour: &str) -> (Vec<String>, PathBuf) {
    let folder = world.folder();
    let program = format!("mcp_servers.srv.command={}", json!(server::program()));
    let arguments = json!(server::arguments(behaviour, &folder));
    let arguments = format!("mcp_servers.srv.args={arguments}");
    (
        ["-c", &program, "-c", &arguments]
            .map(str::to_owned)
            .to_vec(),
        folder,
    )
}

fn run(world: &World, behaviour: &str, calls: &[Value]) -> (Vec<Answer>, Vec<String>) {
    let (flags, folder) = flags(world, behaviour);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let before = server::requests(&folder).len();
    let answers = calls_in(world, &flags, calls);
    let requests = server::requests(&folder).split_off(before);
    (answers, requests)
}

#[test]
fn mcp_tools_shadow_no_built_in_tool() {
    let world = World::new();
    let calls = [
        exec("echo real > made; echo shell"),
        call("read_file", json!({ "path": "plain.txt" })),
        call("bash", json!({ "command": "echo other spelling" })),
        call("mcp__other__exec", json!({ "command": "x" })),
        call("EXEC", json!({ "command": "echo capitals" })),
        call("../exec", json!({})),
        call("look", json!({})),
        call("mcp__srv__exec", json!({})),
        call("mcp__srv__look", json!({})),
    ];
    world.write("plain.txt", "plain\n");
    let (answers, requests) = run(&world, "shadowing", &calls);
    assert!(answers[0].text.contains("shell"), "{answers:#?}");
    assert_ne!(answers[0].sandbox["backend"], Value::Null);
    assert!(answers[1].text.contains("plain"), "{answers:#?}");
    assert!(answers[2].text.contains("other spelling"), "{answers:#?}");
    for answer in &answers[3..7] {
        assert!(!answer.text.contains("looked"), "{answer:?}");
    }
    // The control: its tools can be called by their own names, and only by those.
    assert!(answers[7].text.contains("looked"), "{answers:#?}");
    assert!(answers[8].text.contains("looked"), "{answers:#?}");
    assert_eq!(requests, ["started", "exec", "look"]);
}

#[test]
fn changed_tool_is_not_offered_until_approved() {
    let world = World::new();
    let look = [call("mcp__srv__look", json!({}))];
    let (answers, requests) = run(&world, "plain", &look);
    assert!(answers[0].text.contains("looked"), "{answers:?}");
    assert_eq!(requests, ["started", "look"]);
    let (answers, requests) = run(&world, "changed", &look);
    assert_ne!(answers[0].status, "ok", "{answers:?}");
    assert_eq!(requests, ["started"]);
    // The control: a user approves the tool as it is now.
    let (flags, _) = flags(&world, "changed");
    let mut approve = vec!["mcp", "approve", "srv"];
    approve.extend(flags.iter().map(String::as_str));
    world.ok(&approve);
    let (answers, _) = run(&world, "changed", &look);
    assert!(answers[0].text.contains("looked"), "{answers:?}");
    // Changing back does not restore an earlier approval.
    let (answers, requests) = run(&world, "plain", &look);
    assert_ne!(answers[0].status, "ok", "{answers:?}");
    assert_eq!(requests, ["started"]);
}

#[test]
fn unapproved_mcp_tool_is_never_called() {
    let world = World::new();
    let (flags, folder) = flags(&world, "plain");
    let first = json!({ "when": { "turn": 1 }, "calls": [call("mcp__srv__look", json!({}))] });
    let model = world.scenario(&format!("  - {first}\n  - say: done\n"));
    for mode in ["default", "accept-edits", "plan", "dont-ask"] {
        let mut words = vec!["run", "x", "--json", "--mode", mode, "--model", &model];
        words.extend(flags.iter().map(String::as_str));
        let task = world.json_any(&words);
        let answers = answers(&world, task["task_id"].as_str().unwrap());
        assert_eq!(answers[0].status, "denied", "{mode}: {answers:?}");
    }
    let requests = server::requests(&folder);
    assert!(
        requests.iter().all(|line| line == "started"),
        "{requests:?}"
    );
}

/// P12 for MCP servers: the result is framed by two lines that it cannot contain.
#[test]
fn a_server_cannot_write_its_own_frame() {
    let world = World::new();
    let (answers, _) = run(&world, "forging", &[call("mcp__srv__look", json!({}))]);
    let lines: Vec<&str> = answers[0].text.lines().collect();
    let last = lines.last().unwrap();
    let inside = lines
        .iter()
        .position(|line| line.starts_with("System: "))
        .unwrap();
    assert!(inside < lines.len() - 1, "{lines:#?}");
    assert_eq!(
        lines.iter().filter(|line| *line == last).count(),
        1,
        "{lines:#?}"
    );
    assert!(!last.contains("approved"), "{lines:#?}");
}
