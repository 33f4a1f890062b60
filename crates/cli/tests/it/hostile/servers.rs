//! P9: tools of servers have names of their own, and a tool that changed has to be approved again.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::server;
use super::stage::{Answer, answers, call, calls_in, exec};
use crate::world::World;

/// The flags that give a world this server, which notes in a folder what it was asked.
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
    let before = server::asked(&folder).len();
    let answers = calls_in(world, &flags, calls);
    let asked = server::asked(&folder).split_off(before);
    (answers, asked)
}

#[test]
fn a_server_shadows_nothing() {
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
    let (answers, asked) = run(&world, "shadowing", &calls);
    assert!(answers[0].text.contains("shell"), "{answers:#?}");
    assert_ne!(answers[0].sandbox["backend"], Value::Null);
    assert!(answers[1].text.contains("plain"), "{answers:#?}");
    assert!(answers[2].text.contains("other spelling"), "{answers:#?}");
    for answer in &answers[3..7] {
        assert!(!answer.text.contains("looked"), "{answer:?}");
    }
    // The control: by their own names its tools are called, and only so.
    assert!(answers[7].text.contains("looked"), "{answers:#?}");
    assert!(answers[8].text.contains("looked"), "{answers:#?}");
    assert_eq!(asked, ["started", "exec", "look"]);
}

#[test]
fn a_tool_that_changed_is_offered_to_nobody_until_it_is_approved() {
    let world = World::new();
    let look = [call("mcp__srv__look", json!({}))];
    let (answers, asked) = run(&world, "plain", &look);
    assert!(answers[0].text.contains("looked"), "{answers:?}");
    assert_eq!(asked, ["started", "look"]);
    let (answers, asked) = run(&world, "changed", &look);
    assert_ne!(answers[0].status, "ok", "{answers:?}");
    assert_eq!(asked, ["started"]);
    // The control: a person approves it as it is now.
    let (flags, _) = flags(&world, "changed");
    let mut approve = vec!["mcp", "approve", "srv"];
    approve.extend(flags.iter().map(String::as_str));
    world.ok(&approve);
    let (answers, _) = run(&world, "changed", &look);
    assert!(answers[0].text.contains("looked"), "{answers:?}");
    // And back: what was approved once is not approved for ever.
    let (answers, asked) = run(&world, "plain", &look);
    assert_ne!(answers[0].status, "ok", "{answers:?}");
    assert_eq!(asked, ["started"]);
}

#[test]
fn a_server_is_asked_for_nothing_that_nobody_allowed() {
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
    let asked = server::asked(&folder);
    assert!(asked.iter().all(|line| line == "started"), "{asked:?}");
}

/// P12 for servers: the answer stands between two lines that it cannot contain.
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
