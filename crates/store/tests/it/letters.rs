//! Letters: written with the facts that they report, delivered in order, and given up visibly.

use sortie_core::hook::{HookEvent, HookSubscription, LetterState, NewLetter};
use sortie_core::ports::store::{DeliveryAttempt, Store, Unblock};

use crate::support::*;

fn observed(events: &[HookEvent]) -> Vec<HookSubscription> {
    vec![HookSubscription {
        hook: "h".to_owned(),
        events: events.to_vec(),
        tools: Vec::new(),
    }]
}

async fn kinds(store: &dyn Store) -> Vec<String> {
    let letters = store.letters(LetterState::Pending, 0).await.unwrap();
    letters.into_iter().map(|letter| letter.kind).collect()
}

fn letter(key: &str, queue: Option<&str>) -> NewLetter {
    NewLetter {
        key: key.to_owned(),
        receiver: "hook:h".to_owned(),
        run: None,
        kind: "test".to_owned(),
        body: "{}".to_owned(),
        queue: queue.map(str::to_owned),
    }
}

async fn due(store: &dyn Store, millis: i64) -> Vec<String> {
    let receivers = vec!["hook:h".to_owned()];
    let due = store.due_letters(receivers, at(millis)).await.unwrap();
    due.into_iter().map(|letter| letter.key).collect()
}

pub(crate) async fn a_run_writes_a_letter_for_each_event_that_a_hook_observes(store: &dyn Store) {
    let mut watched = spec(1);
    watched.hooks = observed(&[HookEvent::Spawn, HookEvent::Start, HookEvent::Finish]);
    let fence = running(store, 1, watched).await;
    assert_eq!(kinds(store).await, ["spawn", "start"]);
    let end = finishing(fence, 5, completed("done"));
    reported(store.finish_next(end).await);
    assert_eq!(kinds(store).await, ["spawn", "start", "finish"]);
    let letters = store.letters(LetterState::Pending, 0).await.unwrap();
    let input: serde_json::Value = serde_json::from_str(&letters[2].body).unwrap();
    assert_eq!(input["status"], "completed");
    assert_eq!(input["result"], "done");
    assert_eq!(input["task_id"], run(1).to_string());
    // Letters outlive their run.
    store.delete(run(1)).await.unwrap();
    assert_eq!(kinds(store).await.len(), 3);
}

pub(crate) async fn a_cancelled_queued_run_reports_its_end(store: &dyn Store) {
    let mut watched = spec(1);
    watched.hooks = observed(&[HookEvent::Start, HookEvent::Finish]);
    admit(store, 1, watched).await;
    store.cancel(run(1), by_person(), at(10)).await.unwrap();
    assert_eq!(kinds(store).await, ["finish"]);
}

pub(crate) async fn a_refused_write_leaves_no_letter(store: &dyn Store) {
    let fence = running(store, 1, spec(1)).await;
    let stale = sortie_core::id::Fence {
        epoch: sortie_core::id::Epoch(99),
        ..fence
    };
    let mut append = appending(stale, 5, vec![note("a")]);
    append.letters = vec![letter("k", None)];
    store.append_next(append.clone()).await.unwrap_err();
    assert_eq!(kinds(store).await.len(), 0);
    append.fence = fence;
    store.append_next(append).await.unwrap();
    assert_eq!(kinds(store).await, ["test"]);
}

pub(crate) async fn letters_of_one_queue_wait_for_each_other(store: &dyn Store) {
    let letters = vec![
        letter("a", Some("q")),
        letter("b", Some("q")),
        letter("c", None),
        letter("c", None),
    ];
    store.post(letters, at(5)).await.unwrap();
    assert_eq!(due(store, 4).await, [""; 0]);
    assert_eq!(due(store, 5).await, ["a", "c"]);
    let others = vec!["hook:other".to_owned()];
    assert!(store.due_letters(others, at(5)).await.unwrap().is_empty());
    let first = store.letters(LetterState::Pending, 1).await.unwrap()[0].id;
    let retry = DeliveryAttempt::Retry {
        at: at(50),
        error: "busy".to_owned(),
    };
    store.record_letter(first, retry).await.unwrap();
    assert_eq!(due(store, 6).await, ["c"]);
    assert_eq!(due(store, 50).await, ["c", "a"]);
    let done = DeliveryAttempt::Delivered;
    store.record_letter(first, done).await.unwrap();
    assert_eq!(due(store, 50).await, ["b", "c"]);
}

pub(crate) async fn dead_letters_are_retried_or_dropped(store: &dyn Store) {
    let letters = ["a", "b", "c"].map(|key| letter(key, None)).to_vec();
    store.post(letters, at(5)).await.unwrap();
    for letter in store.letters(LetterState::Pending, 0).await.unwrap() {
        let error = "no such place".to_owned();
        let blocked = DeliveryAttempt::Blocked { error };
        store.record_letter(letter.id, blocked).await.unwrap();
    }
    assert_eq!(due(store, 100).await, [""; 0]);
    let dead = store.letters(LetterState::Dead, 0).await.unwrap();
    assert_eq!(dead.len(), 3);
    assert_eq!(dead[0].error.as_deref(), Some("no such place"));
    let counts = store.letter_counts().await.unwrap();
    assert_eq!((counts.len(), counts[0].letters), (1, 3));
    let retry = store.unblock_letters(Some(dead[1].id), Unblock::Retry, at(7));
    assert_eq!(retry.await.unwrap(), 1);
    assert_eq!(due(store, 7).await, ["b"]);
    let dismiss = store.unblock_letters(None, Unblock::Dismiss, at(8));
    assert_eq!(dismiss.await.unwrap(), 2);
    let week = 8 * 24 * 3_600_000;
    let known = vec!["hook:h".to_owned()];
    store.tidy_letters(known, at(week)).await.unwrap();
    assert_eq!(due(store, week).await, ["b"]);
    store.tidy_letters(Vec::new(), at(week)).await.unwrap();
    assert_eq!(due(store, week).await, [""; 0]);
    store.tidy_letters(Vec::new(), at(week * 5)).await.unwrap();
    assert!(
        store
            .letters(LetterState::Dead, 0)
            .await
            .unwrap()
            .is_empty()
    );
}
