//! Tests that a tool that differs from its approved form is withdrawn.

use std::time::Duration;

use serde_json::json;
use sortie_core::ports::tool::Tool;

use crate::support::{Stage, run, tool};

/// Calls a tool until it fails: the notification of a change arrives a little after the tool
/// result.
async fn until_it_fails(tool: &dyn Tool) -> String {
    let failing = async {
        loop {
            if let Err(failure) = run(tool, json!({})).await {
                return failure;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), failing)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_changed_tool_is_withdrawn_until_it_is_approved() {
    let stage = Stage::new();
    let (pool, report) = stage.listed("changing").await;
    assert_eq!((report.tools.len(), report.changes.len()), (2, 0));
    let act = tool(&pool, "act");
    run(&*act, json!({})).await.unwrap();

    // The server announces that its tools changed, and the next use lists them again.
    run(&*tool(&pool, "poke"), json!({})).await.unwrap();
    let failure = until_it_fails(&*act).await;
    assert!(
        failure.contains("withdrawn because its description or schema changed"),
        "{failure}"
    );
    assert!(failure.contains("`sortie mcp approve srv`"), "{failure}");
    assert!(!failure.contains("IMPORTANT"), "{failure}");

    let report = pool.list_tools().await.remove(0);
    let names: Vec<&str> = report.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["mcp__srv__poke"]);
    assert_eq!(report.changes[0].tool, "act");
    assert!(report.changes[0].description.starts_with("IMPORTANT"));
    // An approver can compare the description with the approved one.
    let before = report.changes[0].before.as_deref().unwrap();
    assert!(!before.contains("IMPORTANT"), "{before}");
    assert!(report.changes[0].text.contains("IMPORTANT"));
    // The unchanged tool still works.
    run(&*tool(&pool, "poke"), json!({})).await.unwrap();

    pool.approve(&report.changes).await.unwrap();
    // A run that was shown the old form must not call the new one under the same name.
    let failure = run(&*act, json!({})).await.unwrap_err();
    assert!(
        failure.contains("changed since this run began"),
        "{failure}"
    );
    let report = pool.list_tools().await.remove(0);
    assert_eq!((report.tools.len(), report.changes.len()), (2, 0));
    run(&*tool(&pool, "act"), json!({})).await.unwrap();
    assert_eq!(stage.starts(), 1);
}

#[tokio::test]
async fn approvals_survive_the_pool() {
    let stage = Stage::new();
    let (pool, _) = stage.listed("plain").await;
    pool.shut_down().await;
    let file = stage.path().join("state/mcp-approved.json");
    let approved = std::fs::read_to_string(&file).unwrap();
    assert!(approved.contains("odd name/é"), "{approved}");

    // The file now has another fingerprint for `act`, so the tool differs from its approved form.
    let mut written: serde_json::Value = serde_json::from_str(&approved).unwrap();
    written["servers"]["srv"]["act"]["fingerprint"] = json!("0".repeat(64));
    std::fs::write(&file, written.to_string()).unwrap();
    let (pool, report) = stage.listed("plain").await;
    assert_eq!(report.changes.len(), 1);
    assert!(
        pool.tools()
            .iter()
            .all(|tool| tool.spec().name != "mcp__srv__act")
    );
}

#[tokio::test]
async fn damaged_approvals_approve_nothing() {
    let stage = Stage::new();
    std::fs::create_dir(stage.path().join("state")).unwrap();
    std::fs::write(stage.path().join("state/mcp-approved.json"), "{").unwrap();
    let (pool, report) = stage.listed("plain").await;
    assert!(pool.tools().is_empty());
    assert!(
        report.left_out[0].reason.contains("is damaged"),
        "{:?}",
        report.left_out
    );
}
