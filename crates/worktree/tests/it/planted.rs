//! A main checkout in which an attacker can write anything, including its git folder.

use std::fs;

use sortie_worktree::{Applied, Changes, How, WorktreeError};

use crate::support::{Scene, checkout_key, files, plant_plan, run_git, write};

async fn changed(scene: &Scene, path: &str) -> Changes {
    let worktree = scene.create().await;
    write(&worktree.root, path, "child\n");
    scene.collect(&worktree).await
}

#[tokio::test]
async fn a_plan_that_lies_in_the_repository_does_nothing() {
    for path in ["planted", ".mcp.json", ".git/hooks/planted", "../planted"] {
        let scene = Scene::new();
        let planted = scene.root.join(".git/sortie-apply");
        plant_plan(&planted, path);
        let changes = changed(&scene, "text").await;
        // A marker of a dead process in our folder makes the sweep inspect the checkout.
        let home = scene.root.with_file_name("worktrees");
        let lock = format!(".applying/{}", checkout_key(&scene.root));
        write(&home, &lock, &format!("{{\"root\": {:?}}}", scene.root));
        let swept = scene.worktrees.sweep(&[]).await;
        assert_eq!(swept.expect("swept").restored, 0, "{path}");
        let applied = scene.apply(&changes).await;
        assert!(matches!(applied, Applied::Applied { .. }), "{applied:?}");
        assert!(!scene.root.join(path).exists(), "{path}");
        assert!(planted.join("plan.json").exists(), "{path}: left alone");
    }
}

#[tokio::test]
async fn the_same_plan_in_our_folder_is_followed_within_the_checkout_only() {
    for (path, is_followed) in [
        ("planted", true),
        (".git/hooks/planted", false),
        ("../planted", false),
    ] {
        let scene = Scene::new();
        let home = scene.root.with_file_name("worktrees");
        let changes = changed(&scene, "text").await;
        plant_plan(&home.join(".staging").join(checkout_key(&scene.root)), path);
        let applied = scene.try_apply(&changes, How::Write).await;
        assert_eq!(scene.root.join(path).exists(), is_followed, "{path}");
        let refused = matches!(applied, Err(WorktreeError::UnsafePlan(_)));
        assert_eq!(refused, !is_followed, "{path}: {applied:?}");
    }
}

#[tokio::test]
async fn a_branch_that_was_moved_is_neither_shown_nor_applied() {
    let scene = Scene::new();
    let changes = changed(&scene, "text").await;
    // An attacker in the main checkout puts another commit on the branch.
    run_git(&scene.root, &["checkout", "-q", &changes.branch]);
    scene.write("sub/inner", "not reviewed\n");
    scene.commit("smuggled");
    run_git(&scene.root, &["checkout", "-q", "main"]);
    let before = scene.state();

    let (branch, base, commit) = (&changes.branch, &changes.base, &changes.commit);
    let shown = scene
        .worktrees
        .diff(&scene.root, branch, base, commit)
        .await;
    let refusal = shown.expect_err("moved").to_string();
    assert!(refusal.contains("was moved"), "{refusal}");
    for how in [How::Check, How::Write] {
        let refusal = scene.try_apply(&changes, how).await.expect_err("moved");
        assert!(
            matches!(refusal, WorktreeError::BranchElsewhere { .. }),
            "{refusal}"
        );
        assert!(refusal.to_string().contains(commit), "{refusal}");
    }
    assert_eq!(scene.state(), before);

    run_git(&scene.root, &["branch", "-f", branch, commit]);
    let applied = scene.apply(&changes).await;
    assert!(matches!(applied, Applied::Applied { .. }), "{applied:?}");
    let inner = fs::read_to_string(scene.root.join("sub/inner")).expect("read");
    assert_ne!(inner, "not reviewed\n");
}

#[tokio::test]
async fn files_that_tools_obey_are_not_changed() {
    for (path, is_free) in [
        (".mcp.json", false),
        ("sub/.MCP.json", false),
        ("sortie.toml", false),
        (".sortie/x", false),
        (".claude/settings.json", false),
        (".agents/skills/a/SKILL.md", false),
        (".vscode/tasks.json", false),
        (".idea/workspace.xml", false),
        (".cursor/mcp.json", false),
        (".envrc", false),
        ("deep/er/.husky/pre-commit", false),
        ("docs/mcp.json", true),
        (".github/workflows/ci.yml", true),
    ] {
        let scene = Scene::new();
        let changes = changed(&scene, path).await;
        let before = scene.state();
        for how in [How::Check, How::Write] {
            let applied = scene.try_apply(&changes, how).await.expect("an answer");
            match applied {
                Applied::Refused(why) => {
                    let command = format!("git checkout {} -- {path}", changes.commit);
                    assert!(!is_free && why.contains(&command), "{path}: {why}");
                    assert_eq!(scene.state(), before, "{path}");
                }
                Applied::Applied { .. } => assert!(is_free, "{path}"),
                Applied::Conflict { files } => panic!("{path}: {files:?}"),
            }
        }
    }
}

#[tokio::test]
async fn the_rest_can_be_applied_once_a_person_brought_the_file_over() {
    let scene = Scene::new();
    let worktree = scene.create().await;
    write(&worktree.root, ".envrc", "child\n");
    write(&worktree.root, "text", "child\n");
    let changes = scene.collect(&worktree).await;
    assert!(matches!(scene.apply(&changes).await, Applied::Refused(_)));
    run_git(&scene.root, &["checkout", &changes.commit, "--", ".envrc"]);
    let expected = Applied::Applied {
        files: vec!["text".to_owned()],
        file_count: 1,
    };
    assert_eq!(scene.apply(&changes).await, expected);
}

#[tokio::test]
async fn other_names_can_be_protected() {
    let mut scene = Scene::new();
    scene.worktrees = scene.worktrees.clone().with_protected(&["Makefile"]);
    let worktree = scene.create().await;
    write(&worktree.root, "sub/Makefile", "child\n");
    write(&worktree.root, ".envrc", "child\n");
    let changes = scene.collect(&worktree).await;
    let Applied::Refused(why) = scene.apply(&changes).await else {
        panic!("it is protected");
    };
    assert!(
        why.contains("sub/Makefile") && !why.contains(".envrc"),
        "{why}"
    );
}

#[tokio::test]
async fn git_folder_that_names_another_working_tree_is_refused() {
    let scene = Scene::new();
    let changes = changed(&scene, "text").await;
    let outside = scene.root.with_file_name("outside");
    fs::create_dir(&outside).expect("a folder");
    let claimed = outside.display().to_string();
    run_git(&scene.root, &["config", "core.worktree", &claimed]);
    let refusal = scene.try_apply(&changes, How::Write).await;
    let refusal = refusal.expect_err("elsewhere");
    assert!(
        matches!(refusal, WorktreeError::RootElsewhere { .. }),
        "{refusal}"
    );
    assert!(files(&outside).is_empty());
}
