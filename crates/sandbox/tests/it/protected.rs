//! What must not be changed in the workspace, also while it is not there (P15).

use std::fs;
use std::path::Path;

use sortie_sandbox::{Backend, Protected, WhileAbsent};

use crate::support::{World, backends, with_namespaces};

/// All names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Ways to get a hook or a setting into place.
const ATTEMPTS: &[&str] = &[
    "echo evil > .git/hooks/pre-commit",
    "echo evil > .git/config",
    "git config core.fsmonitor evil",
    "rm -rf .git/hooks && mkdir .git/hooks && echo evil > .git/hooks/pre-commit",
    "mv .git/hooks .git/h && mkdir .git/hooks && echo evil > .git/hooks/pre-commit",
    "rm .git/config && echo evil > .git/config",
    "cp .git/config c && echo evil >> c && mv -f c .git/config",
    "mv .git old && mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit",
    "mv .git old && cp -r old .git && echo evil > .git/config",
    "mkdir -p evil/hooks && echo evil > evil/hooks/x && mv .git old && ln -s evil .git",
    "ln -sf ../../evil .git/hooks",
    "ln .git/config hard && echo evil > hard",
    "mkdir .vscode && echo evil > .vscode/tasks.json",
    "ln -s evil .vscode",
    "echo evil > .mcp.json",
    "mkdir d && echo evil > d/tasks.json && mv d .vscode",
    "echo evil > f && mv -T f .mcp.json",
    "rmdir .vscode; mkdir .vscode && echo evil > .vscode/x",
    "mkdir -p .sortie/agents .claude .agents .idea .cursor .husky && echo evil > .envrc",
    "echo evil > sortie.toml",
    "echo evil > .claude/settings.json",
    "mv .claude c; mkdir .claude; echo evil > .claude/settings.json",
    "umount .git/config; echo evil > .git/config",
    "mount -t tmpfs x .git/hooks; echo evil > .git/hooks/pre-commit",
];

#[test]
fn hooks_and_settings_stay_as_they_are() {
    let bare = World::with_git();
    for script in ["echo evil > .git/hooks/pre-commit", "mkdir .vscode"] {
        assert_eq!(bare.bare(script).0, Some(0), "the control of {script}");
    }
    let world = World::with_git();
    fs::create_dir(world.workspace.join(".claude")).unwrap();
    fs::write(world.workspace.join(".claude/settings.json"), "{}").unwrap();
    let config = fs::read_to_string(world.workspace.join(".git/config")).unwrap();
    let before = names(&world.workspace);
    let hooks = names(&world.workspace.join(".git/hooks"));
    for backend in backends() {
        for script in ATTEMPTS {
            let answer = world.run(backend, &world.policy(), script);
            assert_ne!(answer.code, Some(125), "{backend:?} {script}: {answer:?}");
            let at = |path: &str| world.workspace.join(path);
            assert_eq!(
                fs::read_to_string(at(".git/config")).unwrap(),
                config,
                "{script}"
            );
            assert_eq!(names(&at(".git/hooks")), hooks, "{backend:?} {script}");
            assert_eq!(
                fs::read_to_string(at(".claude/settings.json")).unwrap(),
                "{}"
            );
            for name in ["c", "d", "f", "hard", "evil"] {
                let left = at(name);
                if left.is_dir() {
                    fs::remove_dir_all(left).unwrap();
                } else if left.exists() {
                    fs::remove_file(left).unwrap();
                }
            }
            assert_eq!(
                names(&world.workspace),
                before,
                "{backend:?} {script}: {answer:?}"
            );
        }
    }
}

#[test]
fn no_other_folder_becomes_the_one_with_the_hooks() {
    let world = World::with_git();
    let script = "mkdir -p evil/hooks; echo ../evil > .git/commondir; ls .git/commondir";
    for backend in with_namespaces() {
        let answer = world.run(backend, &world.policy(), script);
        assert!(!world.workspace.join(".git/commondir").exists());
        assert_eq!(answer.undone.len(), 1, "{backend:?} {answer:?}");
        assert!(answer.undone[0].restored);
    }
}

#[test]
fn a_protected_link_is_put_back() {
    let world = World::with_git();
    let link = world.workspace.join(".claude");
    std::os::unix::fs::symlink("../elsewhere", &link).unwrap();
    for backend in with_namespaces() {
        let script = "rm .claude; mkdir .claude; echo evil > .claude/settings.json";
        let answer = world.run(backend, &world.policy(), script);
        assert_eq!(answer.undone.len(), 1, "{backend:?} {answer:?}");
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("../elsewhere"));
    }
}

#[test]
fn git_neither_sees_nor_adds_what_stands_in() {
    let world = World::with_git();
    for backend in with_namespaces() {
        let answer = world.run(
            backend,
            &world.policy(),
            "git status --short; git add -A; git status --short; ls -d .vscode .mcp.json",
        );
        assert_eq!(answer.text, ".mcp.json\n.vscode\n", "{backend:?}");
    }
}

#[test]
fn commands_side_by_side_share_what_stands_in() {
    let world = World::with_git();
    let before = names(&world.workspace);
    for backend in with_namespaces() {
        let first = world.confine(
            backend,
            &world.policy(),
            "read x; echo evil > .mcp.json/x; echo evil > .mcp.json",
        );
        let first = first.unwrap();
        let second = world.run(backend, &world.policy(), "echo evil > .mcp.json");
        assert_ne!(second.code, Some(0));
        let (child, mut output) = crate::support::start(&first);
        let (code, text) = crate::support::finish(child, &mut output);
        assert_ne!(code, Some(0), "{text}");
        drop(first);
        assert_eq!(names(&world.workspace), before, "{backend:?}");
    }
}

#[test]
fn what_a_policy_adds_is_protected_too() {
    let world = World::new();
    let mut policy = world.policy();
    policy.protected.push(Protected {
        path: "deep/er/file".into(),
        absent: WhileAbsent::StandIn,
    });
    for backend in backends() {
        let answer = world.run(
            backend,
            &policy,
            "mkdir -p deep/er && echo x > deep/er/file",
        );
        assert_ne!(answer.code, Some(0), "{backend:?} {answer:?}");
        assert!(!world.workspace.join("deep").exists());
    }
    policy.protected[0].path = "../outside".into();
    let refusal = world
        .confine(Backend::Landlock, &policy, "true")
        .unwrap_err();
    assert!(refusal.to_string().contains("../outside"), "{refusal}");
}
