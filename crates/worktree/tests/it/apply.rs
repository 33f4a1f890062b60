//! Applying to a main checkout that has changed meanwhile: merged, or refused as a whole.

use std::fs;
use std::os::unix::fs::symlink;

use sortie_worktree::{Applied, How, WorktreeError};

use crate::support::{Scene, files, run_git, write};

/// The user's changes while the child works, the child's changes, and the expected outcome.
struct Case {
    name: &'static str,
    person: fn(&Scene),
    child: fn(&std::path::Path),
    expected: &'static str,
}

fn lines(change: impl Fn(u32) -> Option<&'static str>) -> String {
    (1..=20)
        .map(|n| change(n).map_or_else(|| format!("line {n}\n"), |text| format!("{text}\n")))
        .collect()
}

const CASES: &[Case] = &[
    Case {
        name: "other places of one file",
        person: |scene| scene.write("text", &lines(|n| (n == 2).then_some("person"))),
        child: |root| write(root, "text", &lines(|n| (n == 18).then_some("child"))),
        expected: "applied text",
    },
    Case {
        name: "the same place of one file",
        person: |scene| scene.write("text", &lines(|n| (n == 2).then_some("person"))),
        child: |root| write(root, "text", &lines(|n| (n == 2).then_some("child"))),
        expected: "conflict text",
    },
    Case {
        name: "one conflict among good changes",
        person: |scene| scene.write("sub/inner", "person\n"),
        child: |root| {
            write(root, "sub/inner", "child\n");
            write(root, "sub/other", "child\n");
            write(root, "new", "child\n");
        },
        expected: "conflict sub/inner",
    },
    Case {
        name: "the person renamed the file",
        person: |scene| {
            run_git(&scene.root, &["mv", "text", "renamed"]);
        },
        child: |root| write(root, "text", &lines(|n| (n == 18).then_some("child"))),
        expected: "applied renamed",
    },
    Case {
        name: "the person deleted the file",
        person: |scene| fs::remove_file(scene.root.join("text")).expect("removed"),
        child: |root| write(root, "text", "child\n"),
        expected: "conflict text",
    },
    Case {
        name: "both made a file",
        person: |scene| scene.write("new", "person\n"),
        child: |root| write(root, "new", "child\n"),
        expected: "conflict new",
    },
    Case {
        name: "both made the same file",
        person: |scene| scene.write("new", "same\n"),
        child: |root| write(root, "new", "same\n"),
        expected: "applied ",
    },
    Case {
        name: "binary on both sides",
        person: |scene| fs::write(scene.root.join("binary"), [0, 1]).expect("written"),
        child: |root| fs::write(root.join("binary"), [0, 2]).expect("written"),
        expected: "conflict binary",
    },
    Case {
        name: "an ignored file is in the way",
        person: |scene| scene.write("debug.log", "the person's own\n"),
        child: |root| {
            write(root, ".gitignore", "");
            write(root, "debug.log", "child\n");
        },
        expected: "conflict debug.log",
    },
    Case {
        name: "an ignored link to elsewhere is in the way",
        person: |scene| {
            let outside = scene.home.path().join("outside");
            fs::create_dir(&outside).expect("a folder");
            symlink(outside, scene.root.join("ignored")).expect("a link");
        },
        child: |root| {
            write(root, ".gitignore", "");
            write(root, "ignored/escaped", "child\n");
        },
        expected: "conflict ignored/escaped",
    },
    Case {
        name: "a folder with ignored files becomes a file",
        person: |scene| scene.write("sub/debug.log", "the person's own\n"),
        child: |root| {
            fs::remove_dir_all(root.join("sub")).expect("removed");
            write(root, "sub", "child\n");
        },
        expected: "conflict sub",
    },
    Case {
        name: "the person went on to other commits",
        person: |scene| {
            scene.write("sub/other", "person\n");
            scene.commit("second");
            run_git(&scene.root, &["checkout", "-q", "-b", "elsewhere"]);
        },
        child: |root| write(root, "sub/inner", "child\n"),
        expected: "applied sub/inner",
    },
    Case {
        name: "the person staged something else",
        person: |scene| {
            scene.write("sub/other", "person\n");
            run_git(&scene.root, &["add", "-A"]);
        },
        child: |root| write(root, "sub/inner", "child\n"),
        expected: "applied sub/inner",
    },
];

fn shown(applied: &Applied) -> String {
    match applied {
        Applied::Applied { files, .. } => format!("applied {}", files.join(" ")),
        Applied::Conflict { files } => format!("conflict {}", files.join(" ")),
        Applied::Refused(why) => format!("refused {why}"),
    }
}

async fn check(case: &Case) {
    let name = case.name;
    let scene = Scene::new();
    let worktree = scene.create().await;
    (case.child)(&worktree.root);
    let changes = scene.collect(&worktree).await;
    (case.person)(&scene);
    let before = scene.state();

    let requested = scene.try_apply(&changes, How::Check).await;
    let requested = requested.expect("an answer");
    assert_eq!(shown(&requested), case.expected, "{name}");
    assert_eq!(scene.state(), before, "{name}: asking changes nothing");

    let applied = scene.apply(&changes).await;
    assert_eq!(applied, requested, "{name}");
    let after = scene.state();
    if matches!(applied, Applied::Applied { .. }) {
        assert_eq!(after[".git/index"], before[".git/index"], "{name}");
        let changed = after
            .iter()
            .filter(|(path, hash)| before.get(*path) != Some(hash));
        assert_eq!(
            changed.count(),
            case.expected
                .split(' ')
                .skip(1)
                .filter(|f| !f.is_empty())
                .count(),
            "{name}"
        );
    } else {
        assert_eq!(after, before, "{name}: nothing was changed");
    }
    assert!(!scene.root.join(".git/sortie-apply").exists(), "{name}");
    let outside = scene.home.path().join("outside");
    assert!(!outside.exists() || files(&outside).is_empty(), "{name}");
}

#[tokio::test]
async fn changes_of_user_and_child_are_merged_or_refused() {
    for case in CASES {
        check(case).await;
    }
}

#[tokio::test]
async fn a_merge_keeps_the_changes_of_both() {
    let scene = Scene::new();
    let worktree = scene.create().await;
    write(
        &worktree.root,
        "text",
        &lines(|n| (n == 18).then_some("child")),
    );
    let changes = scene.collect(&worktree).await;
    scene.write("text", &lines(|n| (n == 2).then_some("person")));
    scene.apply(&changes).await;
    let text = fs::read_to_string(scene.root.join("text")).expect("read");
    let both = lines(|n| match n {
        2 => Some("person"),
        18 => Some("child"),
        _ => None,
    });
    assert_eq!(text, both);
}

#[tokio::test]
async fn a_discarded_branch_is_gone_and_others_stay() {
    let scene = Scene::new();
    let worktree = scene.create().await;
    write(&worktree.root, "text", "child\n");
    let changes = scene.collect(&worktree).await;
    run_git(&scene.root, &["branch", "sorties"]);
    for other in ["main", "sorties", "sortie/../main", "--all"] {
        let refusal = scene.worktrees.discard(&scene.root, other).await;
        assert!(
            matches!(refusal, Err(WorktreeError::BadBranch(_))),
            "{other}"
        );
    }
    run_git(&scene.root, &["checkout", "-q", &changes.branch]);
    let refusal = scene.worktrees.discard(&scene.root, &changes.branch).await;
    assert!(
        matches!(refusal, Err(WorktreeError::CheckedOut(_))),
        "{refusal:?}"
    );
    run_git(&scene.root, &["checkout", "-q", "main"]);
    let discarded = scene.worktrees.discard(&scene.root, &changes.branch).await;
    assert!(discarded.expect("done"));
    let again = scene.worktrees.discard(&scene.root, &changes.branch).await;
    assert!(!again.expect("nothing to do"));
    assert_eq!(scene.branches(), "main\nsorties\n");
    let gone = scene.try_apply(&changes, How::Write).await;
    assert!(matches!(gone, Err(WorktreeError::NoBranch(_))), "{gone:?}");
}
