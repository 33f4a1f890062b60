//! The audit: every call in one chain, and what else is written with a run's facts.

use serde_json::json;
use sortie_core::audit::*;
use sortie_core::event::*;
use sortie_core::id::*;
use sortie_core::message::*;
use sortie_core::ports::store::*;
use sortie_core::run::*;

use crate::support::*;

pub(crate) fn finished(call: CallId, text: &str) -> Event {
    Event::ToolFinished {
        result: ToolResult {
            call,
            provider_id: None,
            text: text.to_owned(),
            status: ResultStatus::Ok,
            full: None,
            images: Vec::new(),
        },
        elapsed_ms: 3,
        spawned: None,
        todos: None,
        ruling: None,
        sandbox: None,
    }
}

pub(crate) fn entry(
    number: u32,
    parent: Option<u32>,
    call: &CallId,
    stage: AuditStage,
) -> AuditEntry {
    AuditEntry {
        run: run(number),
        parent: parent.map(run),
        root: run(1),
        tenant: None,
        depth: 0,
        agent: "general".to_owned(),
        call: call.clone(),
        effect: EffectId::new(run(number), call),
        tool: "read".to_owned(),
        parameters: json!({"path": "a"}),
        ruling: None,
        policy: "abc".to_owned(),
        stage,
    }
}

pub(crate) fn ended(text: &str) -> AuditStage {
    AuditStage::Ended {
        status: ResultStatus::Ok,
        duration_ms: 3,
        result: BlobId::of(text.as_bytes()).to_string(),
        sandbox: None,
    }
}

/// A call of a run with its answer, as the runtime writes it.
pub(super) async fn make_call(store: &dyn Store, fence: Fence, parent: Option<u32>, turn: u32) {
    let number = numbers([fence.run])[0];
    let call = CallId::new(turn, 0);
    let begun = Append {
        audit: vec![entry(number, parent, &call, AuditStage::Begun)],
        ..appending(fence, 10, vec![note("begun")])
    };
    store.append_next(begun).await.unwrap();
    let done = Append {
        audit: vec![entry(number, parent, &call, ended("text"))],
        ..appending(fence, 20, vec![finished(call, "text")])
    };
    store.append_next(done).await.unwrap();
}

/// `seq run stage` of each line.
async fn lines(store: &dyn Store, filter: AuditFilter) -> Vec<String> {
    let lines = store.audit(filter).await.unwrap();
    let each = lines.iter().map(|line| {
        let stage = match line.entry.stage {
            AuditStage::Begun => "begun",
            AuditStage::Waits => "waits",
            AuditStage::Ended { .. } => "ended",
        };
        format!("{} {} {stage}", line.seq, numbers([line.entry.run])[0])
    });
    each.collect()
}

async fn clean(store: &dyn Store) -> AuditReport {
    let report = store.verify_audit().await.unwrap();
    assert_eq!(report.problems, [] as [String; 0]);
    report
}

pub(crate) async fn audit_lines_are_chained_and_survive_their_runs(store: &dyn Store) {
    assert_eq!(clean(store).await, AuditReport::default());
    let first = running(store, 1, spec(1)).await;
    let second = running(store, 2, spec(2)).await;
    make_call(store, first, None, 1).await;
    make_call(store, second, None, 1).await;
    let call = CallId::new(2, 0);
    let finish = Finish {
        events: vec![finished(call.clone(), "last")],
        audit: vec![entry(1, None, &call, ended("last"))],
        ..finishing(first, 30, completed("done"))
    };
    store.finish_next(finish).await.unwrap();
    let all = [
        "1 1 begun",
        "2 1 ended",
        "3 2 begun",
        "4 2 ended",
        "5 1 ended",
    ];
    assert_eq!(lines(store, AuditFilter::default()).await, all);
    let some = AuditFilter {
        after: 1,
        limit: 2,
        ..AuditFilter::default()
    };
    assert_eq!(lines(store, some).await, all[1..3]);
    let report = clean(store).await;
    assert_eq!(report.entries, 5);
    let last = store
        .audit(AuditFilter::default())
        .await
        .unwrap()
        .pop()
        .unwrap();
    assert_eq!(report.head, Some(last.hash));
    assert_eq!(
        (last.at, last.entry),
        (at(30), entry(1, None, &call, ended("last")))
    );
    // What the fence refused is not in it.
    let stale = Append {
        audit: vec![entry(1, None, &call, AuditStage::Begun)],
        ..appending(first, 40, Vec::new())
    };
    assert_fenced(store.append_next(stale).await);
    store.delete(run(1)).await.unwrap();
    assert_eq!(lines(store, AuditFilter::default()).await, all);
    assert_eq!(clean(store).await, report);
}

pub(crate) async fn the_audit_of_a_subtree_is_found_after_its_records_are_deleted(
    store: &dyn Store,
) {
    let root = running(store, 1, spec(1)).await;
    let middle = running(store, 2, child(2, 1, 1)).await;
    let leaf = running(store, 3, child(3, 2, 1)).await;
    let aside = running(store, 4, child(4, 1, 1)).await;
    make_call(store, root, None, 1).await;
    // The run in the middle has no audited calls.
    make_call(store, leaf, Some(2), 1).await;
    make_call(store, aside, Some(1), 1).await;
    for fence in [leaf, middle, aside, root] {
        let finish = finishing(fence, 100, completed("done"));
        store.finish_next(finish).await.unwrap();
        store.deliver(at(100)).await.unwrap();
    }
    for _ in 0..2 {
        for (number, expected) in [
            (1, vec!["1 1", "2 1", "3 3", "4 3", "5 4", "6 4"]),
            (2, vec!["3 3", "4 3"]),
            (3, vec!["3 3", "4 3"]),
            (4, vec!["5 4", "6 4"]),
            (9, vec![]),
        ] {
            let filter = AuditFilter {
                run: Some(run(number)),
                ..AuditFilter::default()
            };
            let found = lines(store, filter).await;
            let found: Vec<_> = found.iter().map(|line| &line[..3]).collect();
            assert_eq!(found, expected, "of {number}");
        }
        // A second time without any records.
        let removed = store
            .delete_ended(RetentionRule::before(at(1_000)))
            .await
            .unwrap()
            .len();
        assert!(removed == 4 || removed == 0, "{removed}");
    }
    clean(store).await;
}

pub(crate) async fn every_journaled_answer_must_be_in_the_audit(store: &dyn Store) {
    let fence = running(store, 1, spec(1)).await;
    make_call(store, fence, None, 1).await;
    clean(store).await;
    // The whole text counts where the model read a part.
    let call = CallId::new(2, 0);
    let mut cut = finished(call.clone(), "the beg");
    if let Event::ToolFinished { result, .. } = &mut cut {
        result.full = Some(BlobId::of(b"the beginning"));
    }
    let whole = Append {
        audit: vec![entry(1, None, &call, ended("the beginning"))],
        ..appending(fence, 30, vec![cut])
    };
    store.append_next(whole).await.unwrap();
    clean(store).await;
    let forgotten = CallId::new(3, 0);
    let other = CallId::new(4, 0);
    let wrong = Append {
        audit: vec![
            entry(1, None, &forgotten, AuditStage::Begun),
            entry(1, None, &other, ended("something else")),
        ],
        ..appending(
            fence,
            40,
            vec![finished(forgotten, "text"), finished(other, "text")],
        )
    };
    store.append_next(wrong).await.unwrap();
    let id = run(1);
    assert_eq!(
        store.verify_audit().await.unwrap().problems,
        [
            format!("the answer of call {id}/3-0 is not in the audit"),
            format!("the audit has another answer of call {id}/4-0"),
        ]
    );
}

pub(crate) async fn changes_of_a_worktree_are_announced(store: &dyn Store) {
    let changes = |files| Changes {
        branch: "sortie/two".to_owned(),
        base: "aaa".to_owned(),
        commit: "bbb".to_owned(),
        files,
        insertions: 2,
        deletions: 0,
        diff: BlobId::of(b"diff"),
    };
    let collected = |changes| Event::Collected { changes };
    running(store, 1, spec(1)).await;
    for (number, before, last, expected) in [
        (2, None, None, None),
        (3, Some(Some(changes(1))), None, Some(changes(1))),
        (
            4,
            Some(Some(changes(1))),
            Some(Some(changes(7))),
            Some(changes(7)),
        ),
        (5, Some(Some(changes(1))), Some(None), None),
        (6, None, Some(Some(changes(2))), Some(changes(2))),
    ] {
        let fence = running(store, number, child(number, 1, 1)).await;
        let events = before.map(collected).into_iter().collect();
        store
            .append_next(appending(fence, 10, events))
            .await
            .unwrap();
        let finish = Finish {
            events: last.map(collected).into_iter().collect(),
            ..finishing(fence, 20, completed("done"))
        };
        store.finish_next(finish).await.unwrap();
        let delivered = store.deliver(at(30)).await.unwrap();
        assert_eq!(delivered[0].announcement.changes, expected, "{number}");
    }
}
