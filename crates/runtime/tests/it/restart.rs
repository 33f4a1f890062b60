//! A process ends, by shutdown or crash, and the next one continues.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use sortie_core::event::Event;
use sortie_core::id::{RunId, Seq};
use sortie_core::ports::workspace::{Collected, Worktrees};
use sortie_core::run::{Changes, Isolation, Reason, Status, Worktree};
use sortie_test_support::stage::{Play, Stage};
use tempfile::TempDir;
use tokio::sync::Semaphore;

use crate::props::{HesitantWriter, Hesitates};

const TWO_TURNS: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: list_dir, args: { path: "." } }]
    usage: { input_tokens: 10, output_tokens: 1 }
  - say: "done"
    usage: { input_tokens: 20, output_tokens: 2 }
"#;

/// Plays until the model is called for its second turn.
async fn until_second_turn() -> (Stage, RunId) {
    let stage = Play::new(TWO_TURNS).begin().await;
    stage.put("a.txt", "hello\n");
    stage.model().block("main#2");
    let main = stage.start("look").await;
    stage.until_prompted("main", 2).await;
    (stage, main)
}

/// Returns the turns that the journal has completions of.
async fn turns(stage: &Stage, run: RunId) -> Vec<u32> {
    let entries = stage
        .runtime()
        .events(run, Seq(0))
        .await
        .expect("a journal");
    let turns = entries.into_iter().filter_map(|entry| match entry.event {
        Event::Answered { turn, .. } => Some(turn),
        Event::Admitted { .. }
        | Event::Updated { .. }
        | Event::Paused
        | Event::Resumed
        | Event::Claimed { .. }
        | Event::InboxTaken { .. }
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
        | Event::ToolFinished { .. }
        | Event::Finished { .. } => None,
    });
    turns.collect()
}

#[tokio::test]
async fn shutdown_loses_nothing_and_counts_nothing_twice() {
    let (stage, main) = until_second_turn().await;
    let stage = stage.restart().await;
    stage.model().release("main#2");
    let record = stage.end_of(main).await;
    assert_eq!(turns(&stage, main).await, [1, 2]);
    assert_eq!(record.summary.usage.total_tokens(), Some(33));
    assert_eq!(record.crashes, 0);
    insta::assert_snapshot!(stage.log(main).await, @r#"
    admitted main: look
    claimed
    answered 1: list_dir{"path":"."}
    result 1-0 ok: a.txt (6 B)
    claimed
    answered 2: "done"
    finished completed: done
    "#);
}

#[tokio::test]
async fn crash_loses_nothing_and_counts_nothing_twice() {
    let (stage, main) = until_second_turn().await;
    let stage = stage.crash().await;
    assert_eq!(stage.runtime().recovered().resumed, [main]);
    stage.model().release("main#2");
    let record = stage.end_of(main).await;
    assert_eq!(turns(&stage, main).await, [1, 2]);
    assert_eq!(record.summary.usage.total_tokens(), Some(33));
    assert_eq!(record.crashes, 1);
    insta::assert_snapshot!(stage.log(main).await, @r#"
    admitted main: look
    claimed
    answered 1: list_dir{"path":"."}
    result 1-0 ok: a.txt (6 B)
    claimed after a crash
    answered 2: "done"
    finished completed: done
    "#);
}

#[tokio::test]
async fn a_run_whose_process_keeps_dying_is_given_up() {
    let (mut stage, main) = until_second_turn().await;
    let mut epochs = 1;
    while !stage.record(main).await.status.is_terminal() {
        stage = stage.crash().await;
        epochs += 1;
        assert!(epochs < 10, "it is resurrected for ever");
        if !stage.record(main).await.status.is_terminal() {
            stage
                .until_record(main, "it runs", |record| {
                    record.status == Status::Running && record.queue_position.is_none()
                })
                .await;
        }
    }
    let record = stage.record(main).await;
    assert_eq!(record.reason(), Some(Reason::Interrupted));
    assert_eq!(record.crashes, 4, "one more than may come without progress");
}

const A_LONG_COMMAND: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: exec, args: { command: "echo begun >> log; sleep 300; echo ended >> log" } }]
  - say: "{{last_result}}"
"#;

async fn until_the_command_runs() -> (Stage, RunId) {
    let stage = Play::new(A_LONG_COMMAND).begin().await;
    let main = stage.start("run it").await;
    stage
        .until("the command runs", async || {
            stage.file("log").filter(|log| log == "begun\n")
        })
        .await;
    (stage, main)
}

#[tokio::test]
async fn a_command_interrupted_by_a_crash_is_reported_and_not_repeated() {
    let (stage, main) = until_the_command_runs().await;
    let stage = stage.crash().await;
    stage.end_of(main).await;
    assert_eq!(stage.file("log").as_deref(), Some("begun\n"));
    insta::assert_snapshot!(stage.log(main).await, @r#"
    admitted main: run it
    claimed
    answered 1: exec{"command":"echo begun >> log; sleep 300; echo ended >> log"}
    intended 1-0
    claimed after a crash
    result 1-0 interrupted: Interrupted: the process died while exec ran, and its outcome is unknown. Verify first whether it happened before you do it again.
    answered 2: "Interrupted: the process died while exec ran, and its outcome is unknown. Verify first whether it happened before you do it again."
    finished completed: Interrupted: the process died while exec ran, and its outcome is unknown. Verify first whether it happened before you do it again.
    "#);
}

#[tokio::test]
async fn a_command_interrupted_by_a_shutdown_is_reported_and_not_repeated() {
    let (stage, main) = until_the_command_runs().await;
    let stage = stage.restart().await;
    stage.end_of(main).await;
    assert_eq!(stage.file("log").as_deref(), Some("begun\n"));
    insta::assert_snapshot!(stage.task(main).await, @r"
    status: completed
    progress: 100
    result: Interrupted: the process died while exec ran, and its outcome is unknown. Verify first whether it happened before you do it again.
    tool_calls: 1
    delivery: not_required
    ");
}

/// Crashes during a `write_file` and returns the result of its call afterwards.
async fn write_under_way(
    hesitates: Hesitates,
    meanwhile: Option<&str>,
) -> (String, Option<String>) {
    let writer = HesitantWriter::new(hesitates);
    let mut play = Play::new(
        r#"
  - when: { turn: 1 }
    calls: [{ tool: write_file, args: { path: a.txt, content: new } }]
  - say: "{{last_result}}"
"#,
    );
    play.more_tools = vec![writer.clone()];
    let stage = play.begin().await;
    stage.put("a.txt", "old");
    let main = stage.start("write").await;
    stage
        .until("the tool is called", async || {
            (writer.calls() == 1).then_some(())
        })
        .await;
    let stage = stage
        .crash_and(|workspace| {
            if let Some(content) = meanwhile {
                std::fs::write(workspace.join("a.txt"), content).expect("written");
            }
        })
        .await;
    let record = stage.end_of(main).await;
    let outcome = record.outcome.expect("an outcome");
    let words = outcome.text().unwrap_or_default().to_owned();
    (
        format!("{words}\n(calls: {})", writer.calls()),
        stage.file("a.txt"),
    )
}

#[tokio::test]
async fn a_file_write_interrupted_by_a_crash_is_reconciled() {
    let (words, file) = write_under_way(Hesitates::BeforeWriting, None).await;
    insta::assert_snapshot!(words, @r"
    Overwrote a.txt (1 lines, 3 bytes; +1 -1 lines).
    (calls: 2)
    ");
    assert_eq!(file.as_deref(), Some("new"));
    let (words, file) = write_under_way(Hesitates::AfterWriting, None).await;
    insta::assert_snapshot!(words, @r"
    Wrote a.txt (1 lines, 3 bytes), as a check after an interruption confirmed.
    (calls: 1)
    ");
    assert_eq!(file.as_deref(), Some("new"));
    let (words, file) = write_under_way(Hesitates::BeforeWriting, Some("another process's")).await;
    insta::assert_snapshot!(words, @r"
    Interrupted: the process died while write_file ran, and its outcome is unknown. Verify first whether it happened before you do it again.
    (calls: 1)
    ");
    assert_eq!(file.as_deref(), Some("another process's"));
}

#[tokio::test]
async fn after_a_crash_parent_and_children_resume_and_each_result_is_delivered_once() {
    let stage = Play::new(
        r#"
  - when: { agent: main, turn: 1 }
    calls:
      - { tool: spawn_subagent, args: { task: t, label: early } }
      - { tool: spawn_subagent, args: { task: t, label: late } }
      - { tool: task, args: { description: blocking, prompt: p, subagent_type: general } }
  - when: { agent: main }
    say: "Noted."
  - say: "report of {{label}}"
"#,
    )
    .begin()
    .await;
    stage.model().block("late");
    stage.model().block("blocking");
    let main = stage.start("send three").await;
    stage.until_prompted("late", 1).await;
    stage.until_prompted("blocking", 1).await;
    stage.end_of(stage.run_of("early").await).await;
    let stage = stage.crash().await;
    stage.model().release("late");
    stage.model().release("blocking");
    stage.end_of(main).await;
    assert_eq!(stage.records().await.len(), 4, "no child was started twice");
    let turns = stage.model().requests_of("main").len();
    let last_turn = stage.model().requests_of("main")[turns - 1].origin.turn;
    let history = stage.seen("main", last_turn).await;
    for label in ["early", "late", "blocking"] {
        let report = format!("report of {label}");
        assert_eq!(
            history.matches(&report).count(),
            1,
            "{report} in\n{history}"
        );
    }
}

#[tokio::test]
async fn queued_runs_start_in_the_next_process() {
    let mut play = Play::new("  - say: done");
    play.settings = play.settings.with_max_concurrent(0);
    let stage = play.begin().await;
    let run = stage.create(stage.new_task("general", "t")).await;
    let stage = stage
        .restart_as(|mut play| {
            play.settings = play.settings.with_max_concurrent(1);
            play
        })
        .await;
    assert_eq!(stage.runtime().recovered().queued, 1);
    assert_eq!(stage.end_of(run).await.status, Status::Completed);
}

/// A folder that is gone once it was collected; the first call of `collect` never returns.
#[derive(Debug)]
struct Vanishing {
    above: TempDir,
    collected: Semaphore,
}

#[async_trait]
impl Worktrees for Vanishing {
    async fn create(&self, run: RunId, workspace: &Path) -> Result<Worktree, String> {
        let root = self.above.path().join(run.to_string());
        std::fs::create_dir(&root).map_err(|error| error.to_string())?;
        Ok(Worktree {
            repository: workspace.to_owned(),
            workspace: root.clone(),
            root,
            branch: "sortie/test".to_owned(),
            base: "0".repeat(40),
            git_dirs: Vec::new(),
            git_reads: Vec::new(),
        })
    }

    async fn collect(&self, run: RunId) -> Result<Option<Collected>, String> {
        let root = self.above.path().join(run.to_string());
        if std::fs::remove_dir(root).is_ok() {
            self.collected.add_permits(1);
            std::future::pending::<()>().await;
        }
        Ok(None)
    }

    async fn apply(&self, _: &Worktree, _: &Changes) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    async fn discard(&self, _: &Worktree, _: &Changes) -> Result<(), String> {
        Ok(())
    }

    async fn runs(&self) -> Result<Vec<RunId>, String> {
        Ok(Vec::new())
    }

    async fn sweep(&self, _: &[RunId]) -> Result<(), String> {
        Ok(())
    }
}

#[tokio::test]
async fn a_run_whose_worktree_was_collected_before_a_crash_ends() {
    let worktrees = Arc::new(Vanishing {
        above: TempDir::new().expect("a folder"),
        collected: Semaphore::new(0),
    });
    let mut play = Play::new("  - say: \"{{turn}}\"\n");
    play.worktrees = Arc::clone(&worktrees) as Arc<dyn Worktrees>;
    let stage = play.begin().await;
    let mut new = stage.new_run("look");
    new.isolation = Some(Isolation::Worktree);
    let run = stage.create(new).await;
    drop(worktrees.collected.acquire().await.expect("it is open"));
    let steered = stage.runtime().steer(run, "and the cellar?").await;
    steered.expect("it is accepted");
    let stage = stage.crash().await;
    stage.end_of(run).await;
    insta::assert_snapshot!(stage.log(run).await, @r#"
    admitted main: look
    claimed
    isolated
    answered 1: "1"
    claimed after a crash
    collected nothing
    inbox steer "and the cellar?"
    finished completed: 1
    "#);
}
