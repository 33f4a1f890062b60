//! Properties of the fold that hold whatever a model, its tools and its children do.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;
use sortie_agent::{CallStatus, PriorHistory, RunState, Step, Tapes, projection, replay_tree};
use sortie_core::event::{ChildWait, Event, StopReason};
use sortie_core::id::CallId;
use sortie_core::message::{ChildRef, Message, ResultStatus, ToolResult};
use sortie_core::ports::model::Fault;
use sortie_core::run::{Cancellation, CancelledBy, EdgeMode, Outcome, Status};
use sortie_core::time::Timestamp;

use crate::player::{Player, RUN, announcement, child_ref, read};

/// One roll of the dice for each step of a random run.
type Dice = Vec<u8>;

/// Drives a run to its end with random completions, results, crashes, steers and cancels.
fn drive(dice: &Dice) -> Player {
    let mut player = Player::with(|spec| {
        spec.limits.max_iterations = 6;
        spec.limits.budget.tool_calls = Some(40);
    });
    let mut roll = dice.iter().copied().cycle();
    let mut next_child = 100;
    let mut cancel = None;
    for _ in 0..2_000 {
        let die = roll.next().unwrap_or(0);
        player.now = Timestamp(player.now.0 + i64::from(die) * 5);
        if die.is_multiple_of(17) && player.state.outcome().is_none() {
            // A crash: another process claims.
            player.claim();
        }
        if die.is_multiple_of(13) && player.state.outcome().is_none() {
            player.steer("mind the step");
        }
        if die == 251 {
            cancel = Some(Cancellation {
                by: CancelledBy::Person,
                reason: "dice".to_owned(),
            });
        }
        match player.state.next_step(player.now, cancel.as_ref()) {
            Step::CallModel(call) => answer(&mut player, die, call.with_tools),
            Step::Compact(compaction) => {
                player.push(compaction.event);
            }
            Step::CallTools(calls) => {
                let open = &calls[usize::from(die) % calls.len()];
                resolve_call(
                    &mut player,
                    die,
                    &open.call.id,
                    &open.status,
                    &mut next_child,
                );
            }
            Step::Wait(children) => report(&mut player, die, &children),
            Step::Check => {
                player.push(Event::Checked {
                    results: Vec::new(),
                });
            }
            Step::Finish(outcome) => {
                player.push(Event::Finished { outcome });
            }
            Step::Done => return player,
        }
    }
    panic!("the run did not end: {}", player.seen());
}

fn answer(player: &mut Player, die: u8, with_tools: bool) {
    match die % 8 {
        0 => player.complete("words"),
        1 => player.complete(""),
        2 => player.fail(match die / 8 % 8 {
            0 => Fault::BadRequest,
            1 => Fault::ContextOverflow,
            2 => Fault::RateLimited {
                retry_after_ms: Some(u64::from(die)),
            },
            _ => Fault::Transient,
        }),
        3 => player.answer("cut", &[], StopReason::MaxTokens),
        4 if with_tools => player.call(&[("task", json!({ "n": die }))]),
        _ => player.call(&[
            read(&die.to_string()),
            read("b"),
            ("spawn", json!({ "n": die })),
        ]),
    };
}

fn resolve_call(
    player: &mut Player,
    die: u8,
    call: &CallId,
    status: &CallStatus,
    next_child: &mut u128,
) {
    *next_child += 1;
    let child = child_ref(*next_child);
    match (die % 5, status) {
        (0, CallStatus::Requested) => {
            player.push(Event::Intended {
                call: call.clone(),
                ruling: None,
                fingerprint: json!(die),
            });
        }
        (1, _) => {
            player.push(Event::Delegated {
                call: call.clone(),
                ruling: None,
                wait: ChildWait::Result { child },
            });
        }
        (2, _) => {
            player.push(finished(call, Some(child)));
        }
        _ => {
            player.push(finished(call, None));
        }
    }
}

fn finished(call: &CallId, spawned: Option<ChildRef>) -> Event {
    Event::ToolFinished {
        result: ToolResult {
            call: call.clone(),
            provider_id: None,
            text: "result ".repeat(120),
            status: ResultStatus::Ok,
            full: None,
            images: Vec::new(),
        },
        elapsed_ms: 0,
        spawned,
        todos: None,
        ruling: None,
        sandbox: None,
    }
}

fn report(player: &mut Player, die: u8, children: &[ChildRef]) {
    let child = &children[usize::from(die) % children.len()];
    // The waiting call, if the child was delegated to, is found by the child's own edge.
    let waiting = player.entries.iter().find_map(|entry| match &entry.event {
        Event::Delegated {
            call,
            ruling: None,
            wait: ChildWait::Result { child: delegated },
        } if delegated.run == child.run => Some(call.clone()),
        _ => None,
    });
    let number = child.run.to_string();
    let number = u128::from_str_radix(&number.replace('-', ""), 16).expect("a number");
    let (mode, call) = match &waiting {
        Some(call) => (EdgeMode::Blocking, call.to_string()),
        None => (EdgeMode::Background, "0-0".to_owned()),
    };
    let outcome = Outcome::Completed {
        text: "report".to_owned(),
        checked: None,
    };
    player.push(Event::InboxTaken {
        unread: false,
        items: vec![announcement(number, mode, &call, outcome)],
    });
}

/// Changes something that the machine decided; returns `false` if the event has nothing of the
/// kind.
fn change(event: &mut Event) -> bool {
    match event {
        Event::Answered { turn, .. } => *turn += 1,
        Event::ModelFailed { model, .. } => model.push('x'),
        Event::Compacted { chars_after, .. } => *chars_after += 1,
        Event::Finished {
            outcome: Outcome::Completed { text, .. } | Outcome::Failed { message: text, .. },
        } => text.push('x'),
        _ => return false,
    }
    true
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_run_always_ends_and_every_call_has_one_result(dice in proptest::collection::vec(any::<u8>(), 1..120)) {
        let player = drive(&dice);
        let mut results: BTreeMap<CallId, usize> = BTreeMap::new();
        let mut calls = Vec::new();
        for message in player.state.messages() {
            match &**message {
                Message::Assistant { blocks } => calls.extend(blocks.iter().filter_map(|block| match block {
                    sortie_core::message::Block::Call(call) => Some(call.id.clone()),
                    _ => None,
                })),
                Message::Tools { results: answered } => {
                    for result in answered {
                        *results.entry(result.call.clone()).or_default() += 1;
                    }
                }
                Message::User { .. } | Message::Notice { .. } => {}
            }
        }
        for call in &calls {
            prop_assert_eq!(results.get(call), Some(&1), "call {}", call);
        }
        prop_assert_eq!(results.len(), calls.len());
    }

    #[test]
    fn folding_any_prefix_again_gives_the_same_state_and_progress_never_falls(dice in proptest::collection::vec(any::<u8>(), 1..120)) {
        let player = drive(&dice);
        let mut live = RunState::fold(&PriorHistory::default(), &player.entries[..1]).expect("an admission");
        let mut progress = 0;
        for (index, entry) in player.entries.iter().enumerate().skip(1) {
            live.apply(entry).expect("it fitted before");
            prop_assert!(live.progress() >= progress);
            progress = live.progress();
            let folded = RunState::fold(&PriorHistory::default(), &player.entries[..=index]).expect("a journal");
            prop_assert_eq!(&folded, &live);
            prop_assert_eq!(
                folded.next_step(entry.at, None),
                live.next_step(entry.at, None)
            );
        }
        prop_assert_eq!(&live, &player.state);
    }

    #[test]
    fn only_a_real_result_completes_a_run(dice in proptest::collection::vec(any::<u8>(), 1..120)) {
        let player = drive(&dice);
        let outcome = player.state.outcome().expect("it ended").clone();
        if outcome.status() == Status::Completed {
            prop_assert!(outcome.text().is_some_and(|text| !text.trim().is_empty()));
            // The run may have continued since, with children that its end stops.
            let was_completed = (1..=player.entries.len()).any(|count| {
                let state = RunState::fold(&PriorHistory::default(), &player.entries[..count]).expect("a journal");
                state.conclusion() == Some(&outcome) && state.open_children().is_empty()
            });
            prop_assert!(was_completed);
            prop_assert_eq!(player.state.progress(), 100);
        } else {
            prop_assert!(player.state.progress() <= 90);
        }
    }

    #[test]
    fn replaying_a_journal_gives_the_same_journal(dice in proptest::collection::vec(any::<u8>(), 1..120)) {
        let player = drive(&dice);
        let tapes = Tapes::from([(RUN, player.entries.clone())]);
        let replayed = replay_tree(&tapes, &[RUN]).expect("the same journal");
        prop_assert_eq!(replayed.projection, projection(&player.entries));
    }

    #[test]
    fn replaying_a_modified_journal_reports_a_divergence(
        dice in proptest::collection::vec(any::<u8>(), 1..120),
        place in any::<prop::sample::Index>(),
    ) {
        let mut entries = drive(&dice).entries;
        // What the machine decides: turns, models, outcomes. Input from outside may differ.
        let decided: Vec<usize> = (0..entries.len())
            .filter(|index| change(&mut entries[*index].event.clone()))
            .collect();
        prop_assume!(!decided.is_empty());
        let index = decided[place.index(decided.len())];
        change(&mut entries[index].event);
        let tapes = Tapes::from([(RUN, entries)]);
        prop_assert!(replay_tree(&tapes, &[RUN]).is_err());
    }

    #[test]
    fn the_end_is_sticky(dice in proptest::collection::vec(any::<u8>(), 1..120)) {
        let player = drive(&dice);
        let mut after = player.state.clone();
        let entry = sortie_core::event::JournalEntry {
            seq: player.state.head().next(),
            ..player.entries[1].clone()
        };
        prop_assert!(after.apply(&entry).is_err());
        prop_assert_eq!(after, player.state);
    }
}
