//! Tests that long responses are compressed for clients that accept it, and streams never.

use std::io::Read as _;

use reqwest::{RequestBuilder, Response, header};
use serde_json::json;

use crate::support::{SAYS_DONE, World};

async fn send(request: RequestBuilder, accepted: &str) -> Response {
    let request = request.header(header::ACCEPT_ENCODING, accepted);
    request.send().await.unwrap()
}

fn is_compressed(response: &Response) -> bool {
    response.headers().get(header::CONTENT_ENCODING) == Some(&"gzip".parse().unwrap())
}

#[tokio::test]
async fn long_json_is_compressed_and_unpacks_to_the_same_bytes() {
    let world = World::begin(SAYS_DONE).await;
    let plain = send(world.get("/api/openapi.json"), "identity").await;
    assert!(!is_compressed(&plain));
    assert_eq!(plain.headers()[header::VARY], "accept-encoding");
    let plain = plain.bytes().await.unwrap();
    let packed = send(world.get("/api/openapi.json"), "gzip, br").await;
    assert!(is_compressed(&packed));
    assert_eq!(packed.headers()[header::VARY], "accept-encoding");
    assert_eq!(packed.headers()["x-content-type-options"], "nosniff");
    let length: usize = packed.headers()[header::CONTENT_LENGTH]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    let packed = packed.bytes().await.unwrap();
    assert_eq!(packed.len(), length);
    assert!(packed.len() * 4 < plain.len(), "{}", packed.len());
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&packed[..])
        .read_to_end(&mut unpacked)
        .unwrap();
    assert_eq!(unpacked, plain);
}

#[tokio::test]
async fn short_responses_and_streams_are_not_compressed() {
    let world = World::begin(SAYS_DONE).await;
    assert!(!is_compressed(&send(world.get("/api/me"), "gzip").await));
    let head = world.request(
        reqwest::Method::HEAD,
        "/api/openapi.json",
        &world.tokens.admin,
    );
    assert!(!is_compressed(&send(head, "gzip").await));
    let mut stream = send(world.get("/api/events"), "gzip").await;
    assert!(!is_compressed(&stream));
    // Its first event arrives at once, which a compressor would hold back.
    let first = stream.chunk().await.unwrap().unwrap();
    let first = String::from_utf8(first.to_vec()).unwrap();
    assert!(first.contains("data:"), "{first}");
    let task = world.task(&json!({"message": "do it"})).await;
    world.until_status(&task, "completed").await;
    let journal = world
        .get(&format!("/api/tasks/{task}/events"))
        .header(header::ACCEPT, "text/event-stream");
    assert!(!is_compressed(&send(journal, "gzip").await));
}
