//! Cancel: a durable intent that reaches all descendants, down to operating-system processes.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use sortie_core::event::Event;
use sortie_core::id::{RunId, Seq};
use sortie_core::run::Status;
use sortie_test_support::stage::{Play, Stage};

/// How long processes may live on after a cancel.
const MAX_AFTERLIFE: Duration = Duration::from_secs(2);

#[tokio::test]
async fn queued_running_waiting_and_nested_children_all_end() {
    let mut play = Play::new(
        r#"
  - when: { label: main, turn: 1 }
    calls:
      - { tool: spawn_subagent, args: { task: t, label: runs } }
      - { tool: spawn_subagent, args: { task: t, label: waits } }
      - { tool: spawn_subagent, args: { task: t, label: runs too } }
  - when: { label: main, turn: 2 }
    calls: [{ tool: spawn_subagent, args: { task: t, label: queued } }]
  - when: { label: main }
    say: "I wait."
  - when: { label: waits, turn: 1 }
    say: "I have one myself."
    calls: [{ tool: task, args: { description: nested, prompt: p, subagent_type: general } }]
  - fault: { kind: hang }
"#,
    );
    play.settings = play.settings.with_max_concurrent(3);
    play.settings.caps.max_depth = 2;
    let stage = play.begin().await;
    stage.model().block("main#2");
    let main = stage.start("send many").await;
    for label in ["runs", "runs too", "nested"] {
        stage.until_prompted(label, 1).await;
    }
    stage.model().release("main#2");
    stage.until_prompted("main", 3).await;
    let queued = stage.record(stage.run_of("queued").await).await;
    assert_eq!(
        (queued.status, queued.queue_position),
        (Status::Pending, Some(1))
    );
    stage
        .runtime()
        .cancel(main, "enough")
        .await
        .expect("a report");
    let mut lines = String::new();
    for record in stage.records().await {
        let ended = stage.end_of(record.run_id).await;
        let outcome = ended.outcome.expect("an outcome");
        let error = outcome.error().unwrap_or_default();
        let canceller = error.split(':').next().unwrap_or_default();
        writeln!(
            lines,
            "{}: {canceller}, delivery {}",
            ended.label, ended.delivery
        )
        .expect("a line");
    }
    insta::assert_snapshot!(lines, @r"
    main: cancelled by a person, delivery not_required
    runs: cancelled by the end of its parent, delivery not_required
    waits: cancelled by the end of its parent, delivery not_required
    runs too: cancelled by the end of its parent, delivery not_required
    nested: cancelled by the end of its parent, delivery not_required
    queued: cancelled by the end of its parent, delivery not_required
    ");
    assert_eq!(stage.runtime().count().await.expect("a count"), 0);
}

/// Returns whether a process is alive; a zombie is not.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
    stat.is_ok_and(|stat| {
        let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
        !state.starts_with('Z')
    })
}

/// Returns the ids that the shell commands of the workspace have written.
async fn processes(stage: &Stage, count: usize) -> Vec<String> {
    stage
        .until("the command runs", async || {
            let text = stage.file("pids")?;
            let pids: Vec<String> = text.lines().map(str::to_owned).collect();
            (pids.len() == count && text.ends_with('\n')).then_some(pids)
        })
        .await
}

#[tokio::test]
async fn the_processes_of_a_running_command_are_gone() {
    let stage = Play::new(
        r#"
  - when: { agent: main }
    calls: [{ tool: task, args: { description: kid, prompt: p, subagent_type: code } }]
  - calls:
      - tool: exec
        args: { command: "sleep 300 & echo $! > pids.tmp; echo $$ >> pids.tmp; mv pids.tmp pids; wait" }
"#,
    )
    .begin()
    .await;
    let main = stage.start("run something").await;
    let pids = processes(&stage, 2).await;
    assert!(pids.iter().all(|pid| is_alive(pid)), "{pids:?}");
    let cancelled = Instant::now();
    stage
        .runtime()
        .cancel(main, "enough")
        .await
        .expect("a report");
    stage.end_of(stage.run_of("kid").await).await;
    stage
        .until("the processes are gone", async || {
            (!pids.iter().any(|pid| is_alive(pid))).then_some(())
        })
        .await;
    let took = cancelled.elapsed();
    assert!(took < MAX_AFTERLIFE, "{took:?}");
    let kid = stage.record(stage.run_of("kid").await).await;
    assert_eq!(kid.status, Status::Cancelled);
}

async fn ends_in_journal(stage: &Stage, run: RunId) -> usize {
    let entries = stage
        .runtime()
        .events(run, Seq(0))
        .await
        .expect("a journal");
    entries
        .iter()
        .filter(|entry| matches!(entry.event, Event::Finished { .. }))
        .count()
}

#[tokio::test]
async fn a_race_with_completion_has_one_winner() {
    let stage = Play::new("  - say: done").begin().await;
    for number in 0..20 {
        let label = format!("t{number}");
        stage.model().block(&label);
        let run = stage.create(stage.new_task("general", &label)).await;
        stage.until_prompted(&label, 1).await;
        stage.model().release(&label);
        for _ in 0..number {
            tokio::task::yield_now().await;
        }
        let report = stage
            .runtime()
            .cancel(run, "too late?")
            .await
            .expect("a report");
        let record = stage.end_of(run).await;
        assert_eq!(ends_in_journal(&stage, run).await, 1);
        assert_eq!(
            record.outcome.map(|outcome| outcome.status()),
            Some(record.status)
        );
        match record.status {
            Status::Completed => {}
            Status::Cancelled => assert_eq!(report.already_ended, None),
            Status::Pending | Status::Running | Status::Failed | Status::Timeout => {
                panic!("{label} ended as {}", record.status)
            }
        }
    }
}

#[tokio::test]
async fn cancelling_an_ended_run_reports_it_and_changes_nothing() {
    let stage = Play::new("  - say: done").begin().await;
    let run = stage.create(stage.new_task("general", "t")).await;
    let before = stage.end_of(run).await;
    let report = stage
        .runtime()
        .cancel(run, "too late")
        .await
        .expect("a report");
    assert_eq!(report.already_ended, Some(Status::Completed));
    assert!(report.ended.is_empty() && report.signalled.is_empty());
    assert_eq!(stage.record(run).await, before);
}

#[tokio::test]
async fn cancel_ends_queued_runs_at_once() {
    let mut play = Play::new("  - say: never");
    play.settings = play.settings.with_max_concurrent(0);
    let stage = play.begin().await;
    let run = stage.create(stage.new_task("general", "t")).await;
    stage
        .runtime()
        .cancel(run, "changed my mind")
        .await
        .expect("a report");
    insta::assert_snapshot!(stage.task(run).await, @r"
    status: cancelled
    error: cancelled by a person: changed my mind
    progress: 0
    tool_calls: 0
    delivery: not_required
    ");
    assert!(stage.model().requests().is_empty());
}
