//! What every store does. Each case gets an empty store; afterwards the store is verified.

use sortie_core::event::*;
use sortie_core::id::*;
use sortie_core::inbox::*;
use sortie_core::message::*;
use sortie_core::ports::store::*;
use sortie_core::run::*;
use sortie_core::stats::*;

use crate::support::*;

pub(crate) async fn admission_writes_run_and_first_event(store: &dyn Store) {
    let first = admit(store, 1, spec(1)).await;
    let admitted = Admission::Admitted {
        queue_position: None,
    };
    assert_eq!(first, admitted);
    let second = admit(store, 2, spec(2)).await;
    assert_eq!(second, admitted);

    let record = store.get(run(2)).await.unwrap();
    assert_eq!(record.queue_position, Some(2));
    assert_eq!(record.status, Status::Pending);
    assert_eq!(record.delivery, Delivery::NotRequired);
    assert_eq!(record.child_session, SessionKey::of_child(run(2), "task 2"));
    assert_eq!((record.head, record.created_at), (Seq(1), at(2)));
    let entries = store.read(run(2), Seq(0)).await.unwrap();
    let [entry] = entries.as_slice() else {
        panic!("one entry, got {entries:?}");
    };
    assert_eq!(
        entry.event,
        Event::Admitted {
            spec: Box::new(spec(2))
        }
    );

    running(store, 3, spec(3)).await;
    admit(store, 4, child(4, 3, 3)).await;
    assert_eq!(state(store, 4).await, "pending slot pending");
}

pub(crate) async fn the_same_call_gets_the_same_child(store: &dyn Store) {
    running(store, 1, spec(1)).await;
    admit(store, 2, child(2, 1, 1)).await;
    let again = RunSpec {
        parent: child(2, 1, 1).parent,
        ..child(3, 1, 1)
    };
    assert_eq!(
        admit(store, 3, again).await,
        Admission::Existing { run: run(2) }
    );
    assert_eq!(
        admit(store, 1, spec(1)).await,
        Admission::Existing { run: run(1) }
    );
    assert_eq!(store.stats(ListFilter::default()).await.unwrap().total, 2);
}

pub(crate) async fn admission_is_rejected_over_limits_and_for_ending_parents(store: &dyn Store) {
    let parent = running(store, 1, spec(1)).await;
    let caps = AdmissionCaps {
        max_children_per_tree: 2,
        max_depth: 1,
    };
    let ask = async |number, spec| {
        let spec = RunSpec { caps, ..spec };
        store.admit(asking(number, spec, 0)).await.unwrap()
    };
    let refused = |refusal| Admission::Refused(refusal);
    assert!(matches!(
        ask(2, child(2, 1, 1)).await,
        Admission::Admitted { .. }
    ));
    assert_eq!(
        ask(3, child(3, 2, 1)).await,
        refused(AdmissionRefusal::TooDeep { max: 1 })
    );
    ask(4, child(4, 1, 1)).await;
    assert_eq!(
        ask(5, child(5, 1, 1)).await,
        refused(AdmissionRefusal::TreeFull { max: 2 })
    );
    // A root has no tree to fill.
    assert!(matches!(ask(6, spec(6)).await, Admission::Admitted { .. }));

    store.cancel(run(1), by_person(), at(9)).await.unwrap();
    assert_eq!(
        ask(7, child(7, 1, 1)).await,
        refused(AdmissionRefusal::ParentEnding)
    );
    store
        .finish_next(finishing(parent, 9, completed("done")))
        .await
        .unwrap();
    assert_eq!(
        ask(8, child(8, 1, 1)).await,
        refused(AdmissionRefusal::ParentEnding)
    );
    assert_eq!(store.stats(ListFilter::default()).await.unwrap().total, 4);
}

pub(crate) async fn admission_checks_the_parents_fence(store: &dyn Store) {
    let old = running(store, 1, spec(1)).await;
    store.release(old, at(1)).await.unwrap();
    let new = claim_all(store, 2).await[0];
    let with = |fence| Admit {
        parent: Some(ParentClaim {
            fence,
            reached: Seq(0),
        }),
        ..asking(2, child(2, 1, 1), 3)
    };
    assert_fenced(store.admit(with(old)).await);
    assert!(store.get(run(2)).await.is_err());
    assert!(matches!(
        store.admit(with(new)).await.unwrap(),
        Admission::Admitted { .. }
    ));
}

pub(crate) async fn claim_leases_and_journals(store: &dyn Store) {
    let timed = RunSpec {
        limits: Limits {
            timeout_ms: Some(5_000),
            ..spec(1).limits
        },
        ..spec(1)
    };
    admit(store, 1, timed).await;
    let claimed = store.claim(claiming(10)).await.unwrap();
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].fence.epoch, Epoch(1));
    assert_eq!(claimed[0].cancel, None);
    let entries = claimed[0].entries.as_ref().unwrap();
    assert_eq!(
        entries.last().unwrap().event,
        Event::Claimed {
            epoch: Epoch(1),
            recovered: false
        }
    );
    assert_eq!(entries.len(), 2);
    assert_eq!(state(store, 1).await, "running model not_required");
    let record = store.get(run(1)).await.unwrap();
    assert_eq!(record.started_at, Some(at(10)));
    assert_eq!(record.queue_position, None);
    assert!(claim_all(store, 11).await.is_empty(), "claimed twice");

    store.release(claimed[0].fence, at(20)).await.unwrap();
    assert_eq!(state(store, 1).await, "running slot not_required");
    let again = store.claim(claiming(30)).await.unwrap();
    assert_eq!(again[0].fence.epoch, Epoch(2));
    // The first claim is the start; the deadline does not move.
    assert_eq!(store.get(run(1)).await.unwrap().started_at, Some(at(10)));
    store.park_next(parking(again[0].fence, 31)).await.unwrap();
    assert_eq!(store.next_due().await.unwrap(), Some(at(5_010)));
}

pub(crate) async fn claim_respects_lane_limits(store: &dyn Store) {
    for number in 1..=4 {
        admit(store, number, spec(number)).await;
        admit(store, 10 + number, background(10 + number)).await;
    }
    let mut limits = claiming(100);
    limits.lanes[0].max_concurrent = 1;
    limits.lanes[1].max_concurrent = 3;
    let mut claimed = async || {
        let claimed = store.claim(limits.clone()).await.unwrap();
        limits.at = limits.at.plus_ms(1);
        claimed
    };
    let first = claimed().await;
    let fences: Vec<_> = first.iter().map(|claimed| claimed.fence).collect();
    assert_eq!(of_fences(&fences), [1, 11, 12, 13]);
    assert!(claimed().await.is_empty());
    store
        .finish_next(finishing(fences[2], 101, completed("done")))
        .await
        .unwrap();
    assert_eq!(claimed().await[0].fence.run, run(14));
    assert!(claimed().await.is_empty());
}

pub(crate) async fn claim_respects_parent_and_tree_caps_without_starving_others(store: &dyn Store) {
    running(store, 1, spec(1)).await;
    running(store, 2, spec(2)).await;
    // Five children of 1, then grandchildren under 11, then two children of 2.
    for number in 11..=15 {
        admit(store, number, child(number, 1, 1)).await;
    }
    admit(store, 16, child(16, 11, 1)).await;
    admit(store, 17, child(17, 11, 1)).await;
    admit(store, 21, child(21, 2, 2)).await;
    admit(store, 22, child(22, 2, 2)).await;
    let claim = Claim {
        per_parent: 2,
        per_tree: 3,
        ..claiming(100)
    };
    let claimed = store.claim(claim.clone()).await.unwrap();
    let fences: Vec<_> = claimed.iter().map(|claimed| claimed.fence).collect();
    // Two of parent 1, one of parent 11 fills the tree, and tree 2 is not held up.
    assert_eq!(of_fences(&fences), [11, 12, 16, 21, 22]);
    assert!(store.claim(claim.clone()).await.unwrap().is_empty());

    store
        .finish_next(finishing(fences[1], 101, completed("done")))
        .await
        .unwrap();
    let next = store.claim(claim).await.unwrap();
    assert_eq!(next.len(), 1);
    assert_eq!(next[0].fence.run, run(13));
}

pub(crate) async fn priority_is_worth_a_minute_of_waiting(store: &dyn Store) {
    let cases = [
        // (run, priority, admitted at): claimed in the order of at - weight.
        (1, Priority::Low, 0),
        (2, Priority::Normal, 30_000),
        (3, Priority::High, 59_000),
        (4, Priority::Normal, 61_000),
        (5, Priority::High, 121_000),
        (6, Priority::Low, 500),
    ];
    for (number, priority, millis) in cases {
        let spec = RunSpec {
            priority,
            ..spec(number)
        };
        store.admit(asking(number, spec, millis)).await.unwrap();
    }
    let mut places = Vec::new();
    for (number, ..) in cases {
        places.push(
            store
                .get(run(number))
                .await
                .unwrap()
                .queue_position
                .unwrap(),
        );
    }
    assert_eq!(places, [3, 2, 1, 5, 6, 4]);
    let listed = store.list(ListFilter::default()).await.unwrap();
    let listed: Vec<_> = listed
        .iter()
        .rev()
        .map(|one| one.queue_position.unwrap())
        .collect();
    assert_eq!(listed, places);
    let newest = ListFilter {
        limit: 1,
        ..ListFilter::default()
    };
    let newest = store.list(newest).await.unwrap();
    assert_eq!(newest[0].queue_position, Some(4), "as in the whole queue");
    assert_eq!(
        of_fences(&claim_all(store, 200_000).await),
        [3, 2, 1, 6, 4, 5]
    );
}

pub(crate) async fn label_and_priority_of_a_queued_run_can_be_changed(store: &dyn Store) {
    for number in 1..=2 {
        admit(store, number, background(number)).await;
    }
    let update = |number, priority| Update {
        run: run(number),
        label: Some("urgent".to_owned()),
        priority,
        at: at(10),
    };
    store.update(update(2, Some(Priority::High))).await.unwrap();
    let moved = store.get(run(2)).await.unwrap();
    assert_eq!(
        (moved.label.as_str(), moved.priority, moved.queue_position),
        ("urgent", Priority::High, Some(1))
    );
    let entries = store.read(run(2), Seq(1)).await.unwrap();
    assert!(matches!(entries[0].event, Event::Updated { .. }));
    let fences = claim_all(store, 11).await;
    assert_eq!(fences[0].run, run(2), "it is first in the queue now");
    let late = store.update(update(1, None)).await;
    assert!(
        matches!(late, Err(StoreError::WrongState { .. })),
        "{late:?}"
    );
}

pub(crate) async fn a_woken_run_keeps_its_place_in_the_queue(store: &dyn Store) {
    let first = running(store, 1, spec(1)).await;
    assert!(store.park_next(parking(first, 5)).await.unwrap());
    assert_eq!(state(store, 1).await, "running children not_required");
    admit(store, 2, spec(2)).await;
    store.send(run(1), steer("wake"), at(6)).await.unwrap();
    assert_eq!(state(store, 1).await, "running slot not_required");
    assert_eq!(store.get(run(1)).await.unwrap().queue_position, Some(1));
    assert_eq!(of_fences(&claim_all(store, 7).await), [1, 2]);
}

pub(crate) async fn a_released_run_keeps_its_place_in_the_queue(store: &dyn Store) {
    let first = running(store, 1, spec(1)).await;
    admit(store, 2, spec(2)).await;
    store.release(first, at(5)).await.unwrap();
    let claimed = store.claim(claiming(7)).await.unwrap();
    assert_eq!(claimed[0].fence.run, run(1));
    let last = claimed[0].entries.as_ref().unwrap().last().unwrap().clone();
    assert_eq!(
        last.event,
        Event::Claimed {
            epoch: Epoch(2),
            recovered: false
        }
    );
}

pub(crate) async fn append_stores_events_summary_and_blobs(store: &dyn Store) {
    let fence = running(store, 1, spec(1)).await;
    let bytes = vec![0, 159, 146, 150];
    let id = BlobId::of(&bytes);
    let append = Append {
        blobs: vec![
            Blob {
                id: id.clone(),
                bytes: bytes.clone(),
            };
            2
        ],
        ..appending(fence, 5, vec![note("a"), note("b")])
    };
    let appended = store.append_next(append).await.unwrap();
    assert_eq!(
        appended,
        Appended {
            head: Seq(4),
            inbox_waiting: false,
            cancel: None,
            paused: false,
            over_quota: false,
        }
    );
    assert_eq!(store.blob(run(1), &id).await.unwrap(), Some(bytes));
    assert_eq!(store.blob(run(2), &id).await.unwrap(), None);
    let record = store.get(run(1)).await.unwrap();
    assert_eq!(record.summary, summary(5));
    assert_eq!(record.head, Seq(4));
    let tail = store.read(run(1), Seq(3)).await.unwrap();
    assert_eq!(tail.len(), 1);
    assert_eq!(
        (tail[0].seq, tail[0].at, tail[0].epoch, &tail[0].event),
        (Seq(4), at(5), fence.epoch, &note("b"))
    );
    assert!(store.read(run(1), Seq(4)).await.unwrap().is_empty());

    store.send(run(1), steer("look"), at(6)).await.unwrap();
    store.cancel(run(1), by_person(), at(6)).await.unwrap();
    let appended = store
        .append_next(appending(fence, 7, vec![]))
        .await
        .unwrap();
    assert_eq!(
        appended,
        Appended {
            head: Seq(4),
            inbox_waiting: true,
            cancel: Some(by_person()),
            paused: false,
            over_quota: false,
        }
    );
}

pub(crate) async fn progress_never_goes_back(store: &dyn Store) {
    let fence = running(store, 1, spec(1)).await;
    for (given, kept) in [(30, 30), (10, 30), (35, 35)] {
        let append = Append {
            summary: summary(given),
            ..appending(fence, 5, vec![])
        };
        store.append_next(append).await.unwrap();
        assert_eq!(store.get(run(1)).await.unwrap().summary.progress, kept);
    }
    store
        .finish_next(finishing(fence, 6, failed()))
        .await
        .unwrap();
    assert_eq!(store.get(run(1)).await.unwrap().summary.progress, 40);
}

pub(crate) async fn stale_fences_are_rejected_by_every_write(store: &dyn Store) {
    let old = running(store, 1, spec(1)).await;
    store
        .recover(recovering(RecoverScope::All, 5))
        .await
        .unwrap();
    let before = store.get(run(1)).await.unwrap();
    check_refused(store, old).await;
    let new = claim_all(store, 6).await[0];
    assert!(new.epoch > old.epoch);
    check_refused(store, old).await;
    store
        .finish_next(finishing(new, 7, completed("done")))
        .await
        .unwrap();
    check_refused(store, old).await;
    check_refused(store, new).await;
    let after = store.get(run(1)).await.unwrap();
    // Claim, last words and the end: nothing of the refused writes is there.
    assert_eq!(after.head.0, before.head.0 + 3);
    assert_eq!(after.outcome, Some(completed("done")));
}

/// Of four writes that were handed over together, the second is lost: nothing may come after it.
pub(crate) async fn writes_that_do_not_follow_the_head_are_rejected(store: &dyn Store) {
    let fence = running(store, 1, spec(1)).await;
    let head = store.head(run(1)).await;
    let appended = store
        .append(Append {
            follows: head,
            ..appending(fence, 3, vec![note("first")])
        })
        .await
        .unwrap();
    store.send(run(1), steer("look"), at(3)).await.unwrap();
    let lost = appended.head.next();
    for follows in [lost, lost.next(), head] {
        let third = Append {
            follows,
            blobs: vec![blob("third")],
            ..appending(fence, 4, vec![note("third")])
        };
        assert_not_next(store.append(third).await);
        assert_not_next(store.take_inbox(fence, follows, at(4)).await);
        assert_not_next(
            store
                .park(Park {
                    follows,
                    ..parking(fence, 4)
                })
                .await,
        );
        for unread in [Unread::First, Unread::Kept] {
            let finish = Finish {
                follows,
                unread,
                ..finishing(fence, 4, completed("done"))
            };
            assert_not_next(store.finish(finish).await);
        }
    }
    // Nothing of the rejected writes is stored, and the executor can still release the run.
    assert_eq!(store.head(run(1)).await, appended.head);
    assert_eq!(store.blob(run(1), &blob("third").id).await.unwrap(), None);
    store.release(fence, at(5)).await.unwrap();
    let again = claim_all(store, 6).await[0];
    store.take_next(again, at(7)).await.unwrap().unwrap();
    store
        .finish_next(finishing(again, 8, completed("done")))
        .await
        .unwrap();
    assert_eq!(store.get(run(1)).await.unwrap().crashes, 0);
    assert_eq!(store.verify().await.unwrap().problems, [] as [String; 0]);
}

pub(crate) async fn admission_is_rejected_if_the_parents_journal_lost_the_call(store: &dyn Store) {
    let fence = running(store, 1, spec(1)).await;
    let head = store.head(run(1)).await;
    let with = |reached| Admit {
        parent: Some(ParentClaim { fence, reached }),
        ..asking(2, child(2, 1, 1), 3)
    };
    assert_not_next(store.admit(with(head.next())).await);
    assert!(store.get(run(2)).await.is_err());
    // The parent may have written more since it asked for the child.
    store
        .append_next(appending(fence, 4, vec![note("more")]))
        .await
        .unwrap();
    store.admit(with(head)).await.unwrap();
}

pub(crate) async fn a_probe_is_a_write_without_a_change(store: &dyn Store) {
    running(store, 1, spec(1)).await;
    let before = store.get(run(1)).await.unwrap();
    store.probe().await.unwrap();
    assert_eq!(store.get(run(1)).await.unwrap(), before);
}

fn blob(text: &str) -> Blob {
    Blob {
        id: BlobId::of(text.as_bytes()),
        bytes: text.as_bytes().to_vec(),
    }
}

fn assert_not_next<T: std::fmt::Debug>(result: StoreResult<T>) {
    assert!(
        matches!(result, Err(StoreError::NotNext { .. })),
        "{result:?}"
    );
}

async fn check_refused(store: &dyn Store, fence: Fence) {
    assert_fenced(
        store
            .append_next(appending(fence, 9, vec![note("late")]))
            .await,
    );
    assert_fenced(store.take_next(fence, at(9)).await);
    assert_fenced(store.park_next(parking(fence, 9)).await);
    assert_fenced(store.finish_next(finishing(fence, 9, failed())).await);
    assert_fenced(store.release(fence, at(9)).await);
    let beat = Heartbeat {
        fences: vec![fence],
        lease_until: at(99_000),
    };
    let report = store.heartbeat(beat).await.unwrap();
    assert_eq!(report.lost, [fence.run]);
}

pub(crate) async fn inbox_moves_into_the_journal_once(store: &dyn Store) {
    let fence = running(store, 1, spec(1)).await;
    assert_eq!(store.take_next(fence, at(4)).await.unwrap(), None);
    for text in ["one", "two"] {
        store.send(run(1), steer(text), at(5)).await.unwrap();
    }
    let entry = store.take_next(fence, at(6)).await.unwrap().unwrap();
    assert_eq!(
        entry.event,
        Event::InboxTaken {
            unread: false,
            items: vec![steer("one"), steer("two")]
        }
    );
    assert_eq!((entry.seq, entry.at), (Seq(3), at(6)));
    assert_eq!(
        store.read(run(1), Seq(2)).await.unwrap(),
        std::slice::from_ref(&entry)
    );
    assert_eq!(store.take_next(fence, at(7)).await.unwrap(), None);
    assert!(store.park_next(parking(fence, 8)).await.unwrap());
}

pub(crate) async fn a_full_inbox_is_taken_in_several_events(store: &dyn Store) {
    let fence = running(store, 1, spec(1)).await;
    for number in 0..300 {
        store
            .send(run(1), steer(&number.to_string()), at(5))
            .await
            .unwrap();
    }
    let mut taken = Vec::new();
    while let Some(entry) = store.take_next(fence, at(6)).await.unwrap() {
        let Event::InboxTaken { items, .. } = entry.event else {
            panic!("another event");
        };
        taken.push(items.len());
    }
    assert_eq!(taken, [256, 44]);
    // Long ones fill an event earlier, and an inbox, too.
    let long = "x".repeat(600 * 1024);
    let mut sent = 0;
    while store.send(run(1), steer(&long), at(7)).await.is_ok() {
        sent += 1;
    }
    assert_eq!(sent, 6);
    let refused = store.send(run(1), steer(&long), at(7)).await.unwrap_err();
    assert!(refused.to_string().contains("too many unread messages"));
    store.send(run(1), steer("short"), at(7)).await.unwrap();
    let mut taken = Vec::new();
    while let Some(entry) = store.take_next(fence, at(8)).await.unwrap() {
        let Event::InboxTaken { items, .. } = entry.event else {
            panic!("another event");
        };
        taken.push(items.len());
    }
    assert_eq!(taken, [2, 2, 2, 1]);
}

pub(crate) async fn park_is_rejected_with_inbox_items_or_a_cancellation(store: &dyn Store) {
    let fence = running(store, 1, spec(1)).await;
    store.send(run(1), steer("wait"), at(5)).await.unwrap();
    assert!(!store.park_next(parking(fence, 6)).await.unwrap());
    store.take_next(fence, at(6)).await.unwrap();
    store.cancel(run(1), by_person(), at(7)).await.unwrap();
    assert!(!store.park_next(parking(fence, 8)).await.unwrap());
    assert_eq!(state(store, 1).await, "running model not_required");
}

pub(crate) async fn heartbeat_reports_lost_cancelled_and_waiting_runs(store: &dyn Store) {
    for number in 1..=4 {
        admit(store, number, spec(number)).await;
    }
    let fences = claim_all(store, 10).await;
    store.cancel(run(1), by_person(), at(11)).await.unwrap();
    store.send(run(2), steer("hear"), at(11)).await.unwrap();
    store
        .finish_next(finishing(fences[2], 11, completed("done")))
        .await
        .unwrap();
    let beat = Heartbeat {
        fences: fences.clone(),
        lease_until: at(50_000),
    };
    let report = store.heartbeat(beat).await.unwrap();
    assert_eq!(
        report,
        HeartbeatReport {
            lost: vec![run(3)],
            cancelled: vec![(run(1), by_person())],
            inbox_waiting: vec![run(2)],
            paused: Vec::new(),
        }
    );
    let expired = recovering(RecoverScope::Expired, 10 + LEASE_MS + 1);
    assert_eq!(
        store.recover(expired).await.unwrap(),
        RecoverReport::default()
    );
}

pub(crate) async fn finish_ends_and_announces(store: &dyn Store) {
    let parent = running(store, 1, spec(1)).await;
    let fence = running(store, 2, child(2, 1, 1)).await;
    let report = reported(
        store
            .finish_next(finishing(fence, 500, completed("found it")))
            .await,
    );
    assert_eq!(of_ended(&report.ended), [2]);
    assert_eq!(report.ended[0].outcome, completed("found it"));
    assert_eq!(report.ended[0].root, run(1));
    assert_eq!(state(store, 2).await, "completed - pending");
    assert_eq!(
        story(store, 2).await,
        "admitted claimed model_failed finished"
    );
    let record = store.get(run(2)).await.unwrap();
    assert_eq!(record.summary.progress, 100);
    assert_eq!(record.ended_at, Some(at(500)));
    assert_eq!(record.head, report.ended[0].head);

    let delivered = store.deliver(at(500)).await.unwrap();
    let [delivered] = delivered.as_slice() else {
        panic!("one delivery, got {delivered:?}");
    };
    assert_eq!(delivered.receipt, Receipt::Accepted { by: run(1) });
    assert_eq!(delivered.parent, Some(run(1)));
    let announcement = &delivered.announcement;
    assert_eq!(announcement.outcome, completed("found it"));
    assert_eq!(announcement.call, Some(CallId::new(2, 0)));
    assert_eq!((announcement.tool_calls, announcement.elapsed_ms), (3, 498));
    assert_eq!(announcement.usage.input_tokens, Some(7));
    let entry = store.take_next(parent, at(501)).await.unwrap().unwrap();
    assert_eq!(
        entry.event,
        Event::InboxTaken {
            unread: false,
            items: vec![InboxItem::Announcement(Box::new(announcement.clone()))]
        }
    );

    store
        .finish_next(finishing(parent, 502, failed()))
        .await
        .unwrap();
    let record = store.get(run(1)).await.unwrap();
    assert_eq!(record.reason(), Some(Reason::Error));
    assert_eq!(record.delivery, Delivery::NotRequired);
}

pub(crate) async fn delivery_happens_exactly_once(store: &dyn Store) {
    let parent = running(store, 1, spec(1)).await;
    let fence = running(store, 2, child(2, 1, 1)).await;
    assert!(store.park_next(parking(parent, 10)).await.unwrap());
    store
        .finish_next(finishing(fence, 20, completed("done")))
        .await
        .unwrap();
    // Durable before it is delivered, and not before its time.
    assert!(store.deliver(at(19)).await.unwrap().is_empty());
    assert_eq!(store.next_due().await.unwrap(), Some(at(20)));
    assert_eq!(store.deliver(at(20)).await.unwrap().len(), 1);
    assert!(store.deliver(at(21)).await.unwrap().is_empty());
    assert_eq!(state(store, 2).await, "completed - delivered");
    assert_eq!(state(store, 1).await, "running slot not_required");

    let claimed = claim_all(store, 30).await;
    let entry = store.take_next(claimed[0], at(31)).await.unwrap().unwrap();
    let Event::InboxTaken { items, .. } = entry.event else {
        panic!("another event");
    };
    assert_eq!(items.len(), 1);
    assert_eq!(store.take_next(claimed[0], at(32)).await.unwrap(), None);
}

/// A finished child whose parent, which is no turn of a session, ended before the delivery.
async fn blocked(store: &dyn Store) {
    let parent = running(store, 1, background(1)).await;
    let fence = running(store, 2, child(2, 1, 1)).await;
    store
        .finish_next(finishing(fence, 20, completed("late")))
        .await
        .unwrap();
    store
        .finish_next(finishing(parent, 21, completed("gone")))
        .await
        .unwrap();
    let delivered = store.deliver(at(22)).await.unwrap();
    assert_eq!(delivered.len(), 1);
    assert_eq!(delivered[0].receipt, Receipt::Blocked);
}

pub(crate) async fn delivery_to_an_ended_parent_is_blocked_and_visible(store: &dyn Store) {
    blocked(store).await;
    let record = store.get(run(2)).await.unwrap();
    assert_eq!(record.delivery, Delivery::Blocked);
    assert_eq!(
        record.delivery_error.as_deref(),
        Some("its parent had already ended")
    );
    assert!(store.deliver(at(30)).await.unwrap().is_empty());
}

pub(crate) async fn a_blocked_delivery_can_be_tried_again_or_dismissed(store: &dyn Store) {
    blocked(store).await;
    store.unblock(run(2), Unblock::Retry, at(40)).await.unwrap();
    assert_eq!(state(store, 2).await, "completed - pending");
    assert_eq!(store.next_due().await.unwrap(), Some(at(40)));
    assert_eq!(store.deliver(at(40)).await.unwrap().len(), 1);
    assert_eq!(state(store, 2).await, "completed - blocked");
    store
        .unblock(run(2), Unblock::Dismiss, at(41))
        .await
        .unwrap();
    assert_eq!(state(store, 2).await, "completed - not_required");
    assert!(store.deliver(at(50)).await.unwrap().is_empty());
    let again = store.unblock(run(2), Unblock::Retry, at(51)).await;
    assert!(matches!(again, Err(StoreError::WrongState { .. })));
}

pub(crate) async fn attempts_to_deliver_to_sinks_are_recorded(store: &dyn Store) {
    let reporting = RunSpec {
        report_to: vec![sink("a.jsonl")],
        ..spec(1)
    };
    let fence = running(store, 1, reporting).await;
    store
        .finish_next(finishing(fence, 20, completed("done")))
        .await
        .unwrap();
    assert_eq!(state(store, 1).await, "completed - pending");
    assert!(store.deliver(at(20)).await.unwrap().is_empty());
    let due = store.due_outside(at(20)).await.unwrap();
    assert_eq!(due.len(), 1);
    assert_eq!((&due[0].sink, due[0].attempts), (&sink("a.jsonl"), 0));
    assert_eq!(due[0].announcement.child, run(1));

    let later = DeliveryAttempt::Retry {
        at: at(500),
        error: "busy".to_owned(),
    };
    store.record_attempt(due[0].id, later).await.unwrap();
    assert!(store.due_outside(at(499)).await.unwrap().is_empty());
    assert_eq!(store.next_due().await.unwrap(), Some(at(500)));
    let due = store.due_outside(at(500)).await.unwrap();
    assert_eq!(due[0].attempts, 1);

    let given_up = DeliveryAttempt::Blocked {
        error: "no such folder".to_owned(),
    };
    store.record_attempt(due[0].id, given_up).await.unwrap();
    let record = store.get(run(1)).await.unwrap();
    assert_eq!(record.delivery, Delivery::Blocked);
    assert_eq!(record.delivery_error.as_deref(), Some("no such folder"));
    store
        .unblock(run(1), Unblock::Retry, at(502))
        .await
        .unwrap();
    store
        .record_attempt(due[0].id, DeliveryAttempt::Delivered)
        .await
        .unwrap();
    assert_eq!(state(store, 1).await, "completed - delivered");
    // A late attempt for a closed delivery changes nothing.
    let late = DeliveryAttempt::Blocked {
        error: "late".to_owned(),
    };
    store.record_attempt(due[0].id, late).await.unwrap();
    assert_eq!(state(store, 1).await, "completed - delivered");
}

pub(crate) async fn delivery_combines_the_states_of_several_sinks(store: &dyn Store) {
    running(store, 1, spec(1)).await;
    let reporting = RunSpec {
        report_to: vec![sink("a"), sink("b")],
        ..child(2, 1, 1)
    };
    let fence = running(store, 2, reporting).await;
    store
        .finish_next(finishing(fence, 20, completed("done")))
        .await
        .unwrap();
    assert_eq!(store.deliver(at(20)).await.unwrap().len(), 1);
    assert_eq!(state(store, 2).await, "completed - pending");
    let due = store.due_outside(at(20)).await.unwrap();
    assert_eq!(due.len(), 2);
    store
        .record_attempt(due[0].id, DeliveryAttempt::Delivered)
        .await
        .unwrap();
    assert_eq!(state(store, 2).await, "completed - pending");
    let blocked = DeliveryAttempt::Blocked {
        error: "full".to_owned(),
    };
    store.record_attempt(due[1].id, blocked).await.unwrap();
    assert_eq!(state(store, 2).await, "completed - blocked");
    store
        .unblock(run(2), Unblock::Dismiss, at(23))
        .await
        .unwrap();
    assert_eq!(state(store, 2).await, "completed - delivered");
}

pub(crate) async fn cancel_ends_queued_and_parked_and_signals_leased(store: &dyn Store) {
    let leased = running(store, 1, spec(1)).await;
    let parked = running(store, 2, spec(2)).await;
    store
        .append_next(appending(parked, 3, vec![note("thinking")]))
        .await
        .unwrap();
    store.park_next(parking(parked, 4)).await.unwrap();
    admit(store, 3, spec(3)).await;
    for (number, ended, signalled) in [
        (1, vec![], vec![1]),
        (2, vec![2], vec![]),
        (3, vec![3], vec![]),
    ] {
        let report = store
            .cancel(run(number), by_person(), at(10))
            .await
            .unwrap();
        assert_eq!(of_ended(&report.ended), ended);
        assert_eq!(numbers(report.signalled), signalled);
        assert_eq!(report.already_ended, None);
    }
    let record = store.get(run(2)).await.unwrap();
    assert_eq!(
        record.outcome,
        Some(Outcome::Cancelled {
            cancellation: by_person(),
            partial: Some("so far".to_owned())
        })
    );
    assert_eq!(story(store, 3).await, "admitted finished");
    assert_eq!(state(store, 3).await, "cancelled - not_required");
    assert_fenced(store.append_next(appending(parked, 11, vec![])).await);

    assert!(store.get(run(1)).await.unwrap().cancel_requested);
    // The first word stands.
    let other = Cancellation {
        by: CancelledBy::Parent,
        reason: "again".to_owned(),
    };
    store.cancel(run(1), other, at(12)).await.unwrap();
    let appended = store
        .append_next(appending(leased, 13, vec![]))
        .await
        .unwrap();
    assert_eq!(appended.cancel, Some(by_person()));
    assert!(claim_all(store, 20).await.is_empty());
}

pub(crate) async fn cancel_reaches_every_level(store: &dyn Store) {
    // 1 leased, 2 leased, 3 parked below 2, 4 queued below 3, 5 ended below 1, 6 queued below 5.
    running(store, 1, spec(1)).await;
    running(store, 2, child(2, 1, 1)).await;
    let third = running(store, 3, child(3, 2, 1)).await;
    store.park_next(parking(third, 3)).await.unwrap();
    let fifth = running(store, 5, child(5, 1, 1)).await;
    let silent = RunSpec {
        announce: Announce::Silent,
        ..child(6, 5, 1)
    };
    admit(store, 6, silent).await;
    store
        .finish_next(finishing(fifth, 6, completed("done")))
        .await
        .unwrap();
    admit(store, 4, child(4, 3, 1)).await;
    admit(store, 9, spec(9)).await;

    let report = store.cancel(run(1), by_person(), at(20)).await.unwrap();
    let mut ended = of_ended(&report.ended);
    ended.sort_unstable();
    assert_eq!(ended, [3, 4, 6]);
    assert_eq!(numbers(report.signalled), [1, 2]);
    for (number, expected) in [
        (3, "cancelled - not_required"),
        (4, "cancelled - not_required"),
        (6, "cancelled - not_required"),
        (9, "pending slot not_required"),
    ] {
        assert_eq!(state(store, number).await, expected, "run {number}");
    }
    let why = store.get(run(4)).await.unwrap().outcome.unwrap();
    assert_eq!(
        why.error().unwrap(),
        "cancelled by the end of its parent: enough"
    );
}

pub(crate) async fn cancel_of_an_ended_run_changes_nothing(store: &dyn Store) {
    let fence = running(store, 1, spec(1)).await;
    store
        .finish_next(finishing(fence, 5, completed("done")))
        .await
        .unwrap();
    let before = store.get(run(1)).await.unwrap();
    let report = store.cancel(run(1), by_person(), at(9)).await.unwrap();
    assert_eq!(
        report,
        CancelReport {
            already_ended: Some(Status::Completed),
            ..CancelReport::default()
        }
    );
    assert_eq!(store.get(run(1)).await.unwrap(), before);
    let missing = store.cancel(run(7), by_person(), at(9)).await;
    assert!(matches!(missing, Err(StoreError::NotFound(_))));
}

pub(crate) async fn a_cancelled_child_is_announced_to_its_parent(store: &dyn Store) {
    let parent = running(store, 1, spec(1)).await;
    admit(store, 2, child(2, 1, 1)).await;
    admit(store, 3, child(3, 2, 1)).await;
    store.park_next(parking(parent, 4)).await.unwrap();
    let report = store.cancel(run(2), by_person(), at(5)).await.unwrap();
    assert_eq!(of_ended(&report.ended), [2, 3]);
    let delivered = store.deliver(at(5)).await.unwrap();
    let children: Vec<_> = delivered.iter().map(|one| one.announcement.child).collect();
    assert_eq!(numbers(children), [2]);
    assert_eq!(state(store, 1).await, "running slot not_required");
    assert_eq!(state(store, 2).await, "cancelled - delivered");
    assert_eq!(state(store, 3).await, "cancelled - not_required");
}

pub(crate) async fn the_end_of_a_parent_ends_its_children(store: &dyn Store) {
    let parent = running(store, 1, background(1)).await;
    running(store, 2, child(2, 1, 1)).await;
    let reporting = RunSpec {
        report_to: vec![sink("a")],
        ..child(3, 1, 1)
    };
    admit(store, 3, reporting).await;
    admit(store, 4, child(4, 3, 1)).await;
    let report = reported(
        store
            .finish_next(finishing(parent, 10, completed("enough")))
            .await,
    );
    assert_eq!(of_ended(&report.ended), [1, 3, 4]);
    assert_eq!(numbers(report.signalled), [2]);
    let record = store.get(run(4)).await.unwrap();
    assert_eq!(
        record.outcome.unwrap().error().unwrap(),
        "cancelled by the end of its parent: the run that asked for it is completed"
    );
    // Only the sink is owed something.
    assert_eq!(state(store, 3).await, "cancelled - pending");
    assert_eq!(state(store, 4).await, "cancelled - not_required");
    assert!(store.deliver(at(11)).await.unwrap().is_empty());
    assert_eq!(store.due_outside(at(11)).await.unwrap().len(), 1);
}

pub(crate) async fn silent_children_continue_after_their_parent_completes(store: &dyn Store) {
    let silent = |number| RunSpec {
        announce: Announce::Silent,
        ..child(number, 1, 1)
    };
    let parent = running(store, 1, spec(1)).await;
    let fence = running(store, 2, silent(2)).await;
    admit(store, 3, silent(3)).await;
    admit(store, 4, child(4, 3, 1)).await;
    let report = reported(
        store
            .finish_next(finishing(parent, 10, completed("enough")))
            .await,
    );
    assert_eq!(of_ended(&report.ended), [1]);
    assert!(report.signalled.is_empty());
    assert_eq!(state(store, 4).await, "pending slot pending");
    store
        .finish_next(finishing(fence, 11, completed("quietly")))
        .await
        .unwrap();
    assert_eq!(state(store, 2).await, "completed - not_required");

    // A subagent that fails takes them along.
    let parent = running(store, 5, background(5)).await;
    let silent = RunSpec {
        announce: Announce::Silent,
        ..child(6, 5, 5)
    };
    admit(store, 6, silent).await;
    let report = reported(store.finish_next(finishing(parent, 12, failed())).await);
    assert_eq!(of_ended(&report.ended), [5, 6]);
}

pub(crate) async fn background_children_outlive_a_turn_that_fails(store: &dyn Store) {
    let turn = running(store, 1, spec(1)).await;
    // The child of a turn with a worktree works there; its result belongs to the turn's folder.
    let in_worktree = RunSpec {
        workspace: "worktree".into(),
        ..child(2, 1, 1)
    };
    let fence = running(store, 2, in_worktree).await;
    let mut blocking = child(3, 1, 1);
    blocking.parent.as_mut().unwrap().mode = EdgeMode::Blocking;
    admit(store, 3, blocking).await;
    admit(store, 4, child(4, 1, 1)).await;
    let report = reported(store.finish_next(finishing(turn, 10, failed())).await);
    assert_eq!(of_ended(&report.ended), [1, 3]);
    assert!(report.signalled.is_empty());

    // No turn of the session is active, so the result waits, once and visibly.
    store
        .finish_next(finishing(fence, 11, completed("found")))
        .await
        .unwrap();
    assert_eq!(store.next_due().await.unwrap(), Some(at(11)));
    let delivered = store.deliver(at(12)).await.unwrap();
    assert_eq!(delivered[0].receipt, Receipt::Waiting);
    assert_eq!(store.deliver(at(13)).await.unwrap(), []);
    assert_eq!(store.next_due().await.unwrap(), None);
    assert_eq!(state(store, 2).await, "completed - pending");
    let waiting = store.waiting_sessions().await.unwrap();
    assert_eq!(waiting[0].session, SessionKey::cli());
    assert_eq!(waiting[0].workspace, Some("project".into()));

    // A turn of another tenant or in another folder does not receive it; the next turn does.
    let theirs = RunSpec {
        tenant: Some("acme".parse().unwrap()),
        ..spec(5)
    };
    admit(store, 5, theirs).await;
    let elsewhere = RunSpec {
        workspace: "elsewhere".into(),
        ..spec(6)
    };
    admit(store, 6, elsewhere).await;
    let delivered = store.deliver(at(14)).await.unwrap();
    assert_eq!(delivered[0].receipt, Receipt::Waiting);
    for (folder, expected) in [("project", 1), ("elsewhere", 6)] {
        let last = store.last_turn(SessionKey::cli(), None, Some(folder.into()));
        assert_eq!(
            last.await.unwrap().unwrap().run_id,
            run(expected),
            "{folder}"
        );
    }
    admit(store, 7, spec(7)).await;
    let delivered = store.deliver(at(15)).await.unwrap();
    assert_eq!(delivered[0].receipt, Receipt::Accepted { by: run(7) });
    assert_eq!(state(store, 2).await, "completed - delivered");
    assert_eq!(store.waiting_sessions().await.unwrap(), []);

    // Cancelling the tree ends what is left of it, although its root has ended.
    let report = store.cancel(run(1), by_person(), at(16)).await.unwrap();
    assert_eq!(of_ended(&report.ended), [4]);
    assert_eq!(report.already_ended, None);
    assert_eq!(state(store, 4).await, "cancelled - not_required");
}

pub(crate) async fn a_result_whose_turn_ended_before_the_delivery_waits(store: &dyn Store) {
    let turn = running(store, 1, spec(1)).await;
    let fence = running(store, 2, child(2, 1, 1)).await;
    store
        .finish_next(finishing(fence, 10, completed("late")))
        .await
        .unwrap();
    store
        .finish_next(finishing(turn, 11, failed()))
        .await
        .unwrap();
    let delivered = store.deliver(at(12)).await.unwrap();
    assert_eq!(delivered[0].receipt, Receipt::Waiting);
    // A person can delete it all the same.
    assert_eq!(store.delete(run(1)).await.unwrap().len(), 2);
    assert_eq!(store.waiting_sessions().await.unwrap(), []);
}

pub(crate) async fn a_background_task_is_announced_to_its_session(store: &dyn Store) {
    let announced = |number| RunSpec {
        announce: Announce::Steer,
        ..background(number)
    };
    let fence = running(store, 1, announced(1)).await;
    store
        .finish_next(finishing(fence, 10, completed("to no one")))
        .await
        .unwrap();
    // Its session has no turns yet.
    assert_eq!(state(store, 1).await, "completed - not_required");

    let turn = running(store, 2, spec(2)).await;
    let fence = running(store, 3, announced(3)).await;
    let silent = running(store, 4, background(4)).await;
    for fence in [fence, silent] {
        store
            .finish_next(finishing(fence, 20, completed("done")))
            .await
            .unwrap();
    }
    let delivered = store.deliver(at(21)).await.unwrap();
    let [delivered] = delivered.as_slice() else {
        panic!("one delivery, got {delivered:?}");
    };
    assert_eq!(delivered.receipt, Receipt::Accepted { by: run(2) });
    assert_eq!(
        (delivered.parent, delivered.announcement.child),
        (None, run(3))
    );
    assert_eq!(state(store, 3).await, "completed - delivered");
    assert_eq!(state(store, 4).await, "completed - not_required");
    let entry = store.take_next(turn, at(22)).await.unwrap().unwrap();
    assert!(matches!(entry.event, Event::InboxTaken { items, .. } if items.len() == 1));
}

pub(crate) async fn a_child_cancelled_with_its_parent_has_no_delivery(store: &dyn Store) {
    running(store, 1, spec(1)).await;
    let fence = running(store, 2, child(2, 1, 1)).await;
    store.cancel(run(2), by_person(), at(9)).await.unwrap();
    store.cancel(run(1), by_person(), at(10)).await.unwrap();
    // The parent has not ended yet, but no run waits for the child any more.
    let appended = store
        .append_next(appending(fence, 11, vec![]))
        .await
        .unwrap();
    assert_eq!(appended.cancel.unwrap().by, CancelledBy::ParentEnded);
    store
        .finish_next(finishing(fence, 12, completed("raced")))
        .await
        .unwrap();
    assert_eq!(state(store, 2).await, "completed - not_required");
}

pub(crate) async fn recover_requeues_and_marks_the_next_claim(store: &dyn Store) {
    running(store, 1, spec(1)).await;
    admit(store, 2, spec(2)).await;
    let reporting = RunSpec {
        report_to: vec![sink("a")],
        ..spec(3)
    };
    admit(store, 3, reporting).await;
    store.cancel(run(3), by_person(), at(4)).await.unwrap();
    let report = store
        .recover(recovering(RecoverScope::All, 10))
        .await
        .unwrap();
    assert_eq!(
        report,
        RecoverReport {
            resumed: vec![run(1)],
            given_up: EndReport::default(),
            queued: 1,
            undelivered: 1,
        }
    );
    assert_eq!(state(store, 1).await, "running slot not_required");
    assert_eq!(store.get(run(1)).await.unwrap().crashes, 1);
    let claimed = store.claim(claiming(11)).await.unwrap();
    let last = |index: usize| {
        let entries = claimed[index].entries.as_ref().unwrap();
        entries.last().unwrap().event.clone()
    };
    assert_eq!(
        (last(0), last(1)),
        (
            Event::Claimed {
                epoch: Epoch(2),
                recovered: true
            },
            Event::Claimed {
                epoch: Epoch(1),
                recovered: false
            }
        )
    );
}

pub(crate) async fn recover_ends_runs_that_make_no_progress(store: &dyn Store) {
    let parent = running(store, 8, spec(8)).await;
    store.park_next(parking(parent, 8)).await.unwrap();
    admit(store, 1, child(1, 8, 8)).await;
    for round in 0..5 {
        let fence = claim_all(store, round).await[0];
        if round == 1 {
            // Progress once: the deaths from then on are counted anew.
            store
                .append_next(appending(fence, round, vec![note("step")]))
                .await
                .unwrap();
        }
        let report = store
            .recover(recovering(RecoverScope::All, round))
            .await
            .unwrap();
        let (resumed, given_up) = if round < 4 { (1, 0) } else { (0, 1) };
        assert_eq!(report.resumed.len(), resumed, "round {round}");
        assert_eq!(report.given_up.ended.len(), given_up, "round {round}");
    }
    let record = store.get(run(1)).await.unwrap();
    assert_eq!(record.reason(), Some(Reason::Interrupted));
    assert_eq!(record.crashes, 5);
    assert_eq!(
        record.outcome.unwrap().error().unwrap(),
        "the process died 5 times while it ran, the last 4 times without progress in between; \
         it is not tried again"
    );
    // Its parent receives the result.
    assert_eq!(store.deliver(at(60)).await.unwrap().len(), 1);
}

pub(crate) async fn recover_ends_runs_after_too_many_deaths(store: &dyn Store) {
    admit(store, 1, spec(1)).await;
    for round in 1..=6 {
        let fence = claim_all(store, round).await[0];
        store
            .append_next(appending(fence, round, vec![note("step")]))
            .await
            .unwrap();
        let report = store
            .recover(recovering(RecoverScope::All, round))
            .await
            .unwrap();
        assert_eq!(report.resumed.len(), usize::from(round <= 5), "{round}");
    }
    assert_eq!(state(store, 1).await, "failed - not_required");
    assert_eq!(store.get(run(1)).await.unwrap().summary.progress, 5);
}

pub(crate) async fn recover_can_free_only_expired_leases(store: &dyn Store) {
    admit(store, 1, spec(1)).await;
    admit(store, 2, spec(2)).await;
    let fences = claim_all(store, 0).await;
    let beat = Heartbeat {
        fences: vec![fences[1]],
        lease_until: at(90_000),
    };
    store.heartbeat(beat).await.unwrap();
    assert_eq!(store.next_due().await.unwrap(), Some(at(LEASE_MS)));
    for (now, resumed) in [
        (LEASE_MS, vec![]),
        (LEASE_MS + 1, vec![1]),
        (80_000, vec![]),
    ] {
        let report = store
            .recover(recovering(RecoverScope::Expired, now))
            .await
            .unwrap();
        assert_eq!(numbers(report.resumed), resumed, "at {now}");
        assert_eq!((report.queued, report.undelivered), (0, 0));
    }
}

pub(crate) async fn recover_ends_cancelled_runs(store: &dyn Store) {
    running(store, 1, spec(1)).await;
    running(store, 2, child(2, 1, 1)).await;
    running(store, 3, spec(3)).await;
    store.cancel(run(1), by_person(), at(10)).await.unwrap();
    let report = store
        .recover(recovering(RecoverScope::All, 20))
        .await
        .unwrap();
    assert_eq!(numbers(report.resumed), [3]);
    assert_eq!(of_ended(&report.given_up.ended), [1, 2]);
    assert!(report.given_up.signalled.is_empty());
    assert_eq!(state(store, 1).await, "cancelled - not_required");
    assert_eq!(state(store, 2).await, "cancelled - not_required");
}

/// A claim that was committed and reported as failed: no executor has it.
pub(crate) async fn recover_requeues_orphans_without_counting_a_death(store: &dyn Store) {
    let executed = running(store, 1, spec(1)).await;
    let orphan = running(store, 2, spec(2)).await;
    let report = store
        .recover(recovering(orphans(vec![executed]), 5))
        .await
        .unwrap();
    assert_eq!(numbers(report.resumed), [2]);
    assert_eq!(store.get(run(2)).await.unwrap().crashes, 0);
    assert_fenced(store.release(orphan, at(6)).await);
    store.release(executed, at(6)).await.unwrap();
}

fn orphans(executed: Vec<Fence>) -> RecoverScope {
    RecoverScope::Orphans {
        owner: tester(),
        executed,
    }
}

/// Run 2 kills its process as soon as it is executed; runs 1 and 3 and the parent of 3 do not.
pub(crate) async fn suspects_are_claimed_alone_and_innocent_runs_continue(store: &dyn Store) {
    let parent = running(store, 8, spec(8)).await;
    store.park_next(parking(parent, 8)).await.unwrap();
    admit(store, 1, spec(1)).await;
    admit(store, 2, spec(2)).await;
    admit(store, 3, child(3, 8, 8)).await;
    let mut deaths = 0;
    let mut now = 10;
    let given_up = loop {
        now += 1;
        let claimed = claim_all(store, now).await;
        if deaths < 2 {
            assert_eq!(of_fences(&claimed), [1, 2, 3], "they are claimed together");
        } else {
            assert_eq!(claimed.len(), 1, "a suspect is not alone");
            assert_eq!(claim_all(store, now).await, [], "beside a suspect");
        }
        if let Some(innocent) = claimed.first().filter(|_| deaths >= 2)
            && innocent.run != run(2)
        {
            // Progress clears it, so that the next suspect can be tried; then it ends.
            store
                .append_next(appending(*innocent, now, vec![note("step")]))
                .await
                .unwrap();
            store
                .finish_next(finishing(*innocent, now, completed("done")))
                .await
                .unwrap();
            continue;
        }
        deaths += 1;
        assert!(deaths < 9, "it is tried for ever");
        let report = store
            .recover(recovering(RecoverScope::All, now))
            .await
            .unwrap();
        if !report.given_up.ended.is_empty() {
            break of_ended(&report.given_up.ended);
        }
    };
    assert_eq!((deaths, given_up), (4, vec![2]));
    let record = store.get(run(2)).await.unwrap();
    assert_eq!(record.reason(), Some(Reason::Interrupted));
    while let Some(fence) = claim_all(store, 50).await.first() {
        store
            .finish_next(finishing(*fence, 50, completed("done")))
            .await
            .unwrap();
    }
    for innocent in [1, 3] {
        let record = store.get(run(innocent)).await.unwrap();
        assert_eq!(record.status, Status::Completed, "{innocent}");
    }
}

pub(crate) async fn parked_runs_time_out(store: &dyn Store) {
    let timed = RunSpec {
        limits: Limits {
            timeout_ms: Some(1_000),
            ..spec(2).limits
        },
        ..child(2, 1, 1)
    };
    running(store, 1, spec(1)).await;
    let fence = running(store, 2, timed).await;
    admit(store, 3, child(3, 2, 1)).await;
    store
        .append_next(appending(fence, 5, vec![note("step")]))
        .await
        .unwrap();
    store.park_next(parking(fence, 6)).await.unwrap();
    assert_eq!(
        store.expire_parked(at(1_001)).await.unwrap(),
        EndReport::default()
    );
    let report = store.expire_parked(at(1_002)).await.unwrap();
    assert_eq!(of_ended(&report.ended), [2, 3]);
    assert_eq!(
        report.ended[0].outcome,
        Outcome::Timeout {
            limit_ms: 1_000,
            partial: Some("so far".to_owned())
        }
    );
    assert_eq!(state(store, 2).await, "timeout - pending");
    assert_eq!(
        store.expire_parked(at(1_003)).await.unwrap(),
        EndReport::default()
    );
}

pub(crate) async fn messages_wake_parked_runs_and_are_rejected_by_ended_ones(store: &dyn Store) {
    let fence = running(store, 1, spec(1)).await;
    store.park_next(parking(fence, 5)).await.unwrap();
    // The same words twice are two messages.
    for _ in 0..2 {
        store.send(run(1), steer("hello"), at(6)).await.unwrap();
    }
    let fence = claim_all(store, 7).await[0];
    let entry = store.take_next(fence, at(8)).await.unwrap().unwrap();
    assert_eq!(
        entry.event,
        Event::InboxTaken {
            unread: false,
            items: vec![steer("hello"), steer("hello")]
        }
    );
    store.send(run(1), steer("unread"), at(9)).await.unwrap();
    store
        .finish_next(finishing(fence, 10, completed("done")))
        .await
        .unwrap();
    let late = store.send(run(1), steer("late"), at(11)).await;
    assert_eq!(
        late.unwrap_err().to_string(),
        format!(
            "task {} is completed: it has ended and takes no more messages",
            run(1)
        )
    );
    let nobody = store.send(run(9), steer("hello"), at(11)).await;
    assert!(matches!(nobody, Err(StoreError::NotFound(_))));
}

pub(crate) async fn resolve_finds_by_prefix(store: &dyn Store) {
    let first: RunId = "01901234-5678-7abc-8def-000000000001".parse().unwrap();
    let second: RunId = "01901234-5678-7abc-9def-000000000002".parse().unwrap();
    for (id, number) in [(first, 1), (second, 2)] {
        let admit = Admit {
            run: id,
            ..asking(number, spec(number), 0)
        };
        store.admit(admit).await.unwrap();
    }
    for (typed, expected) in [
        ("01901234-5678-7abc-8def-000000000001", Ok(first)),
        ("01901234-5678-7abc-9", Ok(second)),
        ("019012345678-7ABC8", Ok(first)),
        (
            "01901234",
            Err("01901234 matches 2 tasks; give more characters of the id"),
        ),
        (
            "0190123456787",
            Err("0190123456787 matches 2 tasks; give more characters of the id"),
        ),
        ("01901235", Err("there is no task 01901235")),
        ("019012", Err("there is no task 019012")),
        ("01901234zz", Err("there is no task 01901234zz")),
        (
            "019",
            Err("there is no task 019: its handle, or at least 8 characters of its id are needed"),
        ),
        (
            "",
            Err("there is no task : its handle, or at least 8 characters of its id are needed"),
        ),
        (
            "01901234-5678-7abc-8def-0000000000011",
            Err("there is no task 01901234-5678-7abc-8def-0000000000011"),
        ),
    ] {
        let found = store
            .resolve(typed)
            .await
            .map_err(|error| error.to_string());
        assert_eq!(found, expected.map_err(str::to_owned), "{typed:?}");
    }
}

pub(crate) async fn list_and_stats_filter(store: &dyn Store) {
    let other: SessionKey = "web:1".parse().unwrap();
    let elsewhere = RunSpec {
        session: other.clone(),
        ..spec(4)
    };
    let fence = running(store, 1, spec(1)).await;
    running(store, 2, child(2, 1, 1)).await;
    running(store, 3, child(3, 2, 1)).await;
    admit(store, 4, elsewhere).await;
    store
        .finish_next(finishing(fence, 9, completed("done")))
        .await
        .unwrap();
    store.archive(at(10), at(20)).await.unwrap();
    let all = ListFilter::default;
    for (filter, expected) in [
        (all(), vec![4, 3, 2]),
        (
            ListFilter {
                archived: true,
                ..all()
            },
            vec![4, 3, 2, 1],
        ),
        (ListFilter { limit: 2, ..all() }, vec![4, 3]),
        (
            ListFilter {
                session: Some(other),
                ..all()
            },
            vec![4],
        ),
        (
            ListFilter {
                statuses: vec![Status::Running],
                ..all()
            },
            vec![3, 2],
        ),
        (
            ListFilter {
                statuses: vec![Status::Completed],
                ..all()
            },
            vec![],
        ),
        (
            ListFilter {
                parent: Some(run(2)),
                ..all()
            },
            vec![3],
        ),
        (
            ListFilter {
                root: Some(run(1)),
                statuses: vec![Status::Completed],
                archived: true,
                ..all()
            },
            vec![1],
        ),
    ] {
        let listed = store.list(filter.clone()).await.unwrap();
        let listed = numbers(listed.iter().map(|record| record.run_id));
        assert_eq!(listed, expected, "{filter:?}");
        if filter.limit == 0 {
            let stats = store.stats(filter.clone()).await.unwrap();
            assert_eq!(stats.total, expected.len() as u64, "{filter:?}");
        }
    }
    let archived = ListFilter {
        archived: true,
        ..all()
    };
    assert_eq!(
        store.stats(archived).await.unwrap(),
        Stats {
            total: 4,
            pending: 1,
            running: 2,
            completed: 1,
            ..Stats::default()
        }
    );
}

pub(crate) async fn next_due_is_the_earliest(store: &dyn Store) {
    assert_eq!(store.next_due().await.unwrap(), None);
    let timed = RunSpec {
        limits: Limits {
            timeout_ms: Some(2_000),
            ..spec(1).limits
        },
        ..spec(1)
    };
    admit(store, 1, timed).await;
    assert_eq!(store.next_due().await.unwrap(), None);
    let fence = claim_all(store, 0).await[0];
    assert_eq!(store.next_due().await.unwrap(), Some(at(LEASE_MS)));
    store.park_next(parking(fence, 1)).await.unwrap();
    assert_eq!(store.next_due().await.unwrap(), Some(at(2_000)));
    let reporting = RunSpec {
        report_to: vec![sink("a")],
        ..spec(2)
    };
    admit(store, 2, reporting).await;
    store.cancel(run(2), by_person(), at(700)).await.unwrap();
    assert_eq!(store.next_due().await.unwrap(), Some(at(700)));
}

pub(crate) async fn transcripts_are_deleted_after_the_delivery(store: &dyn Store) {
    let passing = |number| RunSpec {
        cleanup: Cleanup::Delete,
        ..spec(number)
    };
    let owing = RunSpec {
        report_to: vec![sink("a")],
        ..passing(2)
    };
    let blob = Blob {
        id: BlobId::of(b"long"),
        bytes: b"long".to_vec(),
    };
    for (number, spec) in [(1, passing(1)), (2, owing), (3, spec(3)), (4, passing(4))] {
        admit(store, number, spec).await;
    }
    for fence in claim_all(store, 5).await {
        if fence.run != run(4) {
            let finish = Finish {
                blobs: vec![blob.clone()],
                ..finishing(fence, 6, completed("done"))
            };
            store.finish_next(finish).await.unwrap();
        }
    }
    assert_eq!(store.archive(at(0), at(9)).await.unwrap(), 0);
    assert_eq!(store.clean(at(10)).await.unwrap(), 1);
    assert_eq!(story(store, 1).await, "");
    assert_eq!(store.blob(run(1), &blob.id).await.unwrap(), None);
    let record = store.get(run(1)).await.unwrap();
    assert_eq!(
        (record.cleaned_at, record.archived_at),
        (Some(at(10)), None)
    );
    assert_eq!(record.outcome, Some(completed("done")));
    assert_ne!(story(store, 2).await, "");

    // Old ones are archived, but never one whose result is still on its way.
    assert_eq!(store.archive(at(7), at(20)).await.unwrap(), 2);
    assert_eq!(store.get(run(3)).await.unwrap().archived_at, Some(at(20)));
    assert_eq!(story(store, 1).await, "");
    assert_ne!(story(store, 3).await, "");
    assert_eq!(
        store.blob(run(3), &blob.id).await.unwrap(),
        Some(blob.bytes)
    );
    assert_ne!(story(store, 2).await, "");
    let due = store.due_outside(at(20)).await.unwrap();
    store
        .record_attempt(due[0].id, DeliveryAttempt::Delivered)
        .await
        .unwrap();
    assert_eq!(store.clean(at(30)).await.unwrap(), 1);
    assert_eq!(store.get(run(2)).await.unwrap().cleaned_at, Some(at(30)));
    sound(store).await;
}

pub(crate) async fn archived_runs_stay_readable(store: &dyn Store) {
    let long = Blob {
        id: BlobId::of(&[b'x'; 10_000]),
        bytes: vec![b'x'; 10_000],
    };
    let fence = running(store, 1, spec(1)).await;
    let notes = (0..50).map(|number| note(&format!("note {number}")));
    store
        .append_next(appending(fence, 5, notes.collect()))
        .await
        .unwrap();
    let finish = Finish {
        blobs: vec![long.clone()],
        ..finishing(fence, 6, completed("done"))
    };
    reported(store.finish_next(finish).await);
    let before = store.read(run(1), Seq(0)).await.unwrap();
    let parts_before = in_parts(store, 1).await;
    assert_eq!(store.archive(at(7), at(20)).await.unwrap(), 1);
    assert_eq!(store.archive(at(7), at(21)).await.unwrap(), 0);
    assert_eq!(store.list(ListFilter::default()).await.unwrap(), []);

    assert_eq!(store.read(run(1), Seq(0)).await.unwrap(), before);
    assert_eq!(store.read(run(1), Seq(30)).await.unwrap(), before[30..]);
    assert_eq!(in_parts(store, 1).await, parts_before);
    assert_eq!(store.first(run(1)).await.unwrap().as_ref(), before.first());
    assert_eq!(
        store.blob(run(1), &long.id).await.unwrap(),
        Some(long.bytes)
    );
    sound(store).await;

    // Only a rule deletes it, and never its usage.
    let all = ListFilter {
        archived: true,
        ..ListFilter::default()
    };
    let usage = store.usage(all.clone(), None, 0).await.unwrap();
    assert_eq!(usage.len(), 1);
    let rule = |agent: &str| RetentionRule {
        agent: Some(agent.to_owned()),
        statuses: vec![Status::Completed, Status::Failed],
        ..RetentionRule::before(at(50))
    };
    assert_eq!(store.count_ended(rule("nobody")).await.unwrap(), 0);
    assert_eq!(store.delete_ended(rule("nobody")).await.unwrap(), []);
    let agent = spec(1).agent.name.clone();
    assert_eq!(store.count_ended(rule(&agent)).await.unwrap(), 1);
    assert_eq!(store.delete_ended(rule(&agent)).await.unwrap().len(), 1);
    assert_eq!(store.list(all.clone()).await.unwrap(), []);
    assert_eq!(store.usage(all.clone(), None, 0).await.unwrap(), usage);
    assert_eq!(store.used(all).await.unwrap(), usage[0].usage);
    sound(store).await;
}

/// Reads a journal in small parts.
async fn in_parts(store: &dyn Store, number: u32) -> Vec<Vec<Seq>> {
    let mut parts = Vec::new();
    let mut after = Seq(0);
    loop {
        let part = store.read_part(run(number), after, 200).await.unwrap();
        let Some(last) = part.last() else {
            return parts;
        };
        after = last.seq;
        parts.push(part.iter().map(|entry| entry.seq).collect());
    }
}

pub(crate) async fn delete_before_removes_whole_trees(store: &dyn Store) {
    // 1 with child 2 ended; 3 ended with a live silent child 4; 5 still owes; 6 ended too late.
    let first = running(store, 1, spec(1)).await;
    let second = running(store, 2, child(2, 1, 1)).await;
    let third = running(store, 3, spec(3)).await;
    let silent = RunSpec {
        announce: Announce::Silent,
        ..child(4, 3, 3)
    };
    admit(store, 4, silent).await;
    let owing = RunSpec {
        report_to: vec![sink("a")],
        ..spec(5)
    };
    let fifth = running(store, 5, owing).await;
    let sixth = running(store, 6, spec(6)).await;
    for (fence, millis) in [(second, 10), (third, 10), (fifth, 10), (sixth, 100)] {
        store
            .finish_next(finishing(fence, millis, completed("done")))
            .await
            .unwrap();
    }
    store.deliver(at(10)).await.unwrap();
    store
        .finish_next(finishing(first, 11, completed("done")))
        .await
        .unwrap();
    assert_eq!(
        store
            .delete_ended(RetentionRule::before(at(11)))
            .await
            .unwrap(),
        []
    );
    let removed = store
        .delete_ended(RetentionRule::before(at(50)))
        .await
        .unwrap();
    assert_eq!(numbers(removed.iter().map(|about| about.run)), [1, 2]);
    let left = store.list(ListFilter::default()).await.unwrap();
    assert_eq!(
        numbers(left.iter().map(|record| record.run_id)),
        [6, 5, 4, 3]
    );
}

pub(crate) async fn delete_removes_a_subtree_or_nothing(store: &dyn Store) {
    let first = running(store, 1, spec(1)).await;
    let second = running(store, 2, child(2, 1, 1)).await;
    let message =
        |number: u32, status: &str, what: &str| format!("task {} is {status}: {what}", run(number));
    let refused = async |number| store.delete(run(number)).await.unwrap_err().to_string();
    assert_eq!(
        refused(1).await,
        message(1, "running", "cancel it first, then delete it")
    );
    store
        .finish_next(finishing(second, 5, completed("done")))
        .await
        .unwrap();
    assert_eq!(
        refused(2).await,
        message(
            2,
            "completed",
            "its result is not delivered yet; delete it once that is delivered or dismissed"
        )
    );
    store.deliver(at(6)).await.unwrap();
    store
        .finish_next(finishing(first, 7, completed("done")))
        .await
        .unwrap();
    admit(store, 3, spec(3)).await;
    let removed = store.delete(run(1)).await.unwrap();
    let mut gone: Vec<_> = removed
        .iter()
        .map(|about| (about.run, about.parent))
        .collect();
    gone.sort();
    assert_eq!(gone, [(run(1), None), (run(2), Some(run(1)))]);
    for number in [1, 2] {
        let gone = store.get(run(number)).await;
        assert!(matches!(gone, Err(StoreError::NotFound(_))));
    }
    let report = store.verify().await.unwrap();
    assert_eq!((report.runs, report.entries), (1, 1));
}

pub(crate) async fn a_rate_limit_wait_shows_in_the_record(store: &dyn Store) {
    let fence = running(store, 1, spec(1)).await;
    let wait = |position| RunDelay { fence, position };
    store.record_delay(wait(Some(3))).await.unwrap();
    assert_eq!(state(store, 1).await, "running rate_limit not_required");
    let record = store.get(run(1)).await.unwrap();
    assert_eq!(record.queue_position, Some(3));
    let listed = store.list(ListFilter::default()).await.unwrap();
    assert_eq!(listed[0].queue_position, Some(3));
    store.record_delay(wait(None)).await.unwrap();
    assert_eq!(state(store, 1).await, "running model not_required");
    store.record_delay(wait(Some(1))).await.unwrap();
    // Whatever the run does next ends the wait.
    store
        .append_next(appending(fence, 3, vec![note("it answered")]))
        .await
        .unwrap();
    let record = store.get(run(1)).await.unwrap();
    assert_eq!(record.queue_position, None);
    assert_eq!(record.head, Seq(3), "a wait is no fact of the run");
    let late = Fence {
        epoch: Epoch(fence.epoch.0 + 1),
        ..fence
    };
    assert_fenced(
        store
            .record_delay(RunDelay {
                fence: late,
                position: None,
            })
            .await,
    );
}

pub(crate) async fn usage_of_descendants_is_added_to_all_ancestors(store: &dyn Store) {
    let root = running(store, 1, spec(1)).await;
    let deep = |number, parent| RunSpec {
        depth: number - 1,
        caps: AdmissionCaps {
            max_children_per_tree: 9,
            max_depth: 9,
        },
        ..child(number, parent, 1)
    };
    let parent = running(store, 2, deep(2, 1)).await;
    let leaf = running(store, 3, deep(3, 2)).await;
    let used = |tokens, cost_usd: Option<f64>| Summary {
        unpriced: u32::from(cost_usd.is_none()),
        usage: Usage {
            input_tokens: Some(tokens),
            cost_usd,
            ..Usage::default()
        },
        ..summary(5)
    };
    let finish = |fence, millis, summary| Finish {
        summary,
        ..finishing(fence, millis, completed("done"))
    };
    store
        .finish_next(finish(leaf, 4, used(100, Some(0.5))))
        .await
        .unwrap();
    store
        .finish_next(finish(parent, 5, used(10, None)))
        .await
        .unwrap();
    let total = async |number| store.get(run(number)).await.unwrap().total_usage();
    assert_eq!(total(3).await.input_tokens, Some(100));
    let middle = total(2).await;
    assert_eq!(
        (middle.input_tokens, middle.cost_usd),
        (Some(110), None),
        "a sum with an unknown part is unknown"
    );
    store
        .append_next(Append {
            summary: used(1, Some(0.25)),
            ..appending(root, 6, vec![note("more")])
        })
        .await
        .unwrap();
    let whole = total(1).await;
    assert_eq!((whole.input_tokens, whole.cost_usd), (Some(111), None));
    assert_eq!(whole.output_tokens, None, "unknown stays unknown");
    // What was used outlives the records of those who used it.
    store.deliver(at(7)).await.unwrap();
    store.delete(run(2)).await.unwrap();
    assert_eq!(total(1).await.input_tokens, Some(111));
    let usage = async |after, limit| {
        let lines = store.usage(ListFilter::default(), after, limit).await;
        lines.unwrap()
    };
    let lines = usage(None, 0).await;
    let mut one_by_one = usage(None, 1).await;
    while let [next] = &usage(one_by_one.last().map(UsageLine::place), 1).await[..] {
        one_by_one.push(next.clone());
    }
    assert_eq!(one_by_one, lines);
    assert_eq!(lines.len(), 1);
    assert_eq!((lines[0].runs, lines[0].unpriced), (1, 0));
}

pub(crate) async fn a_run_reads_its_messages_before_it_ends(store: &dyn Store) {
    admit(store, 1, spec(1)).await;
    store.send(run(1), steer("early"), at(2)).await.unwrap();
    let claimed = store.claim(claiming(3)).await.unwrap().remove(0);
    assert!(claimed.inbox_waiting);
    let fence = claimed.fence;
    let ending = |millis| Finish {
        unread: Unread::First,
        ..finishing(fence, millis, completed("done"))
    };
    assert_eq!(
        store.finish_next(ending(4)).await.unwrap(),
        Finishing::Unread
    );
    assert!(state(store, 1).await.starts_with("running"));
    store.take_next(fence, at(5)).await.unwrap().unwrap();
    reported(store.finish_next(ending(6)).await);
    // A message that no run can answer any more does not keep a run alive, but it is journaled.
    let second = running(store, 2, spec(2)).await;
    store.send(run(2), steer("late"), at(7)).await.unwrap();
    reported(store.finish_next(finishing(second, 8, failed())).await);
    admit(store, 3, spec(3)).await;
    for word in 0..1_000 {
        let word = steer(&word.to_string());
        store.send(run(3), word, at(9)).await.unwrap();
    }
    let one_more = store.send(run(3), steer("one more"), at(9)).await;
    assert!(matches!(one_more, Err(StoreError::WrongState { .. })));
    store.cancel(run(3), by_person(), at(10)).await.unwrap();
    for (number, said) in [(2, 1), (3, 1_000)] {
        let entries = store.read(run(number), Seq(0)).await.unwrap();
        let kept = entries.iter().map(|entry| {
            if let Event::InboxTaken { items, .. } = &entry.event {
                items.len()
            } else {
                0
            }
        });
        assert_eq!(kept.sum::<usize>(), said);
        let last = entries.last().map(|entry| entry.event.name());
        assert_eq!(last, Some("finished"));
    }
    sound(store).await;
}
