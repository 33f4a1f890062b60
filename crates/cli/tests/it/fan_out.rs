//! A fan-out whose process is killed.

use rustix::process::Signal;
use serde_json::Value;

use crate::world::World;

/// One item hangs; the others complete.
const STUCK: &str = "  - when: { depth: 0, turn: 1 }
    calls:
      - tool: fan_out
        args: { items: [a, b, c, d, e, f], template: 'Look at {item}.', agent: explore, concurrency: 2 }
  - when: { depth: 0 }
    say: 'main read: {{last_result}}'
  - when: { task: 'Look at d.' }
    fault: { kind: hang }
  - when: { turn: 1 }
    calls: [{ tool: list_dir, args: { path: '.' } }]
  - say: 'seen by {{label}}'
";

fn finished(world: &World) -> Vec<Value> {
    let mut tasks = world.tasks();
    tasks.retain(|task| task["depth"] == 1 && task["status"] == "completed");
    tasks
}

#[test]
fn finished_siblings_survive_a_kill_and_only_the_others_run_again() {
    let world = World::new();
    let model = world.scenario(STUCK);
    let mut run = world.start(&["run", "Go", "--model", &model]);
    world.until("five items are completed", |world| {
        finished(world).len() == 5
    });
    run.signal(Signal::KILL);
    run.end();
    let journal = |task: &Value| {
        let id = task["task_id"].as_str().unwrap().to_owned();
        world.ok(&["tasks", "events", &id, "--json"]).out
    };
    let before: Vec<(Value, String)> = finished(&world)
        .into_iter()
        .map(|task| (task.clone(), journal(&task)))
        .collect();
    assert_eq!(before.len(), 5);

    world.scenario(&STUCK.replace("fault: { kind: hang }", "say: late"));
    world.ok(&["resume"]);
    let tasks = world.tasks();
    assert_eq!(tasks.len(), 7, "{tasks:#?}");
    for (task, events) in &before {
        assert_eq!(journal(task), *events, "a finished item was run again");
    }
    let main = tasks.iter().find(|task| task["depth"] == 0).unwrap();
    assert_eq!(main["status"], "completed", "{main}");
    let result = main["result"].as_str().unwrap();
    assert!(result.contains("All 6 items completed."), "{result}");
    let places = ["a", "b", "c", "late", "e", "f"].map(|item| {
        let text = if item == "late" {
            item.to_owned()
        } else {
            format!("seen by {item}")
        };
        result
            .find(&text)
            .unwrap_or_else(|| panic!("{text}: {result}"))
    });
    assert!(places.is_sorted(), "in the order of the items: {result}");
    let id = main["task_id"].as_str().unwrap();
    assert_eq!(world.json(&["replay", id, "--json"])["identical"], true);
}
