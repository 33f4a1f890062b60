//! Runs are paused and resumed without losing or repeating anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use sortie_core::id::RunId;
use sortie_core::ports::tool::{
    Recovery, Tool, ToolAnswer, ToolContext, ToolReply, ToolSpec, Touches,
};
use sortie_core::run::Status;
use sortie_test_support::stage::{Play, Stage};
use tokio::sync::Semaphore;

const TWO_TURNS: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: list_dir, args: { path: "." } }]
  - say: "done"
"#;

/// A tool that ends when the test lets it.
#[derive(Debug)]
struct Turnstile {
    spec: ToolSpec,
    /// Whether it may run concurrently.
    is_wide: bool,
    begun: AtomicU32,
    free: Semaphore,
}

impl Turnstile {
    fn new() -> Arc<Self> {
        Self::named("turnstile", false)
    }

    fn named(name: &str, is_wide: bool) -> Arc<Self> {
        Arc::new(Self {
            is_wide,
            spec: ToolSpec {
                name: name.to_owned(),
                description: "Lets one through.".to_owned(),
                parameters: json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
            },
            begun: AtomicU32::new(0),
            free: Semaphore::new(0),
        })
    }

    fn begun(&self) -> u32 {
        self.begun.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Tool for Turnstile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn touches(&self) -> Touches {
        if self.is_wide {
            Touches::Nothing
        } else {
            Touches::Files
        }
    }

    fn recovery(&self) -> Recovery<'_> {
        if self.is_wide {
            Recovery::Repeatable
        } else {
            Recovery::Once(None)
        }
    }

    async fn run(&self, _context: &ToolContext<'_>, _arguments: Value) -> ToolReply {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.free.acquire().await.expect("it is open").forget();
        Ok(ToolAnswer::text("through").into())
    }
}

async fn pause(stage: &Stage, run: RunId) -> Vec<RunId> {
    stage.runtime().pause(run).await.expect("a pause")
}

async fn unpause(stage: &Stage, run: RunId) -> Vec<RunId> {
    stage.runtime().unpause(run).await.expect("an end of it")
}

/// Waits until a run is paused and no executor has it.
async fn until_idle(stage: &Stage, run: RunId) {
    stage
        .until("it rests", async || {
            let log = stage.log(run).await;
            log.trim_end().ends_with("paused").then_some(())
        })
        .await;
}

#[tokio::test]
async fn pause_lets_the_running_tool_finish_and_repeats_nothing() {
    let turnstile = Turnstile::new();
    let mut play = Play::new(
        r#"
  - when: { turn: 1 }
    calls: [{ tool: turnstile, args: { n: 1 } }, { tool: turnstile, args: { n: 2 } }]
  - say: "done"
"#,
    );
    play.more_tools = vec![Arc::clone(&turnstile) as Arc<dyn Tool>];
    let stage = play.begin().await;
    let main = stage.start("go through").await;
    stage
        .until("the first call", async || {
            (turnstile.begun() == 1).then_some(())
        })
        .await;
    assert_eq!(pause(&stage, main).await, [main]);
    assert!(stage.record(main).await.paused);
    // The second call does not start, although the first ends.
    turnstile.free.add_permits(5);
    until_idle(&stage, main).await;
    assert_eq!(turnstile.begun(), 1);
    let record = stage.record(main).await;
    assert_eq!(
        (record.status, record.summary.waiting_on),
        (Status::Running, None)
    );
    let stage = stage.crash().await;
    assert!(stage.record(main).await.paused, "it survives a restart");
    assert_eq!(unpause(&stage, main).await, [main]);
    assert_eq!(stage.end_of(main).await.status, Status::Completed);
    assert_eq!(turnstile.begun(), 2);
    insta::assert_snapshot!(stage.log(main).await, @r#"
    admitted main: go through
    claimed
    answered 1: turnstile{"n":1} turnstile{"n":2}
    intended 1-0
    result 1-0 ok: through
    paused
    resumed
    claimed
    intended 1-1
    result 1-1 ok: through
    answered 2: "done"
    finished completed: done
    "#);
}

/// As many calls as run concurrently, and one more that a pause leaves behind.
#[tokio::test]
async fn calls_left_by_a_pause_keep_their_order_and_are_charged_once() {
    let (wide, narrow) = (Turnstile::named("wide", true), Turnstile::new());
    let mut calls: Vec<String> = (0..65)
        .map(|n| format!("{{ tool: wide, args: {{ n: {n} }} }}"))
        .collect();
    calls.push("{ tool: turnstile, args: { n: 1 } }".to_owned());
    let rules = format!(
        "\n  - when: {{ turn: 1 }}\n    calls: [{}]\n  - say: \"done\"\n",
        calls.join(", ")
    );
    let mut play = Play::new(&rules);
    play.more_tools = vec![
        Arc::clone(&wide) as Arc<dyn Tool>,
        Arc::clone(&narrow) as Arc<dyn Tool>,
    ];
    let stage = play.begin().await;
    let mut new = stage.new_run("go through");
    new.budget.tool_calls = Some(66);
    let main = stage.create(new).await;
    stage
        .until("all that fit", async || (wide.begun() == 64).then_some(()))
        .await;
    pause(&stage, main).await;
    wide.free.add_permits(65);
    narrow.free.add_permits(1);
    until_idle(&stage, main).await;
    assert_eq!((wide.begun(), narrow.begun()), (64, 0));
    unpause(&stage, main).await;
    let record = stage.end_of(main).await;
    assert_eq!(record.status, Status::Completed);
    assert_eq!((wide.begun(), narrow.begun()), (65, 1));
    assert_eq!(record.budget[0].spent, 66);
}

#[tokio::test]
async fn pause_does_not_wait_for_an_unsent_model_call() {
    let stage = Play::new(
        r#"
  - fault: { kind: rate_limited, message: "slower", retry_after_ms: 600000 }
"#,
    )
    .begin()
    .await;
    let main = stage.start("wait").await;
    stage
        .until("the refusal", async || {
            stage.log(main).await.contains("slower").then_some(())
        })
        .await;
    pause(&stage, main).await;
    until_idle(&stage, main).await;
}

#[tokio::test]
async fn pause_waits_for_a_sent_model_call_then_frees_the_slot() {
    let mut play = Play::new(TWO_TURNS);
    play.settings = play.settings.with_max_concurrent(1);
    let stage = play.begin().await;
    stage.model().block("first#1");
    let first = stage.create(stage.new_task("explore", "first")).await;
    let second = stage.create(stage.new_task("explore", "second")).await;
    stage.until_prompted("first", 1).await;
    pause(&stage, first).await;
    stage.model().release("first#1");
    until_idle(&stage, first).await;
    assert_eq!(stage.end_of(second).await.status, Status::Completed);
    assert!(stage.log(first).await.contains("answered 1"));
    assert_eq!(stage.model().requests_of("first").len(), 1);
    unpause(&stage, first).await;
    assert_eq!(stage.end_of(first).await.status, Status::Completed);
    assert_eq!(stage.model().requests_of("first").len(), 2);
}

#[tokio::test]
async fn a_paused_tree_resumes_and_ends_as_without_the_pause() {
    let stage = Play::new(
        r#"
  - when: { label: main, turn: 1 }
    calls: [{ tool: task, args: { description: kid, prompt: p, subagent_type: explore } }]
  - say: "done"
"#,
    )
    .begin()
    .await;
    stage.model().block("kid#1");
    let main = stage.start("delegate").await;
    stage.until_prompted("kid", 1).await;
    let kid = stage.run_of("kid").await;
    // The parent may not be parked yet; it is paused all the same.
    assert_eq!(pause(&stage, main).await, [main, kid]);
    stage.model().release("kid#1");
    stage
        .until("the child", async || {
            let record = stage.record(kid).await;
            (record.status.is_terminal() || stage.log(kid).await.ends_with("paused\n"))
                .then_some(())
        })
        .await;
    assert!(!stage.record(main).await.status.is_terminal());
    unpause(&stage, main).await;
    assert_eq!(stage.end_of(main).await.status, Status::Completed);
    assert_eq!(stage.end_of(kid).await.status, Status::Completed);
}

#[tokio::test]
async fn cancel_ends_paused_and_pausing_runs() {
    let stage = Play::new(TWO_TURNS).begin().await;
    stage.model().block("main#1");
    let main = stage.start("look").await;
    stage.until_prompted("main", 1).await;
    pause(&stage, main).await;
    stage
        .runtime()
        .cancel(main, "enough")
        .await
        .expect("a report");
    let ended = stage.end_of(main).await;
    assert_eq!((ended.status, ended.paused), (Status::Cancelled, false));

    let resting = stage.create(stage.new_task("explore", "t")).await;
    stage.model().block("t#1");
    pause(&stage, resting).await;
    stage
        .runtime()
        .cancel(resting, "enough")
        .await
        .expect("a report");
    assert_eq!(stage.end_of(resting).await.status, Status::Cancelled);
}

#[tokio::test]
async fn the_deadline_counts_during_a_pause() {
    let stage = Play::new(TWO_TURNS).begin().await;
    stage.model().block("main#2");
    let mut new = stage.new_run("look");
    new.timeout = Some(Duration::from_millis(300));
    let main = stage.create(new).await;
    stage.until_prompted("main", 2).await;
    pause(&stage, main).await;
    stage.model().release("main#2");
    let ended = stage.end_of(main).await;
    // Its last completion may have been in time, which ends it before it pauses.
    assert!(
        matches!(ended.status, Status::Timeout | Status::Completed),
        "{}",
        ended.status
    );
    let late = {
        let mut new = stage.new_task("explore", "late");
        new.timeout = Some(Duration::from_millis(1_500));
        stage.model().block("late#1");
        stage.create(new).await
    };
    stage.until_prompted("late", 1).await;
    pause(&stage, late).await;
    stage.model().release("late#1");
    until_idle(&stage, late).await;
    assert_eq!(stage.end_of(late).await.status, Status::Timeout);
}

#[tokio::test]
async fn subscribers_get_pauses_and_changes() {
    let stage = Play::new(TWO_TURNS).begin().await;
    stage.model().block("t#1");
    let mut notes = stage.listen();
    let run = stage.create(stage.new_task("explore", "t")).await;
    stage.until_prompted("t", 1).await;
    pause(&stage, run).await;
    stage.model().release("t#1");
    until_idle(&stage, run).await;
    unpause(&stage, run).await;
    stage.end_of(run).await;
    stage.runtime().delete(run).await.expect("a number");
    let published = notes.about(run).replace("queued explore t\n", "");
    insta::assert_snapshot!(published, @r"
    started explore t
    paused
    paused
    resumed
    changed Some(Tool)
    tool list_dir after 0
    progress 5 after 1
    changed Some(Model)
    completed done
    deleted
    ");
}
