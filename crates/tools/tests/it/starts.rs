//! Tests that no command survives its runtime, at whatever moment of its start the runtime dies,
//! and that none survives a cancel or a timeout while it starts.
//!
//! A second process of this binary acts as the runtime: it starts some commands and is killed when
//! a certain number of processes has appeared below it, or some milliseconds after that. Each
//! command writes a heartbeat, in processes that have left its group, its session and its
//! environment.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sortie_sandbox::{Backend, Bubblewrap, Cgroups, Mode, Offer};

use crate::support::{OFFER, Scene, shell_in};

/// The number of commands that the runtime starts before it is killed.
const COMMANDS: usize = 5;
/// The processes of a command: supervisor, `bwrap` twice, the helper inside, the shell and its
/// children.
const PROCESSES_OF_A_COMMAND: u64 = 6;
/// The longest time between the start of a process and the kill.
const MAX_DELAY_MICROS: u64 = 50_000;
/// The longest time until all processes have ended.
const PROMISE: Duration = Duration::from_secs(2);
/// The time that the runtime gets to start its commands; only a failing test uses it up.
const PATIENCE: Duration = Duration::from_secs(30);

/// The environment variables of the second process.
const FOLDER: &str = "SORTIE_TEST_FOLDER";
const BACKEND: &str = "SORTIE_TEST_BACKEND";
const BWRAP: &str = "SORTIE_TEST_BWRAP";
const GROUPS: &str = "SORTIE_TEST_GROUPS";

/// Returns every way to start a command that works on this machine.
fn modes() -> Vec<Mode> {
    let mut modes = Vec::new();
    if OFFER.bubblewrap.is_some() {
        modes.push(Mode::Only(Backend::Bubblewrap));
    }
    if OFFER.namespaces {
        modes.push(Mode::Only(Backend::Namespaces));
    }
    if OFFER.landlock >= 3 {
        modes.push(Mode::Only(Backend::Landlock));
    } else {
        println!("skipped: this kernel does not support Landlock, so that backend is not tried");
    }
    modes.push(Mode::Off);
    modes
}

fn name(mode: Mode) -> &'static str {
    match mode {
        Mode::Only(backend) => backend.name(),
        Mode::Off => Backend::None.name(),
        Mode::Best => "best",
    }
}

fn mode(name: &str) -> Mode {
    let all = [Backend::Bubblewrap, Backend::Namespaces, Backend::Landlock];
    let backend = all.into_iter().find(|backend| backend.name() == name);
    backend.map_or(Mode::Off, Mode::Only)
}

/// A small random generator: the same seed gives the same moments.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// Returns a random delay: many are short, some have any length.
    fn delay(&mut self) -> Duration {
        let scale = [500, 5_000, MAX_DELAY_MICROS][usize::try_from(self.below(3)).unwrap()];
        Duration::from_micros(self.below(scale))
    }
}

/// Returns a command that writes heartbeats and ignores signals. The word identifies its processes.
fn canary(word: &str) -> String {
    format!(
        "trap '' TERM HUP INT; \
         env -i /usr/bin/setsid /bin/sh -c 'while :; do echo d >> beat; /bin/sleep 0.01; done # {word}' \
         </dev/null >/dev/null 2>&1 & \
         setsid sh -c 'while :; do echo s >> beat; sleep 0.01; done # {word}' & \
         while :; do echo c >> beat; sleep 0.01; done # {word}"
    )
}

/// Returns all processes of a folder: found by their command line, their environment or their
/// working directory.
fn processes_of(folder: &Path) -> Vec<u32> {
    let word = folder.as_os_str().as_encoded_bytes();
    let has = |path: PathBuf| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(word.len()).any(|window| window == word)
    };
    let own = std::process::id();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| Some((entry.path(), entry.file_name().to_str()?.parse().ok()?)))
        .filter(|(_, number)| *number != own)
        .filter(|(path, _)| {
            let place = std::fs::read_link(path.join("cwd"));
            let is_there = place.is_ok_and(|place| place.starts_with(folder));
            is_there || has(path.join("cmdline")) || has(path.join("environ"))
        })
        .map(|(_, number)| number)
        .collect()
}

/// Returns all descendants of a process.
fn descendants(of: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut next = vec![of];
    while let Some(process) = next.pop() {
        let threads = std::fs::read_dir(format!("/proc/{process}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let list = std::fs::read_to_string(thread.path().join("children"));
            for child in list.unwrap_or_default().split_ascii_whitespace() {
                let child = child.parse().unwrap();
                if found.insert(child) {
                    next.push(child);
                }
            }
        }
    }
    found
}

/// Returns the processes that are left after the guaranteed time. They are killed, so that a
/// failing test leaves none behind.
fn survivors(folder: &Path) -> Vec<u32> {
    let deadline = Instant::now() + PROMISE;
    let mut quiet = 0;
    loop {
        let left = processes_of(folder);
        // One scan is not enough: a process that is executing `exec` has neither a command line nor
        // an environment for a moment.
        quiet = if left.is_empty() { quiet + 1 } else { 0 };
        if quiet == 2 {
            return Vec::new();
        }
        if Instant::now() > deadline && !left.is_empty() {
            for number in &left {
                let number = Pid::from_raw(i32::try_from(*number).unwrap()).unwrap();
                // The process may have ended just now.
                kill_process(number, Signal::KILL).ok();
            }
            return left;
        }
        std::thread::yield_now();
    }
}

fn heartbeats(folder: &Path) -> u64 {
    let workspaces = std::fs::read_dir(folder).unwrap().flatten();
    let files = workspaces.map(|entry| std::fs::metadata(entry.path().join("beat")));
    files.flatten().map(|facts| facts.len()).sum()
}

fn spin(time: Duration) {
    let moment = Instant::now() + time;
    while Instant::now() < moment {
        std::hint::spin_loop();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "stands for the runtime in the tests below"]
#[expect(
    clippy::disallowed_methods,
    reason = "a test that is another process is told in its environment what to do"
)]
async fn a_runtime_in_small() {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let folder = variable(FOLDER).unwrap();
    let backend = std::env::var(BACKEND).unwrap();
    let offer = Offer {
        bubblewrap: variable(BWRAP).map(|path| Bubblewrap {
            path,
            version: "bubblewrap".to_owned(),
        }),
        namespaces: true,
        landlock: OFFER_LANDLOCK,
        cgroups: Cgroups {
            parents: std::env::split_paths(&variable(GROUPS).unwrap()).collect(),
        },
    };
    let shell = Arc::new(shell_in(mode(&backend), offer));
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..COMMANDS {
        let scene = Scene::at(&folder.join(number.to_string()));
        let scene = if backend == "none" {
            scene.bare()
        } else {
            scene
        };
        let (shell, command) = (Arc::clone(&shell), canary(folder.to_str().unwrap()));
        calls.spawn(async move { scene.run(&shell, &command).await });
    }
    let answers = calls.join_all().await;
    panic!("the commands have ended: {answers:?}");
}

/// Any version that can confine a command: the helper fails if the kernel supports less.
const OFFER_LANDLOCK: u32 = 3;

fn runtime(folder: &Path, mode: Mode) -> std::process::Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "starts::a_runtime_in_small",
        "--ignored",
        "--nocapture",
    ]);
    if let Some(found) = &OFFER.bubblewrap {
        command.env(BWRAP, &found.path);
    }
    let groups = std::env::join_paths(&OFFER.cgroups.parents).unwrap();
    command
        .env(FOLDER, folder)
        .env(BACKEND, name(mode))
        .env(GROUPS, groups)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Kills a runtime once while it starts its commands, and returns the surviving processes.
fn kill_once(mode: Mode, random: &mut Random) -> Vec<u32> {
    let place = tempfile::tempdir().unwrap();
    let folder = std::fs::canonicalize(place.path()).unwrap();
    for number in 0..COMMANDS {
        std::fs::create_dir(folder.join(number.to_string())).unwrap();
    }
    let mut runtime = runtime(&folder, mode);
    let wanted = 1 + random.below(COMMANDS as u64 * PROCESSES_OF_A_COMMAND);
    let wanted = usize::try_from(wanted).unwrap();
    let mut seen = BTreeSet::new();
    let deadline = Instant::now() + PATIENCE;
    while seen.len() < wanted {
        seen.extend(descendants(runtime.id()));
        assert!(
            Instant::now() < deadline && runtime.try_wait().unwrap().is_none(),
            "the runtime started {} of {wanted} processes",
            seen.len()
        );
    }
    spin(random.delay());
    runtime.kill().unwrap();
    runtime.wait().unwrap();
    let left = survivors(&folder);
    let before = heartbeats(&folder);
    assert!(processes_of(&folder).is_empty() || !left.is_empty());
    if left.is_empty() {
        assert_eq!(heartbeats(&folder), before, "a heartbeat goes on");
    }
    left
}

/// Kills this many runtimes for each way to start a command.
fn kill_runtimes(kills: u64, seed: u64) {
    let mut failed = Vec::new();
    for mode in modes() {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (seed + 1));
        let left = (0..kills).filter(|_| !kill_once(mode, &mut random).is_empty());
        let left = left.count();
        let commands = kills * COMMANDS as u64;
        println!(
            "{}: {left} of {kills} kills of a runtime ({commands} commands) left a process",
            name(mode)
        );
        if left > 0 {
            failed.push((name(mode), left));
        }
    }
    assert!(failed.is_empty(), "of {kills} kills each: {failed:?}");
}

#[test]
fn no_command_survives_a_runtime_that_is_killed_while_it_starts() {
    kill_runtimes(12, 0);
}

#[test]
#[ignore = "the long form of the test above"]
fn no_command_survives_a_thousand_kills_of_its_runtime() {
    for seed in 1..=40 {
        kill_runtimes(25, seed);
    }
}

/// Why the runtime ends a command.
#[derive(Clone, Copy, Debug)]
enum Why {
    Cancelled,
    TimedOut,
}

/// Ends commands of each kind at a random moment of their start.
async fn end_calls(tries: u64, seed: u64) {
    for mode in modes() {
        let shell = Arc::new(shell_in(mode, OFFER.clone()));
        for why in [Why::Cancelled, Why::TimedOut] {
            let place = tempfile::tempdir().unwrap();
            let folder = std::fs::canonicalize(place.path()).unwrap();
            let mut random = Random(0x2545_f491_4f6c_dd1d ^ (seed + 1));
            let mut calls = tokio::task::JoinSet::new();
            for number in 0..tries {
                let workspace = folder.join(number.to_string());
                std::fs::create_dir(&workspace).unwrap();
                let mut scene = Scene::at(&workspace);
                if mode == Mode::Off {
                    scene = scene.bare();
                }
                let delay = random.delay();
                let (shell, command) = (Arc::clone(&shell), canary(folder.to_str().unwrap()));
                calls.spawn(async move {
                    match why {
                        Why::Cancelled => {
                            let call = scene.run(&shell, &command);
                            let ended = tokio::time::timeout(delay, call).await;
                            assert!(ended.is_err(), "{ended:?}");
                        }
                        Why::TimedOut => {
                            scene.time = delay;
                            let answer = scene.run(&shell, &command).await.unwrap();
                            assert!(answer.text.contains("timed out"), "{}", answer.text);
                        }
                    }
                });
            }
            calls.join_all().await;
            let left = survivors(&folder);
            assert!(left.is_empty(), "{}: {why:?} left {left:?}", name(mode));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_command_survives_a_cancel_or_a_timeout_while_it_starts() {
    end_calls(20, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "the long form of the test above"]
async fn no_command_survives_a_thousand_cancels_and_timeouts() {
    for seed in 1..=25 {
        end_calls(40, seed).await;
    }
}

/// A stopped process between the runtime and the command keeps no process alive in a PID namespace:
/// the first process there watches the runtime itself.
#[test]
fn stopped_processes_between_runtime_and_command_keep_nothing_alive() {
    for mode in modes() {
        if matches!(mode, Mode::Off | Mode::Only(Backend::Landlock)) {
            continue;
        }
        let place = tempfile::tempdir().unwrap();
        let folder = std::fs::canonicalize(place.path()).unwrap();
        for number in 0..COMMANDS {
            std::fs::create_dir(folder.join(number.to_string())).unwrap();
        }
        let mut runtime = runtime(&folder, mode);
        let deadline = Instant::now() + PATIENCE;
        let beats = |number: usize| folder.join(number.to_string()).join("beat").exists();
        while !(0..COMMANDS).all(beats) {
            assert!(Instant::now() < deadline, "{}: no heartbeat", name(mode));
        }
        // The supervisors are the children of the runtime.
        let supervisors: BTreeSet<u32> = descendants(runtime.id())
            .into_iter()
            .filter(|process| parent(*process) == Some(runtime.id()))
            .collect();
        assert_eq!(supervisors.len(), COMMANDS);
        for process in &supervisors {
            signal(*process, Signal::STOP);
        }
        runtime.kill().unwrap();
        runtime.wait().unwrap();
        let deadline = Instant::now() + PROMISE;
        let mut before = heartbeats(&folder);
        let is_canary = |process: &u32| {
            let place = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            !supervisors.contains(process) && place.starts_with(b"/bin/sh")
        };
        loop {
            let left: Vec<u32> = processes_of(&folder)
                .into_iter()
                .filter(is_canary)
                .collect();
            let now = heartbeats(&folder);
            if left.is_empty() && now == before {
                break;
            }
            before = now;
            assert!(Instant::now() < deadline, "{}: {left:?}", name(mode));
        }
        for process in &supervisors {
            signal(*process, Signal::CONT);
        }
        assert_eq!(survivors(&folder), [0; 0], "{}", name(mode));
    }
}

fn signal(process: u32, signal: Signal) {
    let process = Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
    kill_process(process, signal).unwrap();
}

fn parent(process: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}
