//! Fan-outs: one child for each item, one combined result.

use sortie_core::message::Message;
use sortie_core::run::Status;
use sortie_test_support::stage::{Play, Stage};

/// Main fans out over three files; the child of `b` fails.
fn story(more: &str) -> String {
    format!(
        r#"
  - when: {{ agent: main, turn: 1 }}
    calls: [{{ tool: fan_out, args: {{ items: [a, b, c], template: "Look at {{item}}.", agent: explore{more} }} }}]
  - when: {{ agent: main }}
    say: "done"
  - when: {{ task: "Look at b." }}
    fault: {{ kind: auth, message: "no key" }}
  - say: "seen: {{{{task}}}}"
"#
    )
}

async fn played(more: &str) -> Stage {
    let stage = Play::new(&story(more)).begin().await;
    stage.play("go").await;
    stage
}

/// Returns the result of the fan-out, as the model reads it.
fn result(stage: &Stage) -> String {
    let prompt = stage.model().request("main", 2).expect("the prompt");
    let results = prompt.messages.iter().find_map(|message| match &**message {
        Message::Tools { results } => results.first(),
        Message::User { .. } | Message::Assistant { .. } | Message::Notice { .. } => None,
    });
    results.expect("a result").text.clone()
}

#[tokio::test]
async fn results_come_in_the_order_of_the_items_and_say_what_failed() {
    let stage = played("").await;
    let text = result(&stage);
    let mut from = 0;
    for part in [
        "2 of 3 items completed; failed: 2.",
        "Item 1: 'a'",
        "seen: Look at a.",
        "Item 2: 'b'",
        "no key",
        "Item 3: 'c'",
        "seen: Look at c.",
    ] {
        let at = text[from..].find(part);
        from += at.unwrap_or_else(|| panic!("no {part:?} in {text}")) + part.len();
    }
    assert_eq!(stage.records().await.len(), 4);
}

#[tokio::test]
async fn concurrency_is_never_exceeded() {
    let stage = Play::new(
        r#"
  - when: { agent: main, turn: 1 }
    calls: [{ tool: fan_out, args: { items: [a, b, c, d], template: "Look at {item}.", concurrency: 2 } }]
  - when: { agent: main }
    say: "done"
  - say: "seen"
"#,
    )
    .begin()
    .await;
    for label in ["a", "b"] {
        stage.model().block(label);
    }
    let main = stage.create(stage.new_run("go")).await;
    for label in ["a", "b"] {
        stage.until_prompted(label, 1).await;
    }
    assert_eq!(stage.records().await.len(), 3, "two items and main");
    for label in ["b", "a"] {
        stage.model().release(label);
    }
    assert_eq!(stage.end_of(main).await.status, Status::Completed);
    assert_eq!(stage.model().most_children_at_once(), 2);
    let text = result(&stage);
    assert!(text.starts_with("All 4 items completed."), "{text}");
}

#[tokio::test]
async fn stop_cancels_the_rest_and_starts_nothing() {
    let stage = Play::new(&story(", concurrency: 2, on_failure: stop"))
        .begin()
        .await;
    stage.model().block("a");
    let main = stage.create(stage.new_run("go")).await;
    assert_eq!(stage.end_of(main).await.status, Status::Completed);
    let seen = result(&stage);
    assert!(seen.contains("0 of 3 items completed"), "{seen}");
    assert!(seen.contains("Item 3: not started"), "{seen}");
    assert_eq!(
        stage.record(stage.run_of("a").await).await.status,
        Status::Cancelled
    );
    assert!(
        !stage
            .records()
            .await
            .iter()
            .any(|record| record.label == "c")
    );
}

#[tokio::test]
async fn retry_tries_an_item_three_times() {
    let stage = played(", on_failure: retry").await;
    let records = stage.records().await;
    let attempts = records.iter().filter(|record| record.label == "b").count();
    assert_eq!(attempts, 3);
    assert_eq!(records.len(), 1 + 2 + 3);
    let seen = result(&stage);
    assert!(
        seen.contains("2 of 3 items completed; failed: 2."),
        "{seen}"
    );
    assert!(seen.contains("attempt 3"), "{seen}");
}

#[tokio::test]
async fn finished_items_are_not_run_again_after_a_crash() {
    let stage = Play::new(&story(", concurrency: 1")).begin().await;
    stage.model().block("c");
    let main = stage.create(stage.new_run("go")).await;
    stage.until_prompted("c", 1).await;
    let stage = stage.crash().await;
    stage.until_prompted("c", 1).await;
    stage.model().release("c");
    assert_eq!(stage.end_of(main).await.status, Status::Completed);
    assert_eq!(stage.records().await.len(), 4);
    for label in ["a", "b"] {
        assert_eq!(stage.model().requests_of(label).len(), 1, "{label}");
    }
    let seen = result(&stage);
    assert!(
        seen.contains("2 of 3 items completed; failed: 2."),
        "{seen}"
    );
}

#[tokio::test]
async fn cancelled_parent_takes_its_fan_out_along() {
    let stage = Play::new(&story("")).begin().await;
    stage.model().block("a");
    let main = stage.create(stage.new_run("go")).await;
    stage.until_prompted("a", 1).await;
    stage
        .runtime()
        .cancel(main, "enough")
        .await
        .expect("a cancel");
    assert_eq!(stage.end_of(main).await.status, Status::Cancelled);
    let child = stage.run_of("a").await;
    assert_eq!(stage.end_of(child).await.status, Status::Cancelled);
}

#[tokio::test]
async fn nothing_starts_if_the_agent_does_not_exist() {
    let rules = story("").replace("explore", "nobody");
    let stage = Play::new(&rules).begin().await;
    stage.play("go").await;
    let seen = stage.seen("main", 2).await;
    assert!(
        seen.contains("Error: Unknown agent type 'nobody'"),
        "{seen}"
    );
    assert_eq!(stage.records().await.len(), 1);
}
