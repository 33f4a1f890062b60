//! Tests of the WebSocket.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::support::{SAYS_DONE, World};

/// The most time that a test waits for an expected message.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Client(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Client {
    /// Connects and reads the first message.
    pub(crate) async fn connect(world: &World, token: &str) -> (Self, Value) {
        let mut request = format!("ws://{}/api/ws", world.address)
            .into_client_request()
            .unwrap();
        let token = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert("authorization", token);
        let (socket, _) = connect_async(request).await.unwrap();
        let mut client = Self(socket);
        let hello = client.next().await;
        assert_eq!(hello["type"], "hello");
        (client, hello)
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.0
            .send(Message::text(message.to_string()))
            .await
            .unwrap();
    }

    async fn raw(&mut self) -> Message {
        tokio::time::timeout(PATIENCE, self.0.next())
            .await
            .expect("a message")
            .expect("the connection is open")
            .expect("a message that can be read")
    }

    pub(crate) async fn next(&mut self) -> Value {
        loop {
            let message = self.raw().await;
            if let Message::Text(text) = &message {
                return serde_json::from_str(text).unwrap();
            }
            let is_between = matches!(message, Message::Ping(_) | Message::Pong(_));
            assert!(is_between, "not a message: {message:?}");
        }
    }

    /// Waits until the server closes the connection because the key is no longer valid.
    pub(crate) async fn until_refused(&mut self) {
        loop {
            if let Message::Close(frame) = self.raw().await {
                assert_eq!(frame.unwrap().code, CloseCode::Policy);
                return;
            }
        }
    }

    /// Reads until the next message of this type.
    pub(crate) async fn until(&mut self, kind: &str) -> Value {
        loop {
            let message = self.next().await;
            if message["type"] == kind {
                return message;
            }
        }
    }

    pub(crate) async fn subscribe(&mut self, input: Value) -> Value {
        let mut whole = json!({"type": "subscribe", "id": "s", "scope": "all"});
        whole
            .as_object_mut()
            .unwrap()
            .extend(input.as_object().unwrap().clone());
        self.send(&whole).await;
        self.until("subscribed").await
    }
}

#[tokio::test]
async fn library_and_websocket_give_the_same_json_for_the_same_event() {
    let world = World::begin(SAYS_DONE).await;
    let mut library = world.stage.runtime().subscribe();
    let (mut client, _) = Client::connect(&world, &world.tokens.viewer).await;
    client.subscribe(json!({})).await;
    client.until("snapshot").await;
    world.task(&json!({"message": "x"})).await;
    let mut sent = Vec::new();
    while sent
        .last()
        .is_none_or(|event: &Value| event["type"] != "completed")
    {
        let mut message = client.next().await;
        // The other messages concern the connection, or contain whole records.
        if message["task_seq"].is_i64() {
            message.as_object_mut().unwrap().remove("seq").unwrap();
            sent.push(message);
        }
    }
    let mut published = Vec::new();
    while published
        .last()
        .is_none_or(|event: &Value| event["type"] != "completed")
    {
        let event = library.try_recv().unwrap();
        if !event.kind.is_internal() {
            published.push(serde_json::to_value(&event).unwrap());
        }
    }
    assert_eq!(sent, published);
    assert_eq!(sent[0]["type"], "queued");
}

#[tokio::test]
async fn a_client_gets_a_snapshot_and_then_every_event_in_order() {
    let world = World::begin(SAYS_DONE).await;
    world.stage.model().block("one");
    let id = world.task(&json!({"message": "x", "label": "one"})).await;
    world.stage.until_prompted("one", 1).await;
    let (mut client, hello) = Client::connect(&world, &world.tokens.viewer).await;
    assert_eq!(hello["heartbeat_ms"], 15_000);
    assert_eq!(hello["me"]["name"], "vera");
    let subscribed = client.subscribe(json!({"text": true})).await;
    assert_eq!(subscribed["resumed"], false);
    let snapshot = client.next().await;
    assert_eq!(snapshot["type"], "snapshot");
    assert_eq!(snapshot["tasks"][0]["task_id"], id);
    assert_eq!(snapshot["truncated"], false);
    let mut seq = snapshot["seq"].as_u64().unwrap();
    world.stage.model().release("one");
    loop {
        let message = client.next().await;
        if let Some(next) = message["seq"].as_u64() {
            assert!(next > seq, "{message} after {seq}");
            seq = next;
        }
        if message["type"] == "completed" {
            assert_eq!(message["result"], "done");
            assert_eq!(message["task_id"], id);
            break;
        }
    }
    let records = client.until("tasks").await;
    assert_eq!(
        records["tasks"][0]["status"], "completed",
        "the record follows"
    );
    client.send(&json!({"type": "ping", "n": 7})).await;
    assert_eq!(client.until("pong").await["n"], 7);
}

#[tokio::test]
async fn reconnected_client_resumes_after_its_last_event() {
    let world = World::begin(SAYS_DONE).await;
    let (mut client, hello) = Client::connect(&world, &world.tokens.admin).await;
    client.subscribe(json!({})).await;
    let seq = client.until("snapshot").await["seq"].as_u64().unwrap();
    drop(client);
    let id = world.task(&json!({"message": "x"})).await;
    world.until_status(&id, "completed").await;
    let (mut client, _) = Client::connect(&world, &world.tokens.admin).await;
    let resume = json!({"resume": {"epoch": hello["epoch"], "seq": seq}});
    assert_eq!(client.subscribe(resume).await["resumed"], true);
    let first = client.next().await;
    assert_eq!(first["type"], "queued");
    assert_eq!(first["seq"], seq + 1, "nothing was missed");
    client.until("completed").await;
}

#[tokio::test]
async fn resume_from_another_epoch_or_an_evicted_event_gets_a_snapshot() {
    let world = World::begin(SAYS_DONE).await;
    let (mut client, hello) = Client::connect(&world, &world.tokens.admin).await;
    let other = json!({"resume": {"epoch": "other", "seq": 0}});
    assert_eq!(client.subscribe(other).await["resumed"], false);
    client.until("snapshot").await;
    let future = json!({"resume": {"epoch": hello["epoch"], "seq": 1_000_000}});
    assert_eq!(client.subscribe(future).await["resumed"], false);
    client.until("snapshot").await;
    let world = world.restart().await;
    let (mut client, again) = Client::connect(&world, &world.tokens.admin).await;
    assert_ne!(again["epoch"], hello["epoch"]);
    let before = json!({"resume": {"epoch": hello["epoch"], "seq": 0}});
    assert_eq!(client.subscribe(before).await["resumed"], false);
    client.until("snapshot").await;
}

#[tokio::test]
async fn subscriptions_get_only_events_of_their_scope() {
    let world = World::begin(SAYS_DONE).await;
    world.stage.model().block("mine");
    let input = json!({"message": "x", "label": "mine", "session_id": "web:a"});
    let mine = world.task(&input).await;
    world.stage.until_prompted("mine", 1).await;
    let (mut of_session, _) = Client::connect(&world, &world.tokens.viewer).await;
    of_session
        .subscribe(json!({"scope": "session", "session_id": "web:a"}))
        .await;
    let (mut of_task, _) = Client::connect(&world, &world.tokens.viewer).await;
    of_task
        .subscribe(json!({"scope": "task", "task_id": &mine[..18]}))
        .await;
    let other = world
        .task(&json!({"message": "x", "label": "other", "session_id": "web:b"}))
        .await;
    world.until_status(&other, "completed").await;
    world.stage.model().release("mine");
    for client in [&mut of_session, &mut of_task] {
        loop {
            let message = client.next().await;
            assert!(!message.to_string().contains(&other), "{message}");
            if message["type"] == "completed" {
                break;
            }
        }
    }
    of_task
        .send(&json!({"type": "subscribe", "id": "x", "scope": "task", "task_id": "nothing"}))
        .await;
    assert_eq!(of_task.until("error").await["code"], "not-found");
    of_task.send(&json!({"type": "shout"})).await;
    assert_eq!(of_task.until("error").await["code"], "bad-request");
}

#[tokio::test]
async fn subscriptions_and_messages_are_bounded() {
    let world = World::begin(SAYS_DONE).await;
    let (mut client, _) = Client::connect(&world, &world.tokens.viewer).await;
    for number in 0..32 {
        client.subscribe(json!({"id": number.to_string()})).await;
    }
    client
        .send(&json!({"type": "subscribe", "id": "more", "scope": "all"}))
        .await;
    assert_eq!(client.until("error").await["code"], "bad-request");
    client
        .send(&json!({"type": "unsubscribe", "id": "0"}))
        .await;
    client.subscribe(json!({"id": "more"})).await;
    client
        .0
        .send(Message::text("x".repeat(70 * 1024)))
        .await
        .unwrap();
    loop {
        if let Message::Close(frame) = client.raw().await {
            assert_eq!(frame.expect("a reason").code, CloseCode::Size);
            break;
        }
    }
}

#[tokio::test]
async fn stopping_server_closes_websockets_properly() {
    let mut world = World::begin(SAYS_DONE).await;
    let (mut client, _) = Client::connect(&world, &world.tokens.viewer).await;
    client.subscribe(json!({})).await;
    let goodbye = async {
        loop {
            if let Message::Close(frame) = client.raw().await {
                return frame.unwrap().code;
            }
        }
    };
    let (code, ()) = tokio::join!(goodbye, world.stop());
    assert_eq!(code, CloseCode::Away);
}

#[tokio::test]
async fn slow_client_gets_a_snapshot_and_delays_no_other() {
    // More bytes than the buffers of the connection hold, and then more events than the hub keeps.
    const LARGE: usize = 40;
    const RESTING: usize = 50;
    const ROUNDS: usize = 60;
    let long = "w".repeat(200_000);
    let world = World::begin(&format!("  - say: \"{long}\"\n")).await;
    let (mut client, _) = Client::connect(&world, &world.tokens.viewer).await;
    client.subscribe(json!({})).await;
    client.until("snapshot").await;
    // From here on the client reads nothing; the server and the runs continue.
    for _ in 0..LARGE {
        let run = world
            .stage
            .create(world.stage.new_task("explore", "large"))
            .await;
        world.stage.end_of(run).await;
    }
    world.stage.model().block("rests");
    let made = (0..RESTING).map(|_| world.stage.create(world.stage.new_task("explore", "rests")));
    let runs = futures::future::join_all(made).await;
    let runtime = world.stage.runtime();
    for _ in 0..ROUNDS {
        let paused = futures::future::join_all(runs.iter().map(|run| runtime.pause(*run))).await;
        assert!(paused.iter().all(Result::is_ok));
        futures::future::join_all(runs.iter().map(|run| runtime.unpause(*run))).await;
    }
    let missed = loop {
        let message = client.next().await;
        assert_ne!(message["type"], "heartbeat", "it never fell behind");
        if message["type"] == "snapshot" {
            assert_eq!(message["tasks"].as_array().unwrap().len(), RESTING);
            break message["missed"].as_u64().unwrap();
        }
    };
    assert!(missed > 0);
    let cancelled = runtime.cancel(runs[0], "enough").await;
    assert!(cancelled.is_ok());
    loop {
        let message = client.until("cancelled").await;
        if message["task_id"] == runs[0].to_string() {
            break;
        }
    }
    let metrics = world.get("/metrics").send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    assert!(
        !metrics.contains("sortie_events_missed_total 0\n"),
        "{metrics}"
    );
}

#[tokio::test]
async fn revoked_key_gets_no_more_events() {
    let world = World::begin(SAYS_DONE).await;
    let made = world
        .json(world.post("/api/keys", &json!({"name": "guest", "role": "viewer"})))
        .await;
    let (mut client, _) = Client::connect(&world, made["token"].as_str().unwrap()).await;
    let id = made["key"]["id"].as_str().unwrap();
    let revoke = world.request(
        reqwest::Method::DELETE,
        &format!("/api/keys/{id}"),
        &world.tokens.admin,
    );
    world.json(revoke).await;
    // At the next heartbeat at the latest.
    client.until_refused().await;
}

#[tokio::test]
async fn revoked_key_is_disconnected_even_if_it_reads_nothing() {
    // More bytes than the buffers of the connection hold.
    const LARGE: usize = 60;
    let long = "w".repeat(200_000);
    let world = World::begin(&format!("  - say: \"{long}\"\n")).await;
    let made = world
        .json(world.post("/api/keys", &json!({"name": "guest", "role": "viewer"})))
        .await;
    let (mut client, _) = Client::connect(&world, made["token"].as_str().unwrap()).await;
    client.subscribe(json!({})).await;
    for _ in 0..LARGE {
        let run = world
            .stage
            .create(world.stage.new_task("explore", "large"))
            .await;
        world.stage.end_of(run).await;
    }
    let id = made["key"]["id"].as_str().unwrap();
    let path = format!("/api/keys/{id}");
    let revoke = world.request(reqwest::Method::DELETE, &path, &world.tokens.admin);
    world.json(revoke).await;
    sortie_test_support::stage::until("it is let go", async || {
        let metrics = world.get("/metrics").send().await.unwrap();
        let metrics = metrics.text().await.unwrap();
        metrics
            .contains("sortie_websocket_clients 0\n")
            .then_some(())
    })
    .await;
    drop(client);
}

#[tokio::test]
async fn client_with_too_many_messages_is_disconnected() {
    let mut limits = crate::support::patient();
    limits.rate.per_second = 1.try_into().unwrap();
    limits.rate.burst = 20.try_into().unwrap();
    let world = World::with(SAYS_DONE, limits).await;
    let (mut client, _) = Client::connect(&world, &world.tokens.viewer).await;
    for n in 0..40 {
        // The server may close the connection before the client has sent every message.
        let ping = Message::text(json!({"type": "ping", "n": n}).to_string());
        if client.0.send(ping).await.is_err() {
            break;
        }
    }
    let mut answers = 0;
    let refused = loop {
        let message = client.raw().await;
        if let Message::Close(frame) = message {
            break frame.unwrap();
        }
        answers += usize::from(message.is_text());
    };
    assert_eq!(refused.code, CloseCode::Policy);
    assert!((10..30).contains(&answers), "{answers}");
}

#[tokio::test]
async fn client_is_not_read_before_it_has_read_its_responses() {
    let world = World::begin(SAYS_DONE).await;
    for _ in 0..20 {
        let id = world.task(&json!({"message": "x"})).await;
        world.until_status(&id, "completed").await;
    }
    let (mut client, hello) = Client::connect(&world, &world.tokens.viewer).await;
    let resume = json!({"epoch": hello["epoch"], "seq": 0});
    let seq = hello["seq"].as_u64().unwrap();
    let input = json!({"type": "subscribe", "id": "s", "scope": "all", "resume": resume});
    // Both messages are sent in one write, so that the second arrives before the response to the
    // first.
    let input = Message::text(input.to_string());
    client.0.feed(input).await.unwrap();
    let ping = Message::text(json!({"type": "ping", "n": 1}).to_string());
    client.0.feed(ping).await.unwrap();
    client.0.flush().await.unwrap();
    let mut received = 0;
    loop {
        let message = client.next().await;
        if message["type"] == "pong" {
            break;
        }
        received = message["seq"].as_u64().unwrap_or(received);
    }
    assert!(
        received >= seq,
        "{received} of {seq} when the next was heard"
    );
}
