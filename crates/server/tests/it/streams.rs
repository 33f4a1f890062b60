//! Tests of server-sent events.

use std::time::Duration;

use futures::StreamExt as _;
use reqwest::{Method, RequestBuilder, header};
use serde_json::{Value, json};

use crate::support::{SAYS_DONE, World};

const PATIENCE: Duration = Duration::from_secs(20);

/// One event of a stream.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) data: Value,
}

/// A stream of events.
pub(crate) struct Events {
    bytes: futures::stream::BoxStream<'static, Vec<u8>>,
    rest: String,
}

impl Events {
    pub(crate) async fn open(request: RequestBuilder) -> Self {
        let response = request
            .header(header::ACCEPT, "text/event-stream")
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(
            response.headers()[header::CONTENT_TYPE],
            "text/event-stream"
        );
        let bytes = response.bytes_stream();
        Self {
            bytes: bytes
                .map(|bytes| bytes.unwrap_or_default().to_vec())
                .boxed(),
            rest: String::new(),
        }
    }

    /// Returns the next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((block, rest)) = self.rest.split_once("\n\n") {
                let event = parse(block);
                self.rest = rest.to_owned();
                if event.is_some() {
                    return event;
                }
                continue;
            }
            let more = tokio::time::timeout(PATIENCE, self.bytes.next())
                .await
                .expect("something comes")?;
            self.rest.push_str(std::str::from_utf8(&more).unwrap());
        }
    }

    pub(crate) async fn until(&mut self, name: &str) -> Event {
        loop {
            let event = self.next().await.expect("it goes on");
            if event.name == name {
                return event;
            }
        }
    }
}

fn parse(block: &str) -> Option<Event> {
    let field = |name: &str| {
        block
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .map(|value| value.trim_start().to_owned())
    };
    Some(Event {
        id: field("id:"),
        name: field("event:")?,
        data: serde_json::from_str(&field("data:")?).unwrap(),
    })
}

#[tokio::test]
async fn journal_stream_ends_with_the_task_and_resumes_after_a_restart() {
    let world = World::begin(SAYS_DONE).await;
    world.stage.model().block("slow");
    let id = world.task(&json!({"message": "x", "label": "slow"})).await;
    world.stage.until_prompted("slow", 1).await;
    let path = format!("/api/tasks/{id}/events");
    let mut events = Events::open(world.get(&path)).await;
    let first = events.next().await.unwrap();
    assert_eq!(
        (first.id.as_deref(), first.name.as_str()),
        (Some("1"), "admitted")
    );
    let claimed = events.until("claimed").await.id.unwrap();
    let world = world.restart().await;
    world.stage.model().release("slow");
    let again = world.get(&path).header("Last-Event-ID", &claimed);
    let mut events = Events::open(again).await;
    let mut seq: i64 = claimed.parse().unwrap();
    let mut last = String::new();
    while let Some(event) = events.next().await {
        seq += 1;
        assert_eq!(event.id.unwrap(), seq.to_string(), "without gaps");
        last = event.name;
    }
    assert_eq!(last, "finished", "and the stream ends");
}

#[tokio::test]
async fn text_is_streamed_during_a_completion() {
    let world = World::begin(SAYS_DONE).await;
    world.stage.model().block("slow");
    let id = world.task(&json!({"message": "x", "label": "slow"})).await;
    world.stage.until_prompted("slow", 1).await;
    let mut events = Events::open(world.get(&format!("/api/tasks/{id}/events?text=true"))).await;
    events.until("claimed").await;
    world.stage.model().release("slow");
    let mut text = String::new();
    while let Some(event) = events.next().await {
        if event.name == "text" {
            assert_eq!(event.id, None);
            text.push_str(event.data["text"].as_str().unwrap());
        }
    }
    assert_eq!(text, "done");
}

#[tokio::test]
async fn all_events_stream_with_a_snapshot_first_and_resume() {
    let world = World::begin(SAYS_DONE).await;
    let mut events = Events::open(world.get("/api/events")).await;
    let snapshot = events.next().await.unwrap();
    assert_eq!(snapshot.name, "snapshot");
    let place = snapshot.id.unwrap();
    let id = world.task(&json!({"message": "x"})).await;
    let completed = events.until("completed").await;
    assert_eq!(completed.data["task_id"], id);
    drop(events);
    let again = world.get("/api/events").header("Last-Event-ID", &place);
    let mut events = Events::open(again).await;
    assert_eq!(
        events.next().await.unwrap().name,
        "queued",
        "not a snapshot again"
    );
    let place = events.until("completed").await.id.unwrap();
    let world = world.restart().await;
    let again = world.get("/api/events").header("Last-Event-ID", &place);
    let mut events = Events::open(again).await;
    assert_eq!(
        events.next().await.unwrap().name,
        "snapshot",
        "another life"
    );
}

#[tokio::test]
async fn a_message_streams_its_answer() {
    let world = World::begin(SAYS_DONE).await;
    let request = world.post("/api/sessions/web:chat/messages", &json!({"text": "hello"}));
    let mut events = Events::open(request).await;
    let accepted = events.next().await.unwrap();
    assert_eq!(accepted.name, "accepted");
    assert_eq!(accepted.data["steered"], false);
    let mut text = String::new();
    let done = loop {
        let event = events.next().await.unwrap();
        match event.name.as_str() {
            "text" => text.push_str(event.data["text"].as_str().unwrap()),
            "done" => break event.data,
            _ => {}
        }
    };
    assert_eq!(text, "done");
    assert_eq!(done["status"], "completed");
    assert_eq!(done["task_id"], accepted.data["task_id"]);
    assert!(events.next().await.is_none(), "and ends");
}

#[tokio::test]
async fn streams_end_with_the_key_and_with_the_secret() {
    let world = World::begin(SAYS_DONE).await;
    let make = async |name: &str| {
        let input = json!({"name": name, "role": "viewer"});
        let made = world.json(world.post("/api/keys", &input)).await;
        let read = |value: &Value| value.as_str().unwrap().to_owned();
        (read(&made["key"]["id"]), read(&made["token"]))
    };
    let open = async |token: &str| {
        let request = world.request(Method::GET, "/api/events", token);
        let mut events = Events::open(request).await;
        events.until("snapshot").await;
        events
    };
    let (revoked, token) = make("revoked").await;
    let mut of_revoked = open(&token).await;
    let (rotated, token) = make("rotated").await;
    let mut of_rotated = open(&token).await;
    let (mut socket, _) = crate::live::Client::connect(&world, &token).await;
    let (graced, token) = make("graced").await;
    let mut of_graced = open(&token).await;
    let revoke = format!("/api/keys/{revoked}");
    let revoke = world.request(Method::DELETE, &revoke, &world.tokens.admin);
    world.json(revoke).await;
    for (id, body) in [
        (rotated, json!({})),
        (graced, json!({"grace_seconds": 3600})),
    ] {
        let path = format!("/api/keys/{id}/rotate");
        world.json(world.post(&path, &body)).await;
    }
    // At the next heartbeat at the latest.
    let (first, second, ()) =
        tokio::join!(of_revoked.next(), of_rotated.next(), socket.until_refused());
    assert!(first.is_none() && second.is_none(), "{first:?} {second:?}");
    let id = world.task(&json!({"message": "x"})).await;
    let completed = of_graced.until("completed").await;
    assert_eq!(completed.data["task_id"], id, "in its grace it goes on");
}

#[tokio::test]
async fn streamed_message_ends_with_done_for_a_slow_client() {
    // Enough events of other runs to evict this run's end from the hub.
    const RESTING: usize = 50;
    const ROUNDS: usize = 60;
    const TURNS: usize = 4;
    let long = "{{task}}".repeat(40);
    let turns: String = (1..=TURNS)
        .map(|turn| {
            format!(
                "  - when: {{ turn: {turn} }}\n    say: \"{long}\"\n    \
                 calls: [{{ tool: list_dir, args: {{ path: \".\" }} }}]\n"
            )
        })
        .collect();
    let world = World::begin(&format!("{turns}  - say: \"done\"\n")).await;
    let hello = "w".repeat(100_000);
    let request = world.post("/api/sessions/web:chat/messages", &json!({"text": hello}));
    let mut events = Events::open(request).await;
    let accepted = events.next().await.unwrap();
    let id = accepted.data["task_id"].as_str().unwrap();
    // From here on the client reads nothing until the run has ended.
    world.stage.end_of(id.parse().unwrap()).await;
    world.stage.model().block("rests");
    let made = (0..RESTING).map(|_| world.stage.create(world.stage.new_task("explore", "rests")));
    let runs = futures::future::join_all(made).await;
    let runtime = world.stage.runtime();
    for _ in 0..ROUNDS {
        let paused = futures::future::join_all(runs.iter().map(|run| runtime.pause(*run))).await;
        assert!(paused.iter().all(Result::is_ok));
        futures::future::join_all(runs.iter().map(|run| runtime.unpause(*run))).await;
    }
    let mut ends = 0;
    let done = loop {
        let event = events.next().await.expect("it ends with `done`");
        ends += usize::from(event.data["type"] == "completed");
        if event.name == "done" {
            break event.data;
        }
    };
    assert_eq!(done["status"], "completed");
    assert_eq!(ends, 0, "it was too slow to hear of the end");
}
