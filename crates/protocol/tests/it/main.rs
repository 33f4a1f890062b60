//! Tests of the client against the real server.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should say where"
)]

mod patient;
mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sortie_base::secret::Secret;
use sortie_core::id::RunId;
use sortie_core::run::Status;
use sortie_protocol::client::{Client, ClientError, EventStream, StreamItem};
use sortie_protocol::{ForkBody, LiveEvent, NewTask, NotificationKind, Proof, Role};

use support::{PROOF, World};

/// The time limit of a test.
const PATIENCE: Duration = Duration::from_secs(20);

fn task(message: &str) -> NewTask {
    serde_json::from_value(serde_json::json!({ "message": message })).unwrap()
}

/// Reads events until a task has completed.
async fn until_completed(events: &mut EventStream, run: RunId) -> LiveEvent {
    let ended = async {
        loop {
            if let StreamItem::Event(event) = events.next().await.unwrap().unwrap()
                && event.event.task_id == run
                && matches!(event.event.kind, NotificationKind::Completed { .. })
            {
                return *event;
            }
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.unwrap()
}

#[tokio::test]
async fn repeated_idempotency_key_creates_one_task() {
    let world = World::begin().await;
    let client = world.client();
    assert_eq!(client.me().await.unwrap().role, Role::Admin);
    let first = client.create(&task("look"), "wish-1").await.unwrap();
    let again = client.create(&task("look"), "wish-1").await.unwrap();
    assert_eq!(first.task_id, again.task_id);
    let other = client.create(&task("look"), "wish-2").await.unwrap();
    assert_ne!(first.task_id, other.task_id);
    let mismatch = client.create(&task("listen"), "wish-1").await.unwrap_err();
    assert_eq!(mismatch.slug(), Some("idempotency-mismatch"));
}

#[tokio::test]
async fn event_stream_resumes_after_the_last_event() {
    let world = World::begin().await;
    let client = world.client();
    let mut events = client.events(None).await.unwrap();
    let first = client.create(&task("one"), "one").await.unwrap().task_id;
    let ended = until_completed(&mut events, first).await;
    assert!(matches!(ended.event.kind, NotificationKind::Completed { result } if result == "done"));
    let last_id = events.last_id().unwrap().to_owned();
    drop(events);
    // This task is created while no stream is open.
    let second = client.create(&task("two"), "two").await.unwrap().task_id;
    world.stage.end_of(second).await;
    let mut events = client.events(Some(&last_id)).await.unwrap();
    until_completed(&mut events, second).await;
}

#[tokio::test]
async fn resume_from_an_earlier_server_epoch_reports_a_gap() {
    let mut world = World::begin().await;
    let mut events = world.client().events(None).await.unwrap();
    let first = world.client().create(&task("one"), "one").await.unwrap();
    until_completed(&mut events, first.task_id).await;
    let last_id = events.last_id().unwrap().to_owned();
    drop(events);
    world.stop().await;
    world.serve_again().await;
    let client = world.client();
    let mut events = client.events(Some(&last_id)).await.unwrap();
    let received = tokio::time::timeout(PATIENCE, events.next()).await.unwrap();
    assert_eq!(received.unwrap(), Some(StreamItem::Missed(None)));
    // A new client has missed nothing.
    let mut events = client.events(None).await.unwrap();
    let second = client.create(&task("two"), "two").await.unwrap();
    let received = tokio::time::timeout(PATIENCE, events.next()).await.unwrap();
    let received = received.unwrap().unwrap();
    assert!(
        matches!(&received, StreamItem::Event(event) if event.event.task_id == second.task_id),
        "{received:?}"
    );
}

#[tokio::test]
async fn a_task_is_forked_retried_and_deleted() {
    let world = World::begin().await;
    let client = world.client();
    let run = client.create(&task("one"), "one").await.unwrap().task_id;
    world.stage.end_of(run).await;
    let body = ForkBody {
        at: 1,
        model: None,
        mode: None,
    };
    let forked = client.fork(run, &body, "fork").await.unwrap().task_id;
    let again = client.fork(run, &body, "fork").await.unwrap().task_id;
    assert_eq!(forked, again);
    let retried = client.retry(run, "retry").await.unwrap().task_id;
    for made in [forked, retried] {
        assert_ne!(made, run);
        assert_eq!(world.stage.end_of(made).await.status, Status::Completed);
    }
    assert_eq!(client.delete(run).await.unwrap().deleted, 1);
    let gone = client.cancel(run, "no more").await.unwrap_err();
    assert_eq!(gone.slug(), Some("not-found"));
    assert!(!gone.is_transient());
}

#[tokio::test]
async fn server_with_another_secret_gets_no_token() {
    let world = World::begin().await;
    let stranger = Client::new(world.address, &world.token, Proof::new([6; 32])).unwrap();
    let refused = stranger.create(&task("x"), "x").await.unwrap_err();
    assert!(
        matches!(refused, ClientError::Unverified { address } if address == world.address),
        "{refused:?}"
    );
    assert!(!refused.is_transient());
    let refused = stranger.events(None).await.unwrap_err();
    assert!(
        matches!(refused, ClientError::Unverified { .. }),
        "{refused:?}"
    );
    assert_eq!(world.stage.records().await.len(), 0);
    let address = world.address;
    let found = stranger.with_finder(move || Some((address, PROOF)));
    found.create(&task("x"), "x").await.unwrap();
}

#[tokio::test]
async fn request_follows_a_server_that_was_restarted_at_another_address() {
    let mut world = World::begin().await;
    let place = Arc::new(Mutex::new(Some((world.address, PROOF))));
    let looked = Arc::clone(&place);
    let client = world.client().with_finder(move || *looked.lock().unwrap());
    client.create(&task("one"), "one").await.unwrap();
    world.stop().await;
    *place.lock().unwrap() = None;
    let created = tokio::spawn({
        let client = client.clone();
        async move { client.create(&task("two"), "two").await }
    });
    world.serve_again().await;
    // The old address now belongs to another program, or to none.
    assert_ne!(world.address, client.address());
    *place.lock().unwrap() = Some((world.address, PROOF));
    let made = created.await.unwrap().unwrap();
    let again = client.create(&task("two"), "two").await.unwrap();
    assert_eq!(made.task_id, again.task_id);
    client.events(None).await.unwrap();
    assert_eq!(world.stage.records().await.len(), 2);
}

#[tokio::test]
async fn wrong_token_is_refused_and_a_missing_server_is_transient() {
    let mut world = World::begin().await;
    let token = Secret::new("sortie_aaaaaaaa_wrong");
    let client = Client::new(world.address, &token, PROOF).unwrap();
    let refused = client.me().await.unwrap_err();
    assert_eq!(refused.slug(), Some("unauthorized"), "{refused:?}");
    assert!(!refused.is_transient());
    let client = world.client();
    client.me().await.unwrap();
    world.stop().await;
    let gone = client.me().await.unwrap_err();
    assert!(matches!(gone, ClientError::Unreachable { .. }), "{gone:?}");
    assert!(gone.is_transient());
    let bad = Client::new(world.address, &Secret::new("a\nb"), PROOF);
    assert!(matches!(bad, Err(ClientError::BadToken)), "{bad:?}");
}
