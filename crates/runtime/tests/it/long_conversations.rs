//! Conversations of many turns, and those whose beginning was removed.

use futures::future::join_all;
use sortie_core::event::{Event, StopReason};
use sortie_core::id::{RunId, Seq};
use sortie_core::message::{Block, Usage};
use sortie_core::ports::store::{
    Admit, Claim, DeathLimits, Finish, Journal as _, LaneLimit, Registry as _, SaveSnapshot,
    Snapshot, Unread,
};
use sortie_core::run::{Lane, Outcome, Summary};
use sortie_core::time::Clock as _;
use sortie_core::worker::WorkerId;
use sortie_runtime::{NewRun, ProcessClock};
use sortie_store::DurableStore;
use sortie_test_support::stage::{Play, Stage};

const ECHO: &str = r#"
  - say: "done"
"#;
/// More turns than a history once went back.
const TURNS: usize = 230;

async fn send(stage: &Stage, text: &str) -> RunId {
    let new = NewRun {
        session: "web:1".parse().expect("a session"),
        label: None,
        ..stage.new_run(text)
    };
    let sent = stage
        .runtime()
        .send_message(new)
        .await
        .expect("it is accepted");
    stage.end_of(sent.run).await;
    sent.run
}

/// Writes further turns after `first`, as executors would have, but many at once.
async fn write_turns(store: &DurableStore, first: RunId) {
    let clock = ProcessClock::start();
    let entry = store.first(first).await.expect("a journal");
    let Some(Event::Admitted { spec }) = entry.map(|entry| entry.event) else {
        panic!("a journal begins with the admission");
    };
    let mut earlier = first;
    let mut admissions = Vec::new();
    for turn in 2..=TURNS {
        let mut spec = (*spec).clone();
        let run = clock.new_run_id();
        (spec.root, spec.continues) = (run, Some(earlier));
        (spec.task, spec.label) = (format!("turn {turn}"), format!("turn {turn}"));
        earlier = run;
        admissions.push(store.admit(Admit {
            run,
            spec,
            at: clock.now(),
            parent: None,
        }));
    }
    for admitted in join_all(admissions).await {
        admitted.expect("an admission");
    }
    let claim = Claim {
        owner: WorkerId::from_stored("a test".to_owned()),
        at: clock.now(),
        lease_until: clock.now().plus_ms(60_000),
        lanes: vec![LaneLimit {
            lane: Lane::Main,
            max_concurrent: u32::MAX,
        }],
        labels: Vec::new(),
        per_parent: 1,
        per_tree: 1,
        deaths: DeathLimits {
            without_progress: 3,
            total: 25,
        },
    };
    let claimed = store.claim(claim).await.expect("claims");
    assert_eq!(claimed.len(), TURNS - 1);
    let finishing = claimed.into_iter().map(|claimed| {
        let follows = claimed.entries.expect("a journal").last().map(|it| it.seq);
        store.finish(Finish {
            fence: claimed.fence,
            follows: follows.unwrap_or(Seq(0)),
            at: clock.now(),
            events: vec![Event::Answered {
                turn: 1,
                blocks: vec![Block::Text {
                    text: "done".to_owned(),
                }],
                stop: StopReason::EndTurn,
                usage: Usage::default(),
                model: "script".to_owned(),
                held_ms: 0,
            }],
            blobs: Vec::new(),
            summary: Summary {
                waiting_on: None,
                progress: 0,
                tool_calls: 0,
                usage: Usage::default(),
                unpriced: 0,
                model: "script".to_owned(),
                last_text: None,
            },
            outcome: Outcome::Completed {
                text: "done".to_owned(),
                checked: None,
            },
            audit: Vec::new(),
            unread: Unread::Kept,
        })
    });
    for finished in join_all(finishing).await {
        finished.expect("an end");
    }
}

#[tokio::test]
async fn the_first_turn_is_in_the_history_after_hundreds_of_turns() {
    let stage = Play::new(ECHO).begin().await;
    let first = send(&stage, "The word is walnut.").await;
    let stage = stage
        .restart_and(async |store| write_turns(store, first).await)
        .await;
    send(&stage, "What is the word?").await;
    let seen = stage.seen("What is the word?", 1).await;
    assert!(seen.contains("The word is walnut."), "{seen}");
    assert!(seen.contains(&format!("turn {TURNS}")), "{seen}");
    assert!(!seen.contains("Beginning missing"), "{seen}");
}

#[tokio::test]
async fn the_model_reads_that_the_beginning_was_removed() {
    let stage = Play::new(ECHO).begin().await;
    let first = send(&stage, "The word is walnut.").await;
    send(&stage, "Remember it.").await;
    stage.runtime().delete(first).await.expect("a deletion");
    send(&stage, "What is the word?").await;
    let seen = stage.seen("What is the word?", 1).await;
    assert!(!seen.contains("walnut"), "{seen}");
    assert!(seen.contains("Beginning missing"), "{seen}");
    assert!(seen.contains("Remember it."), "{seen}");
}

#[tokio::test]
async fn a_turn_reads_the_snapshot_instead_of_the_journals_before_it() {
    let stage = Play::new(ECHO).begin().await;
    let first = send(&stage, "The word is walnut.").await;
    for turn in 2..=10 {
        send(&stage, &format!("turn {turn}")).await;
    }
    // Another word in the snapshot shows where the next turn has its history from.
    let stage = stage
        .restart_and(async |store| {
            let session = "web:1".parse().expect("a session");
            let found = store.snapshot(session, None).await.expect("a store");
            let Snapshot { run, head, body } = found.expect("a snapshot after ten turns");
            let body = String::from_utf8(body).expect("text");
            let save = SaveSnapshot {
                snapshot: Snapshot {
                    run,
                    head,
                    body: body.replace("walnut", "acorn").into_bytes(),
                },
                base: None,
                folded: vec![run],
            };
            assert!(store.save_snapshot(save).await.expect("a write"));
        })
        .await;
    send(&stage, "What is the word?").await;
    let seen = stage.seen("What is the word?", 1).await;
    assert!(seen.contains("The word is acorn."), "{seen}");
    for turn in 2..=10 {
        assert_eq!(seen.matches(&format!("turn {turn}\n")).count(), 1, "{seen}");
    }
    // Without the first turn the snapshot is gone too, and the journals that are left count.
    stage.runtime().delete(first).await.expect("a deletion");
    send(&stage, "And now?").await;
    let seen = stage.seen("And now?", 1).await;
    assert!(seen.contains("Beginning missing"), "{seen}");
    assert!(!seen.contains("acorn"), "{seen}");
    assert!(seen.contains("turn 2\n"), "{seen}");
}
