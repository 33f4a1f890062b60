//! What only files have: replies and operations of other processes, tampering with the audit and with accounts,
//! stores that are older than both.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use sortie_core::budget::*;
use sortie_core::id::*;
use sortie_core::ports::store::*;
use sortie_core::request::*;
use sortie_store::DurableStore;
use tempfile::TempDir;

use crate::audit::make_call;
use crate::owner;
use crate::requests::*;
use crate::support::*;

fn home() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn open(home: &Path) -> DurableStore {
    DurableStore::open(home, &owner()).unwrap()
}

fn database(home: &Path) -> Connection {
    Connection::open(home.join("sortie.db")).unwrap()
}

fn leave(home: &Path, number: u32, reply: Reply, millis: i64) -> StoreResult<Replied> {
    DurableStore::leave_reply(home, &request_id(number), reply, at(millis))
}

#[tokio::test]
async fn a_reply_left_by_another_process_reaches_the_run() {
    let home = home();
    let store = open(home.path());
    waiting(&store, 1, spec(1), approval(1, 5_000)).await;
    // The first characters are enough, and the lock of the owner is no obstacle.
    let prefix = RequestId::from_text(&request_id(1).as_str()[..6]);
    let left = DurableStore::leave_reply(home.path(), &prefix, approved(Some("make")), at(200));
    assert_eq!(left.unwrap(), Replied::Accepted { run: run(1) });
    assert_eq!(state(&store, 1).await, "running approval not_required");
    assert_eq!(store.next_due().await.unwrap(), Some(at(200)));
    // The second of two replies is rejected with the first one.
    let earlier = Some(approved(Some("make")));
    assert_eq!(
        leave(home.path(), 1, refused(), 201).unwrap(),
        Replied::TooLate {
            earlier: earlier.clone()
        }
    );
    // So is a reply of the owner, before it has taken in the mailbox.
    let own = ReplyTo {
        request: request_id(1),
        reply: refused(),
        at: at(202),
    };
    assert_eq!(
        store.reply(own).await.unwrap(),
        Replied::TooLate {
            earlier: earlier.clone()
        }
    );
    assert_eq!(
        store.reconcile(at(300)).await.unwrap().replied,
        [(run(1), request_id(1))]
    );
    assert_eq!(store.reconcile(at(301)).await.unwrap().replied, []);
    assert_eq!(state(&store, 1).await, "running slot not_required");
    assert_eq!(
        store
            .grants(None, &SessionKey::cli().in_folder(Path::new("/ws")))
            .await
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        leave(home.path(), 1, refused(), 302).unwrap(),
        Replied::TooLate { earlier }
    );
}

#[tokio::test]
async fn a_reply_left_without_an_owner_waits_for_the_next_one() {
    let home = home();
    let nothing = leave(home.path(), 1, answered(), 1).unwrap_err();
    assert!(matches!(nothing, StoreError::NotFound(_)), "{nothing:?}");
    assert!(
        std::fs::read_dir(home.path()).unwrap().next().is_none(),
        "asking made files"
    );
    let store = open(home.path());
    for number in 1..=4 {
        let ask = question(number, 1_000, Addressee::Person);
        waiting(&store, number, spec(number), ask).await;
    }
    drop(store);

    // In time, too late, the wrong kind, and one whose run is cancelled meanwhile.
    assert_eq!(
        leave(home.path(), 1, answered(), 999).unwrap(),
        Replied::Accepted { run: run(1) }
    );
    assert_eq!(
        leave(home.path(), 2, answered(), 1_000).unwrap(),
        Replied::TooLate {
            earlier: Some(Reply::Expired)
        }
    );
    assert!(matches!(
        leave(home.path(), 3, refused(), 500),
        Err(StoreError::WrongState { .. })
    ));
    leave(home.path(), 4, answered(), 500).unwrap();

    let store = open(home.path());
    store.cancel(run(4), by_person(), at(600)).await.unwrap();
    let mut heard = store.reconcile(at(50_000)).await.unwrap().replied;
    heard.sort();
    assert_eq!(numbers(heard.into_iter().map(|(run, _)| run)), [1, 2, 3]);
    for (number, expected) in [(1, answered()), (2, Reply::Expired), (3, Reply::Expired)] {
        let found = store.find_request(request_id(number).as_str()).await;
        assert_eq!(found.unwrap().reply, Some(expected), "{number}");
    }
    assert_eq!(store.next_due().await.unwrap(), None);
    sound(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_from_outside_arrive_while_the_owner_writes() {
    const RUNS: u32 = 12;
    let home = home();
    let store = Arc::new(open(home.path()));
    for number in 1..=RUNS {
        waiting(&*store, number, spec(number), approval(number, 90_000)).await;
    }
    let busy = running(&*store, 99, spec(99)).await;
    let path = home.path().to_owned();
    let others = std::thread::spawn(move || {
        for number in 1..=RUNS {
            let left = leave(&path, number, approved(None), 300);
            assert_eq!(left.unwrap(), Replied::Accepted { run: run(number) });
        }
    });
    let mut heard = 0;
    let mut round = 0;
    while heard < RUNS as usize {
        round += 1;
        assert!(round < 100_000, "only {heard} replies arrived");
        let append = appending(busy, round, vec![note("busy")]);
        store.append_next(append).await.unwrap();
        heard += store.reconcile(at(400)).await.unwrap().replied.len();
    }
    others.join().unwrap();
    assert_eq!(store.requests(RequestFilter::default()).await.unwrap(), []);
    sound(&*store).await;
}

#[tokio::test]
async fn a_store_of_a_newer_version_takes_no_replies() {
    let home = home();
    drop(open(home.path()));
    database(home.path())
        .pragma_update(None, "user_version", 99)
        .unwrap();
    let error = chain_of(&leave(home.path(), 1, answered(), 1).unwrap_err());
    assert!(error.contains("use the newer program"), "{error}");
}

#[tokio::test]
async fn an_unreadable_reply_in_the_mailbox_does_not_block_others() {
    let home = home();
    let store = open(home.path());
    waiting(&store, 1, spec(1), approval(1, 5_000)).await;
    database(home.path())
        .execute_batch(
            "INSERT INTO mailbox (request_id, reply, at) VALUES ('nobody', 'nonsense', 1),
             ('ffffffffffff', '{\"reply\":\"expired\"}', 1)",
        )
        .unwrap();
    leave(home.path(), 1, refused(), 200).unwrap();
    assert_eq!(
        store.reconcile(at(300)).await.unwrap().replied,
        [(run(1), request_id(1))]
    );
    assert_eq!(store.next_due().await.unwrap(), None);
}

/// Changes a store with two audited calls behind its back; gives what the check says.
async fn after_tampering(sql: &str) -> Vec<String> {
    let home = home();
    let store = open(home.path());
    let budget = Budget {
        tokens: Some(100),
        ..Budget::default()
    };
    let fence = running(&store, 1, with_budget(1, spec(1), budget)).await;
    make_call(&store, fence, None, 1).await;
    make_call(&store, fence, None, 2).await;
    let amount = tokens(40);
    store.reserve(Reserve { fence, amount }).await.unwrap();
    drop(store);
    let changed = database(home.path());
    changed.execute_batch(sql).unwrap();
    drop(changed);
    let reader = DurableStore::open_read_only(home.path()).unwrap();
    let mut problems = reader.verify_audit().await.unwrap().problems;
    problems.extend(reader.verify(|_| Ok(Vec::new())).await.unwrap().problems);
    let id = run(1).to_string();
    problems
        .into_iter()
        .map(|text| text.replace(&id, "1"))
        .collect()
}

#[tokio::test]
async fn tampering_with_audit_and_accounts_is_noticed() {
    for (sql, expected) in [
        ("SELECT 1", vec![]),
        (
            "UPDATE audit SET body = replace(body, '\"read\"', '\"reed\"') WHERE seq = 2",
            vec!["audit line 2 does not fit its hash"],
        ),
        (
            "UPDATE audit SET at = at + 1 WHERE seq = 3",
            vec!["audit line 3 does not fit its hash"],
        ),
        (
            "DELETE FROM audit WHERE seq = 3",
            vec!["the audit has a gap: after line 2 comes line 4"],
        ),
        (
            "DELETE FROM audit WHERE seq > 2",
            vec![
                "the end of the audit was cut off: 2 lines are missing",
                "the answer of call 1/2-0 is not in the audit",
            ],
        ),
        (
            "DELETE FROM audit WHERE seq = 4; UPDATE audit_head SET seq = 3",
            vec![
                "the audit does not end where the note beside it says",
                "the answer of call 1/2-0 is not in the audit",
            ],
        ),
        (
            "UPDATE audit SET tenant = 'another' WHERE seq = 1",
            vec!["audit line 1 is filed under another tenant"],
        ),
        (
            "UPDATE audit SET run_id = 'another' WHERE seq = 1",
            vec!["audit line 1 is filed under another run"],
        ),
        (
            "UPDATE audit SET hash = x'00' WHERE seq = 1",
            vec![
                "audit line 1 cannot be read",
                "audit line 2 does not fit its hash",
            ],
        ),
        (
            "UPDATE account_lines SET spent = 61",
            vec!["the tokens of account 1 are overspent: 61 spent and 40 set aside of 100"],
        ),
        (
            "UPDATE account_lines SET reserved = 30",
            vec!["account 1 has 30 tokens set aside, but 40 are accounted for"],
        ),
    ] {
        assert_eq!(after_tampering(sql).await, expected, "{sql}");
    }
}

fn leave_control(
    home: &Path,
    number: u32,
    control: Control,
    millis: i64,
) -> StoreResult<LeftControl> {
    let left = LeaveControl {
        run: run(number),
        control,
        at: at(millis),
    };
    DurableStore::leave_control(home, &left)
}

fn message(text: &str) -> Control {
    Control::Steer {
        text: text.to_owned(),
    }
}

#[tokio::test]
async fn operation_left_by_another_process_is_applied_once() {
    let home = home();
    let store = open(home.path());
    running(&store, 1, spec(1)).await;
    let left = leave_control(home.path(), 1, message("faster"), 200).unwrap();
    assert_eq!(left.active, [run(1)]);
    let mail = left.mail.unwrap();
    assert!(store.is_waiting(mail).await.unwrap());
    assert_eq!(store.next_due().await.unwrap(), Some(at(200)));
    leave_control(home.path(), 1, Control::Pause, 201).unwrap();
    let reason = "enough".to_owned();
    leave_control(home.path(), 1, Control::Cancel { reason }, 202).unwrap();
    let done = store.reconcile(at(300)).await.unwrap();
    let words: Vec<&str> = done
        .controlled
        .iter()
        .map(|(_, controlled)| match controlled {
            Controlled::Steered => "steered",
            Controlled::Paused(_) => "paused",
            Controlled::Resumed(_) => "resumed",
            Controlled::Cancelled { .. } => "cancelled",
        })
        .collect();
    assert_eq!(words, ["steered", "paused", "cancelled"]);
    assert!(!store.is_waiting(mail).await.unwrap());
    assert_eq!(
        store.reconcile(at(301)).await.unwrap(),
        Reconciled::default()
    );
    // A run that is being cancelled takes no pause, and the sender learns it.
    assert!(matches!(
        leave_control(home.path(), 1, Control::Pause, 400),
        Err(StoreError::WrongState { .. })
    ));
    sound(&store).await;
}

#[tokio::test]
async fn message_left_for_a_run_that_ends_is_in_its_journal() {
    let home = home();
    let store = open(home.path());
    let fence = running(&store, 1, spec(1)).await;
    leave_control(home.path(), 1, message("faster"), 200).unwrap();
    let finish = finishing(fence, 300, completed("done"));
    store.finish_next(finish).await.unwrap();
    let journal = store.read(run(1), Seq::default()).await.unwrap();
    let unread = journal.iter().any(|entry| {
        matches!(&entry.event, sortie_core::event::Event::InboxTaken { items, unread: true } if items.len() == 1)
    });
    assert!(unread, "{journal:?}");
    assert_eq!(
        store.reconcile(at(301)).await.unwrap(),
        Reconciled::default()
    );
    let late = leave_control(
        home.path(),
        1,
        Control::Cancel {
            reason: String::new(),
        },
        400,
    );
    assert_eq!(late.unwrap().mail, None);
    sound(&store).await;
}
