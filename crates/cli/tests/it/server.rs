//! `sortie serve` itself: startup, shutdown, files and keys.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;
use serde_json::Value;

use crate::terminal::at_terminal;
use crate::world::World;

/// Sends a request with a token; returns the status and the body.
pub(crate) fn request(world: &World, token: &str, method: &str, path: &str) -> (u16, String) {
    send(world, token, &format!("{method} {path}"), "")
}

/// Sends a request to an address, for cases in which the binary cannot report one.
pub(crate) fn request_at(address: &str, token: &str, method: &str, path: &str) -> (u16, String) {
    send_to(address, token, &format!("{method} {path}"), "")
}

pub(crate) fn send(world: &World, token: &str, what: &str, body: &str) -> (u16, String) {
    send_to(&world.address(), token, what, body)
}

fn send_to(address: &str, token: &str, what: &str, body: &str) -> (u16, String) {
    read_answer(&exchange(address, token, what, body).unwrap())
}

/// Sends a request that may kill the server before its response is complete; `None` if it did.
pub(crate) fn send_poison(
    world: &World,
    token: &str,
    what: &str,
    body: &str,
) -> Option<(u16, String)> {
    let answer = exchange(&world.address(), token, what, body).ok()?;
    (!answer.is_empty()).then(|| read_answer(&answer))
}

fn exchange(address: &str, token: &str, what: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "{what} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn read_answer(answer: &str) -> (u16, String) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

fn token(world: &World) -> String {
    let text = std::fs::read_to_string(world.home().join("token")).unwrap();
    text.trim().to_owned()
}

fn mode(world: &World, name: &str) -> u32 {
    let about = std::fs::metadata(world.home().join(name)).unwrap();
    about.permissions().mode() & 0o777
}

#[test]
fn server_prints_its_address_and_removes_its_file_on_exit() {
    let world = World::new();
    let none = world.sortie(&["status"]);
    assert_eq!(
        (none.code, none.out.as_str()),
        (Some(1), "No server is running for this store.\n")
    );
    let mut server = world.serve();
    let status = world.json(&["status", "--json"]);
    assert_eq!(status["status"], "running", "{status}");
    assert_eq!(status["pid"], server.pid());
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(status["tasks"]["running"], 0);
    for name in ["server.json", "token", "keys.json"] {
        assert_eq!(mode(&world, name), 0o600, "{name}");
    }
    assert_eq!(request(&world, &token(&world), "GET", "/api/me").0, 200);
    assert_eq!(
        request(&world, "sortie_aaaaaaaa_wrong", "GET", "/api/me").0,
        401
    );
    server.signal(Signal::TERM);
    let output = server.end();
    assert_eq!(output.code, Some(0), "{output:#?}");
    assert!(
        output
            .err
            .contains("Stopped. Running tasks are back in the queue"),
        "{output:#?}"
    );
    assert!(!output.err.contains(&token(&world)), "{output:#?}");
    assert!(!world.home().join("server.json").exists());
    assert_eq!(world.sortie(&["status"]).code, Some(1));
}

#[test]
fn status_exits_with_1_if_the_token_cannot_be_read() {
    let world = World::new();
    let _server = world.serve();
    assert_eq!(world.sortie(&["status"]).code, Some(0));
    // No user can read it, not even root.
    let token = world.home().join("token");
    std::fs::remove_file(&token).unwrap();
    std::fs::create_dir(&token).unwrap();
    let output = world.sortie(&["status"]);
    assert_eq!(output.code, Some(1), "{output:#?}");
    assert!(output.err.contains("token"), "{output:#?}");
}

#[test]
fn a_program_gets_the_address_as_json() {
    let world = World::new();
    let mut server = world.start(&["serve", "--listen", "127.0.0.1:0", "--json"]);
    world.until("the server is there", |world| {
        world.sortie(&["status"]).code == Some(0)
    });
    let address = world.address();
    server.signal(Signal::INT);
    let output = server.end();
    let line: Value = serde_json::from_str(output.out.trim()).unwrap();
    assert_eq!(line["address"], address);
    assert_eq!(line["url"], format!("http://{address}"));
    assert!(!output.err.contains("login?code="), "{output:#?}");
}

#[test]
fn busy_port_error_has_a_hint() {
    let world = World::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = world.sortie(&["serve", "--listen", &address]);
    assert_eq!(output.code, Some(2), "{output:#?}");
    assert!(
        output
            .err
            .contains(&format!("error: The server cannot listen on {address}.")),
        "{output:#?}"
    );
    assert!(
        output.err.contains("--listen 127.0.0.1:PORT"),
        "{output:#?}"
    );
    for wrong in ["localhost", "7878", "example.com:80", "127.0.0.1:99999"] {
        let output = world.sortie(&["serve", "--listen", wrong]);
        assert_eq!(output.code, Some(2), "{output:#?}");
        assert!(
            output.err.contains("is not an address to listen on"),
            "{output:#?}"
        );
    }
}

#[test]
fn second_server_error_names_the_address_of_the_first() {
    let world = World::new();
    let server = world.serve();
    let second = world.sortie(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.code, Some(6), "{second:#?}");
    let expected = format!(
        "error: A server already listens at {} (pid {}).",
        world.address(),
        server.pid()
    );
    assert!(second.err.contains(&expected), "{second:#?}");
}

#[test]
fn a_server_stops_on_request() {
    let world = World::new();
    let none = world.sortie(&["stop"]);
    assert_eq!(none.code, Some(4), "{none:#?}");
    let server = world.serve();
    let endless = u64::MAX.to_string();
    let output = world.sortie(&["stop", "--wait", &endless]);
    assert_eq!(output.code, Some(2), "{output:#?}");
    let output = world.ok(&["stop", "--wait", &u32::MAX.to_string()]);
    assert_eq!(
        output.out,
        format!("The server (pid {}) has stopped.\n", server.pid())
    );
    assert_eq!(server.end().code, Some(0));
}

#[test]
fn server_file_of_a_killed_server_is_ignored() {
    let world = World::new();
    let mut server = world.serve();
    server.signal(Signal::KILL);
    assert_eq!(server.end().code, None);
    assert!(world.home().join("server.json").exists());
    assert_eq!(world.sortie(&["status"]).code, Some(1));
    assert_eq!(world.sortie(&["stop"]).code, Some(4));
    let doctor = world.ok(&["doctor"]).out;
    assert!(
        doctor.contains("was left behind by a server that died"),
        "{doctor}"
    );
    let model = world.scenario("  - say: here I am\n");
    assert_eq!(
        world.ok(&["run", "x", "--model", &model]).out,
        "here I am\n"
    );
    let server = world.serve();
    let doctor = world.ok(&["doctor"]).out;
    let pid = format!("pid {}", server.pid());
    assert!(
        doctor.contains("server: at 127.0.0.1:") && doctor.contains(&pid),
        "{doctor}"
    );
}

#[test]
fn doctor_reports_secrets_readable_by_other_users() {
    let world = World::new();
    drop(world.serve());
    let path = world.home().join("token");
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(&path, open).unwrap();
    let doctor = world.sortie(&["doctor"]);
    assert_eq!(doctor.code, Some(1), "{doctor:#?}");
    assert!(doctor.out.contains("private files"), "{doctor:#?}");
    assert!(doctor.out.contains("chmod 600"), "{doctor:#?}");
}

#[test]
fn server_resumes_unfinished_runs() {
    let world = World::new();
    let model = world.scenario("  - say: here I am\n");
    world.ok(&["spawn", "wait", "--detach", "--model", &model]);
    let mut server = world.start(&["serve", "--listen", "127.0.0.1:0"]);
    server.wait_for_line("1 unfinished task of an earlier process continues.");
    world.until("the task ends", |world| {
        world.task("wait")["status"] == "completed"
    });
}

#[test]
fn stopped_server_requeues_runs_and_the_next_one_resumes_them() {
    let world = World::new();
    let model = world.scenario("  - fault: { kind: hang }\n");
    let mut server = world.serve();
    world.ok(&["spawn", "slow", "--detach", "--model", &model]);
    world.until("the task runs", |world| {
        world.task("slow")["status"] == "running"
    });
    server.signal(Signal::TERM);
    assert_eq!(server.end().code, Some(0));
    assert_eq!(world.task("slow")["status"], "running");
    world.scenario("  - say: slow and steady\n");
    let _server = world.serve();
    world.until("the task ends", |world| {
        world.task("slow")["status"] == "completed"
    });
    assert_eq!(world.task("slow")["result"], "slow and steady");
}

#[test]
fn keys_are_made_used_rotated_and_taken_away() {
    let world = World::new();
    let made = world.json(&[
        "keys", "create", "--name", "ci", "--role", "viewer", "--json",
    ]);
    let (id, first) = (
        made["key"]["id"].as_str().unwrap(),
        made["token"].as_str().unwrap(),
    );
    let _server = world.serve();
    let me = |token: &str| request(&world, token, "GET", "/api/me");
    let (status, body) = me(first);
    assert_eq!(status, 200, "{body}");
    assert!(
        body.contains("\"name\":\"ci\"") && body.contains("\"viewer\""),
        "{body}"
    );
    assert_eq!(request(&world, first, "GET", "/api/keys").0, 403);

    let plain = world.ok(&["keys", "rotate", id, "--grace", "1h"]);
    let second = plain.out.trim();
    assert!(plain.err.contains("has a new token"), "{plain:#?}");
    assert_eq!((me(first).0, me(second).0), (200, 200));
    let third = world.json(&["keys", "rotate", id, "--json"]);
    let third = third["token"].as_str().unwrap();
    assert_eq!((me(second).0, me(third).0), (401, 200));

    let listed = world.json(&["keys", "list", "--json"]);
    let names: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|key| key["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["ci", "local"]);
    let all = world.ok(&["keys", "list"]).out;
    assert!(all.contains(id) && !all.contains(third), "{all}");
    world.ok(&["keys", "revoke", id]);
    assert_eq!(me(third).0, 401);
    assert_eq!(world.sortie(&["keys", "revoke", id]).code, Some(4));
}

#[test]
fn invalid_keys_are_refused() {
    let world = World::new();
    let create = |rest: &[&str]| {
        let all = [&["keys", "create", "--role", "viewer"], rest].concat();
        world.sortie(&all).code
    };
    assert_eq!(create(&["--name", ""]), Some(2));
    assert_eq!(
        create(&["--name", "a", "--tenant", "Not A Tenant"]),
        Some(2)
    );
    assert_eq!(create(&["--name", "a", "--expires", "soon"]), Some(2));
    assert_eq!(
        create(&["--name", "a", "--tenant", "acme", "--expires", "30d"]),
        Some(0)
    );
    assert_eq!(create(&["--name", "gone", "--expires", "0s"]), Some(0));
}

#[test]
fn a_link_lets_a_browser_in() {
    let world = World::new();
    assert_eq!(world.sortie(&["open"]).code, Some(4));
    let _server = world.serve();
    let link = world.ok(&["open"]).out;
    let expected = format!("http://{}/login?code=", world.address());
    assert!(link.starts_with(&expected), "{link}");
    let json = world.json(&["open", "--role", "viewer", "--json"]);
    assert_ne!(json["url"], link.trim());
    let output = world.ok(&["open", "--browser"]);
    assert!(
        output.err.contains("open the link yourself") || output.err.is_empty(),
        "{output:#?}"
    );
}

#[test]
fn a_person_at_the_terminal_gets_a_link_and_no_log_does() {
    let world = World::new();
    let mut terminal = at_terminal(&world, &["serve", "--listen", "127.0.0.1:0"]);
    terminal.exp_string("Serving ").unwrap();
    terminal.exp_string("/login?code=").unwrap();
    terminal.send_control('c').unwrap();
    terminal.exp_string("Stopped.").unwrap();
    terminal.exp_eof().unwrap();
}

#[test]
fn a_second_interrupt_leaves_at_once() {
    let world = World::new();
    let mut server = world.serve();
    // A client that never closes its connection keeps a stopping server waiting.
    let mut stream = TcpStream::connect(world.address()).unwrap();
    write!(
        stream,
        "GET /api/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        world.address(),
        token(&world)
    )
    .unwrap();
    server
        .signal(Signal::INT)
        .wait_for_line("Stopping:")
        .signal(Signal::INT);
    let output = server.end();
    assert!(matches!(output.code, Some(0 | 130)), "{output:#?}");
}

#[test]
fn listening_on_a_public_address_prints_advice() {
    let world = World::new();
    let mut server = world.start(&["serve", "--listen", "0.0.0.0:0", "--host", "sortie.example"]);
    server.wait_for_line("put TLS in front of it");
    assert_eq!(world.sortie(&["status"]).code, Some(0));
    let address = world.address();
    let port = address.rsplit(':').next().unwrap();
    let with_host = |host: &str| {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        let token = token(&world);
        write!(stream, "GET /api/me HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(with_host("sortie.example"), "200");
    assert_eq!(with_host("evil.example"), "421");
}

#[test]
fn api_returns_configuration_and_health() {
    let world = World::new().with("SORTIE__PROVIDERS__X__API_KEY", "sk-do-not-show");
    let _server = world.serve();
    let token = token(&world);
    let (status, config) = request(&world, &token, "GET", "/api/config");
    assert_eq!(status, 200, "{config}");
    assert!(
        config.contains("subagents.max_concurrent") && !config.contains("do-not-show"),
        "{config}"
    );
    let (status, doctor) = request(&world, &token, "GET", "/api/doctor");
    assert_eq!(status, 200, "{doctor}");
    for name in ["store", "sandbox", "server", "port"] {
        assert!(
            doctor.contains(&format!("\"name\":\"{name}\"")),
            "{name}: {doctor}"
        );
    }
    world.write(
        ".sortie/skills/greet/SKILL.md",
        "---\nname: greet\ndescription: Says hello\n---\nHello\n",
    );
    let (status, skills) = request(&world, &token, "GET", "/api/skills");
    assert_eq!(status, 200, "{skills}");
}

#[test]
fn the_log_can_be_lines_of_json() {
    let world = World::new();
    let mut server = world.start(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "-v",
        "--log-format",
        "json",
    ]);
    server.wait_for_line("Serving ");
    world.ok(&["status"]);
    server.signal(Signal::TERM);
    let output = server.end();
    let records: Vec<Value> = output
        .err
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let listening = records
        .iter()
        .find(|record| record["message"] == "listening");
    assert!(
        listening.is_some_and(|record| record["level"] == "INFO"),
        "{output:#?}"
    );
    assert!(!output.err.contains("login?code="), "{output:#?}");
    assert!(!output.err.contains(&token(&world)), "{output:#?}");
}

#[test]
fn keys_are_confined_to_the_configured_workspaces() {
    let world = World::new();
    let folder = |name: &str| {
        let path = world.folder().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path.canonicalize().unwrap().display().to_string()
    };
    let (ours, theirs, other) = (folder("ours"), folder("theirs"), folder("other"));
    let file = world.folder().join(".config/sortie/config.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(
        &file,
        format!(
            "[server]\nworkspaces = ['{ours}']\n[server.tenants.acme]\nworkspaces = ['{theirs}']\n"
        ),
    )
    .unwrap();
    let key = |rest: &[&str]| {
        let all = [
            &["keys", "create", "--role", "operator", "--name", "k"],
            rest,
        ]
        .concat();
        world.ok(&all).out.trim().to_owned()
    };
    let (plain, acme) = (key(&[]), key(&["--tenant", "acme"]));
    let _server = world.serve();
    let made = |token: &str, folder: &str| {
        let body = serde_json::json!({"message": "x", "model": "offline", "workspace": folder});
        send(&world, token, "POST /api/tasks", &body.to_string()).0
    };
    assert_eq!(made(&plain, &ours), 201);
    assert_eq!(made(&plain, &format!("{ours}/../other")), 403);
    assert_eq!(made(&plain, &theirs), 403);
    assert_eq!(made(&acme, &theirs), 201);
    assert_eq!(made(&acme, &ours), 403);
    assert_eq!(made(&token(&world), &other), 201);
    let seen = |token: &str| {
        let (_, body) = request(&world, token, "GET", "/api/tasks");
        let all: Value = serde_json::from_str(&body).unwrap();
        all.as_array().unwrap().len()
    };
    assert_eq!((seen(&acme), seen(&plain), seen(&token(&world))), (1, 3, 3));
}
