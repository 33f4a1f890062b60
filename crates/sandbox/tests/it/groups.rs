//! Control groups of processes in different PID namespaces that share a mount of control groups.

use std::path::{Path, PathBuf};
use std::process::Command;

use sortie_sandbox::Confined;

use crate::support::{OFFER, World, backends, finish, start};

/// Returns the control groups that the orders of a command name.
fn groups(confined: &Confined) -> Vec<PathBuf> {
    let pairs = confined.argv.windows(2);
    let lists = pairs.filter(|pair| pair[0] == "join");
    let folders = lists.map(|pair| Path::new(&pair[1]).parent().unwrap().to_owned());
    folders.collect()
}

#[test]
#[ignore = "stands for another Sortie in the test below"]
fn a_start_in_another_namespace() {
    // Probing this machine removes the groups of dead processes.
    assert_eq!(OFFER.cgroups.parents.len(), groups_expected());
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test that is another process is told in its environment what to do"
)]
fn groups_expected() -> usize {
    std::env::var("SORTIE_TEST_GROUPS")
        .unwrap()
        .parse()
        .unwrap()
}

/// Starts another Sortie in which the processes of this one are not visible.
fn start_elsewhere() -> bool {
    let namespaces = ["--pid", "--fork", "--mount-proc"];
    let mut tried = Command::new("unshare");
    if !tried
        .args(namespaces)
        .arg("true")
        .status()
        .is_ok_and(|status| status.success())
    {
        println!("skipped: no PID namespace can be made here without privileges");
        return false;
    }
    let output = Command::new("unshare")
        .args(namespaces)
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "groups::a_start_in_another_namespace",
            "--ignored",
        ])
        .env(
            "SORTIE_TEST_GROUPS",
            OFFER.cgroups.parents.len().to_string(),
        )
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    true
}

#[test]
fn a_start_in_another_namespace_leaves_groups_of_living_processes() {
    if OFFER.cgroups.parents.is_empty() {
        println!("skipped: no control groups can be made here");
        return;
    }
    let world = World::new();
    for backend in backends() {
        let confined = world
            .confine(backend, &world.policy(), "echo done")
            .unwrap();
        let made = groups(&confined);
        assert_eq!(made.len(), OFFER.cgroups.parents.len());
        let left = OFFER.cgroups.parents[0].join(format!("sortie-{}-dead", std::process::id()));
        std::fs::create_dir(&left).unwrap();
        if !start_elsewhere() {
            std::fs::remove_dir(&left).unwrap();
            return;
        }
        assert!(made.iter().all(|folder| folder.is_dir()), "{made:?}");
        assert!(!left.exists(), "no process holds this one");
        let (child, mut output) = start(&confined);
        let answer = finish(child, &mut output);
        assert_eq!(answer, (Some(0), "done\n".to_owned()), "{backend:?}");
    }
}
