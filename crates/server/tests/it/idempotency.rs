//! Tests of requests that are sent again with the same idempotency key.

use reqwest::{Method, RequestBuilder, header};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use sortie_test_support::stage::until;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::support::{SAYS_DONE, World, answer, slug};

fn create(world: &World, token: &str, key: &str, body: &Value) -> RequestBuilder {
    world
        .request(Method::POST, "/api/tasks", token)
        .header("Idempotency-Key", key)
        .json(body)
}

async fn total(world: &World) -> u64 {
    let stats = world.json(world.get("/api/tasks/stats")).await;
    stats["total"].as_u64().unwrap()
}

#[tokio::test]
async fn repeated_idempotency_key_creates_one_task_across_a_restart() {
    let world = World::begin(SAYS_DONE).await;
    let admin = world.tokens.admin.clone();
    let input = json!({"message": "once"});
    let first = create(&world, &admin, "k1", &input).send().await.unwrap();
    assert_eq!(first.status(), 201);
    let place = first.headers()[header::LOCATION].clone();
    let body = first.text().await.unwrap();
    for world in [&world] {
        let again = create(world, &admin, "k1", &input).send().await.unwrap();
        assert_eq!(again.status(), 201);
        assert_eq!(again.headers()[header::LOCATION], place);
        assert_eq!(again.text().await.unwrap(), body);
    }
    let world = world.restart().await;
    let again = create(&world, &admin, "k1", &input).send().await.unwrap();
    assert_eq!(again.text().await.unwrap(), body, "to the byte");
    assert_eq!(total(&world).await, 1);
    let other = create(&world, &admin, "k1", &json!({"message": "other"}));
    let (status, problem) = answer(other).await;
    assert_eq!(
        (status.as_u16(), slug(&problem)),
        (422, "idempotency-mismatch")
    );
    let stranger = create(&world, &world.tokens.operator, "k1", &input);
    assert_eq!(answer(stranger).await.0, 201, "keys are the caller's own");
    assert_eq!(total(&world).await, 2);
    let long = create(&world, &admin, &"k".repeat(201), &input);
    assert_eq!(answer(long).await.0, 400);
}

#[tokio::test]
async fn refused_request_may_be_corrected_with_the_same_idempotency_key() {
    let world = World::begin(SAYS_DONE).await;
    let admin = &world.tokens.admin;
    let refused = create(&world, admin, "k", &json!({"message": ""}));
    assert_eq!(answer(refused).await.0, 400);
    let corrected = create(&world, admin, "k", &json!({"message": "x"}));
    assert_eq!(answer(corrected).await.0, 201);
}

#[tokio::test]
async fn concurrent_requests_with_one_idempotency_key_create_one_task() {
    let world = World::begin(SAYS_DONE).await;
    let input = json!({"message": "once"});
    let tries = (0..8).map(|_| answer(create(&world, &world.tokens.admin, "k", &input)));
    let answers = futures::future::join_all(tries).await;
    for (status, body) in &answers {
        let is_expected = match status.as_u16() {
            201 => true,
            409 => slug(body) == "under-way",
            _ => false,
        };
        assert!(is_expected, "{status}: {body}");
    }
    assert!(answers.iter().any(|(status, _)| *status == 201));
    assert_eq!(total(&world).await, 1);
}

/// Computes the server's digest of a request, so that a test can leave one incomplete.
fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    sortie_core::id::hex(&hash.finalize())
}

/// Records a request as begun without a response, as a process does that crashes in the middle.
async fn half_done(world: &World, path: &str, key: &str, body: &str) -> sortie_core::id::RunId {
    let id = world.tokens.admin.split('_').nth(1).unwrap();
    let run = world.stage.runtime().new_run_id();
    let key = digest(&[id.as_bytes(), key.as_bytes()]);
    let fingerprint = digest(&[b"POST", path.as_bytes(), body.as_bytes()]);
    let begun = world.stage.runtime().begin_once(&key, &fingerprint, run);
    assert_eq!(
        begun.await.unwrap(),
        sortie_core::ports::store::Begun::Fresh
    );
    run
}

#[tokio::test]
async fn interrupted_request_is_completed_or_reported_as_unknown() {
    let world = World::begin(SAYS_DONE).await;
    let input = json!({"message": "half"});
    let run = half_done(&world, "/api/tasks", "made", &input.to_string()).await;
    let id = world.task(&json!({"message": "other"})).await;
    let cancel = format!("/api/tasks/{id}/cancel");
    half_done(&world, &cancel, "cancelled", "{}").await;
    let world = world.restart().await;
    let (status, task) = answer(create(&world, &world.tokens.admin, "made", &input)).await;
    assert_eq!(status, 201);
    assert_eq!(
        task["task_id"],
        run.to_string(),
        "under the id that was set aside"
    );
    let again = world
        .post(&cancel, &json!({}))
        .header("Idempotency-Key", "cancelled");
    let (status, problem) = answer(again).await;
    assert_eq!((status.as_u16(), slug(&problem)), (409, "outcome-unknown"));
}

#[tokio::test]
async fn run_created_before_a_crash_is_the_response_to_a_retry() {
    let world = World::begin(SAYS_DONE).await;
    let id = world.task(&json!({"message": "x"})).await;
    world.until_status(&id, "completed").await;
    let path = format!("/api/tasks/{id}/retry");
    let run = half_done(&world, &path, "k", "{}").await;
    let runtime = world.stage.runtime();
    let again = runtime.retry_as(id.parse().unwrap(), run).await.unwrap();
    assert_eq!(again, run);
    world.until_status(&run.to_string(), "completed").await;
    world
        .json(world.request(
            Method::DELETE,
            &format!("/api/tasks/{id}"),
            &world.tokens.admin,
        ))
        .await;
    for _ in 0..2 {
        let request = world.post(&path, &json!({})).header("Idempotency-Key", "k");
        let (status, made) = answer(request).await;
        assert_eq!((status.as_u16(), &made["task_id"]), (201, &json!(run)));
    }
    assert_eq!(total(&world).await, 1);
}

#[tokio::test]
async fn disconnect_does_not_stop_a_request_that_was_read() {
    const CLIENTS: usize = 40;
    let world = World::begin(SAYS_DONE).await;
    let body = json!({"text": "hello"}).to_string();
    let path = |number: usize| format!("/api/sessions/web:c{number}/messages");
    for number in 0..CLIENTS {
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nIdempotency-Key: left{number}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            path(number),
            world.address,
            world.tokens.admin,
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // Some clients disconnect at once, some a little later, most in the middle of the request.
        for _ in 0..number * 4 {
            tokio::task::yield_now().await;
        }
    }
    for number in 0..CLIENTS {
        until("an answer", async || {
            let again = world
                .request(Method::POST, &path(number), &world.tokens.admin)
                .header(header::CONTENT_TYPE, "application/json")
                .header("Idempotency-Key", format!("left{number}"))
                .body(body.clone());
            let (status, answer) = answer(again).await;
            assert_ne!(slug(&answer), "outcome-unknown");
            (status == 202).then_some(())
        })
        .await;
        let session = format!("/api/sessions/web:c{number}");
        let session = world.json(world.get(&session)).await;
        let items = session["turns_list"].to_string();
        assert_eq!(items.matches("\"kind\":\"user\"").count(), 1, "said once");
    }
}

#[tokio::test]
async fn retry_and_fork_return_the_location_of_the_new_task() {
    let world = World::begin(SAYS_DONE).await;
    let id = world.task(&json!({"message": "first"})).await;
    world.until_status(&id, "completed").await;
    for (what, body) in [("retry", json!({})), ("fork", json!({"at": 1}))] {
        let path = format!("/api/tasks/{id}/{what}");
        let send = || {
            world
                .post(&path, &body)
                .header("Idempotency-Key", what)
                .send()
        };
        let first = send().await.unwrap();
        assert_eq!(first.status(), 201, "{what}");
        let place = first.headers()[header::LOCATION].clone();
        let again = send().await.unwrap();
        assert_eq!(again.headers()["idempotent-replayed"], "true");
        assert_eq!(again.headers()[header::LOCATION], place, "{what}");
        let made = world.json(world.get(place.to_str().unwrap())).await;
        assert_eq!(
            made["task_id"],
            again.json::<Value>().await.unwrap()["task_id"]
        );
        // After a crash in the middle, the next process creates the task under the reserved id.
        let key = format!("{what} half done");
        let run = half_done(&world, &path, &key, &body.to_string()).await;
        let request = world.post(&path, &body).header("Idempotency-Key", key);
        let made = world.json(request).await;
        assert_eq!(made["task_id"], run.to_string(), "{what}");
    }
    assert_eq!(total(&world).await, 5);
}
