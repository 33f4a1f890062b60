//! Replays of a tree from its journals, forks, and playback of recordings.

use serde_json::Value;

use crate::world::World;

/// A main run with two children, a tool, and a failure in between.
const STORY: &str = "  - when: { depth: 1, turn: 1 }
    calls: [{ tool: list_dir, args: { path: '.' } }]
  - when: { depth: 1 }
    say: found
  - when: { turn: 1 }
    calls:
      - { tool: task, args: { description: one, prompt: look, subagent_type: explore } }
      - { tool: spawn_subagent, args: { task: two, agentId: explore } }
  - when: { turn: 2 }
    fault: { kind: retryable, message: busy, times: 1 }
    say: I wait
  - say: all is well
";

fn completed_run(world: &World) -> String {
    let model = world.scenario(STORY);
    let run = world.json(&["run", "Look", "--json", "--model", &model]);
    assert_eq!(run["status"], "completed", "{run}");
    run["task_id"].as_str().unwrap().to_owned()
}

#[test]
fn replay_of_a_tree_is_identical_to_the_byte() {
    let world = World::new();
    let id = completed_run(&world);
    let before = journals(&world);
    // A replay needs neither model nor workspace: it calls no model and runs no tool.
    std::fs::remove_file(world.folder().join("scenario.yaml")).unwrap();
    let again = world.json(&["replay", &id, "--json"]);
    assert_eq!(again["identical"], true);
    assert_eq!(again["runs"], 3);
    let printed = world.ok(&["replay", &id, "--journal"]).out;
    assert_eq!(
        printed.lines().count() as u64,
        again["events"].as_u64().unwrap()
    );
    assert_eq!(journals(&world), before, "the store was only read");
    for line in printed.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        assert!(before.contains(line), "{entry}");
    }
}

fn journals(world: &World) -> String {
    let mut all = String::new();
    for task in world.tasks() {
        let id = task["task_id"].as_str().unwrap().to_owned();
        all.push_str(&world.ok(&["tasks", "events", &id, "--json"]).out);
    }
    all
}

#[test]
fn fork_continues_with_another_model() {
    forks(&World::new());
}

#[test]
fn fork_continues_in_a_server() {
    let world = World::new();
    let server = world.serve();
    forks(&world);
    // The server created the fork: no other process held the store.
    let lock = std::fs::read_to_string(world.home().join("lock")).unwrap();
    assert!(lock.contains(&server.pid().to_string()), "{lock}");
}

fn forks(world: &World) {
    let id = completed_run(world);
    let other = world.folder().join("other.yaml");
    std::fs::write(
        &other,
        "version: 1\nrules:\n  - say: \"seen: {{last_result}}\"\n",
    )
    .unwrap();
    let model = format!("script:{}", other.display());
    let events = world.ok(&["tasks", "events", &id, "--json"]).out;
    let at = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|entry| entry["event"] == "answered")
        .unwrap()["seq"]
        .to_string();
    let forked = world.json(&["replay", &id, "--from", &at, "--model", &model, "--json"]);
    assert_eq!(forked["status"], "completed", "{forked}");
    assert_eq!(forked["model"], model.as_str());
    assert_ne!(forked["task_id"], id.as_str());
    let text = forked["result"].as_str().unwrap();
    assert!(text.contains("branched off"), "{text}");
    let replayed = world.json(&["replay", forked["task_id"].as_str().unwrap(), "--json"]);
    assert_eq!(replayed["identical"], true);
    let nowhere = world.sortie(&["replay", &id, "--from", "9999"]);
    assert_eq!(nowhere.code, Some(6), "{nowhere:#?}");
    assert!(nowhere.err.contains("but no event 9999"), "{}", nowhere.err);
}

/// The order of completion does not matter: a recording follows turns, not time.
const BLOCKING: &str = "  - when: { depth: 1, turn: 1 }
    calls: [{ tool: list_dir, args: { path: '.' } }]
  - when: { depth: 1 }
    say: found
  - when: { turn: 1 }
    calls:
      - { tool: task, args: { description: one, prompt: look, subagent_type: explore } }
      - { tool: task, args: { description: two, prompt: look too, subagent_type: explore } }
  - when: { turn: 2 }
    calls: [{ tool: subagents, args: { action: list } }]
  - fault: { kind: retryable, message: busy, times: 1 }
    say: all is well
";

#[test]
fn a_recording_plays_back_without_its_model() {
    let world = World::new();
    let model = world.scenario(BLOCKING);
    let tape = world.folder().join("tape");
    let tape = tape.to_str().unwrap();
    let first = world.json(&["run", "Look", "--json", "--model", &model, "--record", tape]);
    std::fs::remove_file(world.folder().join("scenario.yaml")).unwrap();
    let replay = format!("replay:{tape}");
    let second = world.json(&["run", "Look", "--json", "--model", &replay]);
    assert_eq!(second["status"], "completed", "{second}");
    assert_eq!(second["result"], first["result"]);
    assert_ne!(second["task_id"], first["task_id"]);
    let missing = world.json_any(&["run", "Something else", "--json", "--model", &replay]);
    assert_eq!(missing["status"], "failed", "{missing}");
    assert!(
        missing["error"]
            .as_str()
            .unwrap()
            .contains("Something else"),
        "{missing}"
    );
}
