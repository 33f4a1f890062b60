//! Tests that no process of a command outlives its call.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::{OFFER, Scene, ending, shell};

/// The number of timeouts that must leave no process.
const TRIES: usize = 1_000;
/// The number of commands that run at the same time.
const AT_ONCE: usize = 50;
/// The time limit of a command: enough for it to try every way to survive.
const TIME: Duration = Duration::from_secs(1);
/// The number of commands whose control group is removed.
const MAX_REMOVALS: usize = 10;
/// The longest time until all processes have ended.
const PROMISE: Duration = Duration::from_secs(2);

/// Returns a unique number of seconds to sleep, which identifies the `sleep` processes of a test.
fn unique(scene: &Scene) -> String {
    let name = scene.outside();
    let name = name.file_name().unwrap().to_string_lossy();
    let digits: String = name.bytes().map(|byte| byte.to_string()).collect();
    format!("86400.{digits}")
}

/// Returns a command whose processes leave its group, session, parent, output and environment, in
/// all ways at once.
fn daemons(seconds: &str) -> String {
    format!(
        "trap '' TERM HUP INT; setsid sleep {seconds} & \
         (setsid sh -c 'nohup sleep {seconds} >/dev/null 2>&1 &' &) ; \
         env -i /usr/bin/setsid /bin/sleep {seconds} </dev/null >/dev/null 2>&1 & \
         (sh -c 'trap \"\" TERM; env -i setsid -f sleep {seconds} >/dev/null 2>&1') ; \
         echo ready; wait; sleep {seconds}"
    )
}

/// Returns the processes with this word in their command line or environment.
fn processes_with(argument: &str) -> Vec<u32> {
    let has = |path: std::path::PathBuf| {
        std::fs::read(path).is_ok_and(|bytes| {
            bytes
                .windows(argument.len())
                .any(|window| window == argument.as_bytes())
        })
    };
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| Some((entry.path(), entry.file_name().to_str()?.parse().ok()?)))
        .filter(|(path, _)| has(path.join("cmdline")) || has(path.join("environ")))
        .map(|(_, number)| number)
        .collect()
}

async fn until_no_process_has(argument: &str) {
    let deadline = Instant::now() + PROMISE;
    loop {
        let left = processes_with(argument);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "{left:?} are still there");
        tokio::task::yield_now().await;
    }
}

/// Holds without a sandbox too: the supervisor adopts processes that leave the command. The check
/// finds them while they run.
#[tokio::test]
async fn a_timeout_without_a_sandbox_leaves_no_process() {
    let (mut scene, shell) = (Scene::new().bare(), shell());
    scene.time = TIME;
    let seconds = unique(&scene);
    let command = daemons(&seconds).replace("echo ready", "echo x > ready");
    let look = async {
        ready(&scene).await;
        processes_with(&seconds).len()
    };
    let (answer, found) = tokio::join!(scene.run(&shell, &command), look);
    let answer = answer.unwrap();
    assert!(ending(&answer).starts_with("timed out"), "{}", answer.text);
    assert!(found > 1, "the command and its daemons were there: {found}");
    until_no_process_has(&seconds).await;
}

/// Another program removes the control group of a command before the command has joined it.
#[tokio::test(flavor = "multi_thread")]
async fn command_whose_control_group_was_removed_gets_a_new_one() {
    if OFFER.cgroups.parents.is_empty() {
        println!("skipped: no control groups can be made here");
        return;
    }
    let (scene, shell) = (Scene::new(), shell());
    let mut removed = 0;
    for _ in 0..MAX_REMOVALS {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let remover = std::thread::spawn(move || remove_one_group(&stopped));
        let answer = scene.run(&shell, "echo done").await.unwrap();
        stop.store(true, Ordering::SeqCst);
        removed += usize::from(remover.join().unwrap());
        assert_eq!(answer.text, "done\nexit code: 0");
    }
    assert!(removed > 0, "no group was removed in time");
}

/// Removes the next control group of this process before a process has joined it, until `stop` is
/// set.
fn remove_one_group(stop: &AtomicBool) -> bool {
    let ours = format!("sortie-{}-", std::process::id());
    while !stop.load(Ordering::SeqCst) {
        for parent in &OFFER.cgroups.parents {
            for entry in std::fs::read_dir(parent).unwrap().flatten() {
                let name = entry.file_name();
                let is_ours = name.to_str().is_some_and(|name| name.starts_with(&ours));
                // A group that contains a process is busy.
                if is_ours && std::fs::remove_dir(entry.path()).is_ok() {
                    return true;
                }
            }
        }
    }
    false
}

/// Each attempt has its own workspace: the tests of the sandbox cover several commands in one
/// workspace.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_timeouts_leave_no_process() {
    let first = Scene::new();
    let seconds = unique(&first);
    let shell = Arc::new(shell());
    let places = Arc::new(tokio::sync::Semaphore::new(AT_ONCE));
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..TRIES {
        let place = Arc::clone(&places).acquire_owned().await.unwrap();
        let mut scene = Scene::new();
        scene.time = TIME;
        let (shell, command) = (Arc::clone(&shell), daemons(&seconds));
        calls.spawn(async move {
            let answer = scene.run(&shell, &command).await.unwrap();
            drop(place);
            assert!(ending(&answer).starts_with("timed out"), "{}", answer.text);
            let ready = usize::from(answer.text.starts_with("ready\n"));
            (scene, ready)
        });
    }
    let (scenes, ready): (Vec<Scene>, Vec<usize>) = calls.join_all().await.into_iter().unzip();
    let ready: usize = ready.into_iter().sum();
    until_no_process_has(&seconds).await;
    assert!(ready > TRIES / 2, "only {ready} had daemons to leave");
    println!("exec timeout: {TRIES} tries leave no process ({ready} had all their daemons)");
    drop(shell);
    for scene in &scenes {
        scene.is_left_empty().await;
    }
}

/// Waits until a command reports that it is ready, by a file in the workspace.
async fn ready(scene: &Scene) {
    while scene.read("ready").is_none_or(|text| text.is_empty()) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_dropped_call_leaves_no_process() {
    let (scene, shell) = (Scene::new(), shell());
    let seconds = unique(&scene);
    let command = daemons(&seconds).replace("echo ready", "echo x > ready");
    tokio::select! {
        answer = scene.run(&shell, &command) => unreachable!("{answer:?}"),
        () = ready(&scene) => {}
    }
    until_no_process_has(&seconds).await;
    std::fs::remove_file(scene.workspace.join("ready")).unwrap();
    scene.is_left_empty().await;
}

/// Processes that a crash left behind are found from outside by their effect, and all of them end.
#[tokio::test]
async fn sandboxed_processes_are_found_by_their_effect() {
    let (scene, shell) = (Scene::new(), shell());
    let (seconds, effect) = (unique(&scene), scene.effect());
    let command = daemons(&seconds).replace("echo ready", "echo x > ready");
    let stop = async {
        ready(&scene).await;
        scene.stop_remains(&shell, &effect).await
    };
    let (answer, stopped) = tokio::join!(scene.run_as(&shell, &command, &effect), stop);
    assert!(stopped > 0);
    assert_ne!(ending(&answer.unwrap()), "exit code: 0");
    until_no_process_has(&seconds).await;
}

/// A link with a protected name is protected as it is: it stays a link.
#[tokio::test]
async fn protected_link_is_restored() {
    let (scene, shell) = (Scene::new(), shell());
    symlink("elsewhere", scene.workspace.join(".claude")).unwrap();
    let answer = scene
        .run(&shell, "rm .claude; mkdir .claude")
        .await
        .unwrap();
    let target = std::fs::read_link(scene.workspace.join(".claude"));
    assert_eq!(
        target.unwrap().to_str(),
        Some("elsewhere"),
        "{}",
        answer.text
    );
    assert!(
        answer
            .text
            .contains("was restored to its state before the command"),
        "{}",
        answer.text
    );
}
