//! Damages every file of a home in every way, under every command that starts something: the result
//! is a clear error or a repair, and never a hang, a panic or a store that silently lost its tasks.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use serde_json::Value;

use crate::world::World;

/// The files of a home.
const FILES: [&str; 10] = [
    "sortie.db",
    "sortie.db-wal",
    "sortie.db-shm",
    "lock",
    "keys.json",
    "keys.lock",
    "token",
    "server.json",
    "mcp-approved.json",
    "models.json",
];
/// The longest time of a command; one that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(45);

#[derive(Clone, Copy, Debug)]
enum Damage {
    Empty,
    Half,
    Noise,
    Folder,
    Fifo,
    Link,
    Unreadable,
    Writable,
    Missing,
}

const DAMAGES: [Damage; 9] = [
    Damage::Empty,
    Damage::Half,
    Damage::Noise,
    Damage::Folder,
    Damage::Fifo,
    Damage::Link,
    Damage::Unreadable,
    Damage::Writable,
    Damage::Missing,
];

impl Damage {
    fn happen(self, path: &Path, seed: u64) {
        let content = fs::read(path).unwrap_or_default();
        let gone = || match fs::remove_file(path) {
            Ok(()) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
        };
        let mode = |mode| {
            if path.exists() {
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            }
        };
        match self {
            Self::Empty => fs::write(path, "").unwrap(),
            Self::Half => fs::write(path, &content[..content.len() / 2]).unwrap(),
            Self::Noise => fs::write(path, noise(seed, content.len().max(64))).unwrap(),
            Self::Folder => {
                gone();
                fs::create_dir(path).unwrap();
                fs::write(path.join("inside"), "x").unwrap();
            }
            Self::Fifo => {
                gone();
                mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
            }
            Self::Link => {
                gone();
                symlink("/dev/zero", path).unwrap();
            }
            Self::Unreadable => mode(0o000),
            Self::Writable => mode(0o666),
            Self::Missing => gone(),
        }
    }
}

/// Returns pseudo-random bytes that depend only on the seed (xorshift).
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// Returns a home with a task and a token, whose server was killed so that its files remain.
fn lived_in() -> (World, String) {
    let world = World::new();
    let model = world.scenario("  - say: here I am\n");
    let mut server = world.serve();
    world.ok(&["run", "the first", "--model", &model]);
    server.signal(Signal::KILL);
    server.end();
    (world, model)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// Runs a command and asserts that it exits in time.
fn ended(world: &World, arguments: &[&str], home: &Path) -> (Option<i32>, String, String) {
    let mut command = world.command(arguments);
    command.env("SORTIE_HOME", home);
    let began = Instant::now();
    let mut running = crate::world::Running::start(command);
    if arguments[0] == "serve" {
        // A server that starts gets SIGTERM; one that refuses to start has exited.
        running.wait_for_line_or_end("Serving ");
        running.try_signal(Signal::TERM);
    }
    let output = running.end();
    assert!(began.elapsed() < LIMIT, "{arguments:?}: {output:#?}");
    (output.code, output.out, output.err)
}

#[test]
fn every_damage_of_every_file_is_repaired_or_reported() {
    let (world, model) = lived_in();
    let run = ["run", "again", "--model", &model];
    let commands: [&[&str]; 5] = [
        &["serve", "--listen", "127.0.0.1:0"],
        &run,
        &["tasks", "list", "--all", "--json"],
        &["keys", "list", "--json"],
        &["doctor", "--json"],
    ];
    let mut seed = 0;
    for file in FILES {
        for damage in DAMAGES {
            // One command per damage, rotated so that every command meets every file and every
            // damage.
            seed += 1;
            let arguments = commands[seed % commands.len()];
            let home = world.folder().join("damaged");
            copy(&world.home(), &home);
            damage.happen(&home.join(file), seed as u64);
            let (code, out, err) = ended(&world, arguments, &home);
            let case = format!("{file} {damage:?} {arguments:?}: {code:?}\n{out}\n{err}");
            assert!(code.is_some_and(|code| code != 101), "{case}");
            assert!(!err.contains("panicked"), "{case}");
            if code != Some(0) && arguments[0] != "doctor" {
                assert!(err.contains("error: "), "{case}");
            }
            if code == Some(0) && arguments[0] == "tasks" {
                let tasks: Value = serde_json::from_str(&out).unwrap();
                // A truncated WAL loses the last commits; no other loss may be silent.
                let is_there = tasks[0]["message"] == "the first";
                assert!(is_there || file == "sortie.db-wal", "{case}");
            }
            fs::remove_dir_all(&home).unwrap();
        }
    }
}

#[test]
fn doctor_does_not_block_on_a_fifo() {
    let (world, _) = lived_in();
    for file in FILES {
        let home = world.folder().join("damaged");
        copy(&world.home(), &home);
        Damage::Fifo.happen(&home.join(file), 0);
        let (code, out, err) = ended(&world, &["doctor"], &home);
        assert_eq!(
            code,
            Some(i32::from(file != "server.json")),
            "{file}: {out}\n{err}"
        );
        fs::remove_dir_all(&home).unwrap();
    }
}

#[test]
fn a_home_without_a_usable_server_file_serves_and_runs() {
    let (world, model) = lived_in();
    let file = world.home().join("server.json");
    for damage in [
        Damage::Noise,
        Damage::Half,
        Damage::Folder,
        Damage::Fifo,
        Damage::Link,
    ] {
        damage.happen(&file, 7);
        let output = world.ok(&["run", "x", "--model", &model]);
        assert!(
            output.err.contains("is ignored and replaced"),
            "{damage:?}: {output:#?}"
        );
        let mut server = world.serve();
        assert_eq!(world.sortie(&["status"]).code, Some(0), "{damage:?}");
        server.signal(Signal::TERM);
        assert_eq!(server.end().code, Some(0), "{damage:?}");
        assert!(!file.exists(), "{damage:?}");
    }
}

#[test]
fn a_database_of_another_application_is_refused_and_left_alone() {
    let world = World::new();
    fs::create_dir(world.home()).unwrap();
    let database = world.home().join("sortie.db");
    let foreign = rusqlite::Connection::open(&database).unwrap();
    foreign
        .execute_batch("CREATE TABLE notes (text TEXT); PRAGMA user_version = 3")
        .unwrap();
    drop(foreign);
    let before = fs::read(&database).unwrap();
    let model = world.scenario("  - say: done\n");
    for arguments in [
        &["run", "x", "--model", &model] as &[&str],
        &["serve", "--listen", "127.0.0.1:0"],
        &["tasks", "list"],
    ] {
        let output = world.sortie(arguments);
        assert_eq!(output.code, Some(3), "{arguments:?}: {output:#?}");
        assert!(
            output.err.contains("belongs to another application"),
            "{output:#?}"
        );
    }
    let doctor = world.sortie(&["doctor"]);
    assert_eq!(doctor.code, Some(1), "{doctor:#?}");
    assert!(
        doctor.out.contains("belongs to another application"),
        "{doctor:#?}"
    );
    assert_eq!(fs::read(&database).unwrap(), before);
}
