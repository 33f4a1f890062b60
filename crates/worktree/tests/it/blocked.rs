//! A repository whose files are pipes, devices, links or sparse makes its own run fail with a clear
//! error, and blocks no other task.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, Mode, mkfifoat};
use sortie_worktree::{How, WorktreeError};

use crate::support::{RUN, Scene, files, write};

/// Far longer than a stuck git process is tolerated. A call that has not returned by then never
/// will.
const AT_MOST: Duration = Duration::from_secs(90);
/// Far less than the size of the sparse files here.
const MAX_HOME_BYTES: u64 = 64 << 20;

fn pipe(path: &Path) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::remove_file(path).ok();
    mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).expect("a pipe");
}

fn sparse(path: &Path) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    let file = fs::File::create(path).expect("made");
    file.set_len(1 << 40).expect("sparse");
}

/// Tries to create a worktree. The test has only one thread, which must stay free.
async fn refused(scene: &Scene) -> WorktreeError {
    let creating = scene.worktrees.create(RUN, &scene.root);
    let created = tokio::time::timeout(AT_MOST, creating).await;
    created
        .expect("the thread stays free")
        .expect_err("refused")
}

fn bytes_below(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(found) = fs::read_dir(folder) else {
        return 0;
    };
    found
        .map(|entry| entry.expect("listed").path())
        .map(|path| match fs::symlink_metadata(&path) {
            Ok(seen) if seen.is_dir() => bytes_below(&path),
            Ok(seen) => seen.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

#[tokio::test]
async fn a_pipe_in_the_place_of_a_file_of_git_is_named() {
    for name in [
        "index",
        "HEAD",
        "config",
        "packed-refs",
        "commondir",
        "shallow",
        "info/exclude",
        "info/attributes",
        "objects/info/alternates",
    ] {
        let scene = Scene::new();
        let path = scene.root.join(".git").join(name);
        pipe(&path);
        let error = refused(&scene).await.to_string();
        assert!(error.contains(name), "{name}: {error}");
    }
    let scene = Scene::new();
    fs::rename(scene.root.join(".git"), scene.root.join("moved")).expect("moved");
    pipe(&scene.root.join(".git"));
    let error = refused(&scene).await.to_string();
    assert!(error.contains("not a regular file"), "{error}");
}

#[tokio::test]
async fn a_git_that_waits_for_a_pipe_is_stopped() {
    type Plant = fn(&Scene);
    let plants: [(&str, Plant); 4] = [
        ("a branch", |scene| {
            pipe(&scene.root.join(".git/refs/heads/main"));
        }),
        ("rules of a folder", |scene| {
            pipe(&scene.root.join("sub/.gitignore"));
        }),
        ("included settings", |scene| {
            let settings = scene.root.join(".git/config");
            let text = fs::read_to_string(&settings).expect("read");
            let included = scene.root.join("pipe");
            pipe(&included);
            let text = format!("{text}[include]\n\tpath = {}\n", included.display());
            fs::write(settings, text).expect("written");
        }),
        ("an object", |scene| {
            let objects = scene.root.join(".git/objects");
            for folder in fs::read_dir(objects).expect("listed") {
                let folder = folder.expect("listed").path();
                if folder.file_name().is_some_and(|name| name.len() == 2) {
                    for object in fs::read_dir(folder).expect("listed") {
                        pipe(&object.expect("listed").path());
                    }
                }
            }
            scene.write("text", "new\n");
        }),
    ];
    for (what, plant) in plants {
        let scene = Scene::new();
        plant(&scene);
        let error = refused(&scene).await.to_string();
        assert!(error.contains("made no progress"), "{what}: {error}");
    }
}

#[tokio::test]
async fn huge_files_of_git_are_not_copied() {
    let shared = "sharedindex.0123456789abcdef0123456789abcdef01234567";
    for (name, is_refused) in [
        ("index", true),
        ("HEAD", true),
        ("config", true),
        (shared, false),
        ("sharedindex.x", false),
    ] {
        let scene = Scene::new();
        sparse(&scene.root.join(".git").join(name));
        let creating = scene.worktrees.create(RUN, &scene.root);
        let created = tokio::time::timeout(AT_MOST, creating).await;
        let created = created.expect("the thread stays free");
        assert_eq!(created.is_err(), is_refused, "{name}: {created:?}");
        let used = bytes_below(&scene.root.with_file_name("worktrees"));
        assert!(used < MAX_HOME_BYTES, "{name}: {used}");
    }
}

#[tokio::test]
async fn a_link_in_the_place_of_the_index_is_not_followed() {
    let scene = Scene::new();
    let secret = scene.home.path().join("secret");
    fs::write(&secret, "a key that only the runtime may read").expect("written");
    let index = scene.root.join(".git/index");
    fs::remove_file(&index).expect("removed");
    symlink(&secret, &index).expect("linked");
    let error = refused(&scene).await;
    let failure = format!("{error}: {:?}", std::error::Error::source(&error));
    assert!(failure.contains("symbolic link"), "{failure}");
    for (path, _) in files(&scene.root.with_file_name("worktrees")) {
        assert!(!path.contains("index"), "{path} was copied");
    }
}

#[tokio::test]
async fn a_split_index_is_still_understood() {
    let scene = Scene::new();
    crate::support::run_git(&scene.root, &["update-index", "--split-index"]);
    scene.write("text", "changed\n");
    let worktree = scene.create().await;
    let text = fs::read_to_string(worktree.root.join("text")).expect("read");
    assert_eq!(text, "changed\n");
    assert_eq!(worktree.uncommitted.left_out.count, 0);
}

/// The names of folders are in an extension after the one that names the shared part.
#[tokio::test]
async fn a_folder_named_links_does_not_hide_the_other_half_of_a_split_index() {
    let scene = Scene::new();
    scene.write("src/links/one", "1\n");
    scene.commit("links");
    crate::support::run_git(&scene.root, &["update-index", "--split-index"]);
    scene.write("text", "changed\n");
    let worktree = scene.create().await;
    let text = fs::read_to_string(worktree.root.join("text")).expect("read");
    assert_eq!(text, "changed\n");
    assert_eq!(worktree.uncommitted.left_out.count, 0);
}

#[tokio::test]
async fn a_pipe_left_by_a_child_does_not_block_other_worktrees() {
    let scene = Scene::new();
    let worktree = scene.create().await;
    write(&worktree.root, "text", "child\n");
    pipe(&worktree.root.join("sub/.gitignore"));
    let collecting = scene.worktrees.collect(&worktree);
    let collected = tokio::time::timeout(AT_MOST, collecting).await;
    let error = collected
        .expect("the thread stays free")
        .expect_err("stuck");
    assert!(matches!(error, WorktreeError::Stuck { .. }), "{error}");
    fs::remove_file(worktree.root.join("sub/.gitignore")).expect("removed");
    let changes = scene.collect(&worktree).await;
    pipe(&scene.root.join(".git/index"));
    let error = scene.try_apply(&changes, How::Write).await;
    assert!(error.is_err(), "{error:?}");
}
