//! Properties of the spans of every journal.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;
use sortie_core::event::{ChildWait, Event};
use sortie_core::id::CallId;
use sortie_core::inbox::{Announcement, InboxItem};
use sortie_core::message::{ChildRef, Usage};
use sortie_core::ports::model::Fault;
use sortie_core::run::{EdgeMode, Outcome};
use sortie_telemetry::{Capture, Span, SpanId, spans};

use crate::journal::{PRIVATE, Pen, run_id, spec};

/// The outcome of one tool call.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Finishes { elapsed_ms: u64 },
    Intends,
    Delegates,
    StaysOpen,
}

/// One turn: the duration of the prompt, whether the model failed first, and its tool calls.
#[derive(Clone, Debug)]
struct Turn {
    took: i64,
    fails: bool,
    dies: bool,
    calls: Vec<(i64, Fate)>,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        (0_u64..10_000).prop_map(|elapsed_ms| Fate::Finishes { elapsed_ms }),
        Just(Fate::Intends),
        Just(Fate::Delegates),
        Just(Fate::StaysOpen),
    ]
}

fn turn() -> impl Strategy<Value = Turn> {
    let calls = prop::collection::vec((0_i64..2_000, fate()), 0..5);
    (0_i64..5_000, any::<bool>(), any::<bool>(), calls).prop_map(|(took, fails, dies, calls)| {
        Turn {
            took,
            fails,
            dies,
            calls,
        }
    })
}

/// Writes a journal with non-decreasing times; returns it with the number of prompts and tool
/// calls.
fn written(turns: &[Turn]) -> (Pen, usize, usize) {
    let mut pen = Pen::new(spec(|_| {}));
    let mut now = 1_000;
    let (mut questions, mut calls) = (0, 0);
    pen.claimed(now);
    for (index, turn) in turns.iter().enumerate() {
        let number = u32::try_from(index + 1).expect("few turns");
        if turn.fails {
            now += turn.took;
            questions += 1;
            pen.write(now, failure());
        }
        now += turn.took;
        questions += 1;
        calls += turn.calls.len();
        pen.answered(now, number, &vec!["tool"; turn.calls.len()]);
        for (at, (wait, fate)) in turn.calls.iter().enumerate() {
            now += wait;
            act(&mut pen, &mut now, &CallId::new(number, at), *fate);
        }
        if turn.dies {
            pen.claimed(now);
        }
    }
    pen.completed(now + 1);
    (pen, questions, calls)
}

fn act(pen: &mut Pen, now: &mut i64, call: &CallId, fate: Fate) {
    match fate {
        Fate::Finishes { elapsed_ms } => {
            pen.tool_finished(*now, call, elapsed_ms);
        }
        Fate::Intends => {
            let intended = Event::Intended {
                call: call.clone(),
                fingerprint: json!(null),
                ruling: None,
            };
            pen.write(*now, intended);
            *now += 5;
            pen.tool_finished(*now, call, 1);
        }
        Fate::Delegates => {
            let child = run_id(1_000 + pen.entries.len() as u128);
            let reference = ChildRef {
                run: child,
                agent: "explore".to_owned(),
                label: PRIVATE.to_owned(),
            };
            let delegated = Event::Delegated {
                call: call.clone(),
                wait: ChildWait::Result { child: reference },
                ruling: None,
            };
            pen.write(*now, delegated);
            *now += 50;
            let announcement = Announcement {
                child,
                call: Some(call.clone()),
                mode: EdgeMode::Blocking,
                agent: "explore".to_owned(),
                label: PRIVATE.to_owned(),
                task: PRIVATE.to_owned(),
                outcome: Outcome::Completed {
                    text: PRIVATE.to_owned(),
                    checked: None,
                },
                tool_calls: 0,
                elapsed_ms: 0,
                usage: Usage::default(),
                changes: None,
            };
            let items = vec![InboxItem::Announcement(Box::new(announcement))];
            pen.write(
                *now,
                Event::InboxTaken {
                    items,
                    unread: false,
                },
            );
        }
        Fate::StaysOpen => {}
    }
}

fn failure() -> Event {
    Event::ModelFailed {
        model: "anthropic/big".to_owned(),
        fault: Fault::Transient,
        message: PRIVATE.to_owned(),
        shown: false,
    }
}

/// Counts the spans of an operation.
fn count(spans: &[Span], operation: &str) -> usize {
    let named = spans.iter().map(|span| span.name.as_str());
    named.filter(|name| name.starts_with(operation)).count()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn spans_nest_are_ordered_and_complete(turns in prop::collection::vec(turn(), 1..6)) {
        let (pen, questions, calls) = written(&turns);
        let made = spans(&pen.entries, Capture::Facts);
        let run = &made[0];
        prop_assert_eq!(run.id, SpanId::of_run(run_id(1)));
        let ids: BTreeSet<[u8; 8]> = made.iter().map(|span| span.id.0).collect();
        prop_assert_eq!(ids.len(), made.len(), "an id is there twice");
        for span in &made[1..] {
            prop_assert_eq!(span.parent, Some(run.id));
            prop_assert!(span.start <= span.end, "{:?}", span);
            prop_assert!(run.start <= span.start && span.end <= run.end, "{:?}", span);
        }
        prop_assert_eq!(count(&made, "chat "), questions);
        prop_assert_eq!(count(&made, "execute_tool "), calls);
        let rendered = format!("{made:?}");
        prop_assert!(!rendered.contains(PRIVATE), "{}", rendered);
    }

    #[test]
    fn the_same_journal_gives_the_same_spans(turns in prop::collection::vec(turn(), 1..6)) {
        let (pen, _, _) = written(&turns);
        // The journal as a store returns it.
        let stored = serde_json::to_string(&pen.entries).expect("JSON");
        let read: Vec<sortie_core::event::JournalEntry> = serde_json::from_str(&stored).expect("a journal");
        for capture in [Capture::Facts, Capture::Content] {
            prop_assert_eq!(spans(&pen.entries, capture), spans(&read, capture));
        }
    }
}

#[test]
fn ids_are_the_same_in_every_version() {
    // Changing these ids would break traces of trees that are running during an upgrade.
    let call = SpanId::of_call(run_id(1), &CallId::new(1, 0));
    let run = SpanId::of_run(run_id(1));
    let chat = SpanId::of_chat(run_id(1), sortie_core::id::Seq(2));
    let shown = [run, call, chat]
        .map(|id| sortie_core::id::hex(&id.0))
        .join(" ");
    insta::assert_snapshot!(shown, @"8b880cd8fb586a46 cd62d4c9a84ec2ff 6d9ed8aa79150935");
}
