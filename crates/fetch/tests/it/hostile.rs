//! Tests of servers that never finish, never respond, or send too much.

use std::time::Duration;

use sortie_fetch::{BodyLimits, Url};

use crate::server::{Answer, Server, Then, answer};
use crate::{Table, anybody, guard};

const LIMITS: BodyLimits = BodyLimits {
    max_bytes: 1000,
    idle: Duration::from_millis(200),
    total: Duration::from_secs(5),
};
const HEAD: &str = "HTTP/1.1 200 Said\r\n";

/// Reads one response; returns the number of bytes or the error.
async fn read(reply: impl Fn() -> Answer + Send + Sync + 'static, limits: BodyLimits) -> String {
    let server = Server::start(move |_| reply()).await;
    let guard = guard(&[format!("127.0.0.1:{}", server.port)], Table::of(&[]));
    let url = Url::parse(&format!("http://127.0.0.1:{}/", server.port)).unwrap();
    let mut request = reqwest::Request::new(reqwest::Method::GET, url);
    *request.timeout_mut() = Some(Duration::from_secs(2));
    let response = match guard.execute(request, &anybody).await {
        Ok(response) => response,
        Err(error) => return format!("no answer: {error}"),
    };
    match response.head(limits).await {
        Ok(body) => format!("{} bytes, cut: {}", body.bytes.len(), body.cut),
        Err(error) => format!("no body: {error}"),
    }
}

fn raw(bytes: impl Into<Vec<u8>>, then: Then) -> Answer {
    Answer {
        bytes: bytes.into(),
        then,
    }
}

#[tokio::test]
async fn bodies_are_read_up_to_the_limit() {
    let check = async |reply: fn() -> Answer, expected: &str| {
        assert_eq!(read(reply, LIMITS).await, expected);
    };
    check(
        || answer(200, "", "x".repeat(1000)),
        "1000 bytes, cut: false",
    )
    .await;
    check(
        || answer(200, "", "x".repeat(1001)),
        "1000 bytes, cut: true",
    )
    .await;
    let endless = || raw(format!("{HEAD}\r\n"), Then::Repeat(vec![b'x'; 4096]));
    check(endless, "1000 bytes, cut: true").await;
    let chunks = || {
        let head = format!("{HEAD}transfer-encoding: chunked\r\n\r\n");
        raw(head, Then::Repeat(b"3\r\nabc\r\n".to_vec()))
    };
    check(chunks, "1000 bytes, cut: true").await;
    let cut = || raw(format!("{HEAD}content-length: 10\r\n\r\nhalf"), Then::Close);
    check(
        cut,
        "no body: 127.0.0.1 could not be reached, or the connection was lost",
    )
    .await;
    let silent = || {
        raw(
            format!("{HEAD}content-length: 10\r\n\r\nhalf"),
            Then::Silence,
        )
    };
    check(
        silent,
        "no body: 127.0.0.1 did not respond in time. Try again later, or use another source",
    )
    .await;
}

#[tokio::test]
async fn a_slow_server_times_out_although_it_keeps_sending() {
    // Every byte keeps the connection alive, but not beyond the total time limit.
    let limits = BodyLimits {
        max_bytes: usize::MAX,
        total: Duration::from_millis(300),
        ..LIMITS
    };
    let endless = || raw(format!("{HEAD}\r\n"), Then::Repeat(b"x".to_vec()));
    let shown = read(endless, limits).await;
    assert!(
        shown.starts_with("no body: 127.0.0.1 did not respond in time"),
        "{shown}"
    );
}

#[tokio::test]
async fn heads_are_bounded() {
    let endless_head = || raw(HEAD, Then::Repeat(b"x-more: and more\r\n".to_vec()));
    let long_line = || raw(format!("{HEAD}x: "), Then::Repeat(vec![b'x'; 4096]));
    let many = || {
        let lines: String = (0..1000).map(|n| format!("x-{n}: y\r\n")).collect();
        raw(format!("{HEAD}{lines}\r\n"), Then::Close)
    };
    for reply in [endless_head, long_line, many] {
        let shown = read(reply, LIMITS).await;
        assert!(shown.starts_with("no answer: 127.0.0.1"), "{shown}");
    }
    let silent = || raw("", Then::Silence);
    let shown = read(silent, LIMITS).await;
    assert!(
        shown.starts_with("no answer: 127.0.0.1 did not respond in time"),
        "{shown}"
    );
    let rubbish = || raw("SSH-2.0-OpenSSH\r\n", Then::Close);
    let shown = read(rubbish, LIMITS).await;
    assert!(
        shown.starts_with("no answer: 127.0.0.1 could not be reached"),
        "{shown}"
    );
}

#[tokio::test]
async fn compression_is_neither_requested_nor_decoded() {
    let server =
        Server::start(|_| answer(200, "content-encoding: gzip\r\n", "\x1f\u{8b}bomb")).await;
    let guard = guard(&[format!("127.0.0.1:{}", server.port)], Table::of(&[]));
    let url = Url::parse(&format!("http://127.0.0.1:{}/", server.port)).unwrap();
    let response = guard.get(url, &anybody).await.unwrap();
    let body = response.whole(LIMITS).await.unwrap();
    assert_eq!(body, "\x1f\u{8b}bomb".as_bytes());
    let request = server.seen().pop().unwrap().text.to_ascii_lowercase();
    assert!(!request.contains("accept-encoding"), "{request}");
}

#[tokio::test]
async fn a_body_with_a_too_large_content_length_is_not_read() {
    let server = Server::start(|_| {
        raw(
            format!("{HEAD}content-length: 99999\r\n\r\n"),
            Then::Silence,
        )
    })
    .await;
    let guard = guard(&[format!("127.0.0.1:{}", server.port)], Table::of(&[]));
    let url = Url::parse(&format!("http://127.0.0.1:{}/", server.port)).unwrap();
    let response = guard.get(url, &anybody).await.unwrap();
    let error = response.whole(LIMITS).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "The response of 127.0.0.1 is larger than 1000 bytes"
    );
}
