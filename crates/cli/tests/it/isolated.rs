//! A task in its own worktree, and how its changes are applied or discarded.

use std::process::Command;

use crate::world::World;

const ONE_CHANGE: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: write_file, args: { path: made.txt, content: "one\n" } }]
  - when: { turn: 2 }
    say: done
"#;

fn git(world: &World, arguments: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@example.com"])
        .args(arguments)
        .current_dir(world.workspace())
        .env("HOME", world.folder())
        .output()
        .unwrap();
    assert!(done.status.success(), "{arguments:?}: {done:?}");
}

/// Returns a world whose task has created a file in its worktree.
fn changed() -> (World, String) {
    let world = World::new();
    git(&world, &["init", "-q"]);
    world.write("first.txt", "first\n");
    git(&world, &["add", "-A"]);
    git(&world, &["commit", "-q", "-m", "first"]);
    let model = world.scenario(ONE_CHANGE);
    world.ok(&[
        "run",
        "Make it",
        "--yes",
        "--isolation",
        "worktree",
        "--model",
        &model,
    ]);
    let id = world.task("Make it")["task_id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(!world.workspace().join("made.txt").exists());
    (world, id)
}

#[test]
fn changes_are_shown_and_applied() {
    let (world, id) = changed();
    let diff = world.ok(&["tasks", "diff", &id]).out;
    assert!(
        diff.contains("+++ b/made.txt") && diff.contains("\n+one"),
        "{diff}"
    );
    let shown = world.json(&["tasks", "show", &id, "--json"]);
    assert_eq!(shown["isolation"], "worktree");
    assert_eq!(shown["changes"]["files"], 1);
    let page = world.ok(&["tasks", "show", &id]).out;
    assert!(page.contains("1 file, +1 -0"), "{page}");
    let applied = world.json(&["tasks", "apply", &id, "--json"]);
    assert_eq!(applied["files"][0], "made.txt");
    let made = std::fs::read_to_string(world.workspace().join("made.txt")).unwrap();
    assert_eq!(made, "one\n");
    let shown = world.json(&["tasks", "show", &id, "--json"]);
    assert_eq!(shown["changes_fate"], "applied");
    let page = world.ok(&["tasks", "show", &id]).out;
    assert!(page.contains("1 file, +1 -0; applied"), "{page}");
    // The branch is deleted; applied changes stay.
    world.ok(&["tasks", "discard", &id]);
    let shown = world.json(&["tasks", "show", &id, "--json"]);
    assert_eq!(shown["changes_fate"], "applied");
}

#[test]
fn changes_are_thrown_away() {
    let (world, id) = changed();
    world.ok(&["tasks", "discard", &id]);
    assert!(!world.workspace().join("made.txt").exists());
    let shown = world.json(&["tasks", "show", &id, "--json"]);
    assert_eq!(shown["changes_fate"], "discarded");
    let late = world.sortie(&["tasks", "apply", &id]);
    assert_ne!(late.code, Some(0), "{late:#?}");
}

#[test]
fn a_task_without_a_worktree_has_no_changes() {
    let world = World::new();
    let model = world.scenario("  - say: done\n");
    world.ok(&["run", "x", "--model", &model]);
    let task = world.task("x");
    let id = task["task_id"].as_str().unwrap();
    let output = world.sortie(&["tasks", "diff", id]);
    assert_eq!(output.code, Some(6));
    assert_eq!(
        output.err,
        format!(
            "error: Task {id} has no worktree of its own: it worked in the workspace itself.\n"
        )
    );
}
