//! Protected paths in the workspace cannot be changed, nor created while they are missing (P15).

use std::fs;
use std::path::Path;

use sortie_sandbox::{Backend, Protected, WhileAbsent};

use crate::support::{World, backends, names, with_namespaces};

/// Ways to plant a hook or a setting.
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
        assert!(answer.text.contains("Read-only"), "{backend:?} {answer:?}");
        assert_eq!(answer.undone, [], "{backend:?}");
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

/// A killed runtime removes no stand-ins. The next one does, even if the first was interrupted
/// midway.
#[test]
fn leftovers_of_a_killed_runtime_are_swept_by_the_next_command() {
    let world = World::new();
    let before = names(&world.workspace);
    for backend in with_namespaces() {
        let left = world.confine(backend, &world.policy(), "true").unwrap();
        assert!(names(&world.workspace).len() > before.len());
        // As after its death, the locks are gone and the folders remain.
        let marked = names(&world.workspace);
        drop(left);
        for name in marked.iter().filter(|name| !before.contains(name)) {
            use std::os::unix::fs::DirBuilderExt as _;
            let folder = world.workspace.join(name);
            fs::DirBuilder::new().mode(0o1555).create(folder).unwrap();
        }
        let script = "mkdir .git/hooks || mkdir .vscode/x || echo evil > .mcp.json";
        let answer = world.run(backend, &world.policy(), script);
        assert_ne!(answer.code, Some(0), "{backend:?} {answer:?}");
        assert_eq!(names(&world.workspace), before, "{backend:?}");
    }
}

/// A repository that a person creates in the workspace while a command runs is kept.
#[test]
fn a_repository_that_a_person_makes_meanwhile_is_kept() {
    for backend in with_namespaces() {
        let world = World::new();
        let confined = world.confine(backend, &world.policy(), "true").unwrap();
        let made = world.bare("chmod 755 .git && git init -q -b main . && git add file.txt");
        assert_eq!(made, (Some(0), String::new()), "{backend:?}");
        assert_eq!(confined.guard.finish(), [], "{backend:?}");
        let answer = world.run(
            backend,
            &world.policy(),
            "git commit -qm first && git log --oneline | wc -l",
        );
        assert_eq!(
            (answer.code, answer.text.trim()),
            (Some(0), "1"),
            "{backend:?}"
        );
    }
}

/// One command removes a link; another that starts meanwhile must not treat the link as absent
/// before.
#[test]
fn two_commands_together_may_not_do_what_neither_may() {
    let world = World::with_git();
    let link = world.workspace.join(".claude");
    for backend in with_namespaces() {
        std::os::unix::fs::symlink("../elsewhere", &link).unwrap();
        let (sandbox, policy) = (world.sandbox(backend), world.policy());
        let confine = |script: &str| sandbox.confine(&policy, world.shell(script)).unwrap();
        let first = confine("rm .claude; echo evil > .exrc");
        let (child, mut output) = crate::support::start(&first);
        assert_eq!(crate::support::finish(child, &mut output).0, Some(0));
        let second = confine("rm -f .claude; mkdir .claude; echo evil > .claude/settings.json");
        assert_eq!(first.guard.finish().len(), 2, "{backend:?}");
        let (child, mut output) = crate::support::start(&second);
        assert_eq!(crate::support::finish(child, &mut output).0, Some(0));
        assert_eq!(second.guard.finish().len(), 1, "{backend:?}");
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("../elsewhere"));
        assert!(!world.workspace.join(".exrc").exists());
        fs::remove_file(&link).unwrap();
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
