//! Tests that long responses are split into pages.

use std::collections::BTreeSet;

use reqwest::{RequestBuilder, header};
use serde_json::{Value, json};
use sortie_test_support::stage::until;

use crate::support::{World, answer};

/// The most bytes of one response, with a margin for the JSON around the texts.
const MOST: usize = 9 * 1024 * 1024;

/// Returns a text of 100,000 characters with four bytes each.
fn long() -> String {
    "\u{1f600}".repeat(100_000)
}

/// Returns a model that repeats its instruction that many times.
fn echo(times: usize) -> String {
    format!("  - say: \"{}\"\n", "{{task}}".repeat(times))
}

/// Returns one page with the cursor and the link of the next one.
async fn page(request: RequestBuilder) -> (Value, Option<String>, Option<String>) {
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    let read = |name: &str| {
        let value = response.headers().get(name);
        value.map(|value| value.to_str().unwrap().to_owned())
    };
    let (cursor, link) = (read("sortie-next-cursor"), read(header::LINK.as_str()));
    let text = response.text().await.unwrap();
    assert!(text.len() < MOST, "{} bytes", text.len());
    (serde_json::from_str(&text).unwrap(), cursor, link)
}

/// Follows links to the last page; returns all items and the number of pages.
async fn follow(world: &World, first: &str) -> (Vec<Value>, usize) {
    let mut path = first.to_owned();
    let (mut all, mut pages) = (Vec::new(), 0);
    loop {
        let (list, cursor, link) = page(world.get(&path)).await;
        pages += 1;
        all.extend(list.as_array().unwrap().clone());
        assert_eq!(cursor.is_some(), link.is_some());
        let Some(link) = link else {
            return (all, pages);
        };
        path = link[1..].split('>').next().unwrap().to_owned();
    }
}

#[tokio::test]
async fn list_of_long_tasks_is_paged_by_bytes() {
    const TASKS: usize = 30;
    let world = World::begin("  - say: done\n").await;
    world.stage.model().block("long");
    let mut made = BTreeSet::new();
    for _ in 0..TASKS {
        let mut new = world.stage.new_task("explore", "long");
        new.task = long();
        made.insert(world.stage.create(new).await.to_string());
    }
    let (tasks, pages) = follow(&world, "/api/tasks?limit=1000").await;
    assert!(pages > 1, "they are twelve megabytes");
    let seen: Vec<String> = tasks
        .iter()
        .map(|task| task["task_id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(seen.len(), TASKS, "each once");
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), made);
    let (tasks, pages) = follow(&world, "/api/tasks?limit=1000&summary=true").await;
    assert_eq!((tasks.len(), pages), (TASKS, 1), "short texts fit");
    let (tasks, pages) = follow(&world, "/api/tasks?limit=7&summary=true").await;
    assert_eq!((tasks.len(), pages), (TASKS, 5));
    let root = tasks[0]["task_id"].as_str().unwrap();
    let (status, _) = answer(world.get(&format!("/api/tasks/{root}/tree"))).await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn long_journal_and_transcript_are_paged() {
    let world = World::begin(&echo(12)).await;
    let mut new = world.stage.new_task("explore", "long");
    new.task = long();
    let run = world.stage.create(new).await;
    world.stage.end_of(run).await;
    for (view, least) in [("events", 4), ("transcript", 3)] {
        let (items, pages) = follow(&world, &format!("/api/tasks/{run}/{view}")).await;
        assert!(pages > 1, "{view}");
        let places: Vec<i64> = items
            .iter()
            .map(|item| item["seq"].as_i64().unwrap())
            .collect();
        assert!(places.len() >= least, "{view}: {places:?}");
        assert!(places.is_sorted(), "{view}: {places:?}");
        let once: BTreeSet<i64> = places.iter().copied().collect();
        assert_eq!(once.len(), places.len(), "{view}: each once: {places:?}");
        let last = places.last().unwrap();
        let (rest, _) = follow(&world, &format!("/api/tasks/{run}/{view}?after={last}")).await;
        assert!(rest.is_empty(), "{view}");
    }
}

#[tokio::test]
async fn long_session_is_paged_backwards() {
    const TURNS: usize = 4;
    let world = World::begin(&echo(3)).await;
    let mut ids = Vec::new();
    for _ in 0..TURNS {
        let body = json!({"text": long()});
        let accepted = world
            .json(world.post("/api/sessions/web:chat/messages", &body))
            .await;
        let id = accepted["task_id"].as_str().unwrap().to_owned();
        world.until_status(&id, "completed").await;
        ids.push(id);
    }
    let mut path = "/api/sessions/web:chat".to_owned();
    let mut seen = Vec::new();
    let mut pages = 0;
    loop {
        let (session, cursor, _) = page(world.get(&path)).await;
        pages += 1;
        assert_eq!(session["turns"], TURNS);
        let turns = session["turns_list"].as_array().unwrap();
        let ids = turns.iter().map(|turn| {
            assert_eq!(turn["left_out"], 0);
            turn["task"]["task_id"].as_str().unwrap().to_owned()
        });
        seen.splice(0..0, ids);
        let Some(cursor) = cursor else { break };
        path = format!("/api/sessions/web:chat?before={cursor}");
    }
    assert!(pages > 1, "they are more than eight megabytes");
    assert_eq!(seen, ids);
}

#[tokio::test]
async fn overlong_turn_shows_its_latest_items() {
    let world = World::begin(&echo(8)).await;
    let body = json!({"text": long()});
    let path = "/api/sessions/web:chat/messages";
    let accepted = world.json(world.post(path, &body)).await;
    let id = accepted["task_id"].as_str().unwrap();
    world.until_status(id, "completed").await;
    let (session, cursor, _) = page(world.get("/api/sessions/web:chat")).await;
    assert_eq!(cursor, None, "there is one turn");
    let turn = &session["turns_list"][0];
    let items = turn["items"].as_array().unwrap();
    assert!(turn["left_out"].as_u64().unwrap() > 0);
    let shown = items.len() + turn["left_out"].as_u64().unwrap() as usize;
    let (all, _) = follow(&world, &format!("/api/tasks/{id}/transcript")).await;
    assert_eq!(all.len(), shown);
}

/// A model that writes a file with the text of its task.
const WRITES: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: write_file, args: { path: "a.txt", content: "{{task}}" } }]
  - say: done
"#;

#[tokio::test]
async fn requests_are_truncated_in_lists_and_whole_by_id() {
    const TASKS: usize = 5;
    let world = World::begin(WRITES).await;
    let mut ids = Vec::new();
    for _ in 0..TASKS {
        let task = json!({"message": long(), "agent": "code", "session_id": "web:long"});
        ids.push(world.task(&task).await);
    }
    let open = until("all ask", async || {
        let (open, _) = follow(&world, "/api/approvals").await;
        (open.len() == TASKS).then_some(open)
    })
    .await;
    let first = &open[0];
    assert_eq!(first["cut"], true);
    assert!(first.to_string().len() < 64 * 1024);
    let path = format!("/api/approvals/{}", first["id"].as_str().unwrap());
    let whole = world.json(world.get(&path)).await;
    assert_eq!(whole["cut"], false);
    assert_eq!(whole["approval"]["arguments"]["content"], long());
    let (status, _) = answer(world.get(&path.replace("approvals", "questions"))).await;
    assert_eq!(status, 404);
    let task = first["task_id"].as_str().unwrap();
    let detail = world.json(world.get(&format!("/api/tasks/{task}"))).await;
    assert_eq!(detail["requests"][0]["cut"], true);

    // Pending requests are sorted oldest first and all requests newest first, on any number of
    // pages.
    let (paged, pages) = follow(&world, "/api/approvals?limit=2").await;
    assert_eq!((paged, pages), (open.clone(), 3));
    let (all, pages) = follow(&world, "/api/approvals?all=true&limit=2").await;
    assert_eq!(pages, 3);
    let mut reversed = all.clone();
    reversed.reverse();
    assert_eq!(reversed, open);
    let of_one = format!("/api/approvals?task_id={task}&limit=1");
    assert_eq!(follow(&world, &of_one).await.0.len(), 1);
    assert_eq!(follow(&world, "/api/questions?all=true").await.0.len(), 0);
    let (status, _) = answer(world.get("/api/approvals?cursor=made-up")).await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn sessions_audit_usage_and_trees_are_paged() {
    let calls = r#"
  - when: { turn: 1 }
    calls:
      - { tool: list_dir, args: { path: "." } }
      - { tool: list_dir, args: { path: "." } }
      - { tool: list_dir, args: { path: "." } }
  - say: done
"#;
    let world = World::begin(calls).await;
    let mut ids = BTreeSet::new();
    for number in 0..5 {
        let path = format!("/api/sessions/web:chat{number}/messages");
        let accepted = world
            .json(world.post(&path, &json!({"text": "look"})))
            .await;
        let id = accepted["task_id"].as_str().unwrap().to_owned();
        world.until_status(&id, "completed").await;
        ids.insert(id);
    }
    for (path, total) in [("/api/sessions", 5), ("/api/usage", 5)] {
        let (whole, pages) = follow(&world, path).await;
        assert_eq!((whole.len(), pages), (total, 1), "{path}");
        let (paged, pages) = follow(&world, &format!("{path}?limit=2")).await;
        assert_eq!((paged, pages), (whole, 3), "{path}");
    }
    let id = ids.first().unwrap();
    for path in ["/api/audit".to_owned(), format!("/api/tasks/{id}/audit")] {
        let (whole, _) = follow(&world, &path).await;
        assert!(whole.len() >= 3, "{path}: {whole:?}");
        let (paged, pages) = follow(&world, &format!("{path}?limit=2")).await;
        assert_eq!(paged, whole, "{path}");
        assert_eq!(pages, whole.len().div_ceil(2), "{path}");
    }
    let (tree, pages) = follow(&world, &format!("/api/tasks/{id}/tree?summary=true")).await;
    assert_eq!((tree.len(), pages), (1, 1));
    assert_eq!(tree[0]["task_id"].as_str(), Some(id.as_str()));
}

#[tokio::test]
async fn transcript_pages_equal_the_whole_transcript() {
    let world = World::begin(
        r#"
  - when: { label: kid }
    say: found
  - when: { turn: 1 }
    calls:
      - { tool: list_dir, args: { path: "." } }
      - { tool: task, args: { description: kid, prompt: p, subagent_type: explore } }
  - say: done
"#,
    )
    .await;
    let path = "/api/sessions/web:chat/messages";
    let accepted = world.json(world.post(path, &json!({"text": "go"}))).await;
    let id = accepted["task_id"].as_str().unwrap();
    world.until_status(id, "completed").await;
    let whole = world
        .json(world.get(&format!("/api/tasks/{id}/transcript")))
        .await;
    let whole = whole.as_array().unwrap().clone();
    assert!(whole.len() > 5, "{whole:?}");
    let last = whole.last().unwrap()["seq"].as_i64().unwrap();
    for after in 0..=last {
        let part = format!("/api/tasks/{id}/transcript?after={after}");
        let part = world.json(world.get(&part)).await;
        let rest = whole
            .iter()
            .filter(|item| item["seq"].as_i64().unwrap() > after);
        assert_eq!(part, rest.cloned().collect::<Value>(), "after {after}");
    }
}
