//! Swaps of files and folders between the plan of a view and its construction, as another command
//! could do them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use sortie_sandbox::{Backend, Policy, Sandbox, linked_worktree};

use crate::support::{HELPER, OFFER, World, backends, finish, names, start, with_namespaces};

/// Plans a command, runs the attack, and starts the command.
fn swapped(
    world: &World,
    (backend, policy): (Backend, &Policy),
    script: &str,
    act: impl Fn(&Path),
) -> (i32, String) {
    let confined = world.confine(backend, policy, script).unwrap();
    act(&world.workspace);
    let (child, mut output) = start(&confined);
    let (code, text) = finish(child, &mut output);
    (code.unwrap(), text)
}

/// Replaces a folder by a link.
fn link_instead(folder: &Path, to: impl AsRef<Path>) {
    fs::rename(folder, folder.with_extension("away")).unwrap();
    symlink(to, folder).unwrap();
}

#[test]
fn a_view_that_was_swapped_for_another_starts_nothing() {
    for backend in with_namespaces() {
        let ssh = |world: &World| world.home.join(".ssh");
        for place in [".git/hooks", ".git/modules", ".claude", ".git"] {
            let world = World::with_git();
            fs::create_dir_all(world.workspace.join(".git/modules/sub")).unwrap();
            fs::create_dir(world.workspace.join(".claude")).unwrap();
            // The nested mounts find their mount points there too.
            for name in names(&world.workspace.join(".git")) {
                world.put(&format!("home/.ssh/{name}/id"), "SECRET");
            }
            let before = names(&ssh(&world));
            let script = format!("cat {place}/id* {place}/*/id*; echo ran");
            let act = |workspace: &Path| link_instead(&workspace.join(place), ssh(&world));
            let (code, text) = swapped(&world, (backend, &world.policy()), &script, act);
            assert_ne!(code, 0, "{backend:?} {place}: {text}");
            assert!(!text.contains("SECRET"), "{backend:?} {place}: {text}");
            assert!(!text.contains("ran"), "{backend:?} {place}: {text}");
            assert_eq!(names(&ssh(&world)), before, "{backend:?} {place}");
        }
        // The protected folder is elsewhere, and another folder is protected instead.
        let world = World::with_git();
        world.put_in_workspace("decoy/file", "x");
        let policy = world.policy();
        let act = |workspace: &Path| link_instead(&workspace.join(".git/hooks"), "../decoy");
        let (code, text) = swapped(&world, (backend, &policy), "echo ran", act);
        assert_eq!(code, 125, "{backend:?} {text}");
        let world = World::with_git();
        let mut policy = world.policy();
        policy.protected.clear();
        let act = |workspace: &Path| link_instead(workspace, "../.ssh");
        let (code, text) = swapped(&world, (backend, &policy), "cat id*; echo ran", act);
        assert_eq!(code, 125, "{backend:?} {text}");
        assert!(text.contains("was replaced by another file"), "{text}");
        let world = World::with_git();
        let policy = world.policy();
        let (code, text) = swapped(&world, (backend, &policy), "cat file.txt", |_| {});
        assert_eq!((code, text.as_str()), (0, "old\n"), "the control");
    }
}

/// A workspace is the folder that was decided about, not the current target of its name: neither
/// before the view is planned, nor between the plan and the start.
#[test]
fn a_workspace_that_became_a_link_is_refused() {
    for backend in backends() {
        for (place, inner) in [("sub", ""), ("sub", "inner"), ("above/sub", "inner")] {
            let world = World::new();
            let workspace = world.workspace.join(place).join(inner);
            fs::create_dir_all(&workspace).unwrap();
            fs::write(workspace.join("id_ed25519"), "mine\n").unwrap();
            world.put("home/.ssh/inner/id_ed25519", "SECRET");
            let policy = Policy::of(workspace.clone());
            let mut command = world.shell("cat id*; echo evil >> id_ed25519");
            command.cwd.clone_from(&workspace);
            let sandbox = world.sandbox(backend);
            let confined = sandbox.confine(&policy, command.clone()).unwrap();
            let (child, mut output) = start(&confined);
            let answer = finish(child, &mut output);
            assert_eq!(answer, (Some(0), "mine\n".to_owned()), "the control");
            let planned = sandbox.confine(&policy, command.clone()).unwrap();
            let secrets = world.home.join(".ssh");
            link_instead(&world.workspace.join(place), &secrets);
            let (child, mut output) = start(&planned);
            let (_, text) = finish(child, &mut output);
            assert!(
                !text.contains("SECRET"),
                "{backend:?} {place} {inner}: {text}"
            );
            let refusal = sandbox.confine(&policy, command).unwrap_err().to_string();
            assert!(
                refusal.contains("is a link or not a folder"),
                "{backend:?} {refusal}"
            );
            for secret in ["id_ed25519", "inner/id_ed25519"] {
                let text = fs::read_to_string(secrets.join(secret)).unwrap();
                assert_eq!(text, "SECRET", "{backend:?} {secret}");
            }
        }
    }
}

/// A further readable folder must not be a link either: it may lie where another run can write.
#[test]
fn what_may_be_read_besides_is_no_link() {
    for backend in backends() {
        let world = World::new();
        world.put("shared/id_ed25519", "theirs\n");
        let shared = world.root().join("shared");
        let mut policy = world.policy();
        policy.extra_read = vec![shared.clone()];
        let script = format!("cat {}/id*", shared.display());
        let answer = world.run(backend, &policy, &script);
        assert_eq!(answer.text, "theirs\n", "{backend:?}: the control");
        link_instead(&shared, world.home.join(".ssh"));
        let answer = world.run(backend, &policy, &script);
        assert_ne!(answer.code, Some(0), "{backend:?} {answer:?}");
        assert!(!answer.text.contains("SECRET"), "{backend:?} {answer:?}");
    }
}

/// The target of a link in place of a workspace does not determine which git folders may be
/// changed.
#[test]
fn a_link_is_no_linked_worktree() {
    let world = World::with_git();
    let linked = world.home.join("linked");
    let (code, text) = world.bare("git worktree add -q ../../linked");
    assert_eq!(code, Some(0), "{text}");
    let link = world.home.join("link");
    symlink(&linked, &link).unwrap();
    assert!(linked_worktree(&linked).is_some(), "the control");
    assert_eq!(linked_worktree(&link), None);
}

/// A stand-in is neither created nor removed behind a link.
#[test]
fn nothing_is_made_or_removed_behind_a_link() {
    for backend in with_namespaces() {
        let world = World::with_git();
        fs::remove_dir_all(world.workspace.join(".git/hooks")).unwrap();
        let confined = world.confine(backend, &world.policy(), "true").unwrap();
        let git = world.workspace.join(".git");
        assert!(git.join("hooks").is_dir());
        let elsewhere = world.home.join("elsewhere");
        for name in ["hooks", "commondir"] {
            fs::create_dir_all(elsewhere.join(name)).unwrap();
        }
        link_instead(&git, &elsewhere);
        drop(confined.guard.finish());
        assert_eq!(names(&elsewhere), ["commondir", "hooks"], "{backend:?}");
    }
}

/// A process that could replace our own binary would run outside the sandbox with the next command.
#[test]
fn our_own_binary_is_not_replaced() {
    let own = "tools/bin/sortie";
    let attempts = [
        "echo evil > tools/bin/sortie",
        "rm -f tools/bin/sortie",
        "mv tools/bin/sortie x",
        "cp /bin/true x; mv -f x tools/bin/sortie",
        "chmod 777 tools/bin/sortie",
        "mv tools/bin b; mkdir tools/bin; cp /bin/true tools/bin/sortie",
        "mv tools t; mkdir -p tools/bin; cp /bin/true tools/bin/sortie",
        "ln -sf /bin/true tools/bin/sortie",
    ];
    for backend in backends() {
        let world = World::with_git();
        let helper = world.workspace.join(own);
        fs::create_dir_all(helper.parent().unwrap()).unwrap();
        fs::copy(HELPER, &helper).unwrap();
        let bytes = fs::read(&helper).unwrap();
        let sandbox: Sandbox = world.sandbox_with(backend, &helper);
        for script in attempts {
            let confined = sandbox
                .confine(&world.policy(), world.shell(script))
                .unwrap();
            let (child, mut output) = start(&confined);
            let (code, text) = finish(child, &mut output);
            assert_ne!(code, Some(125), "{backend:?} {script}: {text}");
            drop(confined);
            let same = fs::read(&helper).is_ok_and(|now| now == bytes);
            assert!(same, "{backend:?} {script}: {text}");
        }
        let beside = world.shell("echo x > tools/bin/other && cat tools/bin/other");
        let confined = sandbox.confine(&world.policy(), beside).unwrap();
        let (child, mut output) = start(&confined);
        let (code, text) = finish(child, &mut output);
        if OFFER.bubblewrap.is_some() && backend == Backend::Bubblewrap {
            assert_eq!((code, text.as_str()), (Some(0), "x\n"), "what is beside it");
        }
    }
}

/// If the parent of a hidden place could be renamed, the place would become visible.
#[test]
fn what_is_hidden_is_not_moved_into_sight() {
    let mut world = World::with_git();
    world.workspace = world.home.clone();
    for backend in with_namespaces() {
        for script in ["mv .cargo c", "mv .cargo c; cat c/credentials.toml"] {
            let answer = world.run(backend, &world.policy(), script);
            assert_ne!(answer.code, Some(0), "{backend:?} {script}: {answer:?}");
            assert!(!answer.text.contains("SECRET"), "{backend:?} {answer:?}");
        }
        assert!(world.home.join(".cargo/credentials.toml").exists());
    }
}
