//! Pausing and resuming runs.

use sortie_core::event::*;
use sortie_core::ports::store::*;
use sortie_core::run::*;

use crate::support::*;

/// Returns the numbers of the runs that a pause or a resume changed, and of those with a lease.
fn changed(report: &PauseReport) -> (Vec<u32>, Vec<u32>) {
    (
        numbers(report.changed.iter().map(|about| about.run)),
        numbers(report.leased.iter().copied()),
    )
}

async fn pause(store: &dyn Store, number: u32, millis: i64) -> (Vec<u32>, Vec<u32>) {
    changed(&store.pause(run(number), at(millis)).await.unwrap())
}

async fn unpause(store: &dyn Store, number: u32, millis: i64) -> (Vec<u32>, Vec<u32>) {
    changed(&store.resume(run(number), at(millis)).await.unwrap())
}

async fn is_paused(store: &dyn Store, number: u32) -> bool {
    store.get(run(number)).await.unwrap().paused
}

pub(crate) async fn a_paused_run_is_not_claimed_until_it_is_resumed(store: &dyn Store) {
    admit(store, 1, spec(1)).await;
    admit(store, 2, spec(2)).await;
    assert_eq!(pause(store, 1, 5).await, (vec![1], vec![]));
    assert_eq!(state(store, 1).await, "pending - not_required");
    let (first, second) = (
        store.get(run(1)).await.unwrap(),
        store.get(run(2)).await.unwrap(),
    );
    assert_eq!(
        (first.queue_position, second.queue_position),
        (None, Some(1))
    );
    // Once is enough.
    assert_eq!(pause(store, 1, 6).await, (vec![], vec![]));
    assert_eq!(of_fences(&claim_all(store, 10).await), [2]);
    assert_eq!(unpause(store, 1, 11).await, (vec![1], vec![]));
    assert_eq!(state(store, 1).await, "pending slot not_required");
    assert_eq!(unpause(store, 1, 12).await, (vec![], vec![]));
    assert_eq!(of_fences(&claim_all(store, 13).await), [1]);
    assert_eq!(story(store, 1).await, "admitted paused resumed claimed");
}

pub(crate) async fn a_pause_reaches_the_whole_subtree_and_later_children(store: &dyn Store) {
    let parent = running(store, 1, spec(1)).await;
    let held = running(store, 2, child(2, 1, 1)).await;
    admit(store, 3, child(3, 2, 1)).await;
    admit(store, 4, spec(4)).await;
    store.park_next(parking(parent, 5)).await.unwrap();
    assert_eq!(pause(store, 1, 6).await, (vec![1, 2, 3], vec![2]));
    // A child that a run spawns before it pauses begins paused.
    admit(store, 5, child(5, 2, 1)).await;
    assert!(is_paused(store, 5).await);
    assert_eq!(story(store, 5).await, "admitted paused");
    assert_eq!(of_fences(&claim_all(store, 8).await), [4]);
    let appended = store
        .append_next(appending(held, 9, vec![note("step")]))
        .await;
    assert!(appended.unwrap().paused);
    let beat = Heartbeat {
        fences: vec![held],
        lease_until: at(1_000),
    };
    assert_eq!(store.heartbeat(beat).await.unwrap().paused, [run(2)]);
    store.release(held, at(10)).await.unwrap();
    assert_eq!(
        story(store, 2).await,
        "admitted claimed model_failed paused"
    );
    assert_eq!(claim_all(store, 11).await, []);
    assert_eq!(unpause(store, 1, 12).await, (vec![1, 2, 3, 5], vec![]));
    assert_eq!(of_fences(&claim_all(store, 13).await), [2, 3, 5]);
    // The parent is parked again, and waits for its inbox only.
    assert_eq!(state(store, 1).await, "running children not_required");
    assert_eq!(story(store, 1).await, "admitted claimed paused resumed");
}

pub(crate) async fn a_run_resumed_before_its_next_step_journals_no_pause(store: &dyn Store) {
    let held = running(store, 1, spec(1)).await;
    pause(store, 1, 5).await;
    assert_eq!(unpause(store, 1, 6).await, (vec![1], vec![1]));
    store.release(held, at(7)).await.unwrap();
    assert_eq!(story(store, 1).await, "admitted claimed");
    assert_eq!(of_fences(&claim_all(store, 8).await), [1]);
}

pub(crate) async fn messages_for_a_paused_run_stay_in_its_inbox(store: &dyn Store) {
    let parent = running(store, 1, spec(1)).await;
    let child_fence = running(store, 2, child(2, 1, 1)).await;
    pause(store, 1, 3).await;
    // A leased run with a pause can still be parked; then the pause is journaled.
    assert!(store.park_next(parking(parent, 4)).await.unwrap());
    assert_eq!(story(store, 1).await, "admitted claimed paused");
    store
        .finish_next(finishing(child_fence, 5, completed("found")))
        .await
        .unwrap();
    assert_eq!(store.deliver(at(6)).await.unwrap().len(), 1);
    assert_eq!(state(store, 1).await, "running - not_required");
    assert_eq!(claim_all(store, 7).await, []);
    unpause(store, 1, 8).await;
    let fence = claim_all(store, 9).await[0];
    let taken = store.take_next(fence, at(10)).await.unwrap().unwrap();
    assert!(matches!(taken.event, Event::InboxTaken { items, .. } if items.len() == 1));
}

pub(crate) async fn a_pause_survives_the_death_of_the_executor(store: &dyn Store) {
    running(store, 1, spec(1)).await;
    pause(store, 1, 5).await;
    let report = store
        .recover(recovering(RecoverScope::All, 10))
        .await
        .unwrap();
    assert_eq!(report.resumed, [run(1)]);
    assert!(is_paused(store, 1).await);
    assert_eq!(claim_all(store, 11).await, []);
    let report = store
        .recover(recovering(RecoverScope::All, 12))
        .await
        .unwrap();
    assert_eq!(report.queued, 1);
    unpause(store, 1, 13).await;
    assert_eq!(of_fences(&claim_all(store, 14).await), [1]);
    assert_eq!(
        story(store, 1).await,
        "admitted claimed paused resumed claimed"
    );
}

pub(crate) async fn cancel_beats_pause(store: &dyn Store) {
    let held = running(store, 1, spec(1)).await;
    admit(store, 2, spec(2)).await;
    pause(store, 1, 5).await;
    pause(store, 2, 5).await;
    let report = store.cancel(run(2), by_person(), at(6)).await.unwrap();
    assert_eq!(of_ended(&report.ended), [2]);
    assert!(!is_paused(store, 2).await);
    store.cancel(run(1), by_person(), at(6)).await.unwrap();
    assert!(!is_paused(store, 1).await);
    let refused = store.pause(run(1), at(7)).await.unwrap_err().to_string();
    assert!(refused.contains("it is being cancelled"), "{refused}");
    // Releasing the run because of the pause does not hide the cancellation.
    store.release(held, at(8)).await.unwrap();
    let claimed = store.claim(claiming(9)).await.unwrap();
    assert_eq!(claimed[0].cancel, Some(by_person()));
    let refused = store.pause(run(2), at(10)).await.unwrap_err().to_string();
    assert!(refused.contains("it has ended"), "{refused}");
    let refused = store.resume(run(2), at(10)).await.unwrap_err().to_string();
    assert!(refused.contains("retry it instead"), "{refused}");
}

pub(crate) async fn the_deadline_of_a_paused_run_still_passes(store: &dyn Store) {
    let timed = RunSpec {
        limits: Limits {
            timeout_ms: Some(100),
            ..spec(1).limits
        },
        ..spec(1)
    };
    let held = running(store, 1, timed).await;
    pause(store, 1, 5).await;
    store.release(held, at(6)).await.unwrap();
    assert_eq!(store.next_due().await.unwrap(), Some(at(101)));
    let early = store.expire_parked(at(100)).await.unwrap();
    assert_eq!(early, EndReport::default());
    let report = store.expire_parked(at(101)).await.unwrap();
    assert_eq!(of_ended(&report.ended), [1]);
    assert_eq!(state(store, 1).await, "timeout - not_required");
}
