//! Each kind of change is collected and applied: the child's files then equal the user's, byte by
//! byte.

use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use futures::future::join_all;
use sortie_worktree::Applied;

use crate::support::{Scene, files, write};

type Change = fn(&Path);

const KINDS: &[(&str, Change)] = &[
    ("edit", |root| write(root, "text", "other\n")),
    ("new file", |root| write(root, "new/deep/file", "new\n")),
    ("new empty file", |root| write(root, "nothing", "")),
    ("deletion", |root| remove(root, "text")),
    ("deletion of a folder", |root| {
        fs::remove_dir_all(root.join("sub")).expect("removed");
    }),
    ("rename", |root| rename(root, "text", "moved/text")),
    ("rename with an edit", |root| {
        let text = fs::read_to_string(root.join("text")).expect("read");
        remove(root, "text");
        write(root, "renamed", &text.replace("line 7", "line seven"));
    }),
    ("rename by case", |root| rename(root, "text", "TEXT")),
    ("binary edit", |root| {
        fs::write(root.join("binary"), [7, 0, 255, 0, 13, 10]).expect("written");
    }),
    ("executable", |root| {
        let mode = Permissions::from_mode(0o755);
        fs::set_permissions(root.join("run.sh"), mode).expect("changed");
    }),
    ("new link", |root| {
        symlink("/etc/passwd", root.join("evil")).expect("a link");
    }),
    ("link to elsewhere", |root| {
        remove(root, "link");
        symlink("sub/inner", root.join("link")).expect("a link");
    }),
    ("link becomes file", |root| {
        remove(root, "link");
        write(root, "link", "a file now\n");
    }),
    ("file becomes link", |root| {
        remove(root, "text");
        symlink("sub", root.join("text")).expect("a link");
    }),
    ("file becomes folder", |root| {
        remove(root, "text");
        write(root, "text/inside", "x\n");
    }),
    ("folder becomes file", |root| {
        fs::remove_dir_all(root.join("sub")).expect("removed");
        write(root, "sub", "a file now\n");
    }),
    ("folder becomes link", |root| {
        fs::remove_dir_all(root.join("sub")).expect("removed");
        symlink(".", root.join("sub")).expect("a link");
    }),
    ("Chinese name", |root| {
        write(root, "文件 夹/说明.md", "你好\n");
    }),
    ("line break in a name", |root| {
        write(root, "two\nlines\ttab\"quote\\", "x\n");
    }),
    ("name like an option", |root| {
        write(root, "--output=x", "x\n");
        write(root, "-c", "x\n");
        write(root, ":(glob)*", "x\n");
    }),
    ("name that is not UTF-8", |root| {
        let name = std::ffi::OsStr::from_bytes(b"latin-\xe9");
        fs::write(root.join(name), "x\n").expect("written");
    }),
    ("carriage returns", |root| {
        write(root, "text", "a\r\nb\r\nmixed\nlone\r");
    }),
    ("no line break at the end", |root| {
        write(root, "text", "cut");
    }),
    ("attributes and exclusions", |root| {
        write(root, ".gitattributes", "*.x text eol=lf\n");
        write(root, ".gitignore", "nothing-of-the-kind\n");
        write(root, "a.x", "x\n");
    }),
    ("everything at once", |root| {
        for number in 0..300 {
            write(root, &format!("many/{}/{number}", number % 7), "x\n");
        }
        remove(root, "binary");
        write(root, "text", "other\n");
    }),
];

fn remove(root: &Path, path: &str) {
    fs::remove_file(root.join(path)).expect("removed");
}

fn rename(root: &Path, from: &str, to: &str) {
    let to = root.join(to);
    fs::create_dir_all(to.parent().expect("a parent")).expect("a folder");
    fs::rename(root.join(from), to).expect("renamed");
}

async fn check(name: &str, change: Change) {
    let scene = Scene::new();
    // The child starts from uncommitted files, too.
    scene.write("untracked file", "untracked\n");
    scene.write("sub/other", "changed, not committed\n");
    let before = scene.state();
    let worktree = scene.create().await;
    assert_eq!(scene.state(), before, "{name}: create changes nothing");
    assert_eq!(
        files(&worktree.root),
        files(&scene.root),
        "{name}: the same files"
    );
    assert!(worktree.uncommitted.included);

    change(&worktree.workspace);
    let wanted = files(&worktree.root);
    let changes = scene.collect(&worktree).await;
    assert_eq!(scene.state(), before, "{name}: collect changes nothing");
    assert!(!worktree.root.exists(), "{name}: the worktree is gone");

    let applied = scene.apply(&changes).await;
    assert!(
        matches!(applied, Applied::Applied { .. }),
        "{name}: {applied:?}"
    );
    assert_eq!(
        files(&scene.root),
        wanted,
        "{name}: the child's files are the person's"
    );
    assert_eq!(scene.state()[".git/index"], before[".git/index"], "{name}");

    let again = scene.apply(&changes).await;
    let nothing = Applied::Applied {
        files: Vec::new(),
        file_count: 0,
    };
    assert_eq!(
        again, nothing,
        "{name}: a second time there is nothing to do"
    );
    assert_eq!(files(&scene.root), wanted, "{name}");
}

#[tokio::test]
async fn every_kind_of_change_comes_back_as_it_is() {
    for some in KINDS.chunks(4) {
        join_all(some.iter().map(|(name, change)| check(name, *change))).await;
    }
}

#[tokio::test]
async fn changes_are_counted_and_shown() {
    let scene = Scene::new();
    let worktree = scene.create().await;
    write(&worktree.root, "sub/inner", "inner\nmore\n");
    rename(&worktree.root, "text", "moved");
    write(&worktree.root, "ignored", "build output\n");
    let changes = scene.collect(&worktree).await;
    assert_eq!((changes.insertions, changes.deletions), (1, 0));
    let shown: Vec<String> = changes
        .files
        .iter()
        .map(|file| format!("{} {:?} {:?}", file.path, file.moved_from, file.lines))
        .collect();
    assert_eq!(
        shown,
        [
            "moved Some(\"text\") Some((0, 0))",
            "sub/inner None Some((1, 0))"
        ]
    );
    assert!(changes.diff.contains("\n+more\n"), "{}", changes.diff);
    assert!(!changes.is_diff_cut);
    let patch = fs::read_to_string(&changes.patch).expect("a patch");
    assert!(patch.contains("rename to moved"), "{patch}");
    let requested =
        scene
            .worktrees
            .diff(&scene.root, &changes.branch, &changes.base, &changes.commit);
    assert_eq!(requested.await.expect("a diff"), (changes.diff, false));
}

#[tokio::test]
async fn a_long_diff_is_cut_and_kept_whole() {
    let scene = Scene::new();
    let worktree = scene.create().await;
    write(&worktree.root, "long", &"好的一行\n".repeat(20_000));
    let changes = scene.collect(&worktree).await;
    assert!(changes.is_diff_cut);
    assert!(changes.diff.len() <= sortie_worktree::MAX_DIFF_BYTES);
    assert!(changes.diff.ends_with("\n+好的一行\n"), "cut at a line");
    let patch = fs::metadata(&changes.patch).expect("a patch").len();
    assert!(patch > 20_000 * 13, "{patch}");
}
