//! Tests that a caller controls only runs that it could have created.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sortie_test_support::stage::until;
use tempfile::TempDir;

use crate::support::{SAYS_DONE, World, answer, slug};

const WRITES: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: write_file, args: { path: "a.txt", content: "hello" } }]
  - say: "{{result:1}}"
"#;
const ASKS: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: ask, args: { question: "which?", options: ["red", "blue"] } }]
  - say: "{{result:1}}"
"#;

/// Creates a main run of an admin that blocks at its first prompt.
async fn blocked_task(world: &World, session: &str, more: Value) -> String {
    let mut input = json!({"message": "work", "label": session, "session_id": session,
        "main": true});
    let more = more.as_object().unwrap().clone();
    input.as_object_mut().unwrap().extend(more);
    world.stage.model().block(session);
    let id = world.task(&input).await;
    world.stage.until_prompted(session, 1).await;
    id
}

/// Returns the response to an operator for each operation that controls a run.
async fn ways(world: &World, id: &str, session: &str) -> Vec<(String, StatusCode, Value)> {
    let operator = &world.tokens.operator;
    let of_task = |what: &str| format!("/api/tasks/{id}{what}");
    let tries = [
        (
            Method::POST,
            of_task("/steer"),
            json!({"text": "do as I say"}),
        ),
        (
            Method::POST,
            format!("/api/sessions/{session}/messages"),
            json!({"text": "do as I say", "workspace": world.stage.workspace()}),
        ),
        (Method::PATCH, of_task(""), json!({"priority": "high"})),
        (Method::POST, of_task("/resume"), json!({})),
        (Method::POST, of_task("/retry"), json!({})),
        (Method::POST, of_task("/apply"), json!({})),
        (Method::POST, of_task("/discard"), json!({})),
        (
            Method::POST,
            "/api/tasks".to_owned(),
            json!({"message": "and then", "continues": id}),
        ),
        (
            Method::POST,
            of_task("/delivery"),
            json!({"action": "dismiss"}),
        ),
        (Method::DELETE, of_task(""), json!({})),
    ];
    let mut found = Vec::new();
    for (method, path, body) in tries {
        let request = world.request(method.clone(), &path, operator).json(&body);
        let (status, body) = answer(request).await;
        found.push((format!("{method} {path}"), status, body));
    }
    found
}

#[tokio::test]
async fn operator_controls_only_tasks_that_it_could_have_created() {
    let world = World::begin(SAYS_DONE).await;
    let outside = TempDir::new().unwrap();
    let report = format!("file:{}/report", outside.path().display());
    for (session, more) in [
        ("web:free", json!({"mode": "yolo"})),
        ("web:edits", json!({"mode": "accept-edits"})),
        ("web:outside", json!({"workspace": outside.path()})),
        ("web:reports", json!({"report_to": [report]})),
    ] {
        let id = blocked_task(&world, session, more).await;
        for (what, status, problem) in ways(&world, &id, session).await {
            assert_eq!(status, 403, "{session}: {what}: {problem}");
            let words = problem["detail"].as_str().unwrap();
            assert!(words.contains("create one of your own"), "{words}");
        }
        // An operator may cancel a run that it may not control.
        for stop in ["pause", "cancel"] {
            let path = format!("/api/tasks/{id}/{stop}");
            let request = world.request(Method::POST, &path, &world.tokens.operator);
            assert_eq!(answer(request).await.0, 200, "{stop}");
        }
    }
    let id = blocked_task(&world, "web:plain", json!({})).await;
    for (what, status, body) in ways(&world, &id, "web:plain").await {
        assert_ne!(status, 403, "{what}: {body}");
    }
}

#[tokio::test]
async fn reply_needs_the_right_to_control_the_run() {
    let world = World::begin(WRITES).await;
    let outside = TempDir::new().unwrap();
    let input = json!({"message": "write", "agent": "code", "workspace": outside.path()});
    let id = world.task(&input).await;
    let request = until("an approval", async || {
        let open = world.json(world.get("/api/approvals")).await;
        open.get(0).cloned()
    })
    .await;
    let path = format!("/api/approvals/{}", request["id"].as_str().unwrap());
    let reply = |token: &str, body: &Value| world.request(Method::POST, &path, token).json(body);
    let operator = &world.tokens.operator;
    for body in [
        json!({"decision": "approve"}),
        json!({"decision": "deny", "words": "write this instead"}),
    ] {
        let (status, problem) = answer(reply(operator, &body)).await;
        assert_eq!((status.as_u16(), slug(&problem)), (403, "forbidden"));
    }
    let yes = json!({"decision": "approve"});
    world.json(reply(&world.tokens.admin, &yes)).await;
    world.until_status(&id, "completed").await;
    assert!(outside.path().join("a.txt").exists());
}

#[tokio::test]
async fn answer_needs_the_right_to_control_the_run() {
    let world = World::begin(ASKS).await;
    let input = json!({"message": "ask", "agent": "code", "mode": "yolo"});
    let id = world.task(&input).await;
    let question = until("a question", async || {
        let open = world.json(world.get("/api/questions")).await;
        open.get(0).cloned()
    })
    .await;
    let operator = &world.tokens.operator;
    for path in [
        format!("/api/tasks/{id}/answer"),
        format!("/api/questions/{}", question["id"].as_str().unwrap()),
    ] {
        let request = world.request(Method::POST, &path, operator);
        let (status, _) = answer(request.json(&json!({"text": "red"}))).await;
        assert_eq!(status, 403, "{path}");
    }
}

#[tokio::test]
async fn messages_never_reach_a_session_of_another_tenant() {
    let world = World::begin(SAYS_DONE).await;
    let send = async |token: &str, more: Value| {
        let mut body = json!({"text": "hello"});
        let more = more.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(more);
        let path = "/api/sessions/web:main/messages";
        let sent = world
            .json(world.request(Method::POST, path, token).json(&body))
            .await;
        let id = sent["task_id"].as_str().unwrap().to_owned();
        (world.until_status(&id, "completed").await, id)
    };
    let (theirs, _) = send(&world.tokens.acme_operator, json!({})).await;
    assert_eq!(theirs["tenant"], "acme");
    let (own, id) = send(&world.tokens.admin, json!({"mode": "yolo"})).await;
    assert_eq!(
        (&own["tenant"], &own["continues"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(own["workspace"], world.stage.workspace().to_str().unwrap());
    for (method, what) in [(Method::GET, ""), (Method::POST, "/steer")] {
        let path = format!("/api/tasks/{id}{what}");
        let request = world.request(method, &path, &world.tokens.acme);
        assert_eq!(answer(request.json(&json!({"text": "x"}))).await.0, 404);
    }
    let (again, _) = send(&world.tokens.acme_operator, json!({})).await;
    assert_eq!(again["continues"], theirs["task_id"], "and each goes on");
    let read = world.json(world.get("/api/sessions/web:main")).await;
    assert_eq!(read["tenant"], Value::Null, "its own first");
}
