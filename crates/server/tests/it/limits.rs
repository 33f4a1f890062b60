//! What a hostile or broken client cannot do.

use std::time::Duration;

use serde_json::json;
use sortie_server::ServerLimits;
use sortie_test_support::stage::until;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::live::Client;
use crate::support::{SAYS_DONE, World, answer, slug};

/// Limits that a test can wait for.
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
    // Everything here has to be answered or closed by the server, long before this.
    tokio::time::timeout(Duration::from_secs(20), reading)
        .await
        .expect("the server lets go")
        .ok();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_head_that_never_ends_is_given_up() {
    let world = World::with(SAYS_DONE, quick()).await;
    let answer = raw(&world, "GET /api/me HTTP/1.1\r\nHost: x\r\nX-Slow: ").await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 408"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_body_that_never_ends_is_given_up() {
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
async fn a_head_that_is_too_large_is_refused() {
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
async fn nobody_is_kept_out_by_what_is_not_http() {
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
    // Both say nothing, are given up, and make room.
    assert_eq!(answer(world.get("/api/me")).await.0, 200);
    drop((first, second));
}

/// Nobody is given up for being slow here: what is tested is who has to make room.
fn crowded() -> ServerLimits {
    ServerLimits {
        connections: 8,
        header_timeout: Duration::from_secs(3_600),
        ..crate::support::patient()
    }
}

#[tokio::test]
async fn whoever_says_nothing_keeps_nobody_out() {
    let world = World::with(SAYS_DONE, crowded()).await;
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(TcpStream::connect(world.address).await.unwrap());
        let asked = tokio::time::timeout(Duration::from_secs(20), answer(world.get("/api/me")));
        assert_eq!(asked.await.expect("somebody made room").0, 200);
    }
}

#[tokio::test]
async fn clients_with_a_token_stay_however_many_they_are() {
    let world = World::with(SAYS_DONE, crowded()).await;
    let mut clients = Vec::new();
    for _ in 0..7 {
        clients.push(Client::connect(&world, &world.tokens.viewer).await.0);
    }
    for (n, client) in clients.iter_mut().enumerate() {
        client.say(&json!({"type": "ping", "n": n})).await;
        assert_eq!(client.until("pong").await["n"], n);
    }
}

#[tokio::test]
async fn an_answer_that_takes_too_long_is_one_thing_in_status_and_words() {
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
    // What was begun is not given up with the answer.
    until("the task", async || {
        world.stage.records().await.pop().map(|_| ())
    })
    .await;
}
