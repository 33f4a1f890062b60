//! Tests of the shell tool with real processes.

use std::process::{Child, Command};
use std::sync::mpsc;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process};

use super::*;
use crate::testing::{Delegation, Folder, answer, answer_with, call, call_within, stop_remains};

/// How long a test waits for a process to end. The guarantee is two seconds; a machine under load
/// may take longer until the end is visible.
const PATIENCE: Duration = Duration::from_secs(10);

fn tool() -> Exec {
    let settings = ExecSettings {
        environment: vec![
            ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
            ("GREETING".into(), "hello".into()),
        ],
    };
    Exec::new(settings, None)
}

async fn check(command: &str, expected: &str) {
    let folder = Folder::with(&[("sub/x", "")]);
    let reply = call(&tool(), &folder, json!({"command": command})).await;
    assert_eq!(reply.unwrap(), expected, "{command}");
}

#[tokio::test]
async fn returns_output_and_exit_status() {
    check("echo hi", "hi\nexit code: 0").await;
    check("printf hi; exit 3", "hi\nexit code: 3").await;
    check("true", "exit code: 0").await;
    check("nosuchprogram 2>/dev/null", "exit code: 127").await;
    check("kill -9 $$", "killed by signal 9").await;
    check(
        "for n in 1 2 3; do echo out$n; echo err$n >&2; done",
        "out1\nerr1\nout2\nerr2\nout3\nerr3\nexit code: 0",
    )
    .await;
    check("cat", "exit code: 0").await;
    check(r"printf '\xff\xfe分'", "\u{fffd}\u{fffd}分\nexit code: 0").await;
    check("ls; set -o pipefail; false | true", "sub\nexit code: 1").await;
}

#[tokio::test]
async fn command_gets_only_the_configured_environment() {
    check(
        "echo $GREETING; echo ${HOME-none}",
        "hello\nnone\nexit code: 0",
    )
    .await;
    let folder = Folder::with(&[]);
    let text = call(&tool(), &folder, json!({"command": "/usr/bin/env"}))
        .await
        .unwrap();
    let mut names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name)
        .collect();
    names.sort_unstable();
    // The shell itself sets the last three.
    assert_eq!(
        names,
        ["GREETING", "PATH", "PWD", "SHLVL", "SORTIE_EFFECT", "_"]
    );
    let effect = folder.effect();
    assert!(
        text.contains(&format!("SORTIE_EFFECT={effect}\n")),
        "{text}"
    );
}

#[tokio::test]
async fn command_starts_in_workdir_inside_the_workspace() {
    let folder = Folder::with(&[("sub/x", "")]);
    folder.link("out", Path::new("/"));
    let run = async |workdir: &str| {
        let arguments = json!({"command": "basename $PWD", "workdir": workdir});
        call(&tool(), &folder, arguments).await
    };
    assert_eq!(run("sub").await.unwrap(), "sub\nexit code: 0");
    for escape in ["..", "/", "out", "sub/x", "nowhere"] {
        assert!(run(escape).await.is_err(), "{escape}");
    }
}

#[tokio::test]
async fn timeout_argument_can_only_lower_the_limit() {
    let second = Duration::from_secs(1);
    let check = |max: u64, requested: Option<u64>, expected: u64| {
        assert_eq!(
            limit(second * max as u32, requested),
            second * expected as u32
        );
    };
    check(30, None, 30);
    check(30, Some(0), 30);
    check(30, Some(5), 5);
    check(30, Some(300), 30);
}

/// Prevents paused time from advancing by itself, so that only `advance` moves it.
fn pause_clock() -> mpsc::Sender<()> {
    let (release, blocked) = mpsc::channel();
    tokio::task::spawn_blocking(move || blocked.recv());
    release
}

/// Waits until the command has written to the pipe `ready`.
async fn ready(folder: &Folder) {
    let path = folder.path().join("ready");
    let read = tokio::task::spawn_blocking(move || std::fs::read(path));
    assert_eq!(read.await.unwrap().unwrap(), b"x\n");
}

#[tokio::test(start_paused = true)]
async fn timeout_ends_all_processes_of_the_command() {
    let _clock = pause_clock();
    let folder = Folder::with(&[]);
    folder.fifo("ready");
    // The grandchild ignores SIGTERM.
    let command = "echo begun; bash -c 'trap \"\" TERM; echo $$ > inner; while [ ! -s outer ]; do :; done; echo x > ready; while :; do sleep 100; done' & echo $! > outer; wait";
    let tool = tool();
    let arguments = json!({"command": command, "timeout_seconds": 7});
    let call = call(&tool, &folder, arguments);
    let time = async {
        ready(&folder).await;
        loop {
            tokio::time::advance(Duration::from_secs(1)).await;
        }
    };
    let text = tokio::select! { text = call => text.unwrap(), () = time => unreachable!() };
    assert_eq!(
        text,
        "begun\ntimed out after 7 s; the command and everything it started were stopped"
    );
    folder.gone("inner").await;
    folder.gone("outer").await;
}

#[tokio::test(start_paused = true)]
async fn command_can_clean_up_on_sigterm() {
    let _clock = pause_clock();
    let folder = Folder::with(&[]);
    folder.fifo("ready");
    let command = "trap 'echo cleaned; exit 0' TERM; sleep 100 & echo x > ready; wait";
    let tool = tool();
    let call = call(&tool, &folder, json!({"command": command}));
    let time = async {
        ready(&folder).await;
        tokio::time::advance(Duration::from_secs(60)).await;
    };
    let (text, ()) = tokio::join!(call, time);
    assert_eq!(
        text.unwrap(),
        "cleaned\ntimed out after 60 s; the command and everything it started were stopped"
    );
}

#[tokio::test]
async fn dropping_the_call_kills_the_group_at_once() {
    let folder = Folder::with(&[]);
    folder.fifo("ready");
    let command = "trap '' TERM; (sleep 100 & echo $! > inner; wait) & echo $$ > outer; while [ ! -s inner ]; do :; done; echo x > ready; wait";
    let tool = tool();
    tokio::select! {
        text = call(&tool, &folder, json!({"command": command})) => {
            unreachable!("it waits for a child that sleeps: {text:?}")
        }
        () = ready(&folder) => {}
    }
    folder.gone("inner").await;
    folder.gone("outer").await;
}

/// A command that leaves its group and its session, and reports when it has.
const LEAVES: &str = "setsid bash -c 'echo $$ > inner; echo x > ready; exec sleep 100' &";

#[tokio::test(start_paused = true)]
async fn timeout_ends_processes_that_left_the_group() {
    let _clock = pause_clock();
    let folder = Folder::with(&[]);
    folder.fifo("ready");
    let tool = tool();
    let arguments = json!({"command": format!("{LEAVES} wait"), "timeout_seconds": 7});
    let call = call(&tool, &folder, arguments);
    let time = async {
        ready(&folder).await;
        loop {
            tokio::time::advance(Duration::from_secs(1)).await;
        }
    };
    let text = tokio::select! { text = call => text.unwrap(), () = time => unreachable!() };
    assert!(text.starts_with("timed out after 7 s"), "{text}");
    folder.gone("inner").await;
}

#[tokio::test]
async fn dropping_the_call_ends_processes_that_left_the_group() {
    let folder = Folder::with(&[]);
    folder.fifo("ready");
    let tool = tool();
    let arguments = json!({"command": format!("{LEAVES} wait")});
    tokio::select! {
        text = call(&tool, &folder, arguments) => unreachable!("it waits: {text:?}"),
        () = ready(&folder) => {}
    }
    folder.gone("inner").await;
}

#[tokio::test]
async fn processes_outside_the_group_that_keep_the_output_open_are_ended() {
    let folder = Folder::with(&[]);
    folder.fifo("ready");
    let arguments = json!({"command": format!("{LEAVES} cat ready")});
    let text = call(&tool(), &folder, arguments).await.unwrap();
    assert_eq!(
        text,
        "x\n(background processes still had the output open and were stopped)\nexit code: 0"
    );
    folder.gone("inner").await;
}

/// A process in its own session, as a crash leaves it. It is killed at the end of the test.
struct Orphan(Child);

impl Orphan {
    fn start(folder: &Folder, variable: &str, value: &str, command: &str) -> Self {
        let child = Command::new("setsid")
            .args(["sh", "-c", command])
            .current_dir(folder.path())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env(variable, value)
            .spawn();
        Self(child.unwrap())
    }

    fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        let leader = Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        // A test that passed has ended it already.
        kill_process_group(leader, Signal::KILL).ok();
        self.0.kill().ok();
        self.0.wait().unwrap();
    }
}

#[tokio::test]
async fn processes_left_by_a_crash_are_found_by_effect_and_ended() {
    let folder = Folder::with(&[]);
    folder.fifo("ready");
    let effect = folder.effect().to_string();
    let command = "trap '' TERM; setsid sh -c 'echo $$ > inner; echo x > ready; exec sleep 100' & \
        echo $$ > outer; wait";
    let _left = Orphan::start(&folder, "SORTIE_EFFECT", &effect, command);
    ready(&folder).await;
    let mut others = [
        ("SORTIE_EFFECT", format!("{effect}0")),
        ("SORTIE_EFFECT", effect[..effect.len() - 1].to_owned()),
        ("SORTIE_EFFECT", format!(" {effect}")),
        ("OTHER", format!("SORTIE_EFFECT={effect}")),
        ("OTHER_SORTIE_EFFECT", effect),
    ]
    .map(|(variable, value)| {
        let orphan = Orphan::start(&folder, variable, &value, "exec sleep 100");
        (orphan, format!("{variable}={value}"))
    });
    assert_eq!(stop_remains(&tool(), &folder).await, 2);
    folder.gone("outer").await;
    folder.gone("inner").await;
    for (orphan, entry) in &mut others {
        assert!(orphan.is_alive(), "{entry}");
    }
    assert_eq!(stop_remains(&tool(), &folder).await, 0);
}

#[tokio::test]
async fn large_output_is_bounded_while_it_streams() {
    let folder = Folder::with(&[]);
    let arguments = json!({"command": "yes | head -c 50000000; echo end"});
    let text = call(&tool(), &folder, arguments).await.unwrap();
    assert!(text.len() < 600 * 1024, "{}", text.len());
    assert!(text.contains(" bytes left out]\n"));
    assert!(text.ends_with("y\nend\nexit code: 0"));
    let endless = json!({"command": "yes"});
    let text = call_within(&tool(), &folder, endless, Duration::from_secs(1))
        .await
        .unwrap();
    assert!(text.len() < 600 * 1024, "{}", text.len());
}

#[tokio::test]
async fn background_processes_neither_block_the_call_nor_survive() {
    let folder = Folder::with(&[]);
    let check = async |command: &str, expected: &str| {
        let began = Instant::now();
        let text = call(&tool(), &folder, json!({"command": command}))
            .await
            .unwrap();
        assert_eq!(text, expected);
        assert!(began.elapsed() < Duration::from_secs(20), "{command}");
        folder.gone("pid").await;
    };
    check(
        "sleep 100 & echo $! > pid; echo started",
        "started\n(background processes still had the output open and were stopped)\nexit code: 0",
    )
    .await;
    check("sleep 100 >/dev/null 2>&1 & echo $! > pid", "exit code: 0").await;
    check(
        "exec >/dev/null 2>&1; echo $$ > pid; exit 4",
        "exit code: 4",
    )
    .await;
}

#[tokio::test]
async fn concurrent_commands_return_their_own_results() {
    let folder = Arc::new(Folder::with(&[]));
    let tool = Arc::new(tool());
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..20 {
        let (tool, folder) = (Arc::clone(&tool), Arc::clone(&folder));
        calls.spawn(async move {
            let arguments = json!({"command": format!("echo {number}; exit {number}")});
            let text = call(tool.as_ref(), &folder, arguments).await.unwrap();
            assert_eq!(text, format!("{number}\nexit code: {number}"));
        });
    }
    assert_eq!(calls.join_all().await.len(), 20);
}

#[tokio::test]
async fn command_that_cannot_start_fails() {
    let folder = Folder::with(&[]);
    let failure = call(&tool(), &folder, json!({"command": "a\0b"}))
        .await
        .unwrap_err();
    assert!(
        failure
            .to_string()
            .starts_with("The command could not be started"),
        "{failure}"
    );
    let long = "x".repeat(MAX_COMMAND_BYTES + 1);
    assert!(
        call(&tool(), &folder, json!({"command": long}))
            .await
            .is_err()
    );
}

#[tokio::test]
async fn confined_run_starts_no_command_without_a_sandbox() {
    let folder = Folder::with(&[]);
    let switched_off = Sandbox::new(
        sortie_sandbox::Mode::Off,
        sortie_sandbox::Offer::default(),
        sortie_sandbox::Places::default(),
        PathBuf::new(),
    );
    let nothing_works = Sandbox::new(
        sortie_sandbox::Mode::Best,
        sortie_sandbox::Offer::default(),
        sortie_sandbox::Places::default(),
        PathBuf::new(),
    );
    let required = Delegation {
        sandbox: sortie_core::run::SandboxMode::Required,
        ..Delegation::default()
    };
    for sandbox in [None, Some(switched_off), Some(nothing_works)] {
        let tool = Exec::new(ExecSettings::default(), sandbox.map(Arc::new));
        let arguments = json!({"command": "touch made"});
        let failure = answer_with(&tool, &folder, arguments, &required).await;
        let failure = failure.unwrap_err().to_string();
        assert!(failure.contains("install bubblewrap"), "{failure}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn unconfined_command_reports_no_confinement() {
    let folder = Folder::with(&[]);
    let answer = answer(&tool(), &folder, json!({"command": "true"})).await;
    let record = answer.unwrap().sandbox.unwrap();
    assert_eq!(record["backend"], "none");
    assert_eq!(
        record["not_held"],
        json!(["Nothing is confined: the sandbox is switched off."])
    );
}

impl Folder {
    /// Waits until the process whose pid is in the file has ended.
    async fn gone(&self, file: &str) {
        let number = self.read(file).trim().parse().unwrap();
        let pid = Pid::from_raw(number).unwrap();
        let deadline = Instant::now() + PATIENCE;
        while test_kill_process(pid).is_ok() && !is_zombie(number) {
            assert!(
                Instant::now() < deadline,
                "process {number} of {file} is still there"
            );
            tokio::task::yield_now().await;
        }
    }
}

/// Returns whether the process is a zombie that only waits to be reaped.
fn is_zombie(number: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_none_or(|(_, rest)| rest.starts_with('Z'))
}
