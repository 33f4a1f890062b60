//! Nothing that a command started outlives its call.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::{OFFER, Scene, ending, shell};

/// How many timeouts leave nothing.
const TRIES: usize = 1_000;
/// How many of them run at the same time.
const AT_ONCE: usize = 50;
/// How long a command gets: enough that it has left nothing undone to survive.
const TIME: Duration = Duration::from_secs(1);
/// How many commands lose their group.
const MAX_REMOVALS: usize = 10;
/// How long the dead may take to be gone.
const PROMISE: Duration = Duration::from_secs(2);

/// A unique number of seconds to sleep, so that sleepers are found by it.
fn unique(scene: &Scene) -> String {
    let name = scene.outside();
    let name = name.file_name().unwrap().to_string_lossy();
    let digits: String = name.bytes().map(|byte| byte.to_string()).collect();
    format!("86400.{digits}")
}

/// Leaves its group, its session, its parent, its output and its environment, in all ways at once.
fn daemons(seconds: &str) -> String {
    format!(
        "trap '' TERM HUP INT; setsid sleep {seconds} & \
         (setsid sh -c 'nohup sleep {seconds} >/dev/null 2>&1 &' &) ; \
         env -i /usr/bin/setsid /bin/sleep {seconds} </dev/null >/dev/null 2>&1 & \
         (sh -c 'trap \"\" TERM; env -i setsid -f sleep {seconds} >/dev/null 2>&1') ; \
         echo ready; wait; sleep {seconds}"
    )
}

/// Everybody with this word in their command line or environment.
fn who_has(word: &str) -> Vec<u32> {
    let has = |path: std::path::PathBuf| {
        std::fs::read(path).is_ok_and(|bytes| {
            bytes
                .windows(word.len())
                .any(|window| window == word.as_bytes())
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

async fn nobody_has(word: &str) {
    let deadline = Instant::now() + PROMISE;
    loop {
        let left = who_has(word);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "{left:?} are still there");
        tokio::task::yield_now().await;
    }
}

/// Also without a sandbox: the supervisor adopts processes that leave the command. The detector
/// detects them while they run.
#[tokio::test]
async fn a_timeout_without_a_sandbox_leaves_no_process() {
    let (mut scene, shell) = (Scene::new().bare(), shell());
    scene.time = TIME;
    let seconds = unique(&scene);
    let command = daemons(&seconds).replace("echo ready", "echo x > ready");
    let look = async {
        ready(&scene).await;
        who_has(&seconds).len()
    };
    let (answer, found) = tokio::join!(scene.run(&shell, &command), look);
    let answer = answer.unwrap();
    assert!(ending(&answer).starts_with("timed out"), "{}", answer.text);
    assert!(found > 1, "the command and its daemons were there: {found}");
    nobody_has(&seconds).await;
}

/// Another program removes the control group of a command before the command has joined it.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_group_vanished_gets_another() {
    if OFFER.cgroups.parents.is_empty() {
        println!("skipped: no control groups can be made here");
        return;
    }
    let (scene, shell) = (Scene::new(), shell());
    let mut removed = 0;
    for _ in 0..MAX_REMOVALS {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let remover = std::thread::spawn(move || remove_one_group(&told));
        let answer = scene.run(&shell, "echo done").await.unwrap();
        stop.store(true, Ordering::SeqCst);
        removed += usize::from(remover.join().unwrap());
        assert_eq!(answer.text, "done\nexit code: 0");
    }
    assert!(removed > 0, "no group was removed in time");
}

/// Removes the next group of this process before a process has joined it, until told to stop.
fn remove_one_group(stop: &AtomicBool) -> bool {
    let ours = format!("sortie-{}-", std::process::id());
    while !stop.load(Ordering::SeqCst) {
        for parent in &OFFER.cgroups.parents {
            for entry in std::fs::read_dir(parent).unwrap().flatten() {
                let name = entry.file_name();
                let is_ours = name.to_str().is_some_and(|name| name.starts_with(&ours));
                // A group with a process in it is busy.
                if is_ours && std::fs::remove_dir(entry.path()).is_ok() {
                    return true;
                }
            }
        }
    }
    false
}

/// Each try has a workspace of its own: that several commands of one workspace do not disturb each
/// other is the sandbox's to hold.
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
    nobody_has(&seconds).await;
    assert!(ready > TRIES / 2, "only {ready} had daemons to leave");
    println!("exec timeout: {TRIES} tries leave no process ({ready} had all their daemons)");
    drop(shell);
    for scene in &scenes {
        scene.is_left_empty().await;
    }
}

/// Waits until a command has said that it is ready, by a file in the workspace.
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
    nobody_has(&seconds).await;
    std::fs::remove_file(scene.workspace.join("ready")).unwrap();
    scene.is_left_empty().await;
}

/// What a crash left is found from outside by its effect, and ends as a whole.
#[tokio::test]
async fn what_is_in_a_sandbox_is_found_by_its_effect() {
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
    nobody_has(&seconds).await;
}

/// Something else of the same name is protected as it is: a link stays one.
#[tokio::test]
async fn a_protected_link_is_put_back() {
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
            .contains("is again what it was before the command"),
        "{}",
        answer.text
    );
}
