//! Copies between a file and PostgreSQL, and backups.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use sortie_core::event::JournalEntry;
use sortie_core::ports::store::*;
use sortie_core::run::Summary;
use sortie_store::{
    CopyProgress, CopyReport, CopyStores, CopyTo, DurableStore, InlineStore, Target,
    back_up_database, copy,
};

use crate::server::{Schema, aside, schema};
use crate::support::*;
use crate::{accounts, audit, growth, owner, requests, suite};

/// The summaries of the tests' journals are not those of a real fold.
fn unfolded(_entries: &[JournalEntry]) -> Result<Vec<Summary>, String> {
    Ok(Vec::new())
}

fn target(schema: &Schema) -> Target {
    schema.address(&schema.folder).parse().unwrap()
}

fn copy_with(
    home: &Path,
    target: &Target,
    to: CopyTo,
    progress: &mut (dyn FnMut(CopyProgress) + Send),
) -> StoreResult<CopyReport> {
    aside(|| {
        let stores = CopyStores {
            home,
            target,
            owner: &owner(),
            fold: unfolded,
        };
        copy(stores, to, &mut |step| progress(step))
    })
}

fn copied(home: &Path, target: &Target, to: CopyTo) -> StoreResult<CopyReport> {
    copy_with(home, target, to, &mut |_| {})
}

fn open(home: &Path) -> DurableStore {
    DurableStore::open(home, &owner()).unwrap()
}

fn connect(target: &Target) -> StoreResult<DurableStore> {
    let home = tempfile::tempdir().unwrap();
    DurableStore::connect(home.path(), target, &owner())
}

/// Copies a store to PostgreSQL and back into another home, and compares what both contain.
async fn there_and_back(home: &Path) {
    let schema = schema();
    let target = target(&schema);
    let first = copied(home, &target, CopyTo::Database).unwrap();
    assert!(first.tasks > 0 && first.entries > 0 && !first.continued);
    let store = connect(&target).unwrap();
    sound(&store).await;
    let everything = ListFilter {
        archived: true,
        ..ListFilter::default()
    };
    let there = store.list(everything.clone()).await.unwrap();
    drop(store);

    let other = tempfile::tempdir().unwrap();
    let second = copied(other.path(), &target, CopyTo::File).unwrap();
    assert_eq!(second, first);
    let store = open(other.path());
    sound(&store).await;
    assert_eq!(store.list(everything.clone()).await.unwrap(), there);
    let before = open(home);
    let usage = before.usage(everything.clone(), None, 0).await.unwrap();
    assert_eq!(store.usage(everything, None, 0).await.unwrap(), usage);
}

#[tokio::test]
async fn copies_in_both_directions_are_equal() {
    macro_rules! cases {
        ($($module:ident::$case:ident),+ $(,)?) => {
            $({
                let home = tempfile::tempdir().unwrap();
                let store = open(home.path());
                $module::$case(&store).await;
                drop(store);
                there_and_back(home.path()).await;
            })+
        };
    }
    cases!(
        suite::append_stores_events_summary_and_blobs,
        suite::delivery_happens_exactly_once,
        suite::usage_of_descendants_is_added_to_all_ancestors,
        accounts::a_budget_is_carved_from_the_nearest_account_above,
        audit::audit_lines_are_chained_and_survive_their_runs,
        requests::a_lasting_approval_becomes_a_grant_of_the_roots_session,
        growth::a_snapshot_is_kept_for_a_session_until_a_turn_is_deleted,
    );
}

/// Ends a copy in the middle, as the death of its process does.
fn interrupt(home: &Path, target: &Target, to: CopyTo) {
    let interrupted = catch_unwind(AssertUnwindSafe(|| {
        copy_with(home, target, to, &mut |step| {
            let is_middle = matches!(step, CopyProgress::Copying { table: "runs", .. });
            assert!(!is_middle, "interrupted");
        })
    }));
    assert!(interrupted.is_err());
}

async fn fill(home: &Path) {
    let store = open(home);
    let fence = running(&store, 1, spec(1)).await;
    let events = (0..40).map(|number| note(&number.to_string())).collect();
    store
        .append_next(appending(fence, 10, events))
        .await
        .unwrap();
    admit(&store, 2, spec(2)).await;
}

#[tokio::test]
async fn an_interrupted_copy_keeps_the_database_closed_and_continues() {
    let home = tempfile::tempdir().unwrap();
    fill(home.path()).await;
    let target = target(&schema());
    interrupt(home.path(), &target, CopyTo::Database);
    for refused in [
        connect(&target).map(drop),
        DurableStore::connect_read_only(&target).map(drop),
    ] {
        let text = chain_of(&refused.unwrap_err());
        assert!(text.contains("sortie store copy --to database"), "{text}");
    }
    let report = copied(home.path(), &target, CopyTo::Database).unwrap();
    assert!(report.continued);
    assert_eq!((report.tasks, report.entries), (2, 43));
    sound(&connect(&target).unwrap()).await;

    let other = tempfile::tempdir().unwrap();
    interrupt(other.path(), &target, CopyTo::File);
    assert!(!other.path().join("sortie.db").exists());
    let report = copied(other.path(), &target, CopyTo::File).unwrap();
    assert!(report.continued);
    sound(&open(other.path())).await;
}

#[tokio::test]
async fn a_copy_of_a_source_that_has_changed_begins_again() {
    let home = tempfile::tempdir().unwrap();
    fill(home.path()).await;
    let target = target(&schema());
    interrupt(home.path(), &target, CopyTo::Database);
    admit(&open(home.path()), 3, spec(3)).await;
    let report = copied(home.path(), &target, CopyTo::Database).unwrap();
    assert!(!report.continued);
    assert_eq!(report.tasks, 3);
    sound(&connect(&target).unwrap()).await;
}

#[tokio::test]
async fn ids_continue_after_a_copy() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    suite::inbox_moves_into_the_journal_once(&store).await;
    drop(store);
    let schema = schema();
    copied(home.path(), &target(&schema), CopyTo::Database).unwrap();
    let last = |sql: &str| -> i64 {
        let sqlite = rusqlite::Connection::open(home.path().join("sortie.db")).unwrap();
        sqlite.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let used = last("SELECT seq FROM sqlite_sequence WHERE name = 'inbox'");
    assert!(used > 0);
    assert_eq!(schema.count("SELECT last_value FROM inbox_id_seq"), used);
}

#[tokio::test]
async fn targets_with_other_tasks_and_stores_in_use_are_refused() {
    let home = tempfile::tempdir().unwrap();
    fill(home.path()).await;
    let target = target(&schema());
    let nothing = tempfile::tempdir().unwrap();
    for to in [CopyTo::Database, CopyTo::File] {
        let text = chain_of(&copied(nothing.path(), &target, to).unwrap_err());
        assert!(text.contains("there are no tasks in"), "{text}");
    }
    let store = connect(&target).unwrap();
    admit(&store, 9, spec(9)).await;
    drop(store);
    for to in [CopyTo::Database, CopyTo::File] {
        let text = chain_of(&copied(home.path(), &target, to).unwrap_err());
        assert!(text.contains("already contains"), "{text}");
    }
    let store = open(home.path());
    let refused = copied(home.path(), &target, CopyTo::Database);
    assert!(
        matches!(refused, Err(StoreError::Locked { .. })),
        "{refused:?}"
    );
    drop(store);
}

#[tokio::test]
async fn a_backup_is_made_beside_the_process_that_writes() {
    let folder = tempfile::tempdir().unwrap();
    let check =
        async |store: DurableStore, back_up: &(dyn Fn(&Path) -> StoreResult<CopyReport> + Sync)| {
            let fence = running(&store, 1, spec(1)).await;
            let file = folder.path().join(uuid::Uuid::now_v7().to_string());
            let report = aside(|| back_up(&file)).unwrap();
            assert_eq!((report.tasks, report.entries), (1, 2));
            // The store is not affected, and the backup does not follow it.
            store
                .append_next(appending(fence, 10, vec![note("later")]))
                .await
                .unwrap();
            let again = chain_of(&aside(|| back_up(&file)).unwrap_err());
            assert!(again.contains("exists already"), "{again}");
            let backup = InlineStore::open_file(&file).unwrap();
            assert_eq!(story(&backup, 1).await, "admitted claimed");
            sound(&backup).await;
        };
    let home = tempfile::tempdir().unwrap();
    check(open(home.path()), &|file| {
        DurableStore::back_up(home.path(), file, unfolded)
    })
    .await;
    let target = target(&schema());
    check(connect(&target).unwrap(), &|file| {
        back_up_database(&target, file, unfolded, &mut |_| {})
    })
    .await;
}
