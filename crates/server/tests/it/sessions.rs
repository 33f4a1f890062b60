//! Tests of sessions over the API.

use serde_json::{Value, json};

use crate::support::{World, answer};

const TALKS: &str = r#"
  - say: "one"
"#;

async fn send(world: &World, text: &str) -> Value {
    let request = world.post("/api/sessions/web:chat/messages", &json!({"text": text}));
    let (status, accepted) = answer(request).await;
    assert_eq!(status, 202, "{accepted}");
    accepted
}

#[tokio::test]
async fn messages_create_turns_of_a_session() {
    let world = World::begin(TALKS).await;
    let first = send(&world, "the first").await;
    world
        .until_status(first["task_id"].as_str().unwrap(), "completed")
        .await;
    let second = send(&world, "the second").await;
    assert_eq!(second["steered"], false);
    let id = second["task_id"].as_str().unwrap();
    let task = world.until_status(id, "completed").await;
    assert_eq!(
        task["continues"], first["task_id"],
        "it goes on from the first"
    );
    let sessions = world.json(world.get("/api/sessions")).await;
    assert_eq!(sessions[0]["session_id"], "web:chat");
    assert_eq!(sessions[0]["title"], "the first");
    assert_eq!(sessions[0]["turns"], 2);
    assert_eq!(sessions[0]["running"], false);
    let session = world.json(world.get("/api/sessions/web:chat")).await;
    let turns = session["turns_list"].as_array().unwrap();
    assert_eq!(turns.len(), 2);
    assert_eq!(turns[0]["task"]["message"], "the first", "oldest first");
    let kinds: Vec<&str> = turns[0]["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["user", "assistant", "finished"]);
    let before = world
        .json(world.get(&format!("/api/sessions/web:chat?before={id}")))
        .await;
    assert_eq!(before["turns_list"].as_array().unwrap().len(), 1);
    let grants = world.json(world.get("/api/sessions/web:chat/grants")).await;
    assert_eq!(grants, json!([]));
}

#[tokio::test]
async fn message_during_a_turn_steers_it() {
    let world = World::begin(TALKS).await;
    world.stage.model().block("first");
    let first = send(&world, "first").await;
    world.stage.until_prompted("first", 1).await;
    let more = send(&world, "more").await;
    assert_eq!(
        (&more["task_id"], &more["steered"]),
        (&first["task_id"], &json!(true))
    );
    world.stage.model().release("first");
    world
        .until_status(first["task_id"].as_str().unwrap(), "completed")
        .await;
}
