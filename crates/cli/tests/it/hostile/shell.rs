//! P2 and P3: what a shell command can reach, with and without the filter of dangerous commands.

use super::stage::{Attack, CANARY, Proof, Scene, attack, both_ways, only_confined};
use crate::world::World;

const READING: &[Attack] = &[
    attack("cat {world}/outside.txt", Proof::Prints(CANARY)),
    attack("cat ../outside.txt", Proof::Prints(CANARY)),
    attack("cat ~/.ssh/id_ed25519", Proof::Prints(CANARY)),
    attack("cat ~/.aws/credentials ~/.netrc", Proof::Prints(CANARY)),
    attack("cat {world}/neighbour/src/main.rs", Proof::Prints(CANARY)),
    attack(
        "ln -s {world}/outside.txt way && cat way",
        Proof::Prints(CANARY),
    ),
    attack(
        "ln -s ../.ssh folder && cat folder/id_ed25519",
        Proof::Prints(CANARY),
    ),
    attack("cd .. && cat outside.txt", Proof::Prints(CANARY)),
    attack(
        "cat /proc/self/root{world}/outside.txt",
        Proof::Prints(CANARY),
    ),
    attack(
        "cat /proc/$PPID/root{world}/outside.txt /proc/1/root{world}/outside.txt",
        Proof::Prints(CANARY),
    ),
    attack("cat /proc/self/cwd/../outside.txt", Proof::Prints(CANARY)),
    attack("tar cf - -C {world} outside.txt", Proof::Prints(CANARY)),
    attack(
        "grep -rh canary-in {world} 2>/dev/null",
        Proof::Prints(CANARY),
    ),
    attack(
        "ln {world}/outside.txt hard && cat hard",
        Proof::Prints(CANARY),
    ),
    // Files that only their owner may read, where the owner runs the tests.
    only_confined("cat /etc/shadow /etc/gshadow", Proof::Prints(":!:")),
    only_confined("cat /etc/shadow", Proof::Prints(":*:")),
    // Sortie's own files: the store, the lock, the settings.
    attack(
        "head -c 15 {world}/home/sortie.db",
        Proof::Prints("SQLite format"),
    ),
    attack("cat {world}/home/lock", Proof::Prints("\"pid\"")),
    attack("ls {world}/home", Proof::Prints("sortie.db")),
    // Devices and the kernel.
    only_confined("cat /proc/kcore | head -c 4", Proof::Prints("ELF")),
    only_confined(
        "for disk in /dev/[svx]d?; do head -c 1 $disk && echo opened; done",
        Proof::Prints("opened"),
    ),
    only_confined("mknod disk b 8 0 && echo made", Proof::Prints("made")),
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
    only_confined("touch /etc/evil && echo made", Proof::Prints("made")),
    only_confined("touch /usr/bin/evil && echo made", Proof::Prints("made")),
    only_confined("touch /evil && echo made", Proof::Prints("made")),
    only_confined("touch /var/evil && echo made", Proof::Prints("made")),
    only_confined("chmod u+s /usr/bin/env && echo done", Proof::Prints("done")),
    only_confined(
        "echo 0 > /proc/sys/kernel/randomize_va_space && echo set",
        Proof::Prints("set"),
    ),
    only_confined("hostname evil && echo set", Proof::Prints("set")),
    only_confined(
        "date -s 2001-01-01 && echo turned back",
        Proof::Prints("turned back"),
    ),
    only_confined(
        "mount -t tmpfs none /usr && echo mounted",
        Proof::Prints("mounted"),
    ),
    only_confined("unshare -Urm sh -c 'echo inside'", Proof::Prints("inside")),
    only_confined(
        "rm -rf --no-preserve-root /usr /etc ~ ..",
        Proof::Changes("outside.txt"),
    ),
];

#[test]
fn nothing_outside_is_changed() {
    both_ways(Scene::set, WRITING);
}

const REACHING: &[Attack] = &[
    attack("echo hi > /dev/tcp/127.0.0.1/{port}", Proof::Connects),
    attack("echo hi > /dev/tcp/localhost/{port}", Proof::Connects),
    attack("echo hi > /dev/tcp/127.1/{port}", Proof::Connects),
    attack("echo hi > /dev/tcp/0.0.0.0/{port}", Proof::Connects),
    attack("echo hi > /dev/udp/127.0.0.1/{udp}", Proof::Connects),
    attack(
        "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Peer => \"ear.sock\")'",
        Proof::Connects,
    ),
    attack(
        "ln ear.sock again; perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Peer => \"again\")'",
        Proof::Connects,
    ),
    // All addresses of this machine.
    attack(
        "perl -MIO::Socket::INET -e 'IO::Socket::INET->new(PeerAddr => \"127.0.0.1:{port}\", Timeout => 2)'",
        Proof::Connects,
    ),
    only_confined(
        "getent hosts example.com && echo resolved",
        Proof::Prints("resolved"),
    ),
    only_confined(
        "echo hi > /dev/tcp/169.254.169.254/80 && echo reached",
        Proof::Prints("reached"),
    ),
    // Raw packets, and netlink sockets.
    only_confined(
        "perl -MSocket -e 'socket(S, AF_INET, SOCK_RAW, 1) and print \"raw\"'",
        Proof::Prints("raw"),
    ),
    only_confined(
        "perl -e 'socket(S, 16, 3, 0) and print \"netlink\"'",
        Proof::Prints("netlink"),
    ),
];

#[test]
fn commands_reach_no_listener() {
    both_ways(Scene::set, REACHING);
}

const PROCESSES: &[Attack] = &[
    attack("kill -9 {pid}", Proof::Kills),
    attack("perl -e 'kill 9, {pid}'", Proof::Kills),
    attack("test -d /proc/{pid} && echo seen", Proof::Prints("seen")),
    attack(
        "tr '\\0' ' ' < /proc/{pid}/cmdline",
        Proof::Prints("sleep 1000"),
    ),
    // The runtime: the parent process and all its ancestors.
    attack(
        "for one in /proc/[0-9]*; do tr '\\0' ' ' < $one/cmdline; done | grep -o 'run do i[t]'",
        Proof::Prints("run do it"),
    ),
    only_confined("kill -9 -1; kill -9 $PPID; kill -9 0", Proof::Kills),
    only_confined(
        "for one in $(seq 1 5000); do kill -9 $one; done 2>/dev/null; perl -e 'kill 9, -1'",
        Proof::Kills,
    ),
    #[cfg(target_arch = "x86_64")]
    attack(
        "perl -e 'print \"attached=\", syscall(101, 16, {pid}, 0, 0)'",
        Proof::Prints("attached=0"),
    ),
    attack(
        "echo 5 > /proc/{pid}/oom_score_adj && echo wrote",
        Proof::Prints("wrote"),
    ),
];

#[test]
fn no_process_outside_is_seen_or_ended() {
    both_ways(Scene::set, PROCESSES);
}

const PRIVILEGES: &[Attack] = &[
    only_confined(
        "grep -E '^Cap(Eff|Prm|Bnd|Amb|Inh)' /proc/self/status | grep -v 0000000000000000",
        Proof::Prints("Cap"),
    ),
    only_confined(
        "grep NoNewPrivs.*0 /proc/self/status",
        Proof::Prints("NoNewPrivs"),
    ),
    only_confined(
        "grep 'Seccomp:.*0' /proc/self/status",
        Proof::Prints("Seccomp"),
    ),
    only_confined("chown 1234 . && echo given", Proof::Prints("given")),
    only_confined("nice -n -5 sh -c 'nice' | grep -- -5", Proof::Prints("-5")),
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
    let output = super::bare_machine::run(&world, &run);
    assert_eq!(output.code, Some(0), "{output:#?}");
    assert!(
        output
            .out
            .contains("No sandbox backend works on this machine"),
        "{output:#?}"
    );
    assert!(!world.workspace().join("made").exists());
    // Only the operator's setting runs it unconfined, and the record says so.
    let output =
        super::bare_machine::run(&world, &[&run[..], &["-c", "sandbox.mode=off"]].concat());
    assert!(world.workspace().join("made").exists(), "{output:#?}");
    let audit = world.ok(&["audit", "--json"]).out;
    assert!(audit.contains("\"backend\":\"none\""), "{audit}");
}
