//! Limits of concurrency, queue and tree size; a stuck child does not affect others.

use std::fmt::Write as _;

use sortie_core::run::{Status, WaitingOn};
use sortie_runtime::Lanes;
use sortie_test_support::stage::{Play, Stage};

const SIX: &str = r#"
  - when: { agent: main, turn: 1 }
    calls:
      - { tool: spawn_subagent, args: { task: t, label: c1 } }
      - { tool: spawn_subagent, args: { task: t, label: c2 } }
  - when: { agent: main, turn: 2 }
    calls:
      - { tool: spawn_subagent, args: { task: t, label: c3 } }
      - { tool: spawn_subagent, args: { task: t, label: c4 } }
      - { tool: spawn_subagent, args: { task: t, label: c5, priority: low } }
      - { tool: spawn_subagent, args: { task: t, label: c6, priority: high } }
  - when: { agent: main }
    say: "Noted."
  - say: "done"
"#;

/// Returns every child with its state and its position in the queue.
async fn queue(stage: &Stage) -> String {
    let mut lines = String::new();
    for record in stage.records().await {
        if record.depth > 0 {
            let place = record
                .queue_position
                .map_or(String::new(), |place| format!(" {place}"));
            writeln!(lines, "{} {}{place}", record.label, record.status).expect("a line");
        }
    }
    lines
}

#[tokio::test]
async fn concurrency_is_limited_and_the_queue_follows_priority_and_age() {
    let mut play = Play::new(SIX);
    play.settings = play.settings.with_max_concurrent(2);
    let stage = play.begin().await;
    for label in ["c1", "c2", "c3", "c4", "c5", "c6", "main#2"] {
        stage.model().block(label);
    }
    let main = stage.start("send six").await;
    stage.until_prompted("c1", 1).await;
    stage.until_prompted("c2", 1).await;
    stage.model().release("main#2");
    stage.until_prompted("main", 3).await;
    insta::assert_snapshot!(queue(&stage).await, @r"
    c1 running
    c2 running
    c3 pending 2
    c4 pending 3
    c5 pending 4
    c6 pending 1
    ");
    stage.model().release("c1");
    stage.until_prompted("c6", 1).await;
    insta::assert_snapshot!(queue(&stage).await, @r"
    c1 completed
    c2 running
    c3 pending 1
    c4 pending 2
    c5 pending 3
    c6 running
    ");
    for (done, next) in [("c2", "c3"), ("c6", "c4"), ("c3", "c5")] {
        stage.model().release(done);
        stage.until_prompted(next, 1).await;
    }
    stage.model().release("c4");
    stage.model().release("c5");
    stage.end_of(main).await;
    assert_eq!(stage.model().most_children_at_once(), 2);
    assert_eq!(
        stage.model().order(),
        ["main", "c1", "c2", "c6", "c3", "c4", "c5"]
    );
    let seen = stage.seen("main", 3).await;
    let at = seen.find("result 2-0").expect("the second answers");
    insta::assert_snapshot!(seen[at..], @r"
    result 2-0 ok: Subagent [c3] started (ID: <c3>). I will notify you when it finishes. ⏎ It waits in the queue at position 1.
    result 2-1 ok: Subagent [c4] started (ID: <c4>). I will notify you when it finishes. ⏎ It waits in the queue at position 2.
    result 2-2 ok: Subagent [c5] started (ID: <c5>). I will notify you when it finishes. ⏎ It waits in the queue at position 3.
    result 2-3 ok: Subagent [c6] started (ID: <c6>). I will notify you when it finishes. ⏎ It waits in the queue at position 1.
    ");
}

/// Starts three children where only two may run, and shows them while those two are blocked.
async fn two_of_three(lanes: Lanes) -> String {
    let stage = Play::new(
        r#"
  - when: { agent: main, turn: 1 }
    calls:
      - { tool: spawn_subagent, args: { task: t, label: c1 } }
      - { tool: spawn_subagent, args: { task: t, label: c2 } }
      - { tool: spawn_subagent, args: { task: t, label: c3 } }
  - say: "done"
"#,
    )
    .set(|settings| settings.lanes = lanes)
    .begin()
    .await;
    for label in ["c1", "c2", "c3"] {
        stage.model().block(label);
    }
    let main = stage.start("send three").await;
    stage.until_prompted("c1", 1).await;
    stage.until_prompted("c2", 1).await;
    stage
        .until_record(main, "main waits for its children", |record| {
            record.summary.waiting_on == Some(WaitingOn::Children)
        })
        .await;
    let shown = queue(&stage).await;
    for label in ["c1", "c2", "c3"] {
        stage.model().release(label);
    }
    stage.end_of(main).await;
    assert!(stage.model().most_children_at_once() <= 2);
    shown
}

#[tokio::test]
async fn limits_of_lane_parent_and_tree_each_apply() {
    let wide = Lanes {
        main: 1,
        subagent: 9,
        per_parent: 9,
        per_tree: 9,
    };
    let expected = "c1 running\nc2 running\nc3 pending 1\n";
    let lane = Lanes {
        subagent: 2,
        ..wide
    };
    assert_eq!(two_of_three(lane).await, expected, "lane");
    let parent = Lanes {
        per_parent: 2,
        ..wide
    };
    assert_eq!(two_of_three(parent).await, expected, "parent");
    let tree = Lanes {
        per_tree: 2,
        ..wide
    };
    assert_eq!(two_of_three(tree).await, expected, "tree");
}

#[tokio::test]
async fn a_run_that_waits_for_a_child_occupies_no_slot() {
    let mut play = Play::new(
        r#"
  - when: { depth: "0..2", turn: 1 }
    calls: [{ tool: task, args: { description: "of {{label}}", prompt: p, subagent_type: general } }]
  - say: "done"
"#,
    );
    play.settings = play.settings.with_max_concurrent(1);
    play.settings.caps.max_depth = 3;
    let stage = play.begin().await;
    assert_eq!(stage.play("go deep").await.status, Status::Completed);
    assert_eq!(stage.records().await.len(), 4);
    assert_eq!(stage.model().most_children_at_once(), 1);
}

#[tokio::test]
async fn spawning_in_a_full_tree_is_refused() {
    let stage = Play::new(
        r#"
  - when: { agent: main, turn: 1 }
    calls:
      - { tool: task, args: { description: a, prompt: p, subagent_type: explore } }
      - { tool: task, args: { description: b, prompt: p, subagent_type: explore } }
      - { tool: task, args: { description: c, prompt: p, subagent_type: explore } }
  - when: { agent: main }
    say: "{{result:3}}"
  - say: "done"
"#,
    )
    .set(|settings| settings.caps.max_children_per_tree = 2)
    .begin()
    .await;
    let main = stage.play("send three").await;
    assert_eq!(stage.records().await.len(), 3);
    insta::assert_snapshot!(stage.task(main.run_id).await, @r"
    status: completed
    progress: 100
    result: Error: no more subagents can be started here; the limit is 2 for the whole task. Do the rest yourself, or continue with the results you have.
    tool_calls: 3
    delivery: not_required
    ");
}

#[tokio::test]
async fn a_stuck_child_times_out_alone_with_its_partial_result() {
    let stage = Play::new(
        r#"
  - when: { agent: main, turn: 1 }
    calls:
      - { tool: spawn_subagent, args: { task: t, label: stuck, runTimeoutSeconds: 1 } }
      - { tool: spawn_subagent, args: { task: t, label: a } }
      - { tool: spawn_subagent, args: { task: t, label: b } }
  - when: { agent: main }
    say: "Noted."
  - when: { label: stuck, turn: 1 }
    say: "I have found something."
    calls: [{ tool: list_dir, args: { path: "." } }]
  - when: { label: stuck }
    fault: { kind: hang }
  - say: "done"
"#,
    )
    .begin()
    .await;
    let main = stage.start("send three").await;
    for label in ["a", "b"] {
        stage.until_prompted(label, 1).await;
        let sibling = stage.end_of(stage.run_of(label).await).await;
        assert_eq!(sibling.status, Status::Completed, "{label}");
    }
    assert_eq!(stage.end_of(main).await.status, Status::Completed);
    insta::assert_snapshot!(stage.task(stage.run_of("stuck").await).await, @r"
    status: timeout
    error: the deadline passed: 1.0 s were given
    progress: 5
    result: I have found something.
    tool_calls: 1
    delivery: delivered
    ");
    let stuck = stage.record(stage.run_of("stuck").await).await;
    let elapsed = stuck.elapsed_ms(stage.runtime().now());
    assert!(elapsed >= 1_000, "it was ended after {elapsed} ms");
}
