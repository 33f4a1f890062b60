//! How commands end: by themselves, by their limits, killed by the runtime, and together with it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use sortie_base::lifeline::Lifeline;
use sortie_sandbox::{Backend, death_signal, supervisor};

use crate::support::{HELPER, World, backends, names, small, start, with_namespaces};

/// Long enough for every machine; only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts two processes that leave their session and their parent, and prints a line. They keep the
/// output open, so its end shows that they are gone.
const DAEMONS: &str = "setsid sh -c 'sleep 1000 & sleep 1000' & \
    /usr/bin/env -i setsid sleep 1000 & echo ready; wait";

/// Reads until this line, or the end, has arrived.
fn read_until(output: &mut (impl std::io::Read + AsFd), end: Option<&str>) -> String {
    let deadline = Instant::now() + PATIENCE;
    let mut text = String::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap();
        let mut ready = [PollFd::new(output, PollFlags::IN)];
        assert_ne!(
            poll(&mut ready, Some(&left)).unwrap(),
            0,
            "somebody is left; so far: {text}"
        );
        let mut bytes = [0; 4096];
        let count = output.read(&mut bytes).unwrap();
        text.push_str(&String::from_utf8_lossy(&bytes[..count]));
        if count == 0 || end.is_some_and(|end| text.contains(end)) {
            return text;
        }
    }
}

fn pid(child: &std::process::Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
}

/// Kills a command `tries` times and checks that no process is left: a few times here, many times
/// in the measurement.
fn kill_and_look(tries: usize, kill: impl Fn(Pid)) {
    let world = World::new();
    for backend in with_namespaces() {
        for _ in 0..tries {
            let confined = world.confine(backend, &world.policy(), DAEMONS).unwrap();
            let (mut child, mut output) = start(&confined);
            read_until(&mut output, Some("ready"));
            kill(pid(&child));
            read_until(&mut output, None);
            child.wait().unwrap();
        }
    }
}

#[test]
fn no_process_is_left_when_the_group_is_killed() {
    kill_and_look(5, |leader| {
        kill_process_group(leader, Signal::KILL).unwrap();
    });
}

#[test]
fn no_process_is_left_when_the_first_is_killed() {
    kill_and_look(5, |leader| kill_process(leader, Signal::KILL).unwrap());
}

#[test]
fn no_process_is_left_when_the_group_is_terminated() {
    kill_and_look(5, |leader| {
        kill_process_group(leader, Signal::TERM).unwrap();
    });
}

#[test]
#[ignore = "the long form of the two above"]
fn no_process_is_left_in_a_thousand_tries() {
    kill_and_look(1000, |leader| {
        kill_process_group(leader, Signal::KILL).unwrap();
    });
}

/// A command that is killed at any moment of its start leaves no process either.
#[test]
fn no_process_is_left_after_a_kill_during_start() {
    let world = World::new();
    for backend in backends() {
        for spins in 0..60_u32 {
            let confined = world.confine(backend, &world.policy(), DAEMONS).unwrap();
            let (mut child, mut output) = start(&confined);
            let moment = Instant::now() + Duration::from_micros(u64::from(spins) * 200);
            while Instant::now() < moment {
                std::hint::spin_loop();
            }
            if backend == Backend::Landlock && spins > 0 {
                // There the daemons may have left the group by now.
                read_until(&mut output, Some("ready"));
                kill_process(pid(&child), Signal::KILL).unwrap();
                child.wait().unwrap();
                end_sleepers(&world);
                break;
            }
            kill_process_group(pid(&child), Signal::KILL).unwrap();
            read_until(&mut output, None);
            child.wait().unwrap();
        }
    }
}

/// Kills the processes that a machine without namespaces could not: those that work in this world's
/// folder.
fn end_sleepers(world: &World) {
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let place = std::fs::read_link(entry.path().join("cwd"));
        let number = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if place.is_ok_and(|place| place == world.workspace)
            && let Some(process) = number.and_then(Pid::from_raw)
        {
            kill_process(process, Signal::KILL).unwrap();
        }
    }
}

#[test]
fn no_process_is_left_when_the_command_ends() {
    let world = World::new();
    for backend in backends() {
        let script = "setsid sleep 1000 & sh -c 'setsid sleep 1000 &' & echo ready";
        let confined = world.confine(backend, &world.policy(), script).unwrap();
        let (mut child, mut output) = start(&confined);
        assert_eq!(read_until(&mut output, None), "ready\n", "{backend:?}");
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

/// The folder of the notes of the runtime in small.
const NOTES: &str = "notes";
/// Some of the names that have stand-ins in an empty workspace.
const STAND_INS: [&str; 3] = [".git", ".envrc", "sortie.toml"];

#[test]
#[ignore = "stands for the runtime in the test below"]
fn a_runtime_in_small() {
    let world = World::new();
    let backend = with_namespaces();
    for backend in backend {
        let sandbox = world.sandbox(backend).with_notes(world.root().join(NOTES));
        let confined = sandbox.confine(&world.policy(), world.shell(DAEMONS));
        let confined = confined.unwrap();
        let [program, arguments @ ..] = confined.argv.as_slice() else {
            unreachable!("there is always the helper");
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(&confined.cwd)
            .env_clear();
        let (lifeline, input) = Lifeline::new().unwrap();
        command.envs(confined.env.iter().cloned()).stdin(input);
        std::mem::forget((command.spawn().unwrap(), confined, lifeline));
    }
    // Programs outside of the sandbox, such as git and MCP servers.
    for (words, script) in [
        (supervisor(Path::new(HELPER)), DAEMONS),
        (
            death_signal(Path::new(HELPER)),
            "echo ready; exec sleep 1000",
        ),
    ] {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["/bin/sh", "-c", script]);
        std::mem::forget(command.stdin(Stdio::null()).spawn().unwrap());
    }
    println!("works in {}", world.workspace.display());
    println!("at {}", world.root().display());
    let mut never = String::new();
    std::io::stdin().read_line(&mut never).unwrap();
}

#[test]
fn no_process_is_left_when_the_runtime_is_killed() {
    let (mut output, writer) = std::io::pipe().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "endings::a_runtime_in_small",
        "--ignored",
        "--nocapture",
    ]);
    command
        .stdin(Stdio::piped())
        .stdout(writer.try_clone().unwrap())
        .stderr(writer);
    let mut runtime = command.spawn().unwrap();
    drop(command);
    let mut text = String::new();
    let started = with_namespaces().len() + 2;
    while text.matches("ready").count() < started || !text.contains("at /") {
        text.push_str(&read_until(&mut output, Some("\n")));
    }
    runtime.kill().unwrap();
    runtime.wait().unwrap();
    read_until(&mut output, None);
    let place = text.lines().find_map(|line| line.split_once("at /"));
    let place = format!("/{}", place.unwrap().1);
    assert!(place.contains(".tmp"), "{place}");
    let workspace = text
        .lines()
        .find_map(|line| line.split_once("works in "))
        .map(|(_, path)| Path::new(path))
        .unwrap();
    // The stand-ins of its commands are left, and the next process removes them.
    if let Some(backend) = with_namespaces().into_iter().next() {
        let left = names(workspace);
        assert!(left.contains(&".git".to_owned()), "{left:?}");
        let sandbox = World::new().sandbox(backend);
        let sandbox = sandbox.with_notes(Path::new(&place).join(NOTES));
        sandbox.recover().unwrap();
        let kept = names(workspace);
        assert!(
            !kept.iter().any(|name| STAND_INS.contains(&name.as_str())),
            "{kept:?}"
        );
    }
    std::fs::remove_dir_all(place).unwrap();
}

#[test]
fn limits_end_endless_commands() {
    let world = World::new();
    let mut policy = world.policy();
    policy.limits = small();
    for backend in backends() {
        let answer = world.run(backend, &policy, "while :; do :; done");
        assert_eq!(answer.code, Some(128 + 24), "{backend:?} {answer:?}");
        assert!(answer.text.contains("1 s of processor time"), "{answer:?}");

        let answer = world.run(backend, &policy, "exec cat /dev/zero > file.txt");
        assert_eq!(answer.code, Some(128 + 25), "{backend:?} {answer:?}");
        assert!(answer.text.contains("4194304 bytes"), "{answer:?}");
        let length = std::fs::metadata(world.workspace.join("file.txt"))
            .unwrap()
            .len();
        assert_eq!(length, policy.limits.file_bytes);

        let hog = "/usr/bin/python3 -c 'x = bytearray(1 << 29); x[::4096] = x[::4096]'";
        assert_eq!(world.bare(hog).0, Some(0));
        let answer = world.run(backend, &policy, hog);
        assert_ne!(answer.code, Some(0), "{backend:?} {answer:?}");

        let files = "/usr/bin/python3 -c 'x = [open(\"/dev/null\") for _ in range(200)]'";
        assert_eq!(world.bare(files).0, Some(0));
        let answer = world.run(backend, &policy, files);
        assert!(
            answer.text.contains("Too many open files"),
            "{backend:?} {answer:?}"
        );
    }
    for backend in with_namespaces() {
        for place in ["$TMPDIR", "$HOME"] {
            let script = format!(
                "for i in 1 2 3 4; do head -c 4000000 /dev/zero > {place}/$i || exit 9; done"
            );
            let answer = world.run(backend, &policy, &script);
            assert_ne!(answer.code, Some(0), "{backend:?} {answer:?}");
            assert!(
                answer.text.contains("No space left"),
                "{backend:?} {answer:?}"
            );
        }
    }
}

#[test]
fn processes_are_counted() {
    let world = World::new();
    let mut policy = world.policy();
    policy.limits = small();
    let script = "/usr/bin/python3 -c '\nimport os, signal\nl = []\ntry:\n while len(l) < 500:\n  \
        p = os.fork()\n  if p == 0: signal.pause()\n  l.append(p)\nexcept OSError: pass\nprint(len(l))\n\
        for p in l: os.kill(p, 9)'";
    let bomb = "b() { b | b & b; }; b";
    for backend in backends() {
        let confined = world.confine(backend, &policy, "true").unwrap();
        let root = rustix::process::geteuid().is_root();
        let counted = confined.applied.control_group || (backend != Backend::Landlock && !root);
        assert_eq!(
            !counted,
            confined
                .applied
                .not_held
                .iter()
                .any(|line| line.contains("number of processes"))
        );
        drop(confined);
        if !counted {
            continue;
        }
        let answer = world.run(backend, &policy, script);
        let made = answer
            .text
            .lines()
            .find_map(|line| line.parse::<u64>().ok())
            .unwrap();
        assert!((10..64).contains(&made), "{backend:?} {answer:?}");
        let answer = world.run(backend, &policy, bomb);
        assert_ne!(answer.code, Some(125), "{backend:?} {answer:?}");
    }
}

#[test]
fn memory_is_counted_for_all_together() {
    let world = World::new();
    let mut policy = world.policy();
    policy.limits = small();
    // Each process reports when it has its memory, and keeps it until all have reported or died.
    // One that had it may be killed to free memory for another, so those that live in the end are
    // counted.
    let script = "/usr/bin/python3 -c '\nimport os, signal\nr, w = os.pipe()\nl = []\n\
        for i in range(4):\n p = os.fork()\n if p == 0:\n  x = bytearray(120 << 20)\n  \
        os.write(w, b\"x\")\n  os.close(w)\n  signal.pause()\n l.append(p)\nos.close(w)\nn = 0\n\
        while os.read(r, 1): n += 1\na = [p for p in l if os.waitpid(p, os.WNOHANG)[0] == 0]\n\
        print(\"lived:\", len(a))\nfor p in a: os.kill(p, 9)'";
    assert_eq!(world.bare(script), (Some(0), "lived: 4\n".to_owned()));
    for backend in backends() {
        let confined = world.confine(backend, &policy, script).unwrap();
        if !confined.applied.control_group {
            continue;
        }
        drop(confined);
        let answer = world.run(backend, &policy, script);
        assert!(!answer.text.contains("lived: 4"), "{backend:?} {answer:?}");
    }
}
