//! Whatever replaces a file of a repository: create, collect and apply return, and change nothing
//! elsewhere.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use rustix::fs::{CWD, Mode, mkfifoat};
use sortie_worktree::{Collected, How};

use crate::support::{RUN, Scene, write};

/// Far longer than three stuck git processes are tolerated.
const AT_MOST: Duration = Duration::from_secs(300);
/// Far less than the size of the sparse files here.
const MAX_HOME_BYTES: u64 = 256 << 20;
/// The number of cases that the ordinary test tries.
const FEW: usize = 8;

/// Files that git or Sortie reads.
const PLACES: &[&str] = &[
    ".git",
    ".git/HEAD",
    ".git/index",
    ".git/config",
    ".git/config.worktree",
    ".git/packed-refs",
    ".git/commondir",
    ".git/gitdir",
    ".git/shallow",
    ".git/FETCH_HEAD",
    ".git/refs",
    ".git/refs/heads",
    ".git/refs/heads/main",
    ".git/info",
    ".git/info/exclude",
    ".git/info/attributes",
    ".git/info/grafts",
    ".git/info/sparse-checkout",
    ".git/objects",
    ".git/objects/info/alternates",
    ".git/objects/info/commit-graph",
    ".git/objects/pack",
    ".git/objects/pack/multi-pack-index",
    ".git/objects/pack/pack-0123456789abcdef0123456789abcdef01234567.idx",
    ".git/sharedindex.0123456789abcdef0123456789abcdef01234567",
    ".git/worktrees/x",
    ".git/logs/HEAD",
    ".git/modules",
    ".gitignore",
    ".gitattributes",
    ".gitmodules",
    "sub/.gitignore",
    "sub/.gitattributes",
    "sub/.git",
    "text",
    "sub",
];

/// The kinds of entries that an agent can put there.
const KINDS: &[&str] = &[
    "pipe", "zero", "circle", "sparse", "folder", "garbage", "empty", "socket",
];

fn put(path: &Path, kind: &str) {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|seen| seen.is_dir());
    if is_folder {
        fs::remove_dir_all(path).expect("removed");
    } else {
        fs::remove_file(path).ok();
    }
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    match kind {
        "pipe" => mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).expect("a pipe"),
        "zero" => symlink("/dev/zero", path).expect("linked"),
        "circle" => symlink(path, path).expect("linked"),
        "sparse" => {
            let file = fs::File::create(path).expect("made");
            file.set_len(1 << 40).expect("sparse");
        }
        "folder" => fs::create_dir_all(path.join("inner")).expect("made"),
        "garbage" => fs::write(path, [0xff, 0, b'\n', b'[', b'x'].repeat(1_000)).expect("written"),
        "empty" => fs::write(path, "").expect("written"),
        // The path may be too long for a socket.
        _ => drop(UnixListener::bind(path)),
    }
}

fn bytes_below(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    found
        .map(|entry| match fs::symlink_metadata(entry.path()) {
            Ok(seen) if seen.is_dir() => bytes_below(&entry.path()),
            Ok(seen) => seen.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

/// Replaces the file before the worktree is created, while it is used, or before it is applied.
async fn check(place: &str, kind: &str, when: u8) {
    println!("{place} becomes {kind} at {when}");
    let scene = Scene::new();
    let outside = scene.home.path().join("outside");
    fs::write(&outside, "as it was").expect("written");
    let spoil = |now: u8| {
        if now == when {
            put(&scene.root.join(place), kind);
        }
    };
    let work = async {
        spoil(0);
        let Ok(worktree) = scene.worktrees.create(RUN, &scene.root).await else {
            return;
        };
        write(&worktree.root, "made", "child\n");
        spoil(1);
        let collected = scene.worktrees.collect(&worktree).await;
        spoil(2);
        if let Ok(Collected::Changed(changes)) = collected {
            // Applied or refused: the call must return.
            scene.try_apply(&changes, How::Write).await.ok();
        }
    };
    let ended = tokio::time::timeout(AT_MOST, work).await;
    assert!(ended.is_ok(), "{place} as {kind} at {when} never ends");
    let used = bytes_below(&scene.root.with_file_name("worktrees"));
    assert!(used < MAX_HOME_BYTES, "{place} as {kind} at {when}: {used}");
    let text = fs::read_to_string(&outside).expect("read");
    assert_eq!(text, "as it was");
}

#[tokio::test]
async fn a_few_spoilt_places_of_a_repository_end_in_an_answer() {
    let mut runner = TestRunner::deterministic();
    let case = (
        proptest::sample::select(PLACES),
        proptest::sample::select(KINDS),
        0_u8..3,
    );
    for _ in 0..FEW {
        let (place, kind, when) = case.new_tree(&mut runner).expect("a case").current();
        check(place, kind, when).await;
    }
}

#[tokio::test]
#[ignore = "every place, kind and moment: about an hour"]
async fn fuzz_every_spoilt_place() {
    for place in PLACES {
        for kind in KINDS {
            for when in 0..3 {
                check(place, kind, when).await;
            }
        }
    }
}
