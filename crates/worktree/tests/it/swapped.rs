//! A workspace or a git folder that an attacker replaced by an entry that leads elsewhere.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use sortie_worktree::{Git, How, WorktreeError, Worktrees};

use crate::support::{RUN, Scene, run_git, search_path, write};

const SECRET: &str = "a secret of another user\n";

/// Creates a foreign repository beside the scene's.
fn other(scene: &Scene) -> std::path::PathBuf {
    let other = scene.root.with_file_name("other");
    fs::create_dir(&other).expect("a folder");
    run_git(&other, &["init", "-q", "-b", "main"]);
    write(&other, "inner", SECRET);
    write(&other, "sub/inner", SECRET);
    run_git(&other, &["add", "-A"]);
    run_git(&other, &["commit", "-q", "-m", "theirs"]);
    other
}

fn link_instead(path: &Path, to: &Path) {
    fs::rename(path, path.with_extension("away")).expect("moved");
    symlink(to, path).expect("linked");
}

#[tokio::test]
async fn a_workspace_that_became_a_link_is_refused() {
    for (workspace, swapped) in [("", ""), ("sub", "sub"), ("sub", "")] {
        let scene = Scene::new();
        let other = other(&scene);
        let swapped: std::path::PathBuf = scene.root.join(swapped).components().collect();
        link_instead(&swapped, &other);
        let workspace = scene.root.join(workspace);
        let refused = scene.worktrees.create(RUN, &workspace).await;
        assert!(
            matches!(refused, Err(WorktreeError::Swapped(_))),
            "{refused:?}"
        );
        assert_eq!(run_git(&other, &["branch", "--list", "sortie/*"]), "");
        assert!(!scene.root.with_file_name("worktrees").join(RUN).exists());
    }
}

#[tokio::test]
async fn a_checkout_that_became_a_link_gets_nothing() {
    let scene = Scene::new();
    let other = other(&scene);
    let worktree = scene.create().await;
    write(&worktree.root, "inner", "child\n");
    let changes = scene.collect(&worktree).await;
    link_instead(&scene.root, &other);
    let refused = scene.try_apply(&changes, How::Write).await;
    assert!(
        matches!(refused, Err(WorktreeError::Swapped(_))),
        "{refused:?}"
    );
    let discarded = scene.worktrees.discard(&scene.root, &changes.branch).await;
    assert!(
        matches!(discarded, Err(WorktreeError::Swapped(_))),
        "{discarded:?}"
    );
    assert_eq!(
        fs::read_to_string(other.join("inner")).expect("read"),
        SECRET
    );
}

/// A process that may write in a checkout can claim any git folder for it.
#[tokio::test]
async fn git_folder_of_another_checkout_is_not_used() {
    for way in ["file", "link", "common"] {
        let scene = Scene::new();
        let theirs = other(&scene).join(".git");
        let mine = scene.root.join("sub");
        match way {
            "file" => write(&mine, ".git", &format!("gitdir: {}\n", theirs.display())),
            "link" => symlink(&theirs, mine.join(".git")).expect("linked"),
            _ => {
                run_git(&mine, &["init", "-q"]);
                write(&mine, ".git/commondir", &format!("{}\n", theirs.display()));
            }
        }
        let refused = scene.worktrees.create(RUN, &mine).await;
        assert!(
            matches!(refused, Err(WorktreeError::NotItsOwn { .. })),
            "{way}: {refused:?}"
        );
    }
}

#[tokio::test]
async fn alternates_that_are_no_object_store_are_not_exposed() {
    let scene = Scene::new();
    let other = other(&scene);
    let store = other.join(".git/objects");
    let list = format!("{}\n{}\n/etc\n", other.display(), store.display());
    write(&scene.root, ".git/objects/info/alternates", &list);
    let worktree = scene.create().await;
    let read = &worktree.git_dirs.readable;
    assert!(read.contains(&scene.root.join(".git/objects")), "{read:?}");
    assert!(read.contains(&store), "what really holds objects: {read:?}");
    assert!(!read.contains(&other), "{read:?}");
    assert!(!read.contains(&"/etc".into()), "{read:?}");
}

#[tokio::test]
async fn objects_behind_a_link_are_not_shown() {
    let scene = Scene::empty();
    let other = other(&scene);
    link_instead(&scene.root.join(".git/objects"), &other);
    let refused = scene.worktrees.create(RUN, &scene.root).await;
    assert!(refused.is_err(), "{refused:?}");
}

/// Only files of the repository's git folder are copied into the child's, never the targets of
/// links.
#[tokio::test]
async fn a_link_in_a_git_folder_is_not_copied() {
    for name in ["info/exclude", "shallow"] {
        let scene = Scene::new();
        let other = other(&scene);
        let place = scene.root.join(".git").join(name);
        fs::remove_file(&place).ok();
        symlink(other.join("inner"), &place).expect("linked");
        // Git itself may fail on such a repository; otherwise the file must not be in the child's
        // reach.
        if let Ok(worktree) = scene.worktrees.create(RUN, &scene.root).await {
            let copied = fs::read_to_string(worktree.root.join(".git").join(name));
            assert!(copied.is_err(), "{name}: {copied:?}");
        }
    }
    let scene = Scene::new();
    write(&scene.root, ".git/info/exclude", "mine\n");
    let worktree = scene.create().await;
    let copied = fs::read_to_string(worktree.root.join(".git/info/exclude"));
    assert_eq!(copied.expect("the control"), "mine\n");
}

/// The user's home may be reached through a link; the path of a child's workspace has no link.
#[tokio::test]
async fn a_child_works_in_a_folder_without_links() {
    let scene = Scene::new();
    let alias = scene.root.with_file_name("alias");
    symlink(scene.home.path(), &alias).expect("linked");
    let git = Git::new("git", search_path());
    let worktrees = Worktrees::new(alias.join("worktrees"), git);
    let worktree = worktrees.create(RUN, &scene.root).await.expect("made");
    let real = fs::canonicalize(&worktree.workspace).expect("found");
    assert_eq!(worktree.workspace, real);
    let again = worktrees.create(RUN, &scene.root).await.expect("found");
    assert_eq!(again.workspace, real);
}
