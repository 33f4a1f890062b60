//! Tests of limits against hostile and broken clients.

use std::time::Duration;

use reqwest::header;
use serde_json::json;
use sortie_server::ServerLimits;
use sortie_test_support::stage::until;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::live::Client;
use crate::support::{SAYS_DONE, World, answer, slug};

/// Returns timeouts short enough for a test.
fn quick() -> ServerLimits {
    ServerLimits {
        header_timeout: Duration::from_millis(300),
        body_timeout: Duration::from_millis(300),
        ..crate::support::patient()
    }
}

async fn raw(world: &World, text: &str) -> String {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let reading = stream.read_to_end(&mut answer);
    // The server has to respond or close the connection long before this.
    tokio::time::timeout(Duration::from_secs(20), reading)
        .await
        .expect("the server lets go")
        .ok();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn endless_head_times_out() {
    let world = World::with(SAYS_DONE, quick()).await;
    let answer = raw(&world, "GET /api/me HTTP/1.1\r\nHost: x\r\nX-Slow: ").await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 408"),
        "{answer}"
    );
}

#[tokio::test]
async fn endless_body_times_out() {
    let world = World::with(SAYS_DONE, quick()).await;
    let head = format!(
        "POST /api/tasks HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{\"mess",
        world.address, world.tokens.admin
    );
    let answer = raw(&world, &head).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("urn:sortie:problem:timeout"), "{answer}");
}

#[tokio::test]
async fn oversized_head_is_refused() {
    let world = World::with(SAYS_DONE, quick()).await;
    let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(100_000));
    let answer = raw(&world, &long).await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
        "{answer}"
    );
    let many = format!(
        "GET / HTTP/1.1\r\nHost: x\r\n{}\r\n",
        "A: b\r\n".repeat(100)
    );
    let answer = raw(&world, &many).await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
        "{answer}"
    );
}

#[tokio::test]
async fn connections_that_are_not_http_do_not_block_clients() {
    let world = World::with(SAYS_DONE, quick()).await;
    for text in [
        "\0\0\0\0",
        "HELO\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "\u{16}\u{3}\u{1}",
    ] {
        raw(&world, text).await;
    }
    let two_hosts = format!(
        "GET /api/me HTTP/1.1\r\nHost: {0}\r\nHost: {0}\r\nConnection: close\r\n\
         Authorization: Bearer {1}\r\n\r\n",
        world.address, world.tokens.admin
    );
    let answered = raw(&world, &two_hosts).await;
    assert!(answered.starts_with("HTTP/1.1 4"), "{answered}");
    let absolute = format!(
        "GET http://evil.example/api/me HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
         Authorization: Bearer {}\r\n\r\n",
        world.address, world.tokens.admin
    );
    let answered = raw(&world, &absolute).await;
    assert!(answered.starts_with("HTTP/1.1 421"), "{answered}");
    assert_eq!(answer(world.get("/api/me")).await.0, 200);
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_their_turn() {
    let limits = ServerLimits {
        connections: 2,
        ..quick()
    };
    let world = World::with(SAYS_DONE, limits).await;
    let first = TcpStream::connect(world.address).await.unwrap();
    let second = TcpStream::connect(world.address).await.unwrap();
    // The server closes both silent connections, so a new client is served.
    assert_eq!(answer(world.get("/api/me")).await.0, 200);
    drop((first, second));
}

/// Returns limits without timeouts: the tests check which connection is closed for a new one.
fn crowded() -> ServerLimits {
    ServerLimits {
        connections: 8,
        header_timeout: Duration::from_secs(3_600),
        ..crate::support::patient()
    }
}

#[tokio::test]
async fn silent_connections_do_not_block_clients() {
    let world = World::with(SAYS_DONE, crowded()).await;
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(TcpStream::connect(world.address).await.unwrap());
        let request = tokio::time::timeout(Duration::from_secs(20), answer(world.get("/api/me")));
        assert_eq!(request.await.expect("somebody made room").0, 200);
    }
}

#[tokio::test]
async fn authenticated_connections_are_not_closed_for_new_ones() {
    let world = World::with(SAYS_DONE, crowded()).await;
    let mut clients = Vec::new();
    for _ in 0..7 {
        clients.push(Client::connect(&world, &world.tokens.viewer).await.0);
    }
    for (n, client) in clients.iter_mut().enumerate() {
        client.send(&json!({"type": "ping", "n": n})).await;
        assert_eq!(client.until("pong").await["n"], n);
    }
}

#[tokio::test]
async fn slow_handler_gets_503_timeout() {
    let limits = ServerLimits {
        handler_timeout: Duration::ZERO,
        ..quick()
    };
    let world = World::with(SAYS_DONE, limits).await;
    let request = world
        .post("/api/tasks", &json!({"message": "x"}))
        .header("Idempotency-Key", "late");
    let (status, problem) = answer(request).await;
    assert_eq!((status.as_u16(), slug(&problem)), (503, "timeout"));
    assert_eq!(problem["status"], 503);
    // The request completes although its response timed out.
    until("the task", async || {
        world.stage.records().await.pop().map(|_| ())
    })
    .await;
}

/// Sends the head of a request whose body is still to come.
async fn announce(world: &World, token: &str, path: &str, length: usize) -> TcpStream {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{{",
        world.address
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn announced_but_unsent_bytes_reserve_no_memory() {
    let world = World::begin(SAYS_DONE).await;
    world.stage.model().block("held");
    let id = world.task(&json!({"message": "x", "label": "held"})).await;
    let mut slow = Vec::new();
    for _ in 0..24 {
        let most = 4 * 1024 * 1024;
        slow.push(announce(&world, &world.tokens.acme_operator, "/api/tasks", most).await);
    }
    // A further request of the same key ensures that the earlier ones have begun.
    let own = world.request(reqwest::Method::GET, "/api/me", &world.tokens.acme_operator);
    assert_eq!(answer(own).await.0, 200);
    let cancel = world.post(&format!("/api/tasks/{id}/cancel"), &json!({}));
    let (status, body) = answer(cancel).await;
    assert_eq!(status, 200, "{body}");
    drop(slow);
}

#[tokio::test]
async fn excess_bodies_get_503_and_do_not_affect_other_keys() {
    const LARGE: usize = 4 * 1024 * 1024;
    let world = World::begin(SAYS_DONE).await;
    let mut large = Vec::new();
    for _ in 0..4 {
        // The whole body except its end.
        let mut stream = announce(&world, &world.tokens.acme_operator, "/api/tasks", LARGE).await;
        stream.write_all(&vec![b' '; LARGE - 2]).await.unwrap();
        large.push(stream);
    }
    let small = |token: &str| {
        let path = "/api/tasks/00000000-0000-7000-8000-000000000000/steer";
        world
            .request(reqwest::Method::POST, path, token)
            .json(&json!({"text": "x"}))
    };
    let refused = until("the share is taken", async || {
        let response = small(&world.tokens.acme_operator).send().await.unwrap();
        (response.status() == 503).then_some(response)
    })
    .await;
    assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
    let problem = refused.json().await.unwrap();
    assert_eq!(slug(&problem), "unavailable");
    let other_of_tenant = small(&world.tokens.acme);
    assert_eq!(answer(other_of_tenant).await.0, 503, "it is the tenant's");
    let (status, body) = answer(small(&world.tokens.operator)).await;
    assert_eq!(status, 404, "another's share: {body}");
    drop(large);
    until("room again", async || {
        let (status, _) = answer(small(&world.tokens.acme_operator)).await;
        (status == 404).then_some(())
    })
    .await;
}
