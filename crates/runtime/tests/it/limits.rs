//! Limits of concurrency, queue and tree size; a stuck child does not affect others.

use std::fmt::Write as _;

use sortie_core::run::{Status, WaitingOn};
use sortie_core::words::Lang;
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
    result 2-0 ok: Subagent [c3] is queued at position 1 (ID: <c3>). I will notify you when it finishes.
    result 2-1 ok: Subagent [c4] is queued at position 2 (ID: <c4>). I will notify you when it finishes.
    result 2-2 ok: Subagent [c5] is queued at position 3 (ID: <c5>). I will notify you when it finishes.
    result 2-3 ok: Subagent [c6] is queued at position 1 (ID: <c6>). I will notify you when it finishes.
    ");
}

/// Returns the answers to four spawns of one reply, where two children may run.
async fn answers_to_four(lang: Lang, lanes: Lanes) -> String {
    let stage = Play::speaking(
        lang,
        r#"
  - when: { agent: main, turn: 1 }
    calls:
      - { tool: spawn_subagent, args: { task: t, label: c1 } }
      - { tool: spawn_subagent, args: { task: t, label: c2 } }
      - { tool: spawn_subagent, args: { task: t, label: c3 } }
      - { tool: spawn_subagent, args: { task: t, label: c4, announce: silent } }
  - say: "done"
"#,
    )
    .set(|settings| settings.lanes = lanes)
    .begin()
    .await;
    let labels = ["c1", "c2", "c3", "c4"];
    for label in labels {
        stage.model().block(label);
    }
    let main = stage.start("send four").await;
    stage.until_prompted("main", 2).await;
    let seen = stage.seen("main", 2).await;
    for label in labels {
        stage.model().release(label);
    }
    stage.end_of(main).await;
    let at = seen.find("result 1-0").expect("the answers");
    seen[at..].to_owned()
}

/// All four are admitted before the scheduler claims the first, or after: the answers are the same.
#[tokio::test]
async fn children_are_reported_as_started_or_queued_with_their_true_position() {
    let lane_is_full = Lanes {
        main: 4,
        subagent: 2,
        per_parent: 2,
        per_tree: 2,
    };
    let parent_is_full = Lanes {
        subagent: 8,
        per_tree: 8,
        ..lane_is_full
    };
    for lanes in [lane_is_full, parent_is_full] {
        let english = answers_to_four(Lang::En, lanes).await;
        let chinese = answers_to_four(Lang::Zh, lanes).await;
        insta::allow_duplicates! {
            insta::assert_snapshot!(english, @r"
            result 1-0 ok: Subagent [c1] started (ID: <c1>). I will notify you when it finishes.
            result 1-1 ok: Subagent [c2] started (ID: <c2>). I will notify you when it finishes.
            result 1-2 ok: Subagent [c3] is queued at position 1 (ID: <c3>). I will notify you when it finishes.
            result 1-3 ok: Subagent [c4] is queued at position 2 (ID: <c4>). No notice follows when it finishes; read its result with subagents, action get.
            ");
            insta::assert_snapshot!(chinese, @r"
            result 1-0 ok: 子 Agent [c1] 已启动 (ID: <c1>)。完成后我会通知你。
            result 1-1 ok: 子 Agent [c2] 已启动 (ID: <c2>)。完成后我会通知你。
            result 1-2 ok: 子 Agent [c3] 正在排队，位置：1 (ID: <c3>)。完成后我会通知你。
            result 1-3 ok: 子 Agent [c4] 正在排队，位置：2 (ID: <c4>)。完成后不会通知；用 subagents 的 get 查看结果。
            ");
        }
    }
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
