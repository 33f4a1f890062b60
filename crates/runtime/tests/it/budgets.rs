//! Budgets of trees: reserved before, refunded after, never exceeded.

use sortie_core::budget::{Balance, Budget, BudgetKind};
use sortie_core::event::Event;
use sortie_core::id::Seq;
use sortie_core::run::Status;
use sortie_test_support::stage::{Play, Stage};

async fn with_budget(rules: &str, budget: Budget) -> (Stage, sortie_core::run::RunRecord) {
    let stage = Play::new(rules).begin().await;
    let mut new = stage.new_run("go");
    new.budget = budget;
    let run = stage.create(new).await;
    let record = stage.end_of(run).await;
    (stage, record)
}

fn balance(record: &sortie_core::run::RunRecord, kind: BudgetKind) -> Balance {
    let mut lines = record.budget.iter();
    let line = lines.find(|line| line.kind == kind).copied();
    line.unwrap_or_else(|| panic!("no {kind} in {:?}", record.budget))
}

const THREE_CHILDREN: &str = r#"
  - when: { agent: main, turn: 1 }
    usage: { input_tokens: 1000, output_tokens: 100, cost_usd: 0.001 }
    calls:
      - { tool: spawn_subagent, args: { task: a, label: a, agentId: code } }
      - { tool: spawn_subagent, args: { task: b, label: b, agentId: code, budget: { tokens: 30000 } } }
      - { tool: task, args: { description: c, prompt: c, subagent_type: code } }
  - when: { agent: code }
    usage: { input_tokens: 2000, output_tokens: 100, cost_usd: 0.002 }
    say: "child done"
  - usage: { input_tokens: 1000, output_tokens: 100, cost_usd: 0.001 }
    say: "done"
"#;

#[tokio::test]
async fn all_runs_of_a_tree_draw_from_one_account() {
    let (stage, record) = with_budget(
        THREE_CHILDREN,
        Budget {
            tokens: Some(200_000),
            usd_micros: Some(1_000_000),
            children: Some(5),
            ..Budget::default()
        },
    )
    .await;
    assert_eq!(record.status, Status::Completed);
    let used: u64 = stage
        .records()
        .await
        .iter()
        .filter_map(|record| record.summary.usage.total_tokens())
        .sum();
    let tokens = balance(&record, BudgetKind::Tokens);
    assert_eq!((tokens.spent, tokens.reserved), (used, 0));
    let usd = balance(&record, BudgetKind::Usd);
    let main_turns = (used - 3 * 2100) / 1100;
    assert_eq!((usd.spent, usd.reserved), (main_turns * 1000 + 3 * 2000, 0));
    assert_eq!(balance(&record, BudgetKind::Children).spent, 3);
}

#[tokio::test]
async fn a_childs_account_is_carved_from_its_parents_and_no_larger() {
    let rules = r#"
  - when: { agent: main, turn: 1 }
    calls:
      - { tool: spawn_subagent, args: { task: t, label: greedy, agentId: code, budget: { tokens: 1000000 } } }
      - { tool: spawn_subagent, args: { task: t, label: late, agentId: code, budget: { tokens: 10 } } }
  - say: "done"
    usage: { input_tokens: 100, output_tokens: 10 }
"#;
    let (stage, main) = with_budget(
        rules,
        Budget {
            tokens: Some(60_000),
            ..Budget::default()
        },
    )
    .await;
    let greedy = stage.run_of("greedy").await;
    let tokens = balance(&stage.record(greedy).await, BudgetKind::Tokens);
    assert!(tokens.limit < 60_000, "{tokens:?}");
    // The parent gave its whole budget away: the other child got nothing, and the parent waited
    // until the first child was done.
    assert_eq!(main.status, Status::Completed);
    let log = stage.log(main.run_id).await;
    assert!(log.contains("the budget has no tokens left"), "{log}");
}

#[tokio::test]
async fn the_last_tool_calls_of_a_tree_are_shared() {
    let rules = r#"
  - when: { agent: main, turn: 1 }
    calls: [{ tool: task, args: { description: kid, prompt: c, subagent_type: code } }]
  - when: { agent: code, turn: 1 }
    calls:
      - { tool: write_file, args: { path: "1.txt", content: x } }
      - { tool: write_file, args: { path: "2.txt", content: x } }
      - { tool: write_file, args: { path: "3.txt", content: x } }
  - say: "done"
"#;
    let (stage, _) = with_budget(
        rules,
        Budget {
            tool_calls: Some(3),
            ..Budget::default()
        },
    )
    .await;
    let written = [1, 2, 3].map(|number| stage.file(&format!("{number}.txt")).is_some());
    assert_eq!(written, [true, true, false], "one call was the parent's");
    let kid = stage.record(stage.run_of("kid").await).await;
    assert_eq!(kid.reason(), Some(sortie_core::run::Reason::Budget));
}

#[tokio::test]
async fn a_retried_child_gets_what_its_tree_has_left() {
    let rules = r#"
  - when: { agent: main, turn: 1 }
    calls: [{ tool: task, args: { description: kid, prompt: c, subagent_type: code } }]
  - when: { agent: code, turn: 1 }
    calls: [{ tool: list_dir, args: { path: "." } }]
  - say: "done"
"#;
    let limit = Budget {
        tool_calls: Some(5),
        ..Budget::default()
    };
    let (stage, _) = with_budget(rules, limit).await;
    let kid = stage.run_of("kid").await;
    let runtime = stage.runtime();
    let again = runtime.retry(kid).await.expect("a new run");
    let branch = runtime.fork(sortie_runtime::Fork {
        point: sortie_core::run::ForkPoint {
            run: kid,
            at: Seq(1),
        },
        model: None,
        label: None,
        mode: sortie_core::policy::Mode::Default,
    });
    for alone in [again, branch.await.expect("a branch")] {
        let spec = runtime.spec(alone).await.expect("a spec");
        assert_eq!(spec.limits.budget.tool_calls, Some(3));
        assert_eq!(spec.account, Some(alone));
        assert_eq!(stage.end_of(alone).await.status, Status::Completed);
    }
}

#[tokio::test]
async fn a_retried_child_with_its_own_account_stays_within_its_tree() {
    const HOUR_MS: u64 = 3_600_000;
    let rules = r#"
  - when: { agent: main, turn: 1 }
    usage: { input_tokens: 1000, output_tokens: 100, cost_usd: 0.001 }
    calls: [{ tool: spawn_subagent, args: { task: t, label: kid, agentId: code, budget: { tokens: 30000 } } }]
  - usage: { input_tokens: 1000, output_tokens: 100, cost_usd: 0.001 }
    say: "done"
"#;
    let limit = Budget {
        usd_micros: Some(1_000_000),
        wall_ms: Some(HOUR_MS),
        ..Budget::default()
    };
    let (stage, main) = with_budget(rules, limit).await;
    let kid = stage.run_of("kid").await;
    let runtime = stage.runtime();
    let again = runtime.retry(kid).await.expect("a new run");
    let budget = runtime.spec(again).await.expect("a spec").limits.budget;
    assert_eq!(budget.tokens, Some(30_000), "what it was granted");
    let usd = balance(&main, BudgetKind::Usd);
    assert!(usd.spent > 0);
    assert_eq!(budget.usd_micros, Some(usd.left()));
    assert!(budget.wall_ms.is_some_and(|left| left <= HOUR_MS));
    assert_eq!(stage.end_of(again).await.status, Status::Completed);
}

#[tokio::test]
async fn the_model_is_warned_once_before_the_end() {
    let rules = r#"
  - usage: { input_tokens: 18000, output_tokens: 100 }
    calls: [{ tool: list_dir, args: { path: ".", depth: "{{turn}}" } }]
"#;
    let (stage, record) = with_budget(
        rules,
        Budget {
            tokens: Some(100_000),
            ..Budget::default()
        },
    )
    .await;
    assert_eq!(record.reason(), Some(sortie_core::run::Reason::Budget));
    let tokens = balance(&record, BudgetKind::Tokens);
    assert!(tokens.spent <= tokens.limit, "{tokens:?}");
    assert_eq!(tokens.reserved, 0);
    let entries = stage.runtime().events(record.run_id, Seq(0)).await;
    let warnings = entries
        .expect("a journal")
        .iter()
        .filter(|entry| matches!(entry.event, Event::BudgetLow { .. }))
        .count();
    assert_eq!(warnings, 1);
}

#[tokio::test]
async fn a_model_call_lost_in_a_crash_is_charged_in_full() {
    let rules = r#"
  - usage: { input_tokens: 1000, output_tokens: 10 }
    say: "done"
"#;
    let stage = Play::new(rules).begin().await;
    stage.model().block("main");
    let mut new = stage.new_run("go");
    new.budget = Budget {
        tokens: Some(100_000),
        ..Budget::default()
    };
    let run = stage.create(new).await;
    stage.until_prompted("main", 1).await;
    let before = balance(&stage.record(run).await, BudgetKind::Tokens);
    assert!(before.reserved > 0, "{before:?}");
    let stage = stage.crash().await;
    stage.model().release("main");
    let record = stage.end_of(run).await;
    let after = balance(&record, BudgetKind::Tokens);
    assert_eq!(after.spent, before.reserved + 1010);
    assert_eq!(after.reserved, 0);
}

#[tokio::test]
async fn wall_time_of_a_budget_ends_the_whole_tree() {
    let rules = r#"
  - when: { agent: main, turn: 1 }
    calls: [{ tool: spawn_subagent, args: { task: t, label: kid, agentId: code } }]
  - when: { agent: code }
    calls: [{ tool: exec, args: { command: "sleep 30" } }]
  - say: "waiting"
"#;
    let (stage, record) = with_budget(
        rules,
        Budget {
            wall_ms: Some(700),
            ..Budget::default()
        },
    )
    .await;
    assert_eq!(record.status, Status::Timeout);
    let kid = stage.run_of("kid").await;
    let kid = stage.end_of(kid).await;
    assert!(
        matches!(kid.status, Status::Timeout | Status::Cancelled),
        "{kid:?}"
    );
}
