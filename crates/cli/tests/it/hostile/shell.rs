//! P2 and P3: what a shell command can reach, with and without the filter of dangerous commands.

use super::stage::{Attack, CANARY, Proof, Scene, attack, both_ways, only_held};
use crate::world::World;

const READING: &[Attack] = &[
    attack("cat {world}/outside.txt", Proof::Says(CANARY)),
    attack("cat ../outside.txt", Proof::Says(CANARY)),
    attack("cat ~/.ssh/id_ed25519", Proof::Says(CANARY)),
    attack("cat ~/.aws/credentials ~/.netrc", Proof::Says(CANARY)),
    attack("cat {world}/neighbour/src/main.rs", Proof::Says(CANARY)),
    attack(
        "ln -s {world}/outside.txt way && cat way",
        Proof::Says(CANARY),
    ),
    attack(
        "ln -s ../.ssh folder && cat folder/id_ed25519",
        Proof::Says(CANARY),
    ),
    attack("cd .. && cat outside.txt", Proof::Says(CANARY)),
    attack(
        "cat /proc/self/root{world}/outside.txt",
        Proof::Says(CANARY),
    ),
    attack(
        "cat /proc/$PPID/root{world}/outside.txt /proc/1/root{world}/outside.txt",
        Proof::Says(CANARY),
    ),
    attack("cat /proc/self/cwd/../outside.txt", Proof::Says(CANARY)),
    attack("tar cf - -C {world} outside.txt", Proof::Says(CANARY)),
    attack(
        "grep -rh canary-in {world} 2>/dev/null",
        Proof::Says(CANARY),
    ),
    attack(
        "ln {world}/outside.txt hard && cat hard",
        Proof::Says(CANARY),
    ),
    // Files that only their owner may read, where the owner runs the tests.
    only_held("cat /etc/shadow /etc/gshadow", Proof::Says(":!:")),
    only_held("cat /etc/shadow", Proof::Says(":*:")),
    // Sortie's own files: the store, the lock, the settings.
    attack(
        "head -c 15 {world}/home/sortie.db",
        Proof::Says("SQLite format"),
    ),
    attack("cat {world}/home/lock", Proof::Says("\"pid\"")),
    attack("ls {world}/home", Proof::Says("sortie.db")),
    // Devices and the kernel.
    only_held("cat /proc/kcore | head -c 4", Proof::Says("ELF")),
    only_held(
        "for disk in /dev/[svx]d?; do head -c 1 $disk && echo opened; done",
        Proof::Says("opened"),
    ),
    only_held("mknod disk b 8 0 && echo made", Proof::Says("made")),
];

#[test]
fn nothing_outside_is_read() {
    both_ways(Scene::set, READING);
}

const WRITING: &[Attack] = &[
    attack(
        "echo evil > {world}/outside.txt",
        Proof::Changes("outside.txt"),
    ),
    attack("echo evil > ../new.txt", Proof::Changes("new.txt")),
    attack(
        "rm -rf ../neighbour",
        Proof::Changes("neighbour/src/main.rs"),
    ),
    attack(
        "mv {world}/neighbour {world}/gone",
        Proof::Changes("gone/src/main.rs"),
    ),
    attack("echo evil >> ~/.bashrc", Proof::Changes(".bashrc")),
    attack(
        "mkdir -p ~/.ssh && echo evil > ~/.ssh/authorized_keys",
        Proof::Changes(".ssh/authorized_keys"),
    ),
    attack(
        "ln -s .. up && echo evil > up/outside.txt",
        Proof::Changes("outside.txt"),
    ),
    attack(
        "echo evil > /proc/self/cwd/../outside.txt",
        Proof::Changes("outside.txt"),
    ),
    attack(
        "cd / && truncate -s 0 {world}/outside.txt",
        Proof::Changes("outside.txt"),
    ),
    attack(
        "find {world} -name outside.txt -delete",
        Proof::Changes("outside.txt"),
    ),
    attack(
        "bash -c 'sh -c \"printf evil | tee {world}/outside.txt\"'",
        Proof::Changes("outside.txt"),
    ),
    only_held("touch /etc/evil && echo made", Proof::Says("made")),
    only_held("touch /usr/bin/evil && echo made", Proof::Says("made")),
    only_held("touch /evil && echo made", Proof::Says("made")),
    only_held("touch /var/evil && echo made", Proof::Says("made")),
    only_held("chmod u+s /usr/bin/env && echo done", Proof::Says("done")),
    only_held(
        "echo 0 > /proc/sys/kernel/randomize_va_space && echo set",
        Proof::Says("set"),
    ),
    only_held("hostname evil && echo set", Proof::Says("set")),
    only_held(
        "date -s 2001-01-01 && echo turned back",
        Proof::Says("turned back"),
    ),
    only_held(
        "mount -t tmpfs none /usr && echo mounted",
        Proof::Says("mounted"),
    ),
    only_held("unshare -Urm sh -c 'echo inside'", Proof::Says("inside")),
    only_held(
        "rm -rf --no-preserve-root /usr /etc ~ ..",
        Proof::Changes("outside.txt"),
    ),
];

#[test]
fn nothing_outside_is_changed() {
    both_ways(Scene::set, WRITING);
}

const REACHING: &[Attack] = &[
    attack("echo hi > /dev/tcp/127.0.0.1/{port}", Proof::IsHeard),
    attack("echo hi > /dev/tcp/localhost/{port}", Proof::IsHeard),
    attack("echo hi > /dev/tcp/127.1/{port}", Proof::IsHeard),
    attack("echo hi > /dev/tcp/0.0.0.0/{port}", Proof::IsHeard),
    attack("echo hi > /dev/udp/127.0.0.1/{udp}", Proof::IsHeard),
    attack(
        "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Peer => \"ear.sock\")'",
        Proof::IsHeard,
    ),
    attack(
        "ln ear.sock again; perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Peer => \"again\")'",
        Proof::IsHeard,
    ),
    // All addresses of this machine.
    attack(
        "perl -MIO::Socket::INET -e 'IO::Socket::INET->new(PeerAddr => \"127.0.0.1:{port}\", Timeout => 2)'",
        Proof::IsHeard,
    ),
    only_held(
        "getent hosts example.com && echo resolved",
        Proof::Says("resolved"),
    ),
    only_held(
        "echo hi > /dev/tcp/169.254.169.254/80 && echo reached",
        Proof::Says("reached"),
    ),
    // Raw packets, and netlink sockets.
    only_held(
        "perl -MSocket -e 'socket(S, AF_INET, SOCK_RAW, 1) and print \"raw\"'",
        Proof::Says("raw"),
    ),
    only_held(
        "perl -e 'socket(S, 16, 3, 0) and print \"netlink\"'",
        Proof::Says("netlink"),
    ),
];

#[test]
fn commands_reach_no_listener() {
    both_ways(Scene::set, REACHING);
}

const PROCESSES: &[Attack] = &[
    attack("kill -9 {pid}", Proof::Kills),
    attack("perl -e 'kill 9, {pid}'", Proof::Kills),
    attack("test -d /proc/{pid} && echo seen", Proof::Says("seen")),
    attack(
        "tr '\\0' ' ' < /proc/{pid}/cmdline",
        Proof::Says("sleep 1000"),
    ),
    // The runtime: the parent process and all its ancestors.
    attack(
        "for one in /proc/[0-9]*; do tr '\\0' ' ' < $one/cmdline; done | grep -o 'run do i[t]'",
        Proof::Says("run do it"),
    ),
    only_held("kill -9 -1; kill -9 $PPID; kill -9 0", Proof::Kills),
    only_held(
        "for one in $(seq 1 5000); do kill -9 $one; done 2>/dev/null; perl -e 'kill 9, -1'",
        Proof::Kills,
    ),
    #[cfg(target_arch = "x86_64")]
    attack(
        "perl -e 'print \"attached=\", syscall(101, 16, {pid}, 0, 0)'",
        Proof::Says("attached=0"),
    ),
    attack(
        "echo 5 > /proc/{pid}/oom_score_adj && echo wrote",
        Proof::Says("wrote"),
    ),
];

#[test]
fn no_process_outside_is_seen_or_ended() {
    both_ways(Scene::set, PROCESSES);
}

const PRIVILEGES: &[Attack] = &[
    only_held(
        "grep -E '^Cap(Eff|Prm|Bnd|Amb|Inh)' /proc/self/status | grep -v 0000000000000000",
        Proof::Says("Cap"),
    ),
    only_held(
        "grep NoNewPrivs.*0 /proc/self/status",
        Proof::Says("NoNewPrivs"),
    ),
    only_held(
        "grep 'Seccomp:.*0' /proc/self/status",
        Proof::Says("Seccomp"),
    ),
    only_held("chown 1234 . && echo given", Proof::Says("given")),
    only_held("nice -n -5 sh -c 'nice' | grep -- -5", Proof::Says("-5")),
];

#[test]
fn commands_gain_no_privileges() {
    both_ways(Scene::set, PRIVILEGES);
}

/// A setuid binary that is left behind would run as the user who runs Sortie, for everyone who can
/// reach it.
#[test]
fn commands_leave_no_setuid_binary() {
    let scene = Scene::set();
    scene.shell(
        &super::stage::FILTER_OFF,
        [
            "cp /bin/sh one && chmod 4755 one",
            "cp /bin/sh two && chmod g+s two",
            "perl -e 'umask 0; sysopen(F, \"three\", 0x41, 06755)'",
        ]
        .into_iter(),
    );
    for name in ["one", "two", "three"] {
        use std::os::unix::fs::PermissionsExt as _;
        let path = scene.world.workspace().join(name);
        let mode = std::fs::metadata(&path).map_or(0, |facts| facts.permissions().mode());
        assert_eq!(mode & 0o6000, 0, "{name}");
    }
}

/// Runs a command that leaves a program where Sortie looks for one, and then a command that would
/// start it. Returns whether it ran: no program of the workspace may run outside the sandbox.
fn planted(world: &World, names: &[&str], then: &[&str]) -> bool {
    let proof = world.folder().join("ran");
    let calls: Vec<_> = names
        .iter()
        .map(|name| {
            super::stage::exec(&format!(
                "rm -f {name}; printf '#!/bin/sh\\ntouch {}\\nexit 1\\n' > {name}; chmod 755 {name}",
                proof.display()
            ))
        })
        .chain([super::stage::exec("true")])
        .collect();
    super::stage::calls_in(world, &super::stage::FILTER_OFF, &calls);
    world.sortie(then);
    proof.exists()
}

/// An active virtual environment puts a folder of the workspace into the path.
#[test]
fn a_sandbox_from_the_workspace_is_not_used() {
    let world = World::new();
    let folder = world.workspace().join(".venv/bin");
    std::fs::create_dir_all(&folder).unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display());
    let world = world.with("PATH", &path);
    assert!(!planted(&world, &[".venv/bin/bwrap"], &["doctor"]));
}

#[test]
fn a_git_from_the_workspace_is_not_used() {
    let world = World::new();
    let folder = world.workspace().join(".venv/bin");
    std::fs::create_dir_all(&folder).unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display());
    let world = world.with("PATH", &path);
    let model = world.scenario("  - say: done\n");
    let then = ["run", "x", "--isolation", "worktree", "--model", &model];
    assert!(!planted(&world, &[".venv/bin/git"], &then));
}

/// Sortie as a file of the project that it works on: its own build, or a package.
#[test]
fn a_binary_in_the_workspace_is_not_replaced() {
    let world = World::new();
    let binary = world.workspace().join("sortie");
    std::fs::copy(env!("CARGO_BIN_EXE_sortie"), &binary).unwrap();
    let proof = world.folder().join("ran");
    let plant = format!(
        "mv sortie old; printf '#!/bin/sh\\ntouch {}\\nexit 1\\n' > sortie; chmod 755 sortie",
        proof.display()
    );
    let calls = [super::stage::exec(&plant), super::stage::exec("true")];
    let first = serde_json::json!({ "when": { "turn": 1 }, "calls": calls });
    let model = world.scenario(&format!("  - {first}\n  - say: done\n"));
    let usual = world.command(&["run", "x", "--yes", "--model", &model]);
    let variables = usual
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    std::process::Command::new(&binary)
        .args(usual.get_args())
        .env_clear()
        .envs(variables)
        .current_dir(world.workspace())
        .output()
        .unwrap();
    assert!(!proof.exists());
}

/// P3. No switch can, or should, simulate that no backend works: here no program that could confine
/// a command is found, and the kernel provides neither namespaces nor Landlock.
#[test]
fn without_a_sandbox_nothing_is_started() {
    let world = World::new();
    let model = world.scenario(&format!(
        "  - {}\n  - say: \"{{{{last_result}}}}\"\n",
        serde_json::json!({ "when": { "turn": 1 }, "calls": [super::stage::exec(": > made")] })
    ));
    let run = ["run", "do it", "--yes", "--model", &model];
    let said = super::bare_machine::run(&world, &run);
    assert_eq!(said.code, Some(0), "{said:#?}");
    assert!(
        said.out
            .contains("No sandbox backend works on this machine"),
        "{said:#?}"
    );
    assert!(!world.workspace().join("made").exists());
    // Only the operator's setting runs it unconfined, and the record says so.
    let said = super::bare_machine::run(&world, &[&run[..], &["-c", "sandbox.mode=off"]].concat());
    assert!(world.workspace().join("made").exists(), "{said:#?}");
    let audit = world.ok(&["audit", "--json"]).out;
    assert!(audit.contains("\"backend\":\"none\""), "{audit}");
}
