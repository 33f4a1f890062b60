//! Timelines: single runs as data, whole trees as properties.

use proptest::prelude::*;
use sortie_agent::{Tapes, Timeline, task_timeline, timeline};
use sortie_core::event::*;
use sortie_core::id::*;
use sortie_core::inbox::*;
use sortie_core::message::*;
use sortie_core::request::*;
use sortie_core::run::*;
use sortie_core::time::*;
use uuid::Uuid;

use crate::player::spec;

fn run(number: u8) -> RunId {
    RunId::from_uuid(Uuid::from_u128(0x100 + u128::from(number)))
}

fn admitted(number: u8, parent: Option<u8>) -> Event {
    let mut spec = spec();
    spec.root = run(0);
    spec.parent = parent.map(|parent| ParentLink {
        run: run(parent),
        call: CallId::new(1, usize::from(number)),
        mode: EdgeMode::Blocking,
    });
    Event::Admitted {
        spec: Box::new(spec),
    }
}

/// A journal of events at their moments.
fn journal(number: u8, events: Vec<(i64, Event)>) -> Vec<JournalEntry> {
    let entry = |(index, (at, event)): (usize, (i64, Event))| JournalEntry {
        run: run(number),
        seq: Seq(i64::try_from(index).unwrap_or(0) + 1),
        at: Timestamp(at),
        epoch: Epoch(1),
        event,
    };
    events.into_iter().enumerate().map(entry).collect()
}

fn claimed(epoch: i64) -> Event {
    Event::Claimed {
        epoch: Epoch(epoch),
        recovered: false,
    }
}

fn call(index: usize, name: &str) -> Block {
    Block::Call(ToolCall {
        id: CallId::new(1, index),
        provider_id: None,
        name: name.to_owned(),
        arguments: Arguments::Json(serde_json::json!({})),
    })
}

fn answered(turn: u32, blocks: Vec<Block>, held_ms: u64) -> Event {
    Event::Answered {
        turn,
        blocks,
        stop: StopReason::EndTurn,
        usage: Usage::default(),
        model: "m".to_owned(),
        held_ms,
    }
}

fn text_block() -> Vec<Block> {
    vec![Block::Text {
        text: "done".to_owned(),
    }]
}

fn result(index: usize) -> Event {
    Event::ToolFinished {
        result: ToolResult {
            call: CallId::new(1, index),
            provider_id: None,
            text: "ok".to_owned(),
            status: ResultStatus::Ok,
            full: None,
            images: Vec::new(),
        },
        elapsed_ms: 1,
        spawned: None,
        todos: None,
        ruling: None,
        sandbox: None,
    }
}

fn delegated(child: u8) -> Event {
    Event::Delegated {
        call: CallId::new(1, 0),
        wait: ChildWait::Result {
            child: ChildRef {
                run: run(child),
                label: "kid".to_owned(),
                agent: "explore".to_owned(),
            },
        },
        ruling: None,
    }
}

fn reported(child: u8) -> Event {
    Event::InboxTaken {
        unread: false,
        items: vec![InboxItem::Announcement(Box::new(Announcement {
            child: run(child),
            call: Some(CallId::new(1, 0)),
            mode: EdgeMode::Blocking,
            agent: "explore".to_owned(),
            label: "kid".to_owned(),
            task: "t".to_owned(),
            outcome: finished_outcome(),
            tool_calls: 0,
            elapsed_ms: 1,
            usage: Usage::default(),
            changes: None,
        }))],
    }
}

fn asked(expires: i64) -> Event {
    let call = CallId::new(1, 0);
    Event::Asked {
        request: Box::new(Request {
            id: RequestId::of(&EffectId::new(run(0), &call)),
            expires_at: Timestamp(expires),
            kind: RequestKind::Question(Question {
                to: Addressee::Person,
                text: "which?".to_owned(),
                options: Vec::new(),
                default: None,
            }),
        }),
        call,
    }
}

fn replied() -> Event {
    let call = CallId::new(1, 0);
    Event::InboxTaken {
        unread: false,
        items: vec![InboxItem::Reply {
            request: RequestId::of(&EffectId::new(run(0), &call)),
            call,
            reply: Reply::Answered {
                by: Answerer::Person,
                name: None,
                text: "this".to_owned(),
            },
        }],
    }
}

fn finished_outcome() -> Outcome {
    Outcome::Completed {
        text: "done".to_owned(),
        checked: None,
    }
}

fn finished() -> Event {
    Event::Finished {
        outcome: finished_outcome(),
    }
}

fn tapes(journals: Vec<Vec<JournalEntry>>) -> Tapes {
    let named =
        |entries: Vec<JournalEntry>| entries.first().map(|entry| (entry.run, entries.clone()));
    journals.into_iter().filter_map(named).collect()
}

/// `kind from-until name` for each span of the first run; `*` marks the critical ones.
fn shown(line: &Timeline, number: u8) -> Vec<String> {
    let task = line.tasks.iter().find(|task| task.run == run(number));
    let spans = task.map_or(&[][..], |task| task.spans.as_slice());
    let each = spans.iter().map(|span| {
        format!(
            "{}{} {}-{}{}",
            if span.critical { "*" } else { "" },
            span.kind.as_str(),
            span.from.0,
            span.until.0,
            span.name
                .as_ref()
                .map_or(String::new(), |name| format!(" {name}"))
        )
    });
    each.collect()
}

fn line_of(tapes: &Tapes, now: i64, max_spans: usize) -> Timeline {
    let now = Timestamp(now);
    let tasks = tapes.values();
    let tasks = tasks.filter_map(|entries| task_timeline(entries, now, max_spans));
    timeline(run(0), tasks.collect(), now)
}

fn of_one(events: Vec<(i64, Event)>, now: i64) -> Vec<String> {
    let tapes = tapes(vec![journal(0, events)]);
    shown(&line_of(&tapes, now, 100), 0)
}

#[test]
fn a_timeline_is_divided_by_what_the_run_waited_for() {
    let events = vec![
        (0, admitted(0, None)),
        (10, claimed(1)),
        (40, answered(1, vec![call(0, "read"), call(1, "grep")], 20)),
        (50, result(1)),
        (70, result(0)),
        (90, answered(2, text_block(), 0)),
        (91, finished()),
    ];
    let expected = [
        "*slot 0-10",
        "*rate_limit 10-30 m",
        "*model 30-40 m",
        "*tool 40-50 grep",
        "*tool 50-70 read",
        "*model 70-90 m",
        "*other 90-91",
    ];
    assert_eq!(of_one(events, 500), expected);
}

#[test]
fn approvals_questions_and_pauses_are_in_the_timeline() {
    let events = vec![
        (0, admitted(0, None)),
        (5, Event::Paused),
        (15, Event::Resumed),
        (20, claimed(1)),
        (30, answered(1, vec![call(0, "ask")], 0)),
        (35, asked(1_000)),
        (60, claimed(2)),
        (61, replied()),
        (70, result(0)),
        (75, Event::Paused),
        (95, Event::Resumed),
        (99, claimed(3)),
    ];
    let expected = [
        "*slot 0-5",
        "*paused 5-15",
        "*slot 15-20",
        "*model 20-30 m",
        "*tool 30-35 ask",
        "*question 35-61",
        "*tool 61-70 ask",
        "*model 70-75 script",
        "*paused 75-95",
        "*slot 95-99",
        "*model 99-120 script",
    ];
    assert_eq!(of_one(events, 120), expected);
}

#[test]
fn time_without_an_executor_is_other_and_backward_clocks_are_tolerated() {
    let events = vec![
        (0, admitted(0, None)),
        (10, claimed(1)),
        (80, claimed(2)),
        (60, answered(1, text_block(), 0)),
        (90, finished()),
    ];
    assert_eq!(of_one(events, 500), ["*slot 0-10", "*other 10-90"]);
}

#[test]
fn the_critical_path_follows_the_child_that_ended_last() {
    let parent = vec![
        (0, admitted(0, None)),
        (10, claimed(1)),
        (20, answered(1, vec![call(0, "task")], 0)),
        (22, delegated(2)),
        (100, claimed(2)),
        (101, reported(2)),
        (120, answered(2, text_block(), 0)),
        (120, finished()),
    ];
    let early = vec![
        (15, admitted(1, Some(0))),
        (16, claimed(1)),
        (50, answered(1, text_block(), 0)),
        (50, finished()),
    ];
    let late = vec![
        (21, admitted(2, Some(0))),
        (30, claimed(1)),
        (90, answered(1, text_block(), 0)),
        (90, finished()),
    ];
    let tapes = tapes(vec![
        journal(0, parent),
        journal(1, early),
        journal(2, late),
    ]);
    let line = line_of(&tapes, 500, 100);
    let path: Vec<_> = line
        .critical_path
        .iter()
        .map(|span| {
            let who = if span.run == run(0) { "main" } else { "kid" };
            format!(
                "{who} {} {}-{}",
                span.kind.as_str(),
                span.from.0,
                span.until.0
            )
        })
        .collect();
    assert_eq!(
        path,
        [
            "main slot 0-10",
            "main model 10-20",
            "main tool 20-22",
            "kid slot 22-30",
            "kid model 30-90",
            "main children 90-101",
            "main model 101-120",
        ]
    );
    assert_eq!(shown(&line, 1), ["slot 15-16", "model 16-50 m"]);
    assert_eq!((line.from, line.until), (Timestamp(0), Timestamp(120)));
}

/// Any event, whether it fits or not: a damaged journal must not cause a panic.
fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(claimed(1)),
        Just(Event::Paused),
        Just(Event::Resumed),
        (1..4_u32, 0..60_u64).prop_map(|(turn, held_ms)| answered(
            turn,
            vec![call(0, "t")],
            held_ms
        )),
        (1..4_u32).prop_map(|turn| answered(turn, text_block(), 0)),
        Just(result(0)),
        (1..6_u8).prop_map(delegated),
        (1..6_u8).prop_map(reported),
        Just(asked(1_000)),
        Just(replied()),
        Just(finished()),
    ]
}

fn any_tree() -> impl Strategy<Value = Tapes> {
    let events = (
        0..100_i64,
        proptest::collection::vec((0..50_i64, any_event()), 0..14),
    );
    proptest::collection::vec((events, any::<u8>()), 1..6).prop_map(|runs| {
        let journals = runs
            .into_iter()
            .enumerate()
            .map(|(index, ((start, steps), parent))| {
                let number = u8::try_from(index).unwrap_or(0);
                let parent = (number > 0).then(|| parent % number);
                let mut at = start;
                let mut events = vec![(start, admitted(number, parent))];
                for (later, event) in steps {
                    at += later;
                    let last = matches!(event, Event::Finished { .. });
                    events.push((at, event));
                    if last {
                        break;
                    }
                }
                journal(number, events)
            });
        tapes(journals.collect())
    })
}

proptest! {
    #[test]
    fn spans_cover_each_run_once_and_the_path_covers_the_root(
        tree in any_tree(),
        now in 0..900_i64,
        most in 1..12_usize,
    ) {
        let line = line_of(&tree, now, most);
        prop_assert_eq!(line.tasks.len(), tree.len());
        for task in &line.tasks {
            prop_assert!(task.spans.len() <= most);
            let mut cursor = task.admitted;
            for span in &task.spans {
                prop_assert_eq!(span.from, cursor);
                prop_assert!(span.until > span.from);
                cursor = span.until;
                let is_met = line.critical_path.iter().any(|critical| {
                    critical.run == task.run && critical.from < span.until && critical.until > span.from
                });
                prop_assert_eq!(span.critical, is_met);
            }
            if let Some(ended) = task.ended {
                prop_assert_eq!(cursor, ended);
            } else {
                prop_assert!(cursor >= Timestamp(now) || task.spans.is_empty());
            }
        }
        let mut cursor = line.from;
        for span in &line.critical_path {
            prop_assert_eq!(span.from, cursor);
            prop_assert!(span.until > span.from);
            cursor = span.until;
            let task = line.tasks.iter().find(|task| task.run == span.run);
            let fits = task.is_some_and(|task| task.spans.iter().any(|own| {
                own.critical && own.from < span.until && own.until > span.from
            }));
            prop_assert!(fits);
        }
        prop_assert_eq!(cursor, line.until);
        let marked = line.tasks.iter().flat_map(|task| &task.spans).any(|span| span.critical);
        prop_assert_eq!(marked, !line.critical_path.is_empty());
    }
}
