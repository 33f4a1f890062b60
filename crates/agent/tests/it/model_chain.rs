//! Models that fail, fall-backs, histories that grow too long, results with a schema, and forks.

use serde_json::json;
use sortie_agent::{PriorHistory, RunState, Step};
use sortie_core::check::{Check, CheckResult, CheckStatus};
use sortie_core::event::{Event, JournalEntry};
use sortie_core::id::{BlobId, Epoch, Seq};
use sortie_core::message::{Message, Usage};
use sortie_core::ports::model::Fault;
use sortie_core::run::{ForkPoint, WaitingOn};
use sortie_core::time::Timestamp;

use crate::player::{Player, RUN, read, run_id, spec};

const LIMITED: Fault = Fault::RateLimited {
    retry_after_ms: Some(90_000),
};

#[test]
fn a_failing_model_is_retried_with_growing_delays_until_the_run_ends() {
    let mut player = Player::new(spec());
    for longest in [500, 1_000, 2_000, 4_000] {
        player.fail(Fault::Transient);
        let Step::CallModel(call) = player.state.next_step(player.now, None) else {
            panic!("{}", player.next());
        };
        // A part of the wait is the run's own, so that runs do not come back together.
        assert!(
            (longest / 2..=longest).contains(&call.delay_ms),
            "{} of {longest}",
            call.delay_ms
        );
    }
    player.fail(Fault::Transient);
    assert_eq!(player.next(), "finish failed (error)");
}

#[test]
fn runs_that_failed_together_retry_after_different_delays() {
    let delays: std::collections::BTreeSet<u64> = (1..=20)
        .map(|number| {
            let first = JournalEntry {
                run: run_id(number),
                seq: Seq(1),
                at: Timestamp(0),
                epoch: Epoch(0),
                event: Event::Admitted {
                    spec: Box::new(spec()),
                },
            };
            let failed = JournalEntry {
                seq: Seq(2),
                event: Event::ModelFailed {
                    model: "script".to_owned(),
                    fault: Fault::Transient,
                    message: String::new(),
                    shown: false,
                },
                ..first.clone()
            };
            let state =
                RunState::fold(&PriorHistory::default(), &[first, failed]).expect("a journal");
            match state.next_step(Timestamp(0), None) {
                Step::CallModel(call) => call.delay_ms,
                other => panic!("{other:?}"),
            }
        })
        .collect();
    assert!(delays.len() > 10, "{delays:?}");
}

#[test]
fn a_tool_call_written_as_text_is_retried_at_once_in_schema_mode() {
    let usage = Usage {
        output_tokens: Some(7),
        ..Usage::default()
    };
    let written = Fault::TextCall { usage };
    let after_text_call = |player: &Player| match player.state.next_step(Timestamp(0), None) {
        Step::CallModel(call) => Some((call.after_text_call, call.delay_ms)),
        _ => None,
    };
    let mut player = Player::new(spec());
    assert_eq!(after_text_call(&player), Some((false, 0)));
    player.fail(written);
    assert_eq!(after_text_call(&player), Some((true, 0)));
    player.call(&[("read_file", json!({"path": "a"}))]);
    player.result("1-0", "A");
    assert_eq!(after_text_call(&player), Some((false, 0)));
    assert_eq!(player.state.usage().output_tokens, Some(12));
    for _ in 0..3 {
        player.fail(written);
    }
    assert_eq!(player.next(), "finish failed (error)");
    assert_eq!(player.state.usage().output_tokens, Some(33));

    let mut chain = Player::with(|spec| spec.fallbacks = vec!["other".to_owned()]);
    for _ in 0..3 {
        chain.fail(written);
    }
    assert_eq!(chain.state.next_model(), "other");
    assert_eq!(after_text_call(&chain), Some((false, 0)));
}

#[test]
fn each_fault_retries_falls_back_or_ends_the_run() {
    let check = |fault: Fault, alone: &str, with_another: &str| {
        let mut player = Player::new(spec());
        player.fail(fault);
        assert_eq!(next_prompt(&player), alone, "{fault:?}");
        let mut player = Player::with(|spec| spec.fallbacks = vec!["second".to_owned()]);
        player.fail(fault);
        assert_eq!(next_prompt(&player), with_another, "{fault:?}");
    };
    check(Fault::Transient, "script", "script");
    check(LIMITED, "script after 90000 ms", "second");
    check(Fault::Auth, "finish failed (error)", "second");
    check(Fault::BadRequest, "finish failed (error)", "second");
    check(Fault::ContextOverflow, "finish failed (error)", "second");
    let filtered = "finish failed (error)";
    check(Fault::ContentFilter, filtered, filtered);
}

#[test]
fn the_chain_is_tried_in_order_and_the_run_keeps_the_model_that_replied() {
    let mut player = Player::with(|spec| {
        spec.fallbacks = vec!["second".to_owned(), "third".to_owned()];
    });
    player.fail(Fault::Transient).fail(Fault::Transient);
    assert_eq!(next_prompt(&player), "second");
    player.call(&[read("a")]).result("1-0", "text");
    player.fail(Fault::Auth);
    assert_eq!(next_prompt(&player), "third");
    player.call(&[read("b")]).result("2-0", "text");
    assert_eq!(next_prompt(&player), "third");
    for _ in 0..4 {
        player.fail(Fault::Transient);
        assert!(next_prompt(&player).starts_with("third"));
    }
    player.fail(Fault::Transient);
    assert_eq!(player.next(), "finish failed (error)");
}

/// Whom the machine asks, leaving out waits that a die decides.
fn next_prompt(player: &Player) -> String {
    match player.state.next_step(player.now, None) {
        Step::CallModel(call) if call.delay_ms > 30_000 => {
            format!("{} after {} ms", call.model, call.delay_ms)
        }
        Step::CallModel(call) => call.model,
        Step::Compact(_)
        | Step::CallTools(_)
        | Step::Wait(_)
        | Step::Check
        | Step::Finish(_)
        | Step::Done => player.next(),
    }
}

#[test]
fn an_overflowing_history_is_compacted_once_and_keeps_task_todos_and_newest() {
    let mut player = Player::with(|spec| spec.limits.max_iterations = 9);
    let long = "line of an old file\n".repeat(1_000);
    player.call(&[read("old")]).result("1-0", &long);
    player.call(&[("todo_write", json!({}))]).todos("2-0", 1, 2);
    player.call(&[read("new")]).result("3-0", &long);
    player.fail(Fault::ContextOverflow);
    assert_eq!(player.next(), "shorten 1 parts, 1 texts kept");
    assert_eq!(player.state.waiting_on(), Some(WaitingOn::Model));
    player.shorten();
    assert_eq!(player.next(), "ask turn 4");
    let pointer = format!("blob:{}", BlobId::of(long.as_bytes()).as_str());
    let texts: Vec<String> = player.state.messages().iter().map(whole).collect();
    insta::assert_snapshot!(
        texts
            .join("\n")
            .replace(&pointer, "blob:…")
            .replace(long.trim_end(), "(the whole file)"),
        @r#"
    look around
    (calls)
    [shortened: read_file, 20,000 characters, 1,000 lines; begins: "line of an old file line of an old file line of an old file line of an old file line of an old file line of an old file line of an old file line of an old file line of an old file line of an old file"; read_file with path "blob:…" gives the whole text]
    (calls)
    noted
    (calls)
    (the whole file)

    [History shortened] The conversation had grown too long to read, so one older answer was replaced by a summary. Its whole text can be read again where the summary says. Continue the task.
    Your todo list:
    [x] step 0
    [ ] step 1
    "#
    );
    // Once is enough: a second refusal in a row is the end, and a later one is not.
    let mut again = player.clone();
    again.fail(Fault::ContextOverflow);
    assert_eq!(again.next(), "finish failed (error)");
    player.call(&[read("more")]).result("4-0", &long);
    player.fail(Fault::ContextOverflow);
    assert_eq!(player.next(), "shorten 1 parts, 1 texts kept");
}

fn whole(message: &std::sync::Arc<Message>) -> String {
    match &**message {
        Message::User { text } | Message::Notice { text } => text.clone(),
        Message::Assistant { .. } => "(calls)".to_owned(),
        Message::Tools { results } => results
            .iter()
            .map(|result| result.text.clone())
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

#[test]
fn an_overflowing_history_that_cannot_be_compacted_ends_with_the_partial_result() {
    let mut player = Player::new(spec());
    player
        .answer(
            "half the work",
            &[read("a")],
            sortie_core::event::StopReason::ToolUse,
        )
        .result("1-0", "short")
        .fail(Fault::ContextOverflow);
    assert_eq!(player.next(), "finish failed (error): half the work");
}

#[test]
fn a_result_must_match_its_schema() {
    let schema = json!({
        "type": "object", "required": ["count"], "properties": {"count": {"type": "integer"}}
    });
    let check = |completion: &str, expected: &str| {
        let mut player = Player::with(|spec| spec.result_schema = Some(schema.clone().into()));
        player.complete(completion);
        assert_eq!(player.next(), expected, "{completion}");
    };
    check(r#"{"count": 3}"#, r#"finish completed: {"count": 3}"#);
    check(
        "```json\n{\"count\": 3}\n```",
        r#"finish completed: {"count": 3}"#,
    );
    for misfit in ["three", r#"{"count": "3"}"#, "{}", r#"Here: {"count": 3}"#] {
        check(misfit, "ask turn 2");
    }
    let mut player = Player::with(|spec| spec.result_schema = Some(schema.clone().into()));
    player.complete("one").complete("two").complete("three");
    assert_eq!(player.next(), "finish failed (schema): three");
}

#[test]
fn a_refuted_result_is_sent_back_at_most_twice() {
    let check = Check::FileExists("a".to_owned());
    let found = |status| Event::Checked {
        results: vec![CheckResult {
            check: check.clone(),
            status,
            evidence: "there is no such file".to_owned(),
        }],
    };
    let mut player = Player::with(|spec| spec.checks = vec![check.clone()]);
    player.complete("done");
    assert_eq!(player.next(), "check");
    player.push(found(CheckStatus::Failed));
    assert_eq!(player.next(), "ask turn 2");
    player.complete("really done");
    player.push(found(CheckStatus::Failed));
    assert_eq!(player.next(), "ask turn 3");
    player.complete("truly done");
    player.push(found(CheckStatus::Failed));
    assert_eq!(player.next(), "finish completed: truly done");

    // A check that could not be run does not send the run back.
    let mut player = Player::with(|spec| spec.checks = vec![check.clone()]);
    player.complete("done");
    player.push(found(CheckStatus::NotRun));
    assert_eq!(player.next(), "finish completed: done");

    // A cancel during the checks, or after them, cancels.
    let mut player = Player::with(|spec| spec.checks = vec![check.clone()]);
    player.complete("done");
    assert_eq!(player.next_cancelled(), "finish cancelled: done");
    player.push(found(CheckStatus::Failed));
    assert_eq!(player.next_cancelled(), "finish cancelled: done");

    // A run that fails after it was refuted has failed.
    let mut player = Player::with(|spec| spec.checks = vec![check.clone()]);
    player.complete("done");
    player.push(found(CheckStatus::Failed));
    player.fail(Fault::Auth);
    assert_eq!(player.next(), "finish failed (error): done");
}

#[test]
fn a_fork_continues_from_the_history_of_its_source() {
    let mut player = Player::new(spec());
    player
        .call(&[("todo_write", json!({}))])
        .todos("1-0", 1, 2)
        .call(&[read("a"), read("b")])
        .result("2-0", "text of a");
    let prior = player.state.clone().into_prior_history();
    let mut spec = spec();
    spec.fork = Some(ForkPoint {
        run: RUN,
        at: player.state.head(),
    });
    let forked = Player::after(&prior, spec);
    insta::assert_snapshot!(forked.seen(), @"
    user: look around
    assistant: todo_write#1-0
    tools: #1-0 noted
    assistant: read_file#2-0 read_file#2-1
    tools: #2-0 text of a #2-1 This call belongs to the run that this one branched off, and may already have run there. Look first, and make it again only if you need to.
    ");
    assert_eq!(forked.next(), "ask turn 1");
    assert_eq!(forked.state.todos().len(), 2);
}

#[test]
fn a_fork_of_a_completed_run_is_prompted_to_continue() {
    let mut player = Player::new(spec());
    player.complete("done");
    let prior = player.state.clone().into_prior_history();
    let mut spec = spec();
    spec.fork = Some(ForkPoint {
        run: RUN,
        at: player.state.head(),
    });
    insta::assert_snapshot!(Player::after(&prior, spec).seen(), @"
    user: look around
    assistant: done
    notice: [Forked] This run continues from here. If the task has open work, finish it; otherwise give your result again.
    ");
}

/// A conversation whose beginning is removed: what was shortened of it is nowhere to be found.
#[test]
fn a_journal_folds_alike_with_full_or_truncated_prior_history() {
    let long = |word: &str| word.repeat(400);
    let mut first = Player::new(spec());
    first
        .call(&[read("a")])
        .result("1-0", &long("first "))
        .complete("one");
    let mut second = Player::after(&first.state.clone().into_prior_history(), spec());
    second
        .call(&[read("b")])
        .result("1-0", &long("second "))
        .call(&[read("c")])
        .result("2-0", &long("third "))
        .fail(Fault::ContextOverflow)
        .shorten()
        .complete("two");
    let own = |state: &RunState, from: usize| state.messages()[from..].to_vec();
    let before = first.state.messages().len();
    let alone = RunState::fold(&PriorHistory::default(), &second.entries).expect("a journal");
    assert_eq!(own(&alone, 0), own(&second.state, before));
    assert!(!whole(&alone.messages()[2]).contains(&long("second ")));
    assert_eq!(alone.summary(), second.state.summary());

    // The only part that could be shortened was in the past: the failure looks final without it, and
    // what followed says that it was not.
    let fallback = || {
        let mut spec = spec();
        spec.fallbacks = vec!["other".to_owned()];
        spec
    };
    for spec in [spec(), fallback()] {
        let mut third = Player::after(&first.state.clone().into_prior_history(), spec);
        third.fail(Fault::ContextOverflow).shorten();
        let alone = RunState::fold(&PriorHistory::default(), &third.entries).expect("a journal");
        assert_eq!(alone.next_model(), "script");
        third.complete("three");
        let alone = RunState::fold(&PriorHistory::default(), &third.entries).expect("a journal");
        assert_eq!(own(&alone, 0), own(&third.state, before));
    }
}

#[test]
fn compaction_of_a_dropped_prior_history_does_not_affect_the_rest() {
    let long = "the same words ".repeat(400);
    let mut first = Player::new(spec());
    first
        .call(&[read("a")])
        .result("1-0", &long)
        .complete("one");
    let mut second = Player::after(&first.state.clone().into_prior_history(), spec());
    second
        .call(&[read("a")])
        .result("1-0", &long)
        .fail(Fault::ContextOverflow);
    assert_eq!(second.next(), "shorten 1 parts, 1 texts kept");
    second.shorten();
    let before = first.state.messages().len();
    assert_eq!(whole(&second.state.messages()[before + 2]), long);
    let alone = RunState::fold(&PriorHistory::default(), &second.entries).expect("a journal");
    assert_eq!(alone.messages(), &second.state.messages()[before..]);
}

#[test]
fn a_truncated_tool_call_is_retried_once() {
    let mut player = Player::new(spec());
    player.cut_call();
    assert_eq!(player.next(), "ask turn 2");
    player.call(&[read("a")]).result("2-0", "text");
    // A whole one in between, and it may happen once more.
    player.cut_call();
    assert_eq!(player.next(), "ask turn 4");
    player.cut_call();
    assert_eq!(player.next(), "finish failed (error)");
    insta::assert_snapshot!(player.seen().lines().take(4).collect::<Vec<_>>().join("\n"), @"
    user: look around
    assistant: write_file#1-0
    tools: #1-0 This call was not made: the answer reached the token limit before the call was whole.
    notice: [Cut off] Your last answer reached the token limit and was cut. Only your next answer counts: give it again, whole and more briefly, or take a smaller step.
    ");
}
