//! Every outcome of a run, as the JSON of a task.

use std::time::Duration;

use sortie_core::budget::Budget;
use sortie_runtime::NewRun;
use sortie_test_support::stage::{Play, Stage};

/// Plays one background task and returns how it ended.
async fn ending(rules: &str, change: impl FnOnce(&mut NewRun)) -> (Stage, String) {
    let stage = Play::new(rules).begin().await;
    let mut new = stage.new_task("general", "t");
    change(&mut new);
    let run = stage.create(new).await;
    stage.end_of(run).await;
    let shown = stage.task(run).await;
    (stage, shown)
}

/// Each completion looks somewhere else, so that it is no loop.
const LOOKS_FOR_EVER: &str = r#"
  - when: { no_tools: true }
    say: "All I have."
  - say: "Still looking ({{turn}})."
    calls: [{ tool: glob, args: { pattern: "{{turn}}" } }]
    usage: { input_tokens: 50, output_tokens: 10 }
"#;

#[tokio::test]
async fn completed() {
    let rules = r#"
  - when: { turn: 1 }
    calls: [{ tool: list_dir, args: { path: "." } }]
    usage: { input_tokens: 100, output_tokens: 5 }
  - say: "It is empty."
    usage: { input_tokens: 120, output_tokens: 7 }
"#;
    let (_, shown) = ending(rules, |_| ()).await;
    insta::assert_snapshot!(shown, @r"
    status: completed
    progress: 100
    result: It is empty.
    tool_calls: 1
    tokens: 232
    delivery: not_required
    ");
}

#[tokio::test]
async fn max_iterations_after_one_last_call_without_tools() {
    let (stage, shown) = ending(LOOKS_FOR_EVER, |new| new.max_iterations = Some(2)).await;
    insta::assert_snapshot!(shown, @r"
    status: failed
    reason: max_iterations
    error: It reached its limit of 2 iterations before it was done.
    progress: 10
    result: All I have.
    tool_calls: 2
    tokens: 120
    delivery: not_required
    ");
    let tools: Vec<usize> = stage
        .model()
        .requests_of("t")
        .iter()
        .map(|request| request.tools.len().min(1))
        .collect();
    assert_eq!(tools, [1, 1, 0], "the third call offers no tools");
    insta::assert_snapshot!(stage.seen("t", 3).await, @r#"
    user: do it
    assistant: "Still looking (1)." glob{"pattern":"1"}
    result 1-1 ok: No file matches 1.
    assistant: "Still looking (2)." glob{"pattern":"2"}
    result 2-1 ok: No file matches 2.
    notice: [Limit reached] You have used all of your 2 iterations, and no more tools can be called. Report now: what you found or did, and plainly what is missing or not verified.
    "#);
}

#[tokio::test]
async fn max_iterations_even_if_the_last_answer_calls_a_tool() {
    let rules = r#"
  - when: { no_tools: true }
    say: "One more."
    calls: [{ tool: write_file, args: { path: never.txt, content: x } }]
  - calls: [{ tool: glob, args: { pattern: "{{turn}}" } }]
"#;
    let (stage, shown) = ending(rules, |new| new.max_iterations = Some(1)).await;
    insta::assert_snapshot!(shown, @r"
    status: failed
    reason: max_iterations
    error: It reached its limit of 1 iteration before it was done.
    progress: 5
    result: One more.
    tool_calls: 1
    delivery: not_required
    ");
    assert_eq!(stage.file("never.txt"), None);
}

#[tokio::test]
async fn empty_result_after_one_reminder() {
    let (stage, shown) = ending("  - fault: { kind: empty }", |_| ()).await;
    insta::assert_snapshot!(shown, @r"
    status: failed
    reason: empty_result
    error: The model returned no text, also after a retry.
    progress: 0
    tool_calls: 0
    delivery: not_required
    ");
    insta::assert_snapshot!(stage.seen("t", 2).await, @r"
    user: do it
    notice: [Empty answer] Your last answer had no text. Give your result now; if there is none, say so and why.
    ");
}

#[tokio::test]
async fn a_completion_after_an_empty_one_completes_the_run() {
    let rules = r#"
  - when: { turn: 1 }
    fault: { kind: empty }
  - say: "Sorry: here it is."
"#;
    let (_, shown) = ending(rules, |_| ()).await;
    insta::assert_snapshot!(shown, @r"
    status: completed
    progress: 100
    result: Sorry: here it is.
    tool_calls: 0
    delivery: not_required
    ");
}

#[tokio::test]
async fn repeated_calls_get_a_notice_then_end_the_run() {
    let rules = r#"
  - say: "Again."
    calls: [{ tool: list_dir, args: { path: "." } }]
"#;
    let (stage, shown) = ending(rules, |_| ()).await;
    insta::assert_snapshot!(shown, @r"
    status: failed
    reason: loop
    error: It called list_dir 5 times with the same arguments and was stopped.
    progress: 20
    result: Again.
    tool_calls: 4
    delivery: not_required
    ");
    let last = stage.seen("t", 4).await;
    assert!(last.contains("notice: [Repetition]"), "{last}");
}

#[tokio::test]
async fn tokens_used_up() {
    let rules = r#"
  - say: "Still looking ({{turn}})."
    usage: { input_tokens: 18000, output_tokens: 100 }
    calls: [{ tool: list_dir, args: { path: ".", depth: "{{turn}}" } }]
"#;
    let tokens = Budget {
        tokens: Some(40_000),
        ..Budget::default()
    };
    let (stage, shown) = ending(rules, |new| new.budget = tokens).await;
    insta::assert_snapshot!(shown, @r#"
    status: failed
    reason: budget
    error: The budget is too small for the next step: 36,200 tokens of 40,000 tokens are spent or reserved.
    progress: 10
    result: Still looking (2).
    tool_calls: 2
    tokens: 36200
    delivery: not_required
    "#);
    let last = stage.seen("t", 2).await;
    assert!(!last.contains("notice: [Budget"), "{last}");
}

#[tokio::test]
async fn tool_calls_used_up() {
    let rules = r#"
  - say: "Four at once."
    calls:
      - { tool: write_file, args: { path: "1.txt", content: x } }
      - { tool: write_file, args: { path: "2.txt", content: x } }
      - { tool: write_file, args: { path: "3.txt", content: x } }
      - { tool: write_file, args: { path: "4.txt", content: x } }
"#;
    let calls = Budget {
        tool_calls: Some(3),
        ..Budget::default()
    };
    let (stage, shown) = ending(rules, |new| new.budget = calls).await;
    insta::assert_snapshot!(shown, @r"
    status: failed
    reason: budget
    error: The budget is too small for the next step: 3 tool calls of 3 tool calls are spent or reserved.
    progress: 0
    result: Four at once.
    tool_calls: 3
    delivery: not_required
    ");
    let written = [1, 2, 3, 4].map(|number| stage.file(&format!("{number}.txt")).is_some());
    assert_eq!(written, [true, true, true, false]);
}

#[tokio::test]
async fn a_permanent_model_error_fails_the_run() {
    let rules = r#"
  - when: { turn: 1 }
    say: "I begin."
    calls: [{ tool: list_dir, args: { path: "." } }]
  - fault: { kind: error, message: "the key is not valid" }
"#;
    let (stage, shown) = ending(rules, |_| ()).await;
    insta::assert_snapshot!(shown, @r"
    status: failed
    reason: error
    error: The model call failed: the key is not valid
    progress: 5
    result: I begin.
    tool_calls: 1
    delivery: not_required
    ");
    assert_eq!(
        stage.model().requests_of("t").len(),
        2,
        "it was not asked again"
    );
}

#[tokio::test]
async fn a_transient_model_error_is_retried() {
    let rules = r#"
  - fault: { kind: retryable, message: "the provider is busy", times: 1 }
    say: "Better now."
"#;
    let (stage, shown) = ending(rules, |_| ()).await;
    insta::assert_snapshot!(shown, @r"
    status: completed
    progress: 100
    result: Better now.
    tool_calls: 0
    delivery: not_required
    ");
    let run = stage.run_of("t").await;
    insta::assert_snapshot!(stage.log(run).await, @r#"
    admitted general: do it
    claimed
    model failed (transient): the provider is busy
    answered 1: "Better now."
    finished completed: Better now.
    "#);
}

#[tokio::test]
async fn timeout_keeps_the_partial_result() {
    let rules = r#"
  - when: { turn: 1 }
    say: "I have the beginning."
    calls: [{ tool: list_dir, args: { path: "." } }]
  - fault: { kind: hang }
"#;
    let second = Duration::from_secs(1);
    let (_, shown) = ending(rules, |new| new.timeout = Some(second)).await;
    insta::assert_snapshot!(shown, @r"
    status: timeout
    error: the deadline passed: 1.0 s were given
    progress: 5
    result: I have the beginning.
    tool_calls: 1
    delivery: not_required
    ");
}

#[tokio::test]
async fn timeout_of_a_waiting_parent_ends_its_children() {
    let stage = Play::new(
        r#"
  - when: { agent: main }
    say: "I send one and wait."
    calls: [{ tool: task, args: { description: kid, prompt: p, subagent_type: general } }]
  - fault: { kind: hang }
"#,
    )
    .begin()
    .await;
    let mut new = stage.new_run("wait");
    new.timeout = Some(Duration::from_secs(1));
    let main = stage.create(new).await;
    stage.end_of(main).await;
    insta::assert_snapshot!(stage.task(main).await, @r"
    status: timeout
    error: the deadline passed: 1.0 s were given
    progress: 0
    result: I send one and wait.
    tool_calls: 0
    delivery: not_required
    ");
    let kid = stage.run_of("kid").await;
    stage.end_of(kid).await;
    insta::assert_snapshot!(stage.task(kid).await, @r"
    status: cancelled
    error: cancelled by the end of its parent: its parent ended
    progress: 0
    tool_calls: 0
    delivery: not_required
    ");
}

#[tokio::test]
async fn cancel_keeps_the_partial_result() {
    let stage = Play::new(
        r#"
  - when: { turn: 1 }
    say: "I have the beginning."
    calls: [{ tool: list_dir, args: { path: "." } }]
  - fault: { kind: hang }
"#,
    )
    .begin()
    .await;
    let run = stage.create(stage.new_task("general", "t")).await;
    stage.until_prompted("t", 2).await;
    let report = stage.runtime().cancel(run, "no longer needed").await;
    assert_eq!(report.expect("a report").signalled, [run]);
    stage.end_of(run).await;
    insta::assert_snapshot!(stage.task(run).await, @r"
    status: cancelled
    error: cancelled by a person: no longer needed
    progress: 5
    result: I have the beginning.
    tool_calls: 1
    delivery: not_required
    ");
}

#[tokio::test]
async fn truncated_refused_and_filtered_completions_fail_the_run() {
    let check = async |reason: &str| {
        let rules = format!("  - say: half\n    fault: {{ kind: stop, reason: {reason} }}");
        ending(&rules, |_| ()).await.1
    };
    insta::assert_snapshot!(check("max_tokens").await, @r"
    status: failed
    reason: error
    error: The model's answers reached the token limit repeatedly.
    progress: 0
    result: half
    tool_calls: 0
    delivery: not_required
    ");
    insta::assert_snapshot!(check("refusal").await, @r"
    status: failed
    reason: error
    error: The model declined the task.
    progress: 0
    result: half
    tool_calls: 0
    delivery: not_required
    ");
    insta::assert_snapshot!(check("content_filter").await, @r"
    status: failed
    reason: error
    error: The provider's content filter stopped the answer.
    progress: 0
    result: half
    tool_calls: 0
    delivery: not_required
    ");
}
