//! Many commands at once in one workspace.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use sortie_sandbox::Backend;

use crate::support::{World, finish, start, with_namespaces};

/// How many commands there are.
const COMMANDS: usize = 200;
/// How many of them run at the same time.
const AT_ONCE: usize = 50;

/// All names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Runs the script many times; every one must end well, undo nothing, and leave nothing behind.
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
    assert_eq!(names(&world.workspace), before, "{backend:?}");
}

/// A folder that one command had put in the place of `.git`, another one used to take away.
#[test]
fn nobody_takes_away_what_another_command_stands_on() {
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
