//! Tasks in a PostgreSQL database instead of a file.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::database;
use crate::database::cluster::{Node, authority};
use crate::server::request_at;
use crate::world::World;

const PASSWORD: &str = "s3cret-of-the-database";

const ONE_CHILD: &str = r#"
  - when: { agent: main, turn: 1 }
    calls: [{ tool: task, args: { description: find auth, prompt: Find auth., subagent_type: explore } }]
  - when: { agent: main, turn: 2 }
    expect: { last_result_contains: auth is in auth.rs }
    say: "It is back."
  - when: { label: find auth, turn: 1 }
    latency_ms: 1000
    calls: [{ tool: list_dir, args: { path: "." } }]
  - when: { label: find auth }
    say: auth is in auth.rs
"#;

/// A home whose configuration names a new database, with the password in a variable.
fn world() -> World {
    let schema = database::schema();
    let address = schema.address(&schema.folder);
    World::new()
        .with("SORTIE__STORE", &address)
        .with("SORTIE__STORE_PASSWORD_ENV", "DATABASE_SECRET")
        .with("DATABASE_SECRET", PASSWORD)
}

#[test]
fn tasks_run_and_are_read_in_a_postgres_database() {
    let world = world();
    let model = world.scenario(ONE_CHILD);
    for _ in 0..2 {
        let said = world.ok(&["run", "Look around", "--model", &model]);
        assert_eq!(said.out, "It is back.\n");
    }
    assert!(!world.home().join("sortie.db").exists());
    let tasks = world.tasks();
    assert_eq!(tasks.len(), 4, "{tasks:#?}");
    assert!(tasks.iter().all(|task| task["status"] == "completed"));
    world.ok(&["audit", "verify"]);
}

#[test]
fn the_address_and_the_password_of_the_database_are_never_printed() {
    let world = world();
    let shown = world.ok(&["config", "show"]).out;
    assert!(
        !shown.contains(PASSWORD) && !shown.contains("search_path"),
        "{shown}"
    );
    let address = format!("postgres://ada:{PASSWORD}@127.0.0.1:1/nowhere");
    let said = world
        .with("SORTIE__STORE", &address)
        .sortie(&["tasks", "list"]);
    assert_ne!(said.code, Some(0));
    assert!(!said.err.contains(PASSWORD), "{}", said.err);
    assert!(said.err.contains("database"), "{}", said.err);
}

#[test]
fn a_killed_server_continues_its_tasks_in_a_postgres_database() {
    let world = world();
    let model = world.scenario(ONE_CHILD);
    let mut server = world.serve();
    let client = world.start(&["run", "Look around", "--model", &model]);
    world.until("the child runs", |world| {
        let mut tasks = world.tasks().into_iter();
        tasks.any(|task| task["label"] == "find auth" && task["status"] == "running")
    });
    server.signal(Signal::KILL);
    let _server = world.serve();
    let said = client.end();
    assert_eq!(said.out, "It is back.\n", "{said:#?}");
    let tasks = world.tasks();
    assert_eq!(tasks.len(), 2, "{tasks:#?}");
    assert!(tasks.iter().all(|task| task["status"] == "completed"));
}

#[test]
fn a_password_file_that_other_users_can_read_is_refused() {
    let schema = database::schema();
    let world = World::new().with("SORTIE__STORE", &schema.address(&schema.folder));
    let file = world.folder().join("password");
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    let path = file.display().to_string();
    let world = world.with("SORTIE__STORE_PASSWORD_FILE", &path);
    let allow = |mode| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for mode in [0o644, 0o620] {
        allow(mode);
        let refused = world.sortie(&["tasks", "list"]);
        assert_ne!(refused.code, Some(0));
        let todo = format!("chmod 600 {path}");
        assert!(refused.err.contains(&todo), "{}", refused.err);
        assert!(!refused.err.contains(PASSWORD), "{}", refused.err);
    }
    for mode in [0o600, 0o640] {
        allow(mode);
        world.ok(&["tasks", "list"]);
    }
}

#[test]
fn a_task_waits_for_the_next_primary_and_readyz_reports_the_outage() {
    let mut primary = Node::primary();
    let standby = Node::standby_of(&primary);
    let address = format!(
        "postgres://sortie@localhost:{},localhost:{}/postgres?sslmode=verify-full&sslrootcert={}",
        primary.port,
        standby.port,
        authority("ca.pem")
    );
    let world = World::new().with("SORTIE__STORE", &address);
    let model = world.scenario(ONE_CHILD);
    let _server = world.serve();
    let token = std::fs::read_to_string(world.home().join("token")).unwrap();
    let server_address = world.address();
    let ready = || {
        let (status, body) = request_at(&server_address, token.trim(), "GET", "/readyz");
        let health: Value = serde_json::from_str(&body).unwrap();
        (
            status,
            health["reason"].as_str().unwrap_or_default().to_owned(),
        )
    };
    assert_eq!(ready().0, 200);
    let client = world.start(&["run", "Look around", "--model", &model]);
    world.until("the child runs", |world| {
        let mut tasks = world.tasks().into_iter();
        tasks.any(|task| task["label"] == "find auth" && task["status"] == "running")
    });

    primary.stop();
    let started = Instant::now();
    while !matches!(ready(), (503, reason) if reason.contains("database does not allow writes")) {
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", ready());
    }
    standby.promote();

    let said = client.end();
    assert_eq!(said.out, "It is back.\n", "{said:#?}");
    world.until("the server is ready again", |_| ready().0 == 200);
    let tasks = world.tasks();
    assert_eq!(tasks.len(), 2, "{tasks:#?}");
    assert!(tasks.iter().all(|task| task["status"] == "completed"));
    world.ok(&["audit", "verify"]);
}

#[test]
fn tasks_are_copied_to_the_database_and_back() {
    let world = World::new();
    let model = world.scenario(ONE_CHILD);
    world.ok(&["run", "Look around", "--model", &model]);
    let unset = world.sortie(&["store", "copy", "--to", "database"]);
    assert_eq!(unset.code, Some(3), "{unset:#?}");
    assert!(unset.err.contains("store = \"postgres://"), "{unset:#?}");

    let schema = database::schema();
    let world = world.with("SORTIE__STORE", &schema.address(&schema.folder));
    let copied = world.json(&["store", "copy", "--to", "database", "--json"]);
    assert_eq!(copied["tasks"], 2, "{copied}");
    assert_eq!(copied["continued"], false, "{copied}");
    assert_eq!(world.tasks().len(), 2);
    world.ok(&["run", "Look around", "--model", &model]);

    let refused = world.sortie(&["store", "copy", "--to", "file"]);
    assert_eq!(refused.code, Some(3), "{refused:#?}");
    assert!(
        refused.err.contains("already contains 2 tasks"),
        "{refused:#?}"
    );
    std::fs::remove_file(world.home().join("sortie.db")).unwrap();
    let back = world.ok(&["store", "copy", "--to", "file"]);
    assert!(back.out.contains("4 tasks"), "{back:#?}");
    assert!(back.err.contains("checking the copy"), "{back:#?}");

    let checked = world.json(&["store", "check", "--json"]);
    assert_eq!(checked["tasks"], 4, "{checked}");
    assert_eq!(checked["problems"], serde_json::json!([]), "{checked}");
    let backup = world.folder().join("backup.db").display().to_string();
    let saved = world.json(&["store", "backup", &backup, "--json"]);
    assert_eq!(saved["tasks"], 4, "{saved}");
    let migrated = world.json(&["store", "migrate", "--json"]);
    assert_eq!(migrated["from"], migrated["to"], "{migrated}");
}
