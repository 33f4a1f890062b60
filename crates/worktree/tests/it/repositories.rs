//! Repositories of all kinds.

use std::fs;
use std::path::Path;

use sortie_worktree::{
    Applied, Collected, Git, SnapshotBounds, WhyLeftOut, WorktreeError, Worktrees,
};

use crate::support::{BRANCH, RUN, Scene, files, run_git, search_path, write};

/// Checks that a change of an existing file and a new file are collected and applied.
async fn check(name: &str, scene: &Scene) {
    let before = scene.state();
    let worktree = scene.create().await;
    write(&worktree.workspace, "by-child", "child\n");
    let changes = scene.collect(&worktree).await;
    assert_eq!(scene.state(), before, "{name}");
    assert_eq!(changes.file_count, 1, "{name}: {:?}", changes.files);
    let applied = scene.apply(&changes).await;
    assert!(
        matches!(applied, Applied::Applied { .. }),
        "{name}: {applied:?}"
    );
    let text = fs::read_to_string(scene.root.join("by-child")).expect("there");
    assert_eq!(text, "child\n", "{name}");
    run_git(&scene.root, &["fsck", "--strict"]);
    // Git itself can read the branch.
    let log = run_git(&scene.root, &["log", "--format=%an <%ae>", "-1", BRANCH]);
    assert_eq!(log, "Sortie <sortie@localhost>\n", "{name}");
}

#[tokio::test]
async fn all_sorts_of_repositories_work() {
    check("clean", &Scene::new()).await;
    check("no commit, no file", &Scene::empty()).await;

    let scene = Scene::empty();
    scene.write("untracked", "x\n");
    check("no commit, a file", &scene).await;

    let scene = Scene::with_format("sha256");
    scene.fill();
    scene.write("text", "changed\n");
    check("sha256", &scene).await;

    let scene = Scene::new();
    run_git(&scene.root, &["checkout", "-q", "--detach"]);
    check("detached", &scene).await;

    let scene = Scene::new();
    run_git(&scene.root, &["update-index", "--split-index"]);
    scene.write("text", "changed\n");
    check("split index", &scene).await;

    let scene = Scene::new();
    scene.write("text", "staged\n");
    run_git(&scene.root, &["add", "-A"]);
    scene.write("text", "and changed again\n");
    check("staged", &scene).await;
}

#[tokio::test]
async fn a_shallow_clone_works() {
    let origin = Scene::new();
    origin.write("text", "second\n");
    origin.commit("second");
    let scene = Scene::empty();
    fs::remove_dir_all(&scene.root).expect("removed");
    let url = format!("file://{}", origin.root.display());
    let home = scene.home.path();
    run_git(home, &["clone", "-q", "--depth=1", &url, "main"]);
    check("shallow", &scene).await;
}

#[tokio::test]
async fn a_merge_in_progress_is_seen_as_it_is() {
    let scene = Scene::new();
    run_git(&scene.root, &["checkout", "-q", "-b", "other"]);
    scene.write("text", "theirs\n");
    scene.commit("theirs");
    run_git(&scene.root, &["checkout", "-q", "main"]);
    scene.write("text", "ours\n");
    scene.commit("ours");
    let merge = crate::support::plain_git(&scene.root, &["merge", "other"]).output();
    assert!(!merge.expect("started").status.success(), "a conflict");
    let worktree = scene.create().await;
    assert_eq!(files(&worktree.root), files(&scene.root));
    let text = fs::read_to_string(worktree.root.join("text")).expect("read");
    assert!(text.contains("<<<<<<<"), "{text}");
}

#[tokio::test]
async fn a_sparse_checkout_stays_sparse() {
    let scene = Scene::new();
    scene.write("far/away", "far\n");
    scene.commit("far");
    run_git(&scene.root, &["sparse-checkout", "set", "sub"]);
    assert!(!scene.root.join("far/away").exists());
    let worktree = scene.create().await;
    assert!(!worktree.root.join("far/away").exists());
    assert!(!worktree.uncommitted.included);
    write(&worktree.root, "sub/inner", "changed\n");
    write(&worktree.root, "outside/new", "new\n");
    let changes = scene.collect(&worktree).await;
    assert_eq!(changes.file_count, 2, "{:?}", changes.files);
    let applied = scene.apply(&changes).await;
    assert!(matches!(applied, Applied::Applied { .. }), "{applied:?}");
    assert!(!scene.root.join("far/away").exists());
    assert!(scene.root.join("outside/new").exists());
}

#[tokio::test]
async fn line_endings_are_the_repositorys() {
    let scene = Scene::empty();
    scene.write(".gitattributes", "* text=auto eol=crlf\n");
    scene.write("text", "one\r\ntwo\r\n");
    scene.commit("first");
    let worktree = scene.create().await;
    assert!(!worktree.uncommitted.included);
    let seen = fs::read_to_string(worktree.root.join("text")).expect("read");
    assert_eq!(seen, "one\r\ntwo\r\n");
    write(&worktree.root, "text", "one\r\ntwo\r\nthree\r\n");
    let changes = scene.collect(&worktree).await;
    assert_eq!((changes.insertions, changes.deletions), (1, 0));
    scene.apply(&changes).await;
    let text = fs::read_to_string(scene.root.join("text")).expect("read");
    assert_eq!(text, "one\r\ntwo\r\nthree\r\n");
}

#[tokio::test]
async fn a_workspace_may_be_a_part_of_a_repository() {
    let scene = Scene::new();
    let workspace = scene.root.join("sub");
    let worktree = scene.worktrees.create(RUN, &workspace).await.expect("made");
    assert_eq!(worktree.workspace, worktree.root.join("sub"));
    assert!(worktree.root.join("text").exists());
    let status = run_git(&worktree.workspace, &["status", "--porcelain"]);
    assert_eq!(status, "", "the child's git works");
    let log = run_git(&worktree.workspace, &["log", "--format=%s", "main"]);
    assert_eq!(log, "first\n");
    let head = run_git(&worktree.workspace, &["branch", "--show-current"]);
    assert_eq!(head.trim(), BRANCH);
    // Commits of the child are collected together with the rest.
    write(&worktree.workspace, "inner", "committed by the child\n");
    run_git(&worktree.workspace, &["commit", "-qam", "mine"]);
    write(&worktree.workspace, "more", "not committed\n");
    let changes = scene.collect(&worktree).await;
    assert_eq!(changes.file_count, 2, "{:?}", changes.files);
}

#[tokio::test]
async fn submodules_are_left_alone_and_reported() {
    let library = Scene::new();
    let scene = Scene::new();
    let url = library.root.display().to_string();
    let add = ["-c", "protocol.file.allow=always", "submodule", "add", "-q"];
    run_git(&scene.root, &[&add[..], &[&url, "library"]].concat());
    scene.commit("library");
    let worktree = scene.create().await;
    let left_out = &worktree.uncommitted.left_out;
    let expected = [("library".to_owned(), WhyLeftOut::Repository)];
    assert_eq!(left_out.named, expected);
    assert_eq!(
        fs::read_dir(worktree.root.join("library"))
            .expect("there")
            .count(),
        0
    );
    write(&worktree.root, "text", "changed\n");
    let changes = scene.collect(&worktree).await;
    assert_eq!(changes.file_count, 1);
    let before = files(&scene.root.join("library"));
    scene.apply(&changes).await;
    assert_eq!(files(&scene.root.join("library")), before);
}

#[tokio::test]
async fn a_folder_that_is_no_repository_is_refused() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = |name: &str| {
        let path = home.path().join(name);
        fs::create_dir(&path).expect("a folder");
        path
    };
    let plain = folder("plain");
    let bare = folder("bare");
    run_git(&bare, &["init", "-q", "--bare"]);
    let broken = folder("broken");
    fs::write(broken.join(".git"), "gitdir: nowhere\n").expect("written");
    let missing = home.path().join("missing");
    let worktrees = Worktrees::new(home.path().join("w"), Git::new("git", search_path()));
    for workspace in [&plain, &bare, &broken, &missing] {
        let refusal = worktrees.create(RUN, workspace).await.expect_err("refused");
        let text = refusal.to_string();
        assert!(
            text.starts_with("isolation: worktree needs a git repository"),
            "{text}"
        );
    }
    assert!(!home.path().join("w").exists(), "nothing was made");
    let nowhere = Worktrees::new(home.path().join("w"), Git::new("git", ""));
    let refusal = nowhere.create(RUN, &plain).await.expect_err("refused");
    assert!(matches!(refusal, WorktreeError::NoGit { .. }), "{refusal}");
}

#[tokio::test]
async fn the_folder_for_worktrees_is_outside() {
    let scene = Scene::new();
    let inside = Worktrees::new(scene.root.join("w"), Git::new("git", search_path()));
    let refusal = inside.create(RUN, &scene.root).await.expect_err("refused");
    assert!(
        matches!(refusal, WorktreeError::FolderInside { .. }),
        "{refusal}"
    );
}

#[tokio::test]
async fn files_that_are_too_large_are_left_out_and_reported() {
    let scene = Scene::new();
    let worktrees = scene.worktrees.clone().with_bounds(SnapshotBounds {
        max_file_bytes: 1000,
        max_total_bytes: 1500,
        max_files: 3,
    });
    scene.write("a-large", &"x".repeat(1001));
    scene.write("b", &"x".repeat(900));
    scene.write("c", &"x".repeat(900));
    scene.write("d", "small");
    scene.write("e", "small");
    scene.write("f", "one too many");
    let worktree = worktrees.create(RUN, &scene.root).await.expect("made");
    assert_eq!(
        worktree.uncommitted.left_out.named,
        [
            ("a-large".to_owned(), WhyLeftOut::TooLarge),
            ("c".to_owned(), WhyLeftOut::TooMuch),
            ("f".to_owned(), WhyLeftOut::TooMuch)
        ]
    );
    // A file of the child that exceeds the limit is not lost.
    write(&worktree.root, "huge", &"x".repeat(1001));
    let Collected::Changed(changes) = worktrees.collect(&worktree).await.expect("collected") else {
        panic!("something changed");
    };
    assert_eq!(changes.left_out.count, 1);
    let kept = changes.kept.expect("kept");
    assert!(Path::new(&kept).join("huge").exists());
}
