//! A workspace that another run swaps for a link while its own run waits.

use serde_json::json;

use super::stage::{Answer, CANARY, answers, call, exec, files_of};
use crate::world::World;

/// Returns the calls of the waiting run: reads and writes by tool and by command.
fn uses() -> Vec<serde_json::Value> {
    vec![
        call("read_file", json!({ "path": "note.txt" })),
        call("list_dir", json!({})),
        call("grep", json!({ "pattern": "." })),
        exec("cat note.txt; echo more >> note.txt"),
        call("write_file", json!({ "path": "new.txt", "content": "x" })),
    ]
}

/// Queues a run in a folder of the workspace behind a run that acts in the workspace, and executes
/// both in another process. Returns the outcomes of the queued run's calls, then and after a retry.
fn waited(world: &World, act: &str) -> [Vec<Answer>; 2] {
    world.write("sub/note.txt", "mine\n");
    let secret = world.folder().join("secret");
    std::fs::create_dir(&secret).unwrap();
    std::fs::write(secret.join("note.txt"), CANARY).unwrap();
    let acts = json!({ "when": { "label": "acts", "turn": 1 }, "calls": [exec(act)] });
    let waits = json!({ "when": { "label": "waits", "turn": 1 }, "calls": uses() });
    let model = world.scenario(&format!("  - {acts}\n  - {waits}\n  - say: done\n"));
    let queue = ["--agent", "code", "--yes", "--detach", "--model", &model];
    let waits = ["spawn", "waits", "--workspace", "sub"];
    world.ok(&[&waits, &queue[..]].concat());
    let acts = ["spawn", "acts", "--priority", "high"];
    world.ok(&[&acts, &queue[..]].concat());
    world.ok(&["resume", "--max-concurrent", "1"]);
    let acted = world.task("acts");
    let acted = &answers(world, acted["task_id"].as_str().unwrap())[0];
    assert!(acted.text.ends_with("exit code: 0"), "{acted:?}");
    let first = world.task("waits")["task_id"].as_str().unwrap().to_owned();
    let mut again = world.json(&["tasks", "retry", &first, "--json"]);
    let again = again["task_id"].take();
    world.ok(&["resume"]);
    [first.as_str(), again.as_str().unwrap()].map(|id| answers(world, id))
}

#[test]
fn a_workspace_that_is_swapped_while_its_run_waits_is_not_followed() {
    let world = World::new();
    let secret = world.folder().join("secret");
    let act = format!("mv sub away && ln -s '{}' sub", secret.display());
    for answers in waited(&world, &act) {
        assert_eq!(answers.len(), uses().len());
        for answer in answers {
            assert_eq!(answer.status, "error", "{answer:?}");
            assert!(!answer.text.contains(CANARY), "{answer:?}");
            assert!(
                answer.text.contains("is a link or not a folder"),
                "{answer:?}"
            );
        }
    }
    let kept = files_of(&secret, &[]);
    let note = (secret.join("note.txt"), CANARY.to_owned());
    assert_eq!(kept.into_iter().collect::<Vec<_>>(), [note]);
}

/// The control: the same run works if the folder is not swapped, or is replaced by a folder.
#[test]
fn a_workspace_that_stays_a_folder_is_worked_in() {
    for act in [
        "true",
        "mv sub away && mkdir sub && echo mine > sub/note.txt",
    ] {
        let world = World::new();
        for answers in waited(&world, act) {
            for answer in &answers {
                assert_eq!(answer.status, "ok", "{act}: {answer:?}");
            }
            assert!(answers[0].text.contains("mine"), "{:?}", answers[0]);
            assert!(answers[3].text.starts_with("mine"), "{:?}", answers[3]);
        }
        let folder = world.workspace().join("sub");
        let note = std::fs::read_to_string(folder.join("note.txt"));
        assert_eq!(note.unwrap(), "mine\nmore\nmore\n");
        assert!(folder.join("new.txt").exists());
    }
}

/// A user may name a folder through a link, which is resolved at that moment.
#[test]
fn a_folder_that_a_person_names_through_a_link_is_worked_in() {
    let world = World::new();
    world.write("real/note.txt", "mine\n");
    std::os::unix::fs::symlink("real", world.workspace().join("link")).unwrap();
    let first = json!({ "when": { "turn": 1 }, "calls": uses() });
    let model = world.scenario(&format!("  - {first}\n  - say: done\n"));
    let run = ["run", "do it", "--yes", "--json", "--workspace", "link"];
    let task = world.json(&[&run[..], &["--model", &model]].concat());
    let answers = answers(&world, task["task_id"].as_str().unwrap());
    for answer in &answers {
        assert_eq!(answer.status, "ok", "{answer:?}");
    }
    assert!(world.workspace().join("real/new.txt").exists());
}
