//! Repositories and children that try to make programs run. Each case shows first that plain git
//! runs its canary, and then that none of our calls does.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use sortie_worktree::{Collected, How};

use crate::support::{Scene, files, plain_git, run_git, write};

/// Returns a command that leaves a trace.
fn trap(canary: &Path) -> String {
    format!("touch '{}'; cat", canary.display())
}

struct Trap {
    name: &'static str,
    /// Sets the trap in the repository.
    set: fn(&Scene, &Path),
    /// The arguments with which plain git triggers the trap.
    plain: &'static [&'static str],
}

fn config(scene: &Scene, name: &str, value: &str) {
    run_git(&scene.root, &["config", name, value]);
}

fn filter(scene: &Scene, canary: &Path, kind: &str) {
    config(scene, &format!("filter.trap.{kind}"), &trap(canary));
    scene.write(".gitattributes", "* filter=trap\n");
}

fn hook(scene: &Scene, canary: &Path, name: &str) {
    let path = scene.root.join(".git/hooks").join(name);
    executable(&path, &format!("#!/bin/sh\ntouch '{}'\n", canary.display()));
}

fn executable(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    fs::write(path, text).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("changed");
}

const TRAPS: &[Trap] = &[
    Trap {
        name: "clean filter",
        set: |scene, canary| filter(scene, canary, "clean"),
        plain: &["add", "-A"],
    },
    Trap {
        name: "smudge filter",
        set: |scene, canary| filter(scene, canary, "smudge"),
        plain: &["checkout-index", "-f", "text"],
    },
    Trap {
        name: "process filter",
        set: |scene, canary| filter(scene, canary, "process"),
        plain: &["add", "-A"],
    },
    Trap {
        name: "fsmonitor",
        set: |scene, canary| {
            config(
                scene,
                "core.fsmonitor",
                &format!("touch '{}';", canary.display()),
            );
        },
        plain: &["status"],
    },
    Trap {
        name: "hook of a ref",
        set: |scene, canary| hook(scene, canary, "reference-transaction"),
        plain: &["update-ref", "refs/heads/x", "HEAD"],
    },
    Trap {
        name: "hook of the index",
        set: |scene, canary| hook(scene, canary, "post-index-change"),
        plain: &["add", "-A"],
    },
    Trap {
        name: "hooks elsewhere, by an include",
        set: |scene, canary| {
            let hooks = scene.home.path().join("hooks");
            executable(
                &hooks.join("reference-transaction"),
                &format!("#!/bin/sh\ntouch '{}'\n", canary.display()),
            );
            let included = scene.home.path().join("included");
            let text = format!("[core]\n\thooksPath = {}\n", hooks.display());
            fs::write(&included, text).expect("written");
            config(scene, "include.path", &included.display().to_string());
        },
        plain: &["update-ref", "refs/heads/x", "HEAD"],
    },
    Trap {
        name: "external diff",
        set: |scene, canary| config(scene, "diff.external", &trap(canary)),
        plain: &["diff", "HEAD"],
    },
    Trap {
        name: "text conversion",
        set: |scene, canary| {
            config(scene, "diff.trap.textconv", &trap(canary));
            scene.write(".gitattributes", "* diff=trap\n");
        },
        plain: &["diff", "HEAD"],
    },
    Trap {
        name: "merge driver",
        set: |scene, canary| {
            config(
                scene,
                "merge.trap.driver",
                &format!("touch '{}'; false", canary.display()),
            );
            scene.write(".gitattributes", "* merge=trap\n");
            scene.commit("attributes");
            let body = "git add -A; git commit -qm t; git checkout -q -b o HEAD~1; \
                        printf 'z\\n' >> text; git commit -qam o; git merge -q main";
            config(scene, "alias.fall", &format!("!{body}"));
        },
        plain: &["fall"],
    },
    Trap {
        name: "a promise of objects elsewhere",
        set: |scene, canary| {
            config(scene, "core.repositoryFormatVersion", "1");
            config(scene, "extensions.partialClone", "origin");
            config(scene, "remote.origin.promisor", "true");
            config(scene, "remote.origin.url", "ssh://nowhere.invalid/x");
            config(scene, "core.sshCommand", &trap(canary));
        },
        plain: &["cat-file", "-p", "1234567890123456789012345678901234567890"],
    },
];

/// Creates a repository with a trap in it, and with uncommitted changes of the user.
fn trapped(trap: &Trap) -> (Scene, PathBuf) {
    let scene = Scene::new();
    let canary = scene.home.path().join("canary");
    (trap.set)(&scene, &canary);
    scene.write("text", "changed by the person\n");
    fs::remove_file(&canary).ok();
    (scene, canary)
}

fn both(line_2: &str, line_18: &str) -> String {
    let gap = "same\n".repeat(15);
    format!("first\n{line_2}\n{gap}{line_18}\nlast\n")
}

async fn whole_way(scene: &Scene) {
    scene.write("both", &both("2", "18"));
    let worktree = scene.create().await;
    write(&worktree.root, "text", "changed by the child\n");
    write(&worktree.root, "new", "new\n");
    write(&worktree.root, "both", &both("2", "child"));
    let changes = scene.collect(&worktree).await;
    scene.write("both", &both("person", "18"));
    let (branch, base, commit) = (&changes.branch, &changes.base, &changes.commit);
    let diff = scene.worktrees.diff(&scene.root, branch, base, commit);
    diff.await.expect("a diff");
    for how in [How::Check, How::Write] {
        let applied = scene.try_apply(&changes, how).await;
        applied.expect("an answer");
    }
    let text = fs::read_to_string(scene.root.join("text")).expect("read");
    assert_eq!(text, "changed by the child\n");
    let merged = fs::read_to_string(scene.root.join("both")).expect("read");
    assert_eq!(merged, both("person", "child"));
    let discarded = scene.worktrees.discard(&scene.root, branch).await;
    assert!(discarded.expect("discarded"));
}

#[tokio::test]
async fn nothing_that_a_repository_names_is_run() {
    for trap in TRAPS {
        let (scene, canary) = trapped(trap);
        // Whether git succeeds does not matter: it ran the canary.
        plain_git(&scene.root, trap.plain)
            .output()
            .expect("started");
        assert!(canary.exists(), "{}: plain git falls into it", trap.name);

        let (scene, canary) = trapped(trap);
        whole_way(&scene).await;
        assert!(!canary.exists(), "{}: we do not", trap.name);
    }
}

struct Mischief {
    name: &'static str,
    /// Changes the child's worktree. The canary must not appear.
    set: fn(&Path, &Path),
    /// The arguments with which plain git triggers the trap when a person starts it in the
    /// worktree.
    plain: &'static [&'static str],
}

const MISCHIEF: &[Mischief] = &[
    Mischief {
        name: "filter in its own git folder",
        set: |root, canary| {
            run_git(root, &["config", "filter.trap.clean", &trap(canary)]);
            write(root, ".gitattributes", "* filter=trap\n");
            fs::remove_file(root.join(".git/info/attributes")).expect("removed");
        },
        plain: &["add", "-A"],
    },
    Mischief {
        name: "fsmonitor in its own git folder",
        set: |root, canary| {
            let command = format!("touch '{}';", canary.display());
            run_git(root, &["config", "core.fsmonitor", &command]);
        },
        plain: &["status"],
    },
    Mischief {
        name: "a git file that points to a trap",
        set: |root, canary| {
            let elsewhere = root.join("elsewhere");
            fs::rename(root.join(".git"), &elsewhere).expect("renamed");
            write(root, ".git", "gitdir: elsewhere\n");
            let command = format!("touch '{}';", canary.display());
            run_git(root, &["config", "core.fsmonitor", &command]);
        },
        plain: &["status"],
    },
    Mischief {
        name: "a nested repository with a trap, as a submodule",
        set: |root, canary| {
            let nested = root.join("nested");
            fs::create_dir(&nested).expect("a folder");
            run_git(&nested, &["init", "-q"]);
            write(&nested, "file", "x\n");
            run_git(&nested, &["add", "-A"]);
            run_git(&nested, &["commit", "-qm", "x"]);
            let command = format!("touch '{}';", canary.display());
            run_git(&nested, &["config", "core.fsmonitor", &command]);
            write(
                root,
                ".gitmodules",
                "[submodule \"nested\"]\n\tpath = nested\n\turl = ./nested\n",
            );
            run_git(root, &["add", "nested"]);
        },
        plain: &["status"],
    },
];

#[tokio::test]
async fn nothing_that_a_child_leaves_is_run() {
    for mischief in MISCHIEF {
        let name = mischief.name;
        for is_ours in [false, true] {
            let scene = Scene::new();
            let canary = scene.home.path().join("canary");
            let worktree = scene.create().await;
            (mischief.set)(&worktree.root, &canary);
            write(&worktree.root, "text", "changed by the child\n");
            fs::remove_file(&canary).ok();
            if !is_ours {
                let mut plain = plain_git(&worktree.root, mischief.plain);
                plain.output().expect("started");
                assert!(canary.exists(), "{name}: plain git falls into it");
                continue;
            }
            let changes = scene.collect(&worktree).await;
            assert!(!canary.exists(), "{name}: collect does not");
            scene.apply(&changes).await;
            assert!(!canary.exists(), "{name}: apply does not");
            let text = fs::read_to_string(scene.root.join("text")).expect("read");
            assert_eq!(text, "changed by the child\n", "{name}");
            assert!(!scene.root.join(".git/modules").exists(), "{name}");
        }
    }
}

#[tokio::test]
async fn a_nested_repository_is_not_lost() {
    let scene = Scene::new();
    let worktree = scene.create().await;
    let nested = worktree.root.join("nested");
    fs::create_dir(&nested).expect("a folder");
    run_git(&nested, &["init", "-q"]);
    write(&nested, "file", "x\n");
    let changes = scene.collect(&worktree).await;
    assert_eq!(changes.file_count, 0);
    assert_eq!(changes.left_out.named[0].0, "nested/");
    assert!(changes.kept.expect("kept").join("nested/file").exists());
}

#[tokio::test]
async fn links_do_not_lead_out_of_the_worktree() {
    let scene = Scene::new();
    let secret = scene.home.path().join("secret");
    fs::create_dir(&secret).expect("a folder");
    fs::write(secret.join("key"), "secret").expect("written");
    let worktree = scene.create().await;
    fs::remove_dir_all(worktree.root.join("sub")).expect("removed");
    symlink(&secret, worktree.root.join("sub")).expect("a link");
    symlink(secret.join("key"), worktree.root.join("key")).expect("a link");
    fs::remove_dir_all(worktree.root.join(".git")).expect("removed");
    symlink(scene.root.join(".git"), worktree.root.join(".git")).expect("a link");
    let changes = scene.collect(&worktree).await;
    let patch = fs::read_to_string(&changes.patch).expect("read");
    assert!(!patch.contains("+secret\n"), "{patch}");
    scene.apply(&changes).await;
    let link = fs::read_link(scene.root.join("sub")).expect("a link");
    assert_eq!(link, secret);
    assert_eq!(files(&secret).len(), 1);
    assert!(scene.root.join(".git/HEAD").exists());
}

#[tokio::test]
async fn child_that_deleted_its_git_folder_is_still_collected() {
    let scene = Scene::new();
    let worktree = scene.create().await;
    fs::remove_dir_all(worktree.root.join(".git")).expect("removed");
    let collected = scene.worktrees.collect(&worktree).await;
    assert_eq!(collected.expect("collected"), Collected::Untouched);
}

#[tokio::test]
async fn file_with_reset_modification_time_is_detected() {
    // The same size, and the modification time reset: only the change time differs.
    let scene = Scene::new();
    let worktree = scene.create().await;
    let path = worktree.root.join("sub/inner");
    let time = fs::metadata(&path).and_then(|seen| seen.modified());
    fs::write(&path, "iNNer\n").expect("written");
    let file = fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .expect("open");
    file.set_modified(time.expect("a time")).expect("set");
    let changes = scene.collect(&worktree).await;
    assert_eq!(changes.file_count, 1);
}

#[tokio::test]
async fn many_files_are_no_trouble() {
    const FILES: usize = 5_000;
    let scene = Scene::new();
    let worktree = scene.create().await;
    for number in 0..FILES {
        let folder = worktree.root.join(format!("many/{}", number % 100));
        if number < 100 {
            fs::create_dir_all(&folder).expect("a folder");
        }
        fs::write(folder.join(number.to_string()), "x").expect("written");
    }
    let changes = scene.collect(&worktree).await;
    assert_eq!(changes.file_count, FILES);
    assert!(changes.files.len() <= sortie_worktree::MAX_LISTED_FILES);
    assert!(changes.is_diff_cut);
}
