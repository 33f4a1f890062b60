//! Several processes that share a store on PostgreSQL. Each store value here has its own writer, its
//! own sessions and its own locks, as a process has.

use std::collections::BTreeSet;
use std::time::Duration;

use sortie_core::id::Fence;
use sortie_core::ports::store::*;
use sortie_core::run::Lane;
use sortie_core::worker::{Label, Worker, WorkerId, WorkerState};
use sortie_store::{DurableStore, Target};

use crate::owner;
use crate::server::{self, Schema};
use crate::support::*;

fn target(schema: &Schema) -> Target {
    schema.address(&schema.folder).parse().unwrap()
}

fn front(schema: &Schema) -> DurableStore {
    crate::lost::open(schema)
}

/// Opens the store as a worker. The lock file of the home stays locked although its folder is gone.
fn worker(schema: &Schema) -> DurableStore {
    let home = tempfile::tempdir().unwrap();
    DurableStore::connect_worker(home.path(), &target(schema), &owner()).unwrap()
}

fn id(name: &str) -> WorkerId {
    WorkerId::from_stored(name.to_owned())
}

fn label(text: &str) -> Label {
    text.parse().unwrap()
}

fn claim_as(name: &str, limit: u32, millis: i64) -> Claim {
    Claim {
        owner: id(name),
        lanes: vec![LaneLimit {
            lane: Lane::Main,
            max_concurrent: limit,
        }],
        ..claiming(millis)
    }
}

async fn claim(store: &DurableStore, claim: Claim) -> Vec<Fence> {
    let claimed = store.claim(claim).await.unwrap();
    claimed.iter().map(|claimed| claimed.fence).collect()
}

fn joining(name: &str, is_front: bool, lease: (i64, i64)) -> Join {
    Join {
        worker: Worker {
            id: id(name),
            command: format!("sortie {name}"),
            is_front,
            host: "here".to_owned(),
            pid: 7,
            labels: vec![label("gpu")],
            lanes: vec![(Lane::Subagent, 3)],
        },
        draining: false,
        at: at(lease.0),
        lease_until: at(lease.1),
    }
}

#[tokio::test]
async fn every_process_has_its_own_slots_and_no_run_has_two_owners() {
    let schema = server::schema();
    let (one, two) = (front(&schema), worker(&schema));
    for number in 1..=6 {
        admit(&one, number, spec(number)).await;
    }
    let (first, second) = tokio::join!(
        claim(&one, claim_as("one", 2, 10)),
        claim(&two, claim_as("two", 3, 10))
    );
    assert_eq!((first.len(), second.len()), (2, 3));
    let runs: BTreeSet<_> = first.iter().chain(&second).map(|fence| fence.run).collect();
    assert_eq!(runs.len(), 5, "{first:?} {second:?}");
    assert_eq!(claim(&one, claim_as("one", 2, 11)).await, []);
    sound(&one).await;
}

#[tokio::test]
async fn writers_that_conflict_all_the_time_succeed() {
    const RUNS: u32 = 24;
    let schema = server::schema();
    let stores = [front(&schema), worker(&schema), worker(&schema)];
    for number in 1..=RUNS {
        admit(&stores[0], number, spec(number)).await;
    }
    let mut tasks = tokio::task::JoinSet::new();
    for (index, store) in stores.into_iter().enumerate() {
        tasks.spawn(async move {
            let name = format!("worker {index}");
            let mut finished = 0;
            for round in 0..i64::from(RUNS) {
                for fence in claim(&store, claim_as(&name, 2, 100 + round)).await {
                    let events = vec![note("step")];
                    store
                        .append_next(appending(fence, 100 + round, events))
                        .await
                        .unwrap();
                    store
                        .finish_next(finishing(fence, 100 + round, completed("done")))
                        .await
                        .unwrap();
                    finished += 1;
                }
            }
            (store, finished)
        });
    }
    let done = tasks.join_all().await;
    let finished: u32 = done.iter().map(|(_, finished)| finished).sum();
    assert_eq!(finished, RUNS);
    sound(&done[0].0).await;
}

#[tokio::test]
async fn only_a_process_alone_recovers_all_leases() {
    let schema = server::schema();
    let (one, two) = (front(&schema), worker(&schema));
    for number in 1..=3 {
        admit(&one, number, spec(number)).await;
    }
    let mine = claim(&one, claim_as("one", 1, 10)).await;
    let other = claim(&two, claim_as("two", 2, 10)).await;
    let refused = one.recover(recovering(RecoverScope::All, 11)).await;
    assert!(
        matches!(refused, Err(StoreError::Locked { .. })),
        "{refused:?}"
    );
    let orphans = RecoverScope::Orphans {
        owner: id("two"),
        executed: vec![other[0]],
    };
    let report = two.recover(recovering(orphans, 12)).await.unwrap();
    assert_eq!(report.resumed, [other[1].run]);

    drop(two);
    let report = one
        .recover(recovering(RecoverScope::All, 13))
        .await
        .unwrap();
    let resumed: BTreeSet<_> = report.resumed.into_iter().collect();
    assert_eq!(resumed, BTreeSet::from([mine[0].run, other[0].run]));
    // It lets others in again.
    drop(worker(&schema));
}

#[tokio::test]
async fn a_front_process_recovers_the_runs_of_the_one_before_it() {
    let schema = server::schema();
    let (one, two) = (front(&schema), worker(&schema));
    one.join(joining("one", true, (0, 100))).await.unwrap();
    two.join(joining("two", false, (0, 100))).await.unwrap();
    for number in 1..=2 {
        admit(&one, number, spec(number)).await;
    }
    let lost = claim(&one, claim_as("one", 1, 10)).await;
    let kept = claim(&two, claim_as("two", 1, 10)).await;
    drop(one);
    let next = front(&schema);
    let predecessors = RecoverScope::Predecessors { owner: id("next") };
    let report = next.recover(recovering(predecessors, 11)).await.unwrap();
    assert_eq!(report.resumed, [lost[0].run]);
    two.append_next(appending(kept[0], 12, vec![note("goes on")]))
        .await
        .unwrap();
    let names: Vec<_> = next.workers(at(50)).await.unwrap();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[tokio::test]
async fn a_stopped_worker_that_continues_changes_nothing() {
    let schema = server::schema();
    let (one, two) = (front(&schema), worker(&schema));
    admit(&one, 1, spec(1)).await;
    let stale = claim(&two, claim_as("two", 1, 10)).await[0];
    let after = 10 + LEASE_MS + 1;
    let report = one
        .recover(recovering(RecoverScope::Expired, after))
        .await
        .unwrap();
    assert_eq!(report.resumed, [stale.run]);
    let signals = two.signals(vec![stale]).await.unwrap();
    assert_eq!(signals.lost, [stale.run]);
    let fresh = claim(&one, claim_as("one", 1, after)).await[0];
    assert_fenced(
        two.append_next(appending(stale, after, vec![note("late")]))
            .await,
    );
    assert_fenced(
        two.finish_next(finishing(stale, after, completed("late")))
            .await,
    );
    assert_fenced(two.release(stale, at(after)).await);
    one.finish_next(finishing(fresh, after + 1, completed("done")))
        .await
        .unwrap();
    assert_eq!(state(&two, 1).await, "completed - not_required");
    sound(&two).await;
}

#[tokio::test]
async fn a_cancellation_reaches_the_process_that_executes_the_run() {
    let schema = server::schema();
    let (one, two) = (front(&schema), worker(&schema));
    admit(&one, 1, spec(1)).await;
    let fence = claim(&two, claim_as("two", 1, 10)).await[0];
    assert_eq!(
        two.signals(vec![fence]).await.unwrap(),
        HeartbeatReport::default()
    );
    one.cancel(fence.run, by_person(), at(11)).await.unwrap();
    let signals = two.signals(vec![fence]).await.unwrap();
    assert_eq!(signals.cancelled, [(fence.run, by_person())]);
}

#[tokio::test]
async fn runs_wait_for_a_worker_with_the_labels_they_require() {
    let schema = server::schema();
    let (one, two) = (front(&schema), worker(&schema));
    let requiring = |number, labels: &[&str]| {
        let mut required = spec(number);
        required.requires = labels.iter().map(|text| label(text)).collect();
        required
    };
    admit(&one, 1, requiring(1, &["gpu"])).await;
    admit(&one, 2, requiring(2, &["gpu", "linux"])).await;
    admit(&one, 3, spec(3)).await;
    let plain = claim(&one, claim_as("one", 9, 10)).await;
    assert_eq!(of_fences(&plain), [3]);
    let with = |labels: &[&str]| Claim {
        labels: labels.iter().map(|text| label(text)).collect(),
        ..claim_as("two", 9, 11)
    };
    assert_eq!(of_fences(&claim(&two, with(&["gpu"])).await), [1]);
    assert_eq!(of_fences(&claim(&two, with(&["linux"])).await), [0; 0]);
    assert_eq!(of_fences(&claim(&two, with(&["linux", "gpu"])).await), [2]);
}

#[tokio::test]
async fn workers_join_drain_are_lost_and_leave() {
    let schema = server::schema();
    let (one, two) = (front(&schema), worker(&schema));
    one.join(joining("one", true, (0, 100))).await.unwrap();
    two.join(joining("two", false, (5, 50))).await.unwrap();
    let states = async |millis| -> Vec<(String, WorkerState)> {
        let workers = one.workers(at(millis)).await.unwrap();
        let state = |record: &sortie_core::worker::WorkerRecord| {
            (record.worker.id.to_string(), record.state)
        };
        workers.iter().map(state).collect()
    };
    let name = |text: &str| text.to_owned();
    assert_eq!(
        states(60).await,
        [
            (name("one"), WorkerState::Active),
            (name("two"), WorkerState::Lost)
        ]
    );
    let draining = Join {
        draining: true,
        ..joining("two", false, (60, 160))
    };
    two.join(draining).await.unwrap();
    assert_eq!(states(70).await[1].1, WorkerState::Draining);
    let listed = one.workers(at(70)).await.unwrap();
    assert_eq!(listed[1].worker, joining("two", false, (0, 0)).worker);
    assert_eq!(listed[1].joined_at, at(5));
    two.leave(id("two")).await.unwrap();
    assert_eq!(states(70).await.len(), 1);
}

#[tokio::test]
async fn the_feed_has_what_others_journal_in_order_and_only_once() {
    let schema = server::schema();
    let (one, two) = (front(&schema), worker(&schema));
    let start = one.feed(FeedPlace::default()).await.unwrap();
    assert!(start.entries.is_empty());
    admit(&one, 1, spec(1)).await;
    let fence = claim(&two, claim_as("two", 1, 10)).await[0];
    two.append_next(appending(fence, 11, vec![note("a"), note("b")]))
        .await
        .unwrap();
    two.finish_next(finishing(fence, 12, completed("done")))
        .await
        .unwrap();
    // A transaction of another application in the same server delays the feed until it ends.
    let mut place = start.next;
    let mut names = Vec::new();
    for _ in 0..600 {
        let feed = one.feed(place).await.unwrap();
        place = feed.next;
        names.extend(feed.entries.iter().map(|entry| entry.entry.event.name()));
        if names.last() == Some(&"finished") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // The admission is its own, so it is not in the feed. The last failure is an event of the end.
    assert_eq!(
        names,
        [
            "claimed",
            "model_failed",
            "model_failed",
            "model_failed",
            "finished"
        ]
    );
    assert!(one.feed(place).await.unwrap().entries.is_empty());
}

#[tokio::test]
async fn the_clock_of_leases_is_the_databases() {
    let schema = server::schema();
    let store = front(&schema);
    let seen = store.clock(at(5)).await.unwrap();
    let there = schema.count("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)");
    assert!((there - seen.0).abs() < 60_000, "{seen} {there}");
}

#[tokio::test]
async fn a_copy_waits_for_no_worker_and_names_it() {
    let schema = server::schema();
    let store = worker(&schema);
    store.join(joining("two", false, (0, 100))).await.unwrap();
    let home = tempfile::tempdir().unwrap();
    let target = target(&schema);
    let refused = tokio::task::spawn_blocking(move || {
        let stores = sortie_store::CopyStores {
            home: home.path(),
            target: &target,
            owner: &owner(),
            fold: |_| Ok(Vec::new()),
        };
        sortie_store::copy(stores, sortie_store::CopyTo::File, &mut |_| {})
    })
    .await
    .unwrap();
    let text = chain_of(&refused.unwrap_err());
    assert!(text.contains("`sortie two` on here (pid 7)"), "{text}");
}

#[tokio::test]
async fn an_unreadable_entry_does_not_block_the_feed() {
    let schema = server::schema();
    let (one, two) = (front(&schema), worker(&schema));
    let start = one.feed(FeedPlace::default()).await.unwrap();
    admit(&one, 1, spec(1)).await;
    let fence = claim(&two, claim_as("two", 1, 10)).await[0];
    two.append_next(appending(fence, 11, vec![note("damaged"), note("sound")]))
        .await
        .unwrap();
    schema.sql("UPDATE journal SET body = '{\"no\": 1}' WHERE body LIKE '%damaged%'");
    two.finish_next(finishing(fence, 12, completed("done")))
        .await
        .unwrap();
    let mut place = start.next;
    let mut names = Vec::new();
    for _ in 0..600 {
        let feed = one.feed(place).await.unwrap();
        place = feed.next;
        names.extend(feed.entries.iter().map(|entry| entry.entry.event.name()));
        if names.last() == Some(&"finished") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(
        names,
        ["claimed", "model_failed", "model_failed", "finished"]
    );
}
