//! What a command can reach of the machine: processes, devices, privileges.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sortie_base::lifeline::Lifeline;
use sortie_sandbox::{Backend, CommandRefusal, Mode, Sandbox};

use crate::support::{OFFER, World, backends, with_namespaces};

/// Checks that a script fails in each backend, although it succeeds without a sandbox.
fn refused(world: &World, backends: &[Backend], script: &str) {
    let (code, text) = world.bare(script);
    assert_eq!(code, Some(0), "the control of {script:?}: {text}");
    for backend in backends {
        let answer = world.run(*backend, &world.policy(), script);
        assert_ne!(answer.code, Some(0), "{backend:?} {script:?}: {answer:?}");
        assert_ne!(answer.code, Some(125), "{backend:?} {script:?}: {answer:?}");
    }
}

#[test]
fn there_are_no_privileges_and_no_way_to_new_ones() {
    let world = World::new();
    let script =
        "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\\t' | tr '\\n' ' '";
    let none = "0000000000000000";
    for backend in backends() {
        let answer = world.run(backend, &world.policy(), script);
        let expected = format!(
            "CapInh:{none} CapPrm:{none} CapEff:{none} CapBnd:{none} CapAmb:{none} \
             NoNewPrivs:1 Seccomp:2 "
        );
        if backend == Backend::Landlock && !rustix::process::geteuid().is_root() {
            // Without privileges the bounding set stays, and has no effect.
            assert!(
                answer.text.contains(&format!("CapEff:{none}")),
                "{answer:?}"
            );
            assert!(answer.text.contains("NoNewPrivs:1"), "{answer:?}");
            continue;
        }
        assert_eq!(answer.text, expected, "{backend:?}");
    }
}

#[test]
fn new_namespaces_mounts_and_traces_are_refused() {
    let world = World::new();
    let all = backends();
    refused(&world, &all, "unshare -U true");
    refused(&world, &all, "unshare -Ur true");
    refused(
        &world,
        &all,
        "/usr/bin/python3 -c 'import ctypes; assert ctypes.CDLL(None).unshare(0x10000000) == 0'",
    );
    refused(&world, &all, "unshare -Urm mount -t tmpfs x /mnt");
    // Calls `ptrace` by its number, on the own process.
    let trace = "/usr/bin/python3 -c 'import ctypes; l = ctypes.CDLL(None); \
        assert l.ptrace(0, 0, 0, 0) == 0'";
    refused(&world, &all, trace);
    if rustix::process::geteuid().is_root() {
        refused(&world, &all, "mkdir -p m && mount -t tmpfs x m && umount m");
        refused(&world, &all, "chroot / true || exit 1");
        refused(&world, &all, "mknod d c 1 3 && rm d");
        refused(&world, &all, "chown 1 file.txt && chown 0 file.txt");
    }
}

/// The bit would outlive the command, and take effect when a user runs the file outside.
#[test]
fn no_file_runs_as_its_owner() {
    let world = World::new();
    let all = backends();
    for script in [
        "chmod u+s file.txt && chmod u-s file.txt",
        "chmod 2755 file.txt && chmod 755 file.txt",
        "mkdir -m 2755 sg && chmod 755 sg && rmdir sg",
        "install -m 4755 /bin/true su && rm su",
        "perl -e 'use Fcntl; sysopen(F, \"su\", O_CREAT|O_WRONLY, 04755) or exit 1' && rm su",
        "perl -e 'open F, \">\", \"su\"; chmod(06755, *F) or exit 1' && rm su",
        // The newest system call for it; a kernel that lacks it has nothing to refuse.
        "perl -e '$f = \"file.txt\"; $r = syscall(452, -100, $f, 04755, 0); exit($r != 0 && $! != 38)' && chmod 755 file.txt",
        // A file without a name (`O_TMPFILE`) gets a mode, too.
        "perl -e '$f = \".\"; syscall(257, -100, $f, 020200002, 04755) >= 0 or exit 1'",
    ] {
        if script.contains("257") && cfg!(not(target_arch = "x86_64")) {
            continue;
        }
        refused(&world, &all, script);
    }
    let usual = "chmod 755 file.txt && chmod +t . && chmod -t . && mkdir -m 1777 t && rmdir t && \
        install -m 755 /bin/true own && ./own && rm own && umask 022 && touch new && rm new";
    for backend in with_namespaces() {
        let answer = world.run(backend, &world.policy(), usual);
        assert_eq!(answer.code, Some(0), "{backend:?} {answer:?}");
    }
}

#[test]
fn other_processes_are_not_there() {
    let world = World::new();
    let us = std::process::id();
    refused(&world, &with_namespaces(), &format!("test -d /proc/{us}"));
    // Where other processes are visible, their content is not readable.
    for part in ["environ", "root/etc", "maps", "fd"] {
        refused(
            &world,
            &backends(),
            &format!("ls /proc/{us}/{part} > /dev/null && head -c 1 /proc/{us}/maps > /dev/null"),
        );
        let script = format!("cat /proc/{us}/environ > /dev/null");
        refused(&world, &backends(), &script);
    }
    refused(&world, &backends(), &format!("kill -0 {us}"));
    for backend in with_namespaces() {
        let script = "cd /proc; echo [0-9]*; tr '\\0' '\\n' < /proc/1/environ";
        let answer = world.run(backend, &world.policy(), script);
        let mut lines = answer.text.lines();
        let count = lines.next().unwrap().split(' ').count();
        assert!(count <= 3, "{backend:?} {answer:?}");
        let mut names: Vec<_> = lines.filter_map(|line| line.split('=').next()).collect();
        names.retain(|name| *name != "PWD");
        names.sort_unstable();
        assert_eq!(names, ["HOME", "LANG", "PATH", "TMPDIR"], "{backend:?}");
    }
}

#[test]
fn the_machine_is_not_changed() {
    let world = World::new();
    let root = rustix::process::geteuid().is_root();
    for path in [
        "/proc/sys/kernel/core_pattern",
        "/proc/sysrq-trigger",
        "/sys/kernel/uevent_helper",
        "/sys/fs/cgroup/pids/cgroup.procs",
        "/proc/sys/vm/drop_caches",
    ] {
        // Opens the file for writing, and writes nothing.
        let script = format!(": >> {path}");
        if root && Path::new(path).exists() {
            refused(&world, &backends(), &script);
        }
    }
    if root {
        for device in ["/dev/vda", "/dev/sda", "/dev/mem", "/dev/kmsg", "/dev/fuse"] {
            if world.bare(&format!(": < {device}")).0 == Some(0) {
                refused(&world, &backends(), &format!(": < {device}"));
            }
        }
    }
    for backend in with_namespaces() {
        let answer = world.run(backend, &world.policy(), "ls /dev | tr '\\n' ' '");
        assert!(!answer.text.contains("vda"), "{backend:?} {answer:?}");
        let shown: Vec<_> = answer
            .text
            .lines()
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        let known = [
            "console", "core", "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr",
            "stdin", "stdout", "tty", "urandom", "zero",
        ];
        for name in &shown {
            assert!(known.contains(name), "{backend:?} {name}");
        }
    }
}

#[test]
fn open_files_of_the_runtime_are_not_handed_on() {
    let world = World::new();
    let script = "ls /proc/self/fd | tr '\\n' ' '";
    for backend in backends() {
        let confined = world.confine(backend, &world.policy(), script).unwrap();
        // A shell that leaves a file open for every process that it starts.
        let mut words = vec![
            "/bin/sh".into(),
            "-c".into(),
            "exec 7<\"$HOME/.netrc\"; \"$@\"; exit $?".into(),
            "sh".into(),
        ];
        words.extend(confined.argv.iter().cloned());
        let (_lifeline, input) = Lifeline::new().unwrap();
        let output = std::process::Command::new(&words[0])
            .args(&words[1..])
            .current_dir(&confined.cwd)
            .env_clear()
            .envs(confined.env.iter().cloned())
            .env("HOME", &world.home)
            .stdin(std::process::Stdio::from(input))
            .output()
            .unwrap();
        // The three standard descriptors, and the folder that is listed.
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "0 1 2 3 ",
            "{backend:?} {output:?}"
        );
    }
}

#[test]
fn without_a_sandbox_there_is_no_command() {
    let world = World::new();
    let nothing = sortie_sandbox::Offer::default();
    let make = |mode, offer| {
        Sandbox::new(
            mode,
            offer,
            sortie_sandbox::Places::default(),
            "missing".into(),
        )
    };
    for mode in [
        Mode::Best,
        Mode::Only(Backend::Bubblewrap),
        Mode::Only(Backend::Landlock),
    ] {
        let refusal = make(mode, nothing.clone()).confine(&world.policy(), world.shell("true"));
        let text = refusal.unwrap_err().to_string();
        assert!(text.contains("operator"), "{text}");
    }
    let bare = make(Mode::Off, OFFER.clone()).confine(&world.policy(), world.shell("true"));
    let bare = bare.unwrap();
    assert!(bare.supervised, "it still ends with the runtime");
    assert!(bare.argv.ends_with(&world.shell("true").argv));
    assert_eq!(bare.applied.backend, Backend::None);
    assert_eq!(bare.applied.not_held.len(), 1);
}

/// Writes a program that leaves a mark beside itself, and fails.
fn marking(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, "#!/bin/sh\necho ran >\"$0.ran\"\nexit 1\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn machine_is_probed_before_the_first_command_and_not_earlier() {
    let world = World::new();
    let folder = tempfile::tempdir().unwrap();
    let helper = marking(folder.path(), "helper");
    let places = sortie_sandbox::Places {
        path: vec![folder.path().to_owned()],
        ..sortie_sandbox::Places::default()
    };
    let sandbox = Sandbox::probing(Mode::Best, places, helper);
    // An agent that writes to a folder of the search path must not provide the sandbox.
    marking(folder.path(), "bwrap");
    assert!(!folder.path().join("helper.ran").exists());
    let refusal = sandbox.confine(&world.policy(), world.shell("true"));
    assert!(
        matches!(refusal, Err(CommandRefusal::NoSandbox)),
        "{refusal:?}"
    );
    assert!(folder.path().join("helper.ran").exists());
    assert!(!folder.path().join("bwrap.ran").exists());
}

#[test]
fn helper_with_a_failing_order_starts_no_program() {
    let run = |words: &[&str]| {
        let mut command = std::process::Command::new(crate::support::HELPER);
        let output = command
            .arg(sortie_sandbox::HELPER_COMMAND)
            .args(words)
            .output();
        let output = output.unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    for words in [
        &["--"][..],
        &["allow", "--", "echo", "x"],
        &["parent", "1", "--", "echo", "x"],
        &["lifeline", "no", "--", "echo", "x"],
        &["join", "/missing/list", "--", "echo", "x"],
        &["start", "/missing", "--", "echo", "x"],
        &["filter", "open", "--", "echo", "x"],
        &["limit", "luck", "1", "--", "echo", "x"],
        &["enter-root", "--", "echo", "x"],
        &["echo", "x"],
    ] {
        assert_eq!(run(words), (Some(125), String::new()), "{words:?}");
    }
    assert_eq!(run(&["--", "echo", "x"]), (Some(0), "x\n".to_owned()));
}
