//! Which files a command can read and change.

use sortie_sandbox::{Access, Backend, CommandRefusal};

use crate::support::{World, backends, with_namespaces};

/// Checks that a script succeeds without a sandbox, fails in each backend, and prints no secret.
fn refused(world: &World, script: &str) {
    let (code, text) = world.bare(script);
    assert_eq!(code, Some(0), "the control of {script:?}: {text}");
    for backend in backends() {
        let answer = world.run(backend, &world.policy(), script);
        assert_ne!(answer.code, Some(0), "{backend:?} {script:?}: {answer:?}");
        assert_ne!(answer.code, Some(125), "{backend:?} {script:?}: {answer:?}");
        assert!(!answer.text.contains("SECRET"), "{backend:?} {answer:?}");
    }
}

#[test]
fn nothing_outside_the_workspace_is_read() {
    let world = World::new();
    let root = world.root();
    for path in [
        "home/.ssh/id_ed25519",
        "home/.netrc",
        "home/.cargo/credentials.toml",
        "home/.local/state/sortie/token",
        "home/notes.txt",
        "other/notes.txt",
    ] {
        refused(&world, &format!("cat '{}/{path}'", root.display()));
    }
    refused(&world, "cat ../../notes.txt");
    refused(&world, "ln -sf ../../notes.txt link && cat link");
    if rustix::process::geteuid().is_root() {
        refused(&world, "cat /etc/shadow");
        refused(&world, "cat /etc/gshadow");
    }
}

#[test]
fn nothing_outside_the_workspace_is_changed() {
    let world = World::new();
    let root = world.root();
    for path in ["home/notes.txt", "other/notes.txt", "home/.ssh/id_ed25519"] {
        let path = root.join(path);
        let path = path.display();
        // A private view may have a scratch folder at the same place: only the real file counts.
        for script in [
            format!("echo x >> '{path}'"),
            format!("truncate -s 0 '{path}'"),
            format!("rm '{path}'"),
            format!("mv '{path}' '{path}.gone'"),
            format!("ln '{path}' link && echo x > link"),
        ] {
            for backend in backends() {
                let answer = world.run(backend, &world.policy(), &script);
                assert_ne!(answer.code, Some(125), "{answer:?}");
                let text = std::fs::read_to_string(path.to_string()).unwrap();
                assert_eq!(text, "SECRET", "{backend:?} {script}");
            }
        }
    }
    for script in ["touch /usr/x", "touch /etc/x", "touch /x", "touch /opt/x"] {
        for backend in backends() {
            let answer = world.run(backend, &world.policy(), script);
            assert_eq!(answer.code, Some(1), "{backend:?} {script}: {answer:?}");
        }
    }
    assert!(!std::path::Path::new("/usr/x").exists());
}

#[test]
fn the_workspace_is_changed_if_so_allowed() {
    let world = World::new();
    let script = "echo new > file.txt && mkdir -p d/e && echo x > d/e/f && mv d/e g && cat g/f";
    for backend in with_namespaces() {
        let answer = world.run(backend, &world.policy(), script);
        assert_eq!(
            (answer.code, answer.text.as_str()),
            (Some(0), "x\n"),
            "{backend:?}"
        );
        let text = std::fs::read_to_string(world.workspace.join("file.txt")).unwrap();
        assert_eq!(text, "new\n");
        std::fs::remove_dir_all(world.workspace.join("g")).unwrap();
        std::fs::remove_dir_all(world.workspace.join("d")).unwrap();
    }
    std::fs::create_dir(world.workspace.join("sub")).unwrap();
    let answer = world.run(
        Backend::Landlock,
        &world.policy(),
        "echo new > file.txt && echo x > sub/y && mkdir sub/z && cat sub/y",
    );
    assert_eq!((answer.code, answer.text.as_str()), (Some(0), "x\n"));
}

#[test]
fn the_workspace_is_not_changed_if_not_allowed() {
    let world = World::with_git();
    let mut policy = world.policy();
    policy.access = Access::ReadOnly;
    for backend in backends() {
        for script in [
            "echo x > file.txt",
            "echo x > new.txt",
            "rm file.txt",
            "mkdir d",
            "chmod 777 file.txt && test $(stat -c %a file.txt) = 777",
            "git commit -q --allow-empty -m x",
        ] {
            if backend == Backend::Landlock && script.starts_with("chmod") {
                // Landlock does not restrict changes of a file's mode.
                continue;
            }
            let answer = world.run(backend, &policy, script);
            assert_ne!(answer.code, Some(0), "{backend:?} {script}: {answer:?}");
            assert_ne!(answer.code, Some(125), "{backend:?} {script}: {answer:?}");
        }
        let answer = world.run(
            backend,
            &policy,
            "git status --short; git log --oneline | wc -l",
        );
        assert_eq!(
            (answer.code, answer.text.trim()),
            (Some(0), "1"),
            "{backend:?}"
        );
        let text = std::fs::read_to_string(world.workspace.join("file.txt")).unwrap();
        assert_eq!(text, "old\n");
    }
}

#[test]
fn temporary_files_and_home_are_private_and_gone_afterwards() {
    let world = World::new();
    let script = "echo x > $TMPDIR/a && echo y > $HOME/b && cat $TMPDIR/a $HOME/b && echo $TMPDIR";
    for backend in backends() {
        let answer = world.run(backend, &world.policy(), script);
        assert_eq!(answer.code, Some(0), "{backend:?} {answer:?}");
        let place = answer.text.lines().last().unwrap().to_owned();
        assert!(!std::path::Path::new(&place).join("a").exists());
        assert!(!world.home.join("b").exists());
    }
}

#[test]
fn a_workspace_that_is_the_home_folder_keeps_its_secrets() {
    let world = World::new();
    let mut policy = world.policy();
    policy.workspace = world.home.clone();
    std::fs::write(world.home.join(".bashrc"), "old").unwrap();
    for backend in backends() {
        for script in [
            "cat .ssh/id_ed25519",
            "cat .netrc",
            "cat .local/state/sortie/token",
            "mv .ssh x && cat x/id_ed25519",
            "mv .local x && cat x/state/sortie/token",
            "echo x > .bashrc",
        ] {
            let sandbox = world.sandbox(backend);
            let mut command = world.shell(script);
            command.cwd = world.home.clone();
            let confined = sandbox.confine(&policy, command).unwrap();
            let (child, mut output) = crate::support::start(&confined);
            let (code, text) = crate::support::finish(child, &mut output);
            assert!(!text.contains("SECRET"), "{backend:?} {script}: {text}");
            assert_ne!(code, Some(0), "{backend:?} {script}: {text}");
            assert_ne!(code, Some(125), "{backend:?} {script}: {text}");
            drop(confined);
            // Moves the entries back.
            for (from, to) in [("x/state", ".local"), ("x/id_ed25519", ".ssh")] {
                if world.home.join(from).exists() {
                    std::fs::rename(world.home.join("x"), world.home.join(to)).unwrap();
                }
            }
        }
        let made = "echo evil > .zshrc; echo evil > .profile; mkdir -p .config/fish";
        let sandbox = world.sandbox(backend);
        let mut command = world.shell(made);
        command.cwd = world.home.clone();
        let confined = sandbox.confine(&policy, command).unwrap();
        let (child, mut output) = crate::support::start(&confined);
        crate::support::finish(child, &mut output);
        drop(confined.guard.finish());
        for name in [".zshrc", ".profile", ".config/fish"] {
            assert!(!world.home.join(name).exists(), "{backend:?} {name}");
        }
        let text = std::fs::read_to_string(world.home.join(".bashrc")).unwrap();
        assert_eq!(text, "old");
    }
}

#[test]
fn odd_names_are_names() {
    for name in ["a b", "分析", "line\nbreak", "-rf", "'quote\"", "--"] {
        let world = World::named(name);
        for backend in backends() {
            let answer = world.run(backend, &world.policy(), "cat file.txt; pwd");
            let expected = format!("old\n{}\n", world.workspace.display());
            assert_eq!(
                (answer.code, answer.text),
                (Some(0), expected),
                "{backend:?}"
            );
        }
    }
}

#[test]
fn missing_or_invalid_folder_is_refused() {
    let world = World::new();
    for backend in backends() {
        let refusal = |workspace: &str, cwd: &str| {
            let mut policy = world.policy();
            let mut command = world.shell("true");
            if !workspace.is_empty() {
                policy.workspace = workspace.into();
            }
            command.cwd = world.workspace.join(cwd);
            world
                .sandbox(backend)
                .confine(&policy, command)
                .unwrap_err()
        };
        assert!(matches!(
            refusal("", "missing"),
            CommandRefusal::Folder { .. }
        ));
        assert!(matches!(
            refusal("", "file.txt"),
            CommandRefusal::Folder { .. }
        ));
        assert!(matches!(refusal("", ".."), CommandRefusal::Outside(_)));
        assert!(matches!(refusal("/", "."), CommandRefusal::TooMuch(_)));
        assert!(matches!(
            refusal("/missing", "."),
            CommandRefusal::Folder { .. }
        ));
    }
}
