//! The store on PostgreSQL when connections are lost and when other writers are in the way.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::thread;

use sortie_core::id::Seq;
use sortie_core::ports::store::*;
use sortie_core::run::Status;
use sortie_store::{DurableStore, Owner, Target};

use crate::server::{self, Schema};
use crate::support::*;
use crate::{owner, suite};

fn target(schema: &Schema) -> Target {
    schema.address(&schema.folder).parse().unwrap()
}

/// Opens the store in a schema. The lock file of the home stays locked although its folder is gone.
pub(crate) fn open(schema: &Schema) -> DurableStore {
    let home = tempfile::tempdir().unwrap();
    DurableStore::connect(home.path(), &target(schema), &owner()).unwrap()
}

/// Does something to a schema again and again, until it is dropped.
struct Disturbance {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Disturbance {
    fn start(schema: Schema, disturb: impl Fn(&Schema) + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                disturb(&schema);
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Disturbance {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Ends the session of the writer.
const END_THE_WRITER: &str = "SELECT pg_terminate_backend(pid) FROM pg_locks
     WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid()
       AND objid = CAST(CAST(hashtext(CAST(current_schema() AS TEXT)) AS bigint) & 4294967295 AS oid)";

#[tokio::test]
async fn a_second_process_is_refused_and_reads_beside_the_first() {
    let schema = server::schema();
    // A process that exists, so that the second one does not wait for its death.
    let first = Owner {
        pid: std::process::id(),
        ..owner()
    };
    let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let target = target(&schema);
    let store = DurableStore::connect(home.path(), &target, &first).unwrap();
    admit(&store, 1, spec(1)).await;
    let refused = DurableStore::connect(other.path(), &target, &owner());
    assert!(
        matches!(&refused, Err(StoreError::Locked { owner }) if owner.contains("sortie run check")),
        "{refused:?}"
    );
    let reader = DurableStore::connect_read_only(&target).unwrap();
    assert_eq!(reader.get(run(1)).await.unwrap().status, Status::Pending);
    drop(store);
    drop(open(&schema));
}

#[tokio::test]
async fn a_store_that_does_not_exist_reads_as_empty() {
    let schema = server::schema();
    let reader = DurableStore::connect_read_only(&target(&schema)).unwrap();
    assert!(reader.list(ListFilter::default()).await.unwrap().is_empty());
    let store = open(&schema);
    admit(&store, 1, spec(1)).await;
    assert_eq!(reader.list(ListFilter::default()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_schema_of_another_application_is_refused() {
    let schema = server::schema();
    schema.sql("CREATE TABLE customers (name TEXT)");
    let home = tempfile::tempdir().unwrap();
    let refused = DurableStore::connect(home.path(), &target(&schema), &owner()).unwrap_err();
    let text = chain_of(&refused);
    assert!(text.contains("belongs to another application"), "{text}");
}

#[tokio::test]
async fn a_missing_column_is_found() {
    let schema = server::schema();
    let store = open(&schema);
    sound(&store).await;
    schema.sql("ALTER TABLE once DROP COLUMN fingerprint");
    let report = store.verify().await.unwrap();
    assert_eq!(
        report.problems,
        ["column fingerprint of table once is missing"]
    );
}

#[tokio::test]
async fn text_with_a_nul_is_stored_and_found_sound() {
    let schema = server::schema();
    let store = open(&schema);
    let mut strange = spec(1);
    strange.task = "before\0after".to_owned();
    admit(&store, 1, strange).await;
    let record = store.get(run(1)).await.unwrap();
    assert_eq!(record.task, "before\u{2400}after");
    sound(&store).await;
}

#[tokio::test]
async fn a_lost_session_is_replaced() {
    let schema = server::schema();
    let store = open(&schema);
    let fence = running(&store, 1, spec(1)).await;
    for round in 0..3 {
        schema.sql(END_THE_WRITER);
        let events = vec![note(&format!("round {round}"))];
        store
            .append_next(appending(fence, 10 + round, events))
            .await
            .unwrap();
    }
    assert_eq!(
        story(&store, 1).await,
        "admitted claimed model_failed model_failed model_failed"
    );
    sound(&store).await;
}

#[tokio::test]
async fn a_run_that_another_writer_changes_all_the_time_still_advances() {
    let schema = server::schema();
    let store = open(&schema);
    let fence = running(&store, 1, spec(1)).await;
    let changed = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&changed);
    let disturbance = Disturbance::start(schema, move |schema| {
        schema.sql("UPDATE runs SET label = label || '.' WHERE task = 'task 1'");
        count.fetch_add(1, Ordering::Relaxed);
    });
    for number in 0..100 {
        let events = vec![note(&number.to_string())];
        let appended = store.append_next(appending(fence, 10 + number, events));
        appended.await.unwrap();
    }
    drop(disturbance);
    assert!(changed.load(Ordering::Relaxed) > 0);
    let entries = store.read(run(1), Seq(0)).await.unwrap();
    assert_eq!(entries.len(), 102);
}

/// Where a proxy cuts the connection of a client that commits.
#[derive(Clone, Copy)]
enum Cut {
    /// Before the server gets the commit.
    Before = 1,
    /// After the server has answered, before the client gets the answer.
    After = 2,
}

/// Stands between the store and the server, and cuts one connection when it is armed.
struct Proxy {
    folder: tempfile::TempDir,
    armed: Arc<AtomicU8>,
    cuts: Arc<AtomicU32>,
}

impl Proxy {
    fn before(schema: &Schema) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        let server = schema.folder.join(".s.PGSQL.5432");
        let (armed, cuts) = (Arc::new(AtomicU8::new(0)), Arc::new(AtomicU32::new(0)));
        let (arm, count) = (Arc::clone(&armed), Arc::clone(&cuts));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (server, arm, count) = (server.clone(), Arc::clone(&arm), Arc::clone(&count));
                thread::spawn(move || pass(client, server, &arm, &count));
            }
        });
        Self {
            folder,
            armed,
            cuts,
        }
    }

    fn arm(&self, cut: Cut) {
        self.armed.store(cut as u8, Ordering::SeqCst);
    }
}

/// Passes bytes on in both directions until one side closes or the proxy cuts.
fn pass(mut client: UnixStream, server: PathBuf, armed: &AtomicU8, cuts: &AtomicU32) {
    let mut server = UnixStream::connect(server).unwrap();
    let (mut from_server, mut to_client) =
        (server.try_clone().unwrap(), client.try_clone().unwrap());
    let silent = Arc::new(AtomicBool::new(false));
    let is_silent = Arc::clone(&silent);
    let back = thread::spawn(move || {
        let mut bytes = [0; 65_536];
        while let Ok(length @ 1..) = from_server.read(&mut bytes) {
            if is_silent.load(Ordering::SeqCst) || to_client.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        to_client.shutdown(Shutdown::Both).ok();
    });
    let mut bytes = [0; 65_536];
    while let Ok(length @ 1..) = client.read(&mut bytes) {
        let message = &bytes[..length];
        if message.windows(6).any(|part| part == b"COMMIT") {
            let cut = armed.swap(0, Ordering::SeqCst);
            if cut == Cut::Before as u8 {
                cuts.fetch_add(1, Ordering::SeqCst);
                break;
            }
            if cut == Cut::After as u8 {
                cuts.fetch_add(1, Ordering::SeqCst);
                silent.store(true, Ordering::SeqCst);
            }
        }
        if server.write_all(message).is_err() {
            break;
        }
    }
    client.shutdown(Shutdown::Both).ok();
    server.shutdown(Shutdown::Both).ok();
    back.join().unwrap();
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_takes_effect_once() {
    for cut in [Cut::Before, Cut::After] {
        let schema = server::schema();
        let proxy = Proxy::before(&schema);
        let target = schema.address(proxy.folder.path()).parse().unwrap();
        let home = tempfile::tempdir().unwrap();
        let store = DurableStore::connect(home.path(), &target, &owner()).unwrap();
        let fence = running(&store, 1, spec(1)).await;
        let head = store.head(run(1)).await;

        proxy.arm(cut);
        let append = Append {
            follows: head,
            ..appending(fence, 10, vec![note("once")])
        };
        let appended = store.append(append).await.unwrap();

        assert_eq!(proxy.cuts.load(Ordering::SeqCst), 1);
        assert_eq!(appended.head, Seq(head.0 + 1));
        assert_eq!(story(&store, 1).await, "admitted claimed model_failed");
        sound(&store).await;
    }
}

#[tokio::test]
async fn the_suite_holds_while_sessions_are_lost() {
    let schema = server::schema();
    let store = open(&schema);
    let disturbance = Disturbance::start(schema, |schema| {
        schema.sql(END_THE_WRITER);
        // Longer than a transaction takes on a busy machine: attempts are limited.
        #[expect(clippy::disallowed_methods, reason = "a moment of peace in between")]
        thread::sleep(std::time::Duration::from_millis(300));
    });
    suite::cancel_reaches_every_level(&store).await;
    drop(disturbance);
    sound(&store).await;
}
