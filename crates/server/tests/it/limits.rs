//! What a hostile or broken client cannot do.

use std::time::Duration;

use sortie_server::ServerLimits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{SAYS_DONE, World, answer};

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
