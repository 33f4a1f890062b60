//! Health checks while the store accepts no writes.

use serde_json::Value;

use crate::server::request;
use crate::world::World;

#[test]
fn a_server_that_cannot_write_is_not_ready_and_reports_why() {
    let world = World::new();
    let _server = world.serve();
    let token = std::fs::read_to_string(world.home().join("token")).unwrap();
    let ready = || {
        let (status, body) = request(&world, token.trim(), "GET", "/readyz");
        let health: Value = serde_json::from_str(&body).unwrap();
        (status, health)
    };
    assert_eq!(ready().0, 200);
    assert_eq!(world.sortie(&["status"]).code, Some(0));

    // A connection that holds the write lock blocks every write, as a full disk does.
    let other = rusqlite::Connection::open(world.home().join("sortie.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    world.until("a health check fails", |_| ready().0 == 503);
    let (_, health) = ready();
    assert_eq!(health["status"], "broken", "{health}");
    assert!(health["reason"].as_str().is_some(), "{health}");
    let output = world.sortie(&["status"]);
    assert_eq!(output.code, Some(1), "{output:#?}");
    assert!(output.out.contains("is not ready"), "{output:#?}");
    let state = world.json_any(&["status", "--json"]);
    assert_eq!(state["status"], "broken", "{state}");
    // Reads still succeed.
    assert_eq!(request(&world, token.trim(), "GET", "/api/tasks").0, 200);

    other.execute_batch("ROLLBACK").unwrap();
    world.until("the server is ready again", |_| ready().0 == 200);
    assert_eq!(world.sortie(&["status"]).code, Some(0));
}
