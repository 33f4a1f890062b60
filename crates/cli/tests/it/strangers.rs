//! Processes and listeners that are not the server, though a pid or a port suggests it.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::world::World;

/// Changes a field of a file that the server wrote; the lock on it stays.
fn rewrite(world: &World, name: &str, field: &str, value: Value) {
    let path = world.home().join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut content: Value = serde_json::from_str(&text).unwrap();
    content[field] = value;
    std::fs::write(&path, content.to_string()).unwrap();
}

/// Writes the pid of another process in place of the server's, as if the pid were reused.
fn reuse_pid(world: &World, lock: &str, pid: u32) {
    rewrite(world, "server.json", "pid", json!(pid));
    std::fs::write(world.home().join("lock"), lock).unwrap();
    rewrite(world, "lock", "pid", json!(pid));
}

struct Bystander(Child);

impl Bystander {
    fn new() -> Self {
        Self(Command::new("sleep").arg("600").spawn().unwrap())
    }

    /// Kills the process; returns the signal that ended it, which differs if another signal came
    /// first.
    fn ended_by(mut self) -> Option<i32> {
        self.0.kill().unwrap();
        self.0.wait().unwrap().signal()
    }
}

#[test]
fn reused_pid_of_a_dead_server_blocks_no_command() {
    let world = World::new();
    let mut server = world.serve();
    let lock = std::fs::read_to_string(world.home().join("lock")).unwrap();
    server.signal(Signal::KILL);
    assert_eq!(server.end().code, None);
    // This test process is alive, as a process that reused the pid would be.
    reuse_pid(&world, &lock, std::process::id());
    assert_eq!(world.json_any(&["status", "--json"])["status"], "none");
    assert_eq!(world.sortie(&["stop"]).code, Some(4));
    let doctor = world.ok(&["doctor"]).out;
    assert!(
        doctor.contains("was left behind by a server that died"),
        "{doctor}"
    );
    let model = world.scenario("  - say: here I am\n");
    world.ok(&["run", "x", "--model", &model]);
    reuse_pid(&world, &lock, std::process::id());
    let server = world.serve();
    assert_eq!(world.json(&["status", "--json"])["pid"], server.pid());
}

#[test]
fn stop_signals_no_process_but_the_server() {
    let world = World::new();
    let mut server = world.serve();
    let bystander = Bystander::new();
    let lock = std::fs::read_to_string(world.home().join("lock")).unwrap();
    reuse_pid(&world, &lock, bystander.0.id());
    // The lock is held, and file and lock agree, as in a container with its own pid namespace.
    let output = world.sortie(&["stop"]);
    assert_eq!(output.code, Some(6), "{output:#?}");
    assert!(output.err.contains("Stop it there"), "{output:#?}");
    assert_eq!(bystander.ended_by(), Some(Signal::KILL.as_raw()));
    reuse_pid(&world, &lock, u32::MAX);
    assert_eq!(world.sortie(&["stop"]).code, Some(6));
    reuse_pid(&world, &lock, server.pid());
    world.ok(&["stop"]);
    server.signal(Signal::TERM);
    assert_eq!(server.end().code, Some(0));
}

/// Listens like a server, accepts every request, and records what it received.
fn stranger() -> (String, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let received = Arc::new(Mutex::new(String::new()));
    let remembers = Arc::clone(&received);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, remembers) = (stream.unwrap(), Arc::clone(&remembers));
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    let text = String::from_utf8_lossy(&bytes[..count]);
                    remembers.lock().unwrap().push_str(&text);
                    let proof = "0".repeat(64);
                    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 64\r\n\r\n{proof}");
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, received)
}

#[test]
fn a_stranger_on_the_servers_port_gets_no_token() {
    let world = World::new();
    let model = world.scenario("  - say: done\n");
    let _server = world.serve();
    world.ok(&["run", "x", "--model", &model]);
    let token = std::fs::read_to_string(world.home().join("token")).unwrap();
    let (address, received) = stranger();
    rewrite(&world, "server.json", "address", json!(address));
    let expected = format!("The process that listens at {address} is not this server");
    for command in [
        &["run", "y", "--model", &model][..],
        &["open"],
        &[
            "tasks",
            "delete",
            world.task("x")["task_id"].as_str().unwrap(),
        ],
    ] {
        let output = world.sortie(command);
        assert_eq!(output.code, Some(3), "{output:#?}");
        assert!(output.err.contains(&expected), "{output:#?}");
    }
    let status = world.json_any(&["status", "--json"]);
    assert_eq!(status["status"], "silent", "{status}");
    let received = received.lock().unwrap();
    assert_eq!(
        received.matches("GET /login/proof?nonce=").count(),
        4,
        "{received}"
    );
    assert!(
        !received.to_lowercase().contains("authorization"),
        "{received}"
    );
    assert!(!received.contains(token.trim()), "{received}");
}

#[test]
fn server_secret_changes_at_each_start_and_is_never_printed() {
    let world = World::new();
    let secret = || -> String {
        let text = std::fs::read_to_string(world.home().join("server.json")).unwrap();
        let file: Value = serde_json::from_str(&text).unwrap();
        file["secret"].as_str().unwrap().to_owned()
    };
    let server = world.serve_with(&["-v"]);
    let first = secret();
    assert_eq!(first.len(), 64, "{first}");
    let mut output = world.ok(&["status", "--json"]).out;
    output.push_str(&world.ok(&["doctor"]).out);
    world.ok(&["stop"]);
    let ended = server.end();
    output.push_str(&ended.err);
    assert!(!output.contains(&first), "{output}");
    let _server = world.serve();
    assert_ne!(secret(), first);
}

#[test]
fn server_raises_its_open_file_limit_but_not_that_of_its_commands() {
    let world = World::new();
    let model = world.scenario(
        r#"
  - when: { turn: 1 }
    calls: [{ tool: exec, args: { command: "ulimit -Sn" } }]
  - say: "{{last_result}}"
"#,
    );
    let listen = ["serve", "--listen", "127.0.0.1:0"];
    let mut server = world.start_after("ulimit -Sn 300", &listen);
    server.wait_for_line("Serving ");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let numbers: Vec<u64> = line
        .unwrap()
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    assert_eq!(numbers[0], numbers[1].min(65_536), "{limits}");
    let output = world.ok(&["run", "x", "--yes", "--model", &model]).out;
    assert!(output.contains("1024"), "{output}");
}

#[test]
fn doctor_warns_about_a_low_open_file_limit() {
    let world = World::new();
    let few = world.start_after("ulimit -n 512", &["doctor"]).end();
    let line = "warn open files: a server may have up to 512 files";
    assert!(few.out.contains(line), "{few:#?}");
    assert!(few.out.contains("LimitNOFILE"), "{few:#?}");
}
