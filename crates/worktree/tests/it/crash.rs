//! A process that dies, and what the next one recovers; many concurrent runs; and the sweep.

use std::fs;
use std::path::PathBuf;

use futures::future::join_all;
use sortie_worktree::{Collected, WorktreeError};

use crate::support::{BRANCH, RUN, Scene, checkout_key, files, plant_plan, run_git, write};

fn run_folder(scene: &Scene) -> PathBuf {
    scene.root.with_file_name("worktrees").join(RUN)
}

/// Reverts the record to its state before the last change.
fn forget(scene: &Scene, record: &str) {
    fs::write(run_folder(scene).join("record.json"), record).expect("written");
}

fn record(scene: &Scene) -> String {
    fs::read_to_string(run_folder(scene).join("record.json")).expect("read")
}

#[tokio::test]
async fn unchanged_worktree_is_removed() {
    for is_dirty in [false, true] {
        let scene = Scene::new();
        if is_dirty {
            scene.write("text", "not committed\n");
        }
        let before = scene.state();
        let worktree = scene.create().await;
        assert_eq!(worktree.branch, BRANCH);
        assert_eq!(scene.branches(), format!("main\n{BRANCH}\n"));
        write(&worktree.root, "ignored", "build output\n");
        for _ in 0..2 {
            let collected = scene.worktrees.collect(&worktree).await;
            assert_eq!(collected.expect("collected"), Collected::Untouched);
            assert!(!worktree.root.exists());
            assert_eq!(scene.branches(), "main\n");
        }
        assert_eq!(scene.state(), before);
    }
}

#[tokio::test]
async fn the_same_run_gets_the_same_worktree() {
    let scene = Scene::new();
    let first = scene.create().await;
    write(&first.root, "text", "half done\n");
    // The user keeps working; the worktree does not change under the child.
    scene.write("text", "person\n");
    scene.commit("second");
    let second = scene.create().await;
    assert_eq!(first, second);
    assert_eq!(scene.worktrees.open(RUN).expect("read"), Some(first));
    let text = fs::read_to_string(second.root.join("text")).expect("read");
    assert_eq!(text, "half done\n");
}

#[tokio::test]
async fn create_is_restarted_after_a_crash() {
    let scene = Scene::new();
    let worktree = scene.create().await;
    let opened = record(&scene);
    let creating = serde_json_creating(&opened);
    forget(&scene, &creating);
    write(&worktree.root, "text", "half a checkout");
    assert_eq!(scene.worktrees.open(RUN).expect("read"), None);
    let again = scene.create().await;
    assert_eq!(files(&again.root), files(&scene.root));
    assert_eq!(record(&scene), opened);
}

/// Returns the record as it is while a worktree is being created.
fn serde_json_creating(opened: &str) -> String {
    let state = opened.find("\"state\"").expect("a state");
    format!("{}\"state\": \"creating\"\n}}", &opened[..state])
}

#[tokio::test]
async fn collect_is_repeated_after_a_crash() {
    let scene = Scene::new();
    let worktree = scene.create().await;
    write(&worktree.root, "text", "child\n");
    let opened = record(&scene);
    // The branch has everything, but the record is not written and no file is removed.
    let tree = files(&worktree.root);
    let keep = scene.home.path().join("keep");
    copy(&run_folder(&scene), &keep);
    let first = scene.collect(&worktree).await;
    fs::remove_dir_all(run_folder(&scene)).expect("removed");
    fs::rename(&keep, run_folder(&scene)).expect("renamed");
    assert_eq!(record(&scene), opened);
    assert_eq!(files(&worktree.root), tree);
    let second = scene.collect(&worktree).await;
    assert_eq!(second, first);
    // The record is written, and collect is called again.
    assert_eq!(scene.collect(&worktree).await, first);
    assert_eq!(scene.branches(), format!("main\n{BRANCH}\n"));
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    let status = std::process::Command::new("cp")
        .arg("-a")
        .args([from, to])
        .status();
    assert!(status.expect("started").success());
}

#[tokio::test]
async fn run_may_resume_after_it_was_collected() {
    let scene = Scene::new();
    scene.write("text", "not committed\n");
    let worktree = scene.create().await;
    write(&worktree.root, "one", "1\n");
    let first = scene.collect(&worktree).await;
    let again = scene.create().await;
    assert_eq!(again.base, worktree.base);
    assert_eq!(
        fs::read_to_string(again.root.join("one")).expect("read"),
        "1\n"
    );
    write(&again.root, "two", "2\n");
    let second = scene.collect(&again).await;
    assert_ne!(second.commit, first.commit);
    assert_eq!(second.file_count, 2);
}

#[tokio::test]
async fn branch_moved_by_another_process_is_not_changed() {
    let scene = Scene::new();
    let worktree = scene.create().await;
    write(&worktree.root, "text", "child\n");
    scene.write("text", "person\n");
    scene.commit("second");
    run_git(&scene.root, &["branch", "-f", BRANCH, "main"]);
    let refusal = scene.worktrees.collect(&worktree).await.expect_err("moved");
    assert!(
        matches!(refusal, WorktreeError::BranchMoved { .. }),
        "{refusal}"
    );
    assert!(worktree.root.join("text").exists(), "the work is kept");
}

#[tokio::test]
async fn eight_concurrent_runs_do_not_interfere() {
    let scene = Scene::new();
    scene.write("text", "not committed\n");
    let before = scene.state();
    let one = async |number: usize| {
        let run = format!("0199a1b2-3c4d-7e5f-8a9b-0c1d2e3f4a5{number}");
        let made = scene.worktrees.create(&run, &scene.root).await;
        let worktree = made.expect("a worktree");
        if number.is_multiple_of(2) {
            write(&worktree.root, &format!("by-{number}"), "child\n");
        }
        scene.worktrees.collect(&worktree).await.expect("collected")
    };
    let collected = join_all((0..8).map(one)).await;
    assert_eq!(scene.state(), before);
    for (number, collected) in collected.iter().enumerate() {
        match collected {
            Collected::Changed(changes) => {
                assert_eq!(changes.files[0].path, format!("by-{number}"));
                scene.apply(changes).await;
            }
            Collected::Untouched => assert!(!number.is_multiple_of(2), "{number}"),
        }
    }
    assert_eq!(scene.branches().lines().count(), 5);
    for number in [0, 2, 4, 6] {
        assert!(scene.root.join(format!("by-{number}")).exists());
    }
    run_git(&scene.root, &["fsck", "--strict"]);
}

#[tokio::test]
async fn sweep_undoes_an_interrupted_apply() {
    let scene = Scene::new();
    let home = scene.root.with_file_name("worktrees");
    let key = checkout_key(&scene.root);
    let staging = home.join(".staging").join(&key);
    plant_plan(&staging, "restored");
    let applying = format!("{{\"root\": {:?}}}", scene.root);
    write(&home, &format!(".applying/{key}"), &applying);
    let swept = scene.worktrees.sweep(&[]).await.expect("swept");
    assert_eq!(swept.restored, 1, "{:?}", swept.failures);
    assert!(scene.root.join("restored").exists());
    assert!(!staging.exists());
    let again = scene.worktrees.sweep(&[]).await.expect("swept");
    assert_eq!(again.restored, 0);
}

#[tokio::test]
async fn sweep_removes_only_worktrees_of_unknown_runs() {
    let scene = Scene::new();
    let known = "0199a1b2-3c4d-7e5f-8a9b-00000000aaaa";
    let untouched = "0199a1b2-3c4d-7e5f-8a9b-00000000bbbb";
    for run in [known, untouched] {
        let made = scene.worktrees.create(run, &scene.root).await;
        made.expect("a worktree");
    }
    let worktree = scene.create().await;
    write(&worktree.root, "text", "never collected\n");
    let home = scene.root.with_file_name("worktrees");
    write(&home, "somebody-elses/file", "x\n");
    write(&home, "a file", "x\n");
    write(&home, ".scratch/1-1/left", "x\n");

    let mut gone = scene.worktrees.runs().expect("listed");
    gone.retain(|name| name != known);
    let swept = scene.worktrees.sweep(&gone).await.expect("swept");
    assert_eq!(swept.removed, [untouched, RUN]);
    assert_eq!(swept.kept_branches, [BRANCH]);
    assert!(swept.failures.is_empty(), "{:?}", swept.failures);
    let mut left: Vec<_> = fs::read_dir(&home)
        .expect("listed")
        .map(|entry| {
            entry
                .expect("listed")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    left.sort();
    assert_eq!(
        left,
        [
            ".scratch",
            "0199a1b2-3c4d-7e5f-8a9b-00000000aaaa",
            "a file",
            "somebody-elses"
        ]
    );
    assert!(!home.join(".scratch/1-1").exists());
    let text = run_git(&scene.root, &["show", &format!("{BRANCH}:text")]);
    assert_eq!(text, "never collected\n", "the work is on its branch");
    let again = scene.worktrees.sweep(&gone).await.expect("swept");
    assert!(again.removed.is_empty());
}
