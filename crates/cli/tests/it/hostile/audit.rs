//! P14: every action of a hostile model is in the audit, and a changed line is detected.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::stage::{FILTER_OFF, call, events, exec};
use crate::world::World;

/// Runs calls with every outcome, in the main run and in a child.
fn worked() -> World {
    let world = World::new();
    let calls = [
        exec("echo fine"),
        exec("rm -rf --no-preserve-root /"),
        exec("sudo reboot"),
        call("read_file", json!({ "path": "/etc/shadow" })),
        call(
            "write_file",
            json!({ "path": ".git/hooks/x", "content": "evil" }),
        ),
        call("nothing", json!({ "a": 1 })),
        call("read_file", json!({ "wrong": 1 })),
        json!({ "tool": "exec", "raw_args": "{\"command\":" }),
        call("web_fetch", json!({ "url": "http://127.0.0.1:1/" })),
        call(
            "task",
            json!({ "description": "child", "prompt": "x", "subagent_type": "explore" }),
        ),
        call(
            "task",
            json!({ "description": "none", "prompt": "x", "subagent_type": "nobody" }),
        ),
        call("list_dir", json!({ "path": "." })),
    ];
    let child = [
        call("write_file", json!({ "path": "x", "content": "evil" })),
        call(
            "task",
            json!({ "description": "y", "prompt": "x", "subagent_type": "code" }),
        ),
        exec("echo child"),
    ];
    let first = json!({ "when": { "depth": 0, "turn": 1 }, "calls": calls });
    let second = json!({ "when": { "depth": 1, "turn": 1 }, "calls": child });
    let model = world.scenario(&format!("  - {first}\n  - {second}\n  - say: done\n"));
    let deny = "policy.deny=[\"list_dir\"]";
    world.json_any(&["run", "x", "--yes", "--json", "-c", deny, "--model", &model]);
    world
}

/// Returns the calls that models made, by run and call id.
fn called(world: &World) -> BTreeMap<(String, String), String> {
    let mut calls = BTreeMap::new();
    for task in world.tasks() {
        let run = task["task_id"].as_str().unwrap().to_owned();
        for event in events(world, &run) {
            let blocks = event["blocks"].as_array().cloned().unwrap_or_default();
            for block in blocks.iter().filter(|block| block["type"] == "call") {
                let word = |name: &str| block[name].as_str().unwrap().to_owned();
                calls.insert((run.clone(), word("id")), word("name"));
            }
        }
    }
    calls
}

fn lines(world: &World) -> Vec<Value> {
    let out = world.ok(&["audit", "--json"]).out;
    out.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_call_has_one_end_in_the_audit() {
    let world = worked();
    let called = called(&world);
    assert_eq!(called.len(), 15, "{called:#?}");
    let lines = lines(&world);
    let mut ended: Vec<(String, String)> = lines
        .iter()
        .filter(|line| line["stage"] == "ended")
        .map(|line| {
            let word = |name: &str| line[name].as_str().unwrap().to_owned();
            (word("task_id"), word("call"))
        })
        .collect();
    ended.sort();
    assert_eq!(ended, called.keys().cloned().collect::<Vec<_>>());
    // A decision names its layer; a call that could not be parsed has no decision.
    for line in lines.iter().filter(|line| line["stage"] == "ended") {
        let same =
            |other: &&Value| other["task_id"] == line["task_id"] && other["call"] == line["call"];
        let decided = lines
            .iter()
            .filter(same)
            .any(|other| other["ruling"]["layer"].is_string());
        assert!(decided || line["status"] == "error", "{line}");
    }
    world.ok(&["audit", "verify"]);
}

/// Changes bytes of the database itself, as an attacker with an editor would; the length stays.
fn falsify(world: &World, from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    let file = world.home().join("sortie.db");
    let mut bytes = std::fs::read(&file).unwrap();
    let places: Vec<usize> = bytes
        .windows(from.len())
        .enumerate()
        .filter(|(_, window)| *window == from.as_bytes())
        .map(|(place, _)| place)
        .collect();
    assert!(!places.is_empty(), "there is no {from} in the database");
    for place in places {
        bytes[place..place + from.len()].copy_from_slice(to.as_bytes());
    }
    std::fs::write(&file, bytes).unwrap();
}

#[test]
fn audit_verify_detects_a_falsified_line() {
    for (from, to) in [
        ("\"decision\":\"deny\"", "\"decision\":\"allw\""),
        ("\"layer\":\"global\"", "\"layer\":\"agent \""),
        ("\"tool\":\"exec\"", "\"tool\":\"skip\""),
        ("\"stage\":\"ended\"", "\"stage\":\"begun\""),
        ("sudo reboot", "echo reboot"),
    ] {
        let world = worked();
        world.ok(&["audit", "verify"]);
        falsify(&world, from, to);
        let output = world.sortie(&["audit", "verify"]);
        assert_ne!(output.code, Some(0), "{from}: {output:#?}");
    }
}

/// An agent can reach the audit neither with tools nor with a command.
#[test]
fn an_agent_does_not_reach_the_audit() {
    let world = worked();
    let before = lines(&world).len();
    let home = world.home();
    let home = home.display();
    let answers = super::stage::calls_in(
        &world,
        &FILTER_OFF,
        &[
            exec(&format!(
                "rm -rf {home}; printf x > {home}/sortie.db; ls {home}"
            )),
            call(
                "write_file",
                json!({ "path": format!("{home}/sortie.db"), "content": "" }),
            ),
            call(
                "write_file",
                json!({ "path": "../home/sortie.db-wal", "content": "" }),
            ),
        ],
    );
    assert!(lines(&world).len() > before, "{answers:?}");
    world.ok(&["audit", "verify"]);
}
