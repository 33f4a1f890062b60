//! What only a store in files has: the lock, the schema, tampering, restarts, other readers.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use sortie_core::event::*;
use sortie_core::id::*;
use sortie_core::ports::store::*;
use sortie_core::run::*;
use sortie_store::DurableStore;
use tempfile::TempDir;

use crate::owner;
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

#[tokio::test]
async fn a_second_process_gets_an_error_that_names_the_owner() {
    let home = home();
    let store = open(home.path());
    let refused = DurableStore::open(home.path(), &owner()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the store is in use by `sortie run check` (pid 123, since 2027-01-15T08:00:00.000Z)"
    );
    drop(store);
    open(home.path());
}

#[tokio::test]
async fn a_newer_schema_is_rejected() {
    let home = home();
    drop(open(home.path()));
    database(home.path())
        .pragma_update(None, "user_version", 99)
        .unwrap();
    let expected = "the store could not open its database: the store has schema version 99 and \
                    this program knows versions up to 1; use the newer program that made it";
    let writing = DurableStore::open(home.path(), &owner()).unwrap_err();
    assert_eq!(chain_of(&writing), expected);
    let reading = DurableStore::open_read_only(home.path()).unwrap_err();
    assert_eq!(chain_of(&reading), expected);
}

#[tokio::test]
async fn an_empty_file_gets_its_tables() {
    let home = home();
    std::fs::write(home.path().join("sortie.db"), b"").unwrap();
    let store = open(home.path());
    admit(&store, 1, spec(1)).await;
    let version: i64 = database(home.path())
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .unwrap();
    assert_eq!(version, 1);
}

#[tokio::test]
async fn a_part_of_a_journal_is_read_and_checked() {
    let home = home();
    let store = open(home.path());
    let fence = running(&store, 1, spec(1)).await;
    let events = vec![note("one"), note("two"), note("three")];
    store
        .append_next(appending(fence, 5, events))
        .await
        .unwrap();
    let whole = store.read(run(1), Seq(0)).await.unwrap();
    let mut parts = Vec::new();
    loop {
        let after = parts
            .last()
            .map_or(Seq(0), |entry: &JournalEntry| entry.seq);
        let part = store.read_part(run(1), after, 1).await.unwrap();
        assert!(part.len() <= 1, "one is more than the bound");
        if part.is_empty() {
            break;
        }
        parts.extend(part);
    }
    assert_eq!(parts, whole);
    assert_eq!(
        store.read_part(run(1), Seq(0), 1 << 20).await.unwrap(),
        whole
    );
    database(home.path())
        .execute("UPDATE journal SET body = '{}' WHERE seq = 4", [])
        .unwrap();
    assert!(store.read_part(run(1), Seq(0), 1).await.is_ok());
    assert!(store.read_part(run(1), Seq(3), 1).await.is_err());
}

#[tokio::test]
async fn files_are_private() {
    use std::os::unix::fs::PermissionsExt as _;

    let outer = home();
    let home = outer.path().join("deep/store");
    let store = open(&home);
    admit(&store, 1, spec(1)).await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&home), 0o700);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&home).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(mode(&entry.path()), 0o600, "{}", entry.path().display());
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(
        names,
        ["lock", "sortie.db", "sortie.db-shm", "sortie.db-wal"]
    );
}

#[tokio::test]
async fn records_journals_and_inboxes_survive_a_restart() {
    let home = home();
    let store = open(home.path());
    let parent = running(&store, 1, spec(1)).await;
    let fence = running(&store, 2, child(2, 1, 1)).await;
    store.park_next(parking(parent, 3)).await.unwrap();
    store
        .finish_next(finishing(fence, 4, completed("kept")))
        .await
        .unwrap();
    store.send(run(1), steer("kept too"), at(5)).await.unwrap();
    let before = store.list(ListFilter::default()).await.unwrap();
    let journal = store.read(run(2), Seq(0)).await.unwrap();
    drop(store);

    let store = open(home.path());
    assert_eq!(store.list(ListFilter::default()).await.unwrap(), before);
    assert_eq!(store.read(run(2), Seq(0)).await.unwrap(), journal);
    let report = store
        .recover(recovering(RecoverScope::All, 10))
        .await
        .unwrap();
    // The parent, which the steer has woken, waits for a slot.
    assert_eq!((report.queued, report.undelivered), (1, 1));
    assert_eq!(store.deliver(at(10)).await.unwrap().len(), 1);
    let fence = claim_all(&store, 11).await[0];
    let entry = store.take_next(fence, at(12)).await.unwrap().unwrap();
    let Event::InboxTaken { items, .. } = entry.event else {
        panic!("another event");
    };
    assert_eq!(items.len(), 2);
    sound(&store).await;
}

#[tokio::test]
async fn reading_works_beside_a_writer_and_without_a_store() {
    let home = home();
    let reader = DurableStore::open_read_only(home.path()).unwrap();
    assert_eq!(reader.list(ListFilter::default()).await.unwrap(), []);
    assert!(reader.get(run(1)).await.is_err());
    assert!(
        std::fs::read_dir(home.path()).unwrap().next().is_none(),
        "reading made files"
    );

    let store = open(home.path());
    for number in 1..=3 {
        running(&store, number, spec(number)).await;
        // The reader that saw nothing sees the store once it exists.
        let listed = reader.list(ListFilter::default()).await.unwrap();
        assert_eq!(listed.len(), number as usize);
        assert_eq!(
            reader.get(run(number)).await.unwrap(),
            store.get(run(number)).await.unwrap()
        );
    }
    assert_eq!(reader.read(run(1), Seq(0)).await.unwrap().len(), 2);
    assert_eq!(
        reader.stats(ListFilter::default()).await.unwrap().running,
        3
    );
    assert_eq!(
        reader.verify(|_| Ok(Vec::new())).await.unwrap().problems,
        [] as [String; 0]
    );
    let full = run(2).to_string();
    assert_eq!(reader.resolve(&full).await.unwrap(), run(2));
    assert_eq!(reader.blob(run(1), &BlobId::of(b"")).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_appends_are_all_durable_and_in_order() {
    const RUNS: u32 = 100;
    const ROUNDS: i64 = 5;
    let home = home();
    let store = Arc::new(open(home.path()));
    for number in 1..=RUNS {
        admit(&*store, number, spec(number)).await;
    }
    let fences = claim_all(&*store, 1_000).await;
    assert_eq!(fences.len(), RUNS as usize);
    let mut writers = tokio::task::JoinSet::new();
    for fence in fences {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            for round in 0..ROUNDS {
                let events = vec![note(&format!("{round}a")), note(&format!("{round}b"))];
                let appended = store
                    .append_next(appending(fence, round, events))
                    .await
                    .unwrap();
                assert_eq!(appended.head, Seq(4 + 2 * round));
            }
            // A stale writer in the same batches does not affect the others.
            let stale = Fence {
                epoch: Epoch(0),
                ..fence
            };
            assert_fenced(
                store
                    .append_next(appending(stale, 9, vec![note("stale")]))
                    .await,
            );
        });
    }
    writers.join_all().await;
    drop(store);

    let store = open(home.path());
    let report = store.verify().await.unwrap();
    assert_eq!(report.problems, [] as [String; 0]);
    assert_eq!(report.entries, u64::from(RUNS) * (2 + 2 * 5));
    let entries = store.read(run(7), Seq(2)).await.unwrap();
    let expected: Vec<_> = (0..ROUNDS)
        .flat_map(|round| [note(&format!("{round}a")), note(&format!("{round}b"))])
        .collect();
    let events: Vec<_> = entries.into_iter().map(|entry| entry.event).collect();
    assert_eq!(events, expected);
}

/// Changes the files of a store behind its back, and tells what `read` and `verify` say.
async fn after_tampering(sql: &str) -> (String, Vec<String>) {
    let home = home();
    let store = open(home.path());
    let fence = running(&store, 1, spec(1)).await;
    let events = vec![note("one"), note("two"), note("three")];
    store
        .append_next(appending(fence, 5, events))
        .await
        .unwrap();
    running(&store, 2, spec(2)).await;
    drop(store);
    let changed = database(home.path());
    changed.execute_batch(sql).unwrap();
    drop(changed);

    let store = open(home.path());
    let read = store.read(run(1), Seq(0)).await;
    let text = read.map_or_else(
        |error| {
            assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
            error.to_string()
        },
        |entries| format!("{} entries", entries.len()),
    );
    let problems = store.verify().await.unwrap().problems;
    let hide = |text: String| text.replace(&run(1).to_string(), "1");
    (hide(text), problems.into_iter().map(hide).collect())
}

#[tokio::test]
async fn tampering_is_noticed() {
    for (sql, expected) in [
        ("SELECT 1", "5 entries"),
        (
            "UPDATE journal SET body = replace(body, '\"two\"', '\"twO\"') WHERE body LIKE '%\"two\"%'",
            "the journal of run 1 is damaged at entry 4: it does not fit its hash",
        ),
        (
            "DELETE FROM journal WHERE body LIKE '%\"three\"%'",
            "the journal of run 1 is damaged at entry 5: the end was cut off",
        ),
        (
            "DELETE FROM journal WHERE body LIKE '%\"one\"%'",
            "the journal of run 1 is damaged at entry 3: the entry is missing",
        ),
        (
            "UPDATE journal SET seq = 99 WHERE body LIKE '%\"one\"%';
             UPDATE journal SET seq = 3 WHERE body LIKE '%\"two\"%';
             UPDATE journal SET seq = 4 WHERE seq = 99",
            "the journal of run 1 is damaged at entry 3: it does not fit its hash",
        ),
        (
            "UPDATE journal SET at = at + 1 WHERE body LIKE '%\"two\"%'",
            "the journal of run 1 is damaged at entry 4: it does not fit its hash",
        ),
        (
            "UPDATE journal SET epoch = 9 WHERE body LIKE '%\"two\"%'",
            "the journal of run 1 is damaged at entry 4: it does not fit its hash",
        ),
        (
            "UPDATE journal SET hash = x'00' WHERE body LIKE '%\"two\"%'",
            "the journal of run 1 is damaged at entry 4: the entry cannot be read",
        ),
        (
            "UPDATE journal SET body = x'ff' WHERE body LIKE '%\"two\"%'",
            "the journal of run 1 is damaged at entry 4: the entry is not text",
        ),
        (
            "UPDATE runs SET head_hash = zeroblob(32) WHERE task = 'task 1'",
            "the journal of run 1 is damaged at entry 5: the record names another end",
        ),
        (
            "UPDATE runs SET head_seq = 4 WHERE task = 'task 1'",
            "the journal of run 1 is damaged at entry 4: the record names another end",
        ),
    ] {
        let (read, problems) = after_tampering(sql).await;
        assert_eq!(read, expected, "{sql}");
        let told = if sql == "SELECT 1" {
            vec![]
        } else {
            vec![read]
        };
        assert_eq!(problems, told, "{sql}");
    }
}

#[tokio::test]
async fn the_first_entry_is_checked_by_itself() {
    const SECOND: &str = "the journal of run 1 is damaged at entry 1: the record names another end";
    for (sql, expected) in [
        ("SELECT 1", "admitted"),
        // What came later is not looked at.
        ("DELETE FROM journal WHERE seq > 1", "admitted"),
        (
            "UPDATE journal SET body = replace(body, 'task 1', 'task 2') WHERE seq = 1",
            "the journal of run 1 is damaged at entry 1: it does not fit its hash",
        ),
        (
            "DELETE FROM journal WHERE seq = 1",
            "the journal of run 1 is damaged at entry 1: the end was cut off",
        ),
        ("UPDATE runs SET head_seq = 1", SECOND),
        ("UPDATE runs SET cleaned_at = 1", "removed"),
    ] {
        let home = home();
        let store = open(home.path());
        running(&store, 1, spec(1)).await;
        drop(store);
        database(home.path()).execute_batch(sql).unwrap();
        let told = match open(home.path()).first(run(1)).await {
            Ok(Some(entry)) => {
                assert_eq!(entry.seq, Seq(1));
                assert!(matches!(entry.event, Event::Admitted { .. }));
                "admitted".to_owned()
            }
            Ok(None) => "removed".to_owned(),
            Err(error) => error.to_string().replace(&run(1).to_string(), "1"),
        };
        assert_eq!(told, expected, "{sql}");
    }
}

#[tokio::test]
async fn a_record_that_contradicts_its_journal_is_noticed() {
    for (sql, expected) in [
        (
            "UPDATE runs SET task = 'other' WHERE task = 'task 1'",
            "the record of run 1 has another `task` than its journal",
        ),
        (
            "UPDATE runs SET status = 'completed' WHERE task = 'task 1'",
            "the record of run 1 says completed, and its journal has 0 ends",
        ),
        (
            "UPDATE runs SET inbox_count = 3 WHERE task = 'task 1'",
            "run 1 counts 3 messages in its inbox, but 0 are there",
        ),
        (
            "UPDATE runs SET status = 'strange' WHERE task = 'task 1'",
            "run 1 cannot be read: unknown word \"strange\"; expected one of pending, running, \
             completed, failed, timeout, cancelled",
        ),
        (
            "UPDATE runs SET cleaned_at = 1 WHERE task = 'task 1'",
            "the journal of run 1 was removed, but 5 entries are there",
        ),
        (
            "UPDATE tallies SET runs = 7 WHERE status = 'running'",
            "the tally of running runs is 7, but there are 2",
        ),
    ] {
        let (_, problems) = after_tampering(sql).await;
        assert_eq!(problems, [expected], "{sql}");
    }
}

#[tokio::test]
async fn tampering_with_an_archive_is_noticed() {
    for (sql, expected) in [
        ("SELECT 1", None),
        (
            "UPDATE archives SET body = x'00'",
            Some("damaged at entry 1"),
        ),
        (
            "UPDATE archives SET unpacked = unpacked - 1",
            Some("damaged at entry 4"),
        ),
        ("DELETE FROM archives", Some("damaged at entry 1")),
    ] {
        let home = home();
        let store = open(home.path());
        let fence = running(&store, 1, spec(1)).await;
        let end = finishing(fence, 6, completed("done"));
        reported(store.finish_next(end).await);
        assert_eq!(store.archive(at(7), at(20)).await.unwrap(), 1);
        drop(store);
        database(home.path()).execute_batch(sql).unwrap();
        let store = open(home.path());
        let read = store.read(run(1), Seq(0)).await;
        let problems = store.verify().await.unwrap().problems;
        match expected {
            None => {
                assert_eq!(read.unwrap().len(), 4);
                assert_eq!(problems, Vec::<String>::new());
            }
            Some(expected) => {
                let error = read.unwrap_err().to_string();
                assert!(error.contains(expected), "{sql}: {error}");
                assert_eq!(problems, [error]);
            }
        }
    }
}

#[tokio::test]
async fn a_damaged_run_can_still_be_claimed_and_ended() {
    let home = home();
    let store = open(home.path());
    let fence = running(&store, 1, spec(1)).await;
    store.release(fence, at(2)).await.unwrap();
    drop(store);
    database(home.path())
        .execute("UPDATE journal SET body = '{}' WHERE seq = 1", [])
        .unwrap();

    let store = open(home.path());
    let claimed = store.claim(claiming(3)).await.unwrap();
    assert_eq!(
        claimed[0].entries.as_ref().unwrap_err().to_string(),
        format!(
            "the journal of run {} is damaged at entry 1: it does not fit its hash",
            run(1)
        )
    );
    let fence = claimed[0].fence;
    store
        .append_next(appending(fence, 4, vec![note("damaged")]))
        .await
        .unwrap();
    store
        .finish_next(finishing(fence, 5, failed()))
        .await
        .unwrap();
    assert_eq!(state(&store, 1).await, "failed - not_required");
    // What was written after the damage is linked as ever.
    assert_eq!(store.read(run(1), Seq(3)).await.unwrap().len(), 4 - 1);
}

#[tokio::test]
async fn an_unreadable_message_does_not_keep_a_run_from_ending() {
    let home = home();
    let store = open(home.path());
    let short = |number| RunSpec {
        limits: Limits {
            timeout_ms: Some(1_000),
            ..spec(number).limits
        },
        ..spec(number)
    };
    // One queued, one past its deadline, one leased, and one whose executor dies.
    for number in 1..=2 {
        let fence = running(&store, number, short(number)).await;
        store.park_next(parking(fence, 2)).await.unwrap();
    }
    let held = running(&store, 3, spec(3)).await;
    running(&store, 4, spec(4)).await;
    drop(store);
    // As a message would have woken them, and no later claim could have read it.
    let database = database(home.path());
    for number in 1..=4 {
        for item in ["{\"from\": \"nobody\"}", "{}"] {
            let name = run(number).to_string();
            database
                .execute(
                    "INSERT INTO inbox (run_id, item, at) VALUES (?1, ?2, 3)",
                    [&name, item],
                )
                .unwrap();
            database
                .execute(
                    "UPDATE runs SET inbox_count = inbox_count + 1 WHERE run_id = ?1",
                    [&name],
                )
                .unwrap();
        }
    }
    drop(database);

    let store = open(home.path());
    for number in 1..=4 {
        store
            .send(run(number), steer("hello"), at(3))
            .await
            .unwrap();
    }
    drop(store);
    rest(home.path(), 2);
    let store = open(home.path());
    store.cancel(run(1), by_person(), at(4)).await.unwrap();
    let expired = store.expire_parked(at(2_000)).await.unwrap();
    assert_eq!(of_ended(&expired.ended), [2]);
    reported(store.finish_next(finishing(held, 2_001, failed())).await);
    let recovered = store
        .recover(Recover {
            deaths: DeathLimits { total: 0, ..DEATHS },
            ..recovering(RecoverScope::All, 2_002)
        })
        .await
        .unwrap();
    assert_eq!(of_ended(&recovered.given_up.ended), [4]);
    for number in 1..=4 {
        let entries = store.read(run(number), Seq(0)).await.unwrap();
        let kept = &entries[entries.len() - 2].event;
        let unread = Event::InboxTaken {
            items: vec![steer("hello")],
            unread: true,
        };
        assert_eq!(*kept, unread, "{number}");
    }
    sound(&store).await;
}

/// Parks a run again that a message has woken.
fn rest(home: &Path, number: u32) {
    database(home)
        .execute(
            "UPDATE runs SET phase = 'parked', waiting_on = 'children' WHERE run_id = ?1",
            [run(number).to_string()],
        )
        .unwrap();
}

#[tokio::test]
async fn an_output_with_changed_content_is_not_returned() {
    let home = home();
    let store = open(home.path());
    let fence = running(&store, 1, spec(1)).await;
    let id = BlobId::of(b"what a tool said");
    store
        .append_next(Append {
            blobs: vec![Blob {
                id: id.clone(),
                bytes: b"what a tool said".to_vec(),
            }],
            ..appending(fence, 2, vec![note("a long output")])
        })
        .await
        .unwrap();
    assert!(store.blob(run(1), &id).await.unwrap().is_some());
    assert!(store.verify().await.unwrap().problems.is_empty());
    database(home.path())
        .execute(
            "UPDATE blobs SET bytes = CAST('something else' AS BLOB)",
            [],
        )
        .unwrap();
    let error = store.blob(run(1), &id).await.unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
    let problems = store.verify().await.unwrap().problems;
    assert!(
        problems
            .iter()
            .any(|problem| problem.contains("is damaged")),
        "{problems:?}"
    );
}
