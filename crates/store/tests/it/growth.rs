//! Operations whose cost must not depend on how many runs there are, and what they return.

use sortie_core::id::*;
use sortie_core::ports::store::*;
use sortie_core::run::*;

use crate::support::*;

fn claimed(claims: &[Claimed]) -> Vec<u32> {
    let fences: Vec<Fence> = claims.iter().map(|claimed| claimed.fence).collect();
    of_fences(&fences)
}

pub(crate) async fn handles_and_missing_ids_are_found(store: &dyn Store) {
    for number in [2, 4, 6, 8] {
        admit(store, number, spec(number)).await;
    }
    let handles = store.handles(vec![run(4), run(7), run(8)]).await.unwrap();
    assert_eq!(numbers(handles.keys().copied()), [4, 8]);
    for (run, handle) in handles {
        assert_eq!(handle, run.handles().next().unwrap());
        assert_eq!(store.get(run).await.unwrap().handle, handle);
        assert_eq!(store.resolve(&handle).await.unwrap(), run);
        assert_eq!(store.resolve(&handle.to_uppercase()).await.unwrap(), run);
    }
    let missing = store.missing(vec![run(4), run(5), run(9)]).await.unwrap();
    assert_eq!(numbers(missing), [5, 9]);
}

pub(crate) async fn runs_with_the_same_short_handle_get_different_ones(store: &dyn Store) {
    let short = |number| run(number).handles().next().unwrap();
    let mut seen = std::collections::HashMap::new();
    let (first, second) = (1..)
        .find_map(|number| Some((seen.insert(short(number), number)?, number)))
        .unwrap();
    for number in [first, second] {
        admit(store, number, spec(number)).await;
    }
    let expected = [
        (run(first), short(first)),
        (run(second), run(second).handles().nth(1).unwrap()),
    ];
    for (run, handle) in &expected {
        assert_eq!(store.resolve(handle).await.unwrap(), *run);
    }
    let handles = store.handles(vec![run(first), run(second)]).await.unwrap();
    assert_eq!(handles.into_iter().collect::<Vec<_>>(), expected);
}

pub(crate) async fn claim_passes_by_long_queues_that_are_at_a_limit(store: &dyn Store) {
    // Two trees with more queued children than a claim passes by one by one, then others.
    for root in [1, 2] {
        running(store, root, background(root)).await;
    }
    for number in 100..200 {
        admit(store, number, child(number, 1 + number % 2, 1 + number % 2)).await;
    }
    running_child(store, 300).await;
    for number in 400..403 {
        admit(store, number, background(number)).await;
    }
    let claim = Claim {
        lanes: vec![LaneLimit {
            lane: Lane::Subagent,
            max_concurrent: 9,
        }],
        per_parent: 2,
        per_tree: 3,
        ..claiming(1_000)
    };
    // Leased: 1, 2 and 300. Each tree has two more places, and its parent two children.
    let claims = store.claim(claim.clone()).await.unwrap();
    assert_eq!(claimed(&claims), [100, 101, 103, 400, 401, 402]);
    let again = store.claim(claim).await.unwrap();
    assert_eq!(claimed(&again), Vec::<u32>::new());
}

/// A child of run 1 that is claimed before the others are queued.
async fn running_child(store: &dyn Store, number: u32) {
    let mut urgent = child(number, 1, 1);
    urgent.priority = Priority::High;
    admit(store, number, urgent).await;
    let claim = Claim {
        lanes: vec![LaneLimit {
            lane: Lane::Subagent,
            max_concurrent: 3,
        }],
        ..claiming(900)
    };
    let claims = store.claim(claim).await.unwrap();
    assert_eq!(claimed(&claims), [number]);
}

pub(crate) async fn a_deleted_child_still_counts_in_its_tree(store: &dyn Store) {
    let limited = |number| {
        let mut spec = child(number, 1, 1);
        spec.caps.max_children_per_tree = 2;
        spec
    };
    running(store, 1, spec(1)).await;
    for number in [2, 3] {
        admit(store, number, limited(number)).await;
    }
    store.cancel(run(2), by_person(), at(10)).await.unwrap();
    store.deliver(at(11)).await.unwrap();
    store.delete(run(2)).await.unwrap();
    let refused = admit(store, 4, limited(4)).await;
    assert_eq!(
        refused,
        Admission::Refused(AdmissionRefusal::TreeFull { max: 2 })
    );
}

pub(crate) async fn queue_positions_end_at_a_thousand(store: &dyn Store) {
    for number in 1..=1_002 {
        admit(store, number, spec(number)).await;
    }
    let mut of_a_tenant = spec(1_003);
    of_a_tenant.tenant = Some("acme".parse().unwrap());
    admit(store, 1_003, of_a_tenant).await;
    for (number, position) in [
        (1, 1),
        (999, 999),
        (1_000, 1_000),
        (1_002, 1_000),
        (1_003, 1),
    ] {
        let record = store.get(run(number)).await.unwrap();
        assert_eq!(record.queue_position, Some(position));
        let filter = ListFilter {
            runs: vec![run(number)],
            ..ListFilter::default()
        };
        let listed = store.list(filter).await.unwrap();
        assert_eq!(listed[0].queue_position, Some(position));
    }
}

pub(crate) async fn undelivered_results_are_counted(store: &dyn Store) {
    assert_eq!(store.undelivered().await.unwrap(), Undelivered::default());
    let mut reporting = spec(1);
    reporting.report_to = vec![sink("a"), sink("b")];
    let fence = running(store, 1, reporting).await;
    reported(
        store
            .finish_next(finishing(fence, 5, completed("done")))
            .await,
    );
    let pending = store.undelivered().await.unwrap();
    assert_eq!((pending.pending, pending.blocked), (2, 0));
    for due in store.due_outside(at(10)).await.unwrap() {
        let error = "no such place".to_owned();
        let blocked = DeliveryAttempt::Blocked { error };
        store.record_attempt(due.id, blocked).await.unwrap();
    }
    let blocked = store.undelivered().await.unwrap();
    assert_eq!((blocked.pending, blocked.blocked), (0, 1));
}

/// A snapshot of two ended runs of one session.
async fn two_turns(store: &dyn Store) -> SaveSnapshot {
    for number in [1, 2] {
        let fence = running(store, number, spec(number)).await;
        let end = finishing(fence, i64::from(number) + 5, completed("done"));
        reported(store.finish_next(end).await);
    }
    let snapshot = Snapshot {
        run: run(2),
        head: store.get(run(2)).await.unwrap().head,
        body: b"history".to_vec(),
    };
    SaveSnapshot {
        snapshot,
        base: None,
        folded: vec![run(1), run(2)],
    }
}

async fn snapshot(store: &dyn Store) -> Option<Snapshot> {
    store.snapshot(SessionKey::cli(), None).await.unwrap()
}

pub(crate) async fn a_snapshot_is_kept_for_a_session_until_a_turn_is_deleted(store: &dyn Store) {
    let save = two_turns(store).await;
    assert_eq!(snapshot(store).await, None);
    assert!(store.save_snapshot(save.clone()).await.unwrap());
    assert_eq!(snapshot(store).await, Some(save.snapshot.clone()));
    let other = Some("acme".parse().unwrap());
    assert_eq!(
        store.snapshot(SessionKey::cli(), other).await.unwrap(),
        None
    );
    // The first turn is part of what the snapshot contains.
    store.delete(run(1)).await.unwrap();
    assert_eq!(snapshot(store).await, None);
    // What was folded from it meanwhile is not saved either.
    assert!(!store.save_snapshot(save).await.unwrap());
    assert_eq!(snapshot(store).await, None);
}

pub(crate) async fn a_snapshot_survives_archiving(store: &dyn Store) {
    let save = two_turns(store).await;
    assert!(store.save_snapshot(save.clone()).await.unwrap());
    assert!(store.archive(at(7), at(100)).await.unwrap() > 0);
    assert_eq!(snapshot(store).await, Some(save.snapshot.clone()));
    assert!(store.save_snapshot(save).await.unwrap());
}

pub(crate) async fn a_snapshot_must_follow_the_one_it_was_folded_from(store: &dyn Store) {
    let save = two_turns(store).await;
    let follows = |base| SaveSnapshot {
        base: Some(base),
        ..save.clone()
    };
    assert!(!store.save_snapshot(follows(run(1))).await.unwrap());
    assert!(store.save_snapshot(save.clone()).await.unwrap());
    assert!(store.save_snapshot(follows(run(2))).await.unwrap());
    let mut behind = save;
    behind.snapshot.head = Seq(1);
    assert!(!store.save_snapshot(behind).await.unwrap());
}

pub(crate) async fn active_runs_of_a_tree_are_listed_alone(store: &dyn Store) {
    let filter = |root: Option<u32>| ListFilter {
        root: root.map(run),
        statuses: vec![Status::Pending, Status::Running],
        oldest_first: true,
        ..ListFilter::default()
    };
    let fence = running(store, 1, background(1)).await;
    admit(store, 2, child(2, 1, 1)).await;
    admit(store, 3, spec(3)).await;
    let listed = store.list(filter(Some(1))).await.unwrap();
    assert_eq!(numbers(listed.iter().map(|it| it.run_id)), [1, 2]);
    reported(store.finish_next(finishing(fence, 5, failed())).await);
    assert_eq!(store.list(filter(Some(1))).await.unwrap(), []);
    let listed = store.list(filter(None)).await.unwrap();
    assert_eq!(numbers(listed.iter().map(|it| it.run_id)), [3]);
}

pub(crate) async fn usage_is_the_same_before_and_after_runs_end(store: &dyn Store) {
    let all = || ListFilter {
        archived: true,
        ..ListFilter::default()
    };
    let mut fences = Vec::new();
    for number in 1..=3 {
        fences.push(running(store, number, spec(number)).await);
    }
    for fence in &fences {
        store
            .append_next(appending(*fence, 5, vec![note("once")]))
            .await
            .unwrap();
    }
    let before = store.usage(all(), None, 0).await.unwrap();
    assert_eq!(before.len(), 1);
    assert_eq!(
        (before[0].runs, before[0].usage.input_tokens),
        (3, Some(21))
    );
    for fence in &fences {
        let end = finishing(*fence, 10, completed("done"));
        reported(store.finish_next(end).await);
        assert_eq!(store.usage(all(), None, 0).await.unwrap(), before);
        assert_eq!(store.used(all()).await.unwrap(), before[0].usage);
    }
    // What was used outlives the record.
    store.delete(run(2)).await.unwrap();
    let after = store.usage(all(), None, 1).await.unwrap();
    assert_eq!(after, before);
    assert_eq!(store.used(all()).await.unwrap(), after[0].usage);
    let place = Some(after[0].place());
    assert_eq!(store.usage(all(), place, 1).await.unwrap(), []);
}
