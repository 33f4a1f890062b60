//! Regression tests for the findings of an independent review.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use serde_json::{Value, json};
use sortie_core::event::Event;
use sortie_core::id::Seq;
use sortie_core::ports::tool::{
    Recovery, Tool, ToolAnswer, ToolContext, ToolReply, ToolSpec, Touches,
};
use sortie_core::run::Status;
use sortie_test_support::stage::Play;

#[tokio::test]
async fn a_run_cannot_open_files_by_naming_them_as_models() {
    let stage = Play::new(
        r#"
  - when: { turn: 1 }
    calls: [{ tool: task, args: { description: a, prompt: p, subagent_type: code, model: "script:/etc/passwd" } }]
  - say: "{{last_result}}"
"#,
    )
    .begin()
    .await;
    let record = stage.play("go").await;
    assert_eq!(
        record.result(),
        Some(
            "Error: the model 'script:/etc/passwd' cannot be chosen from here. Models that can be named: script. Leave \"model\" out to use your own."
        )
    );
    assert_eq!(stage.records().await.len(), 1, "no run was admitted");
}

#[tokio::test]
async fn a_wait_call_covers_children_of_the_same_completion() {
    let stage = Play::new(
        r#"
  - when: { agent: main, turn: 1 }
    calls:
      - { tool: spawn_subagent, args: { task: t, label: slow } }
      - { tool: subagents, args: { action: wait } }
  - when: { agent: main }
    expect: { last_result_contains: They have finished, notice_contains: late but here }
    say: "Both."
  - when: { label: slow }
    latency_ms: 100
    say: "late but here"
"#,
    )
    .begin()
    .await;
    let record = stage.play("go").await;
    assert_eq!(record.result(), Some("Both."), "{:?}", record.outcome);
}

#[tokio::test]
async fn refusal_texts_are_bounded() {
    let long = "x".repeat(500_000);
    let stage = Play::new(&format!(
        r#"
  - when: {{ turn: 1 }}
    calls:
      - {{ tool: read_file, args: {{ path: a, offset: "{long}" }} }}
      - {{ tool: "{long}", args: {{}} }}
  - say: "done"
"#
    ))
    .begin()
    .await;
    let record = stage.play("go").await;
    let entries = stage
        .runtime()
        .events(record.run_id, Seq(0))
        .await
        .expect("a journal");
    let longest = entries
        .iter()
        .filter_map(|entry| match &entry.event {
            Event::ToolFinished { result, .. } => Some(result.text.chars().count()),
            Event::Admitted { .. }
            | Event::Updated { .. }
            | Event::Paused
            | Event::Resumed
            | Event::Claimed { .. }
            | Event::InboxTaken { .. }
            | Event::Answered { .. }
            | Event::ModelFailed { .. }
            | Event::Compacted { .. }
            | Event::Intended { .. }
            | Event::Asked { .. }
            | Event::BudgetLow { .. }
            | Event::BudgetSpent { .. }
            | Event::Isolated { .. }
            | Event::Collected { .. }
            | Event::Checked { .. }
            | Event::Delegated { .. }
            | Event::Finished { .. } => None,
        })
        .max();
    assert!(
        longest.is_some_and(|longest| longest <= 4_000),
        "{longest:?}"
    );
}

/// Panics when it is called for the first time.
#[derive(Debug)]
struct Bomb {
    spec: ToolSpec,
    calls: AtomicU32,
}

#[async_trait]
impl Tool for Bomb {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn touches(&self) -> Touches {
        Touches::Nothing
    }

    fn recovery(&self) -> Recovery<'_> {
        Recovery::Repeatable
    }

    async fn run(&self, _context: &ToolContext<'_>, _arguments: Value) -> ToolReply {
        let first = self.calls.fetch_add(1, Ordering::SeqCst) == 0;
        assert!(!first, "the bomb goes off");
        Ok(ToolAnswer::text("a dud").into())
    }
}

#[tokio::test]
async fn a_panicking_tool_does_not_block_its_run() {
    let mut play = Play::new(
        r#"
  - when: { turn: 1 }
    calls: [{ tool: bomb, args: {} }]
  - say: "{{last_result}}"
"#,
    );
    play.more_tools.push(Arc::new(Bomb {
        spec: ToolSpec {
            name: "bomb".to_owned(),
            description: "Goes off.".to_owned(),
            parameters: json!({"type": "object"}),
        },
        calls: AtomicU32::new(0),
    }));
    let record = play.begin().await.play("go").await;
    assert_eq!(record.status, Status::Completed, "{:?}", record.outcome);
    assert_eq!(record.result(), Some("a dud"));
    // It continues at once, not when its lease of half a minute expires; no process has died.
    assert_eq!(record.crashes, 0);
}
