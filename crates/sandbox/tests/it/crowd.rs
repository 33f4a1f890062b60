//! Many concurrent commands in one workspace.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Pid, Signal, kill_process_group};
use sortie_sandbox::{Backend, Confined};

use crate::support::{World, backends, finish, names, start, with_namespaces};

/// The total number of commands.
const COMMANDS: usize = 200;
/// The number of commands that run at the same time.
const AT_ONCE: usize = 50;

/// Runs the script many times; each run must succeed, undo nothing, and leave nothing behind.
fn check(world: &World, backend: Backend, script: &str) {
    let before = names(&world.workspace);
    let (sandbox, policy) = (world.sandbox(backend), world.policy());
    let next = AtomicUsize::new(0);
    let work = || {
        while next.fetch_add(1, Ordering::Relaxed) < COMMANDS {
            let confined = sandbox.confine(&policy, world.shell(script)).unwrap();
            let (child, mut output) = start(&confined);
            let answer = finish(child, &mut output);
            assert_eq!(answer, (Some(0), String::new()), "{backend:?}");
            assert_eq!(confined.guard.finish(), [], "{backend:?}");
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    // Dropping the sandbox completes all deferred cleanup.
    drop(sandbox);
    assert_eq!(names(&world.workspace), before, "{backend:?}");
}

/// Returns the control groups that the orders of a command name.
fn groups(confined: &Confined) -> Vec<PathBuf> {
    let pairs = confined.argv.windows(2);
    let lists = pairs.filter(|pair| pair[0] == "join");
    let folders = lists.map(|pair| Path::new(&pair[1]).parent().unwrap().to_owned());
    folders.collect()
}

/// A process exits with a delay: the tidier waits for one that is still in its group at the end.
#[test]
fn no_group_is_left_behind() {
    let world = World::new();
    let mut made = Vec::new();
    for backend in backends() {
        let sandbox = world.sandbox(backend);
        for _ in 0..20 {
            let script = "sleep 1000 & sleep 1000 & echo ready; wait";
            let confined = sandbox.confine(&world.policy(), world.shell(script));
            let confined = confined.unwrap();
            made.extend(groups(&confined));
            let (mut child, mut output) = start(&confined);
            output.read_exact(&mut [0; 6]).unwrap();
            kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
            child.wait().unwrap();
        }
    }
    made.retain(|folder| folder.exists());
    assert!(made.is_empty(), "{made:?}");
}

/// Regression: a command used to remove the folder that another command had put in the place of
/// `.git`.
#[test]
fn no_command_removes_a_stand_in_of_another_command() {
    let script = "! (mkdir .git/hooks || echo evil > .mcp.json || mkdir .vscode/x) 2> /dev/null";
    for backend in with_namespaces() {
        check(&World::new(), backend, script);
    }
}

#[test]
fn a_repository_is_shared_by_many() {
    let script = "git status --short && ! (echo evil > .git/hooks/x || mkdir .husky) 2> /dev/null";
    for backend in with_namespaces() {
        check(&World::with_git(), backend, script);
    }
}
