//! Results for sinks: delivered with a key, or visibly blocked.

use serde_json::Value;
use sortie_core::id::RunId;
use sortie_core::ports::store::Unblock;
use sortie_core::run::{Delivery, SinkAddress};
use sortie_test_support::stage::{Play, Stage};

async fn report_to(stage: &Stage, scheme: &str, file: &str) -> RunId {
    let mut new = stage.new_task("general", "t");
    new.report_to = vec![SinkAddress {
        scheme: scheme.to_owned(),
        target: stage.workspace().join(file).display().to_string(),
    }];
    let run = stage.create(new).await;
    stage.end_of(run).await;
    run
}

async fn until_delivery(stage: &Stage, run: RunId, wanted: Delivery) -> Option<String> {
    let what = format!("delivery {wanted}");
    let record = stage
        .until_record(run, &what, |record| record.delivery == wanted)
        .await;
    let error = record.delivery_error?;
    Some(stage.plain(&error).await)
}

fn lines(stage: &Stage, file: &str) -> Vec<Value> {
    let text = stage.file(file).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect()
}

#[tokio::test]
async fn a_file_gets_a_line_with_the_key() {
    let stage = Play::new("  - say: done").begin().await;
    let run = report_to(&stage, "file", "results.jsonl").await;
    until_delivery(&stage, run, Delivery::Delivered).await;
    let lines = lines(&stage, "results.jsonl");
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["key"], run.to_string());
    insta::assert_snapshot!(stage.plain(&lines[0].to_string()).await, @r#"{"agent":"general","error":null,"key":"<t>","label":"t","result":"done","status":"completed","task_id":"<t>"}"#);
}

#[tokio::test]
async fn an_unreachable_sink_is_retried_then_blocked_then_unblocked() {
    let stage = Play::new("  - say: done")
        .set(|settings| settings.max_delivery_attempts = 2)
        .begin()
        .await;
    let run = report_to(&stage, "file", "missing/results.jsonl").await;
    let ended = stage.record(run).await.ended_at.expect("an end");
    let error = until_delivery(&stage, run, Delivery::Blocked).await;
    let error = error.expect("why it is blocked");
    let expected = "cannot write the result to <workspace>/missing/results.jsonl";
    assert!(error.starts_with(expected), "{error}");
    let waited = stage.runtime().now().ms_since(ended);
    assert!(waited >= 1_000, "the second try came after {waited} ms");

    std::fs::create_dir(stage.workspace().join("missing")).expect("the cause is removed");
    stage
        .runtime()
        .unblock(run, Unblock::Retry)
        .await
        .expect("it was blocked");
    assert_eq!(until_delivery(&stage, run, Delivery::Delivered).await, None);
    assert_eq!(lines(&stage, "missing/results.jsonl").len(), 1);
    let again = stage.runtime().unblock(run, Unblock::Retry).await;
    let words = again.expect_err("nothing is blocked any more").to_string();
    insta::assert_snapshot!(stage.plain(&words).await, @"task <t> is completed: none of its deliveries is blocked");
}

#[tokio::test]
async fn a_blocked_delivery_can_be_given_up() {
    let stage = Play::new("  - say: done").begin().await;
    let run = report_to(&stage, "pigeon", "loft").await;
    let error = until_delivery(&stage, run, Delivery::Blocked).await;
    insta::assert_snapshot!(error.unwrap_or_default(), @"no sink is registered for the scheme pigeon");
    stage
        .runtime()
        .unblock(run, Unblock::Dismiss)
        .await
        .expect("it was blocked");
    assert_eq!(
        until_delivery(&stage, run, Delivery::NotRequired).await,
        None
    );
}
