//! The writer: one thread that commits all waiting transitions in one transaction.
//!
//! A commit costs a flush to disk, whatever its size. While one is in progress the next transitions
//! queue up, and then share the next commit. A caller gets its answer only after the commit.

use std::error::Error;
use std::fmt;
#[cfg(feature = "postgres")]
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use sortie_core::ports::store::{StoreError, StoreResult};
use tokio::sync::{mpsc, oneshot};

use crate::execute::{self, Execute, Query};
use crate::fault::{Done, Fault};
use crate::lock::Lock;
#[cfg(feature = "postgres")]
use crate::lock::Owner;
use crate::outage::Outage;
#[cfg(feature = "postgres")]
use crate::postgres_schema::{self, Role};
use crate::readers::{Readers, Source};
use crate::schema;
#[cfg(feature = "postgres")]
use crate::sql::target::Target;
use crate::sql::{Begin, Connection};

/// Transitions that share one commit; more would delay the answer of the first.
const MAX_BATCH: usize = 512;
/// Queued transitions; a caller with more waits until there is space.
const MAX_WAITING: usize = 4_096;

/// Sends transitions to the writer thread, and queries to readers.
pub struct Threaded {
    jobs: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
    readers: Readers,
    outage: Arc<Outage>,
    /// Marks what this process journals, where others can write the same store.
    origin: Option<i32>,
}

impl Threaded {
    /// Starts the writer thread, which keeps the lock until it ends.
    pub(crate) fn start(path: &Path, lock: Lock) -> Done<Self> {
        let connection = schema::open_for_writing(path)?;
        let readers = Readers::open(Source::File(path.to_owned()))?;
        let (jobs, waiting) = mpsc::channel(MAX_WAITING);
        let outage = Arc::<Outage>::default();
        let of_writer = Arc::clone(&outage);
        let thread = spawn(move || {
            serve(&connection, waiting, &of_writer);
            drop(connection);
            drop(lock);
        })?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
            readers,
            outage,
            origin: None,
        })
    }

    /// Starts the writer thread on a PostgreSQL server. The thread opens the connection itself: the
    /// client must not be used on a thread of an async runtime.
    #[cfg(feature = "postgres")]
    pub(crate) fn connect(
        target: &Target,
        (owner, role): (&Owner, Role),
        lock: Lock,
    ) -> Done<Self> {
        let origin = new_origin();
        let (jobs, waiting) = mpsc::channel(MAX_WAITING);
        let (opened, opening) = std::sync::mpsc::channel();
        let (writer, owner) = (target.clone(), owner.clone());
        let outage = Arc::<Outage>::default();
        let of_writer = Arc::clone(&outage);
        let thread = spawn(move || {
            let of_session = Arc::clone(&of_writer);
            let opened_connection =
                postgres_schema::open_for_writing(&writer, (&owner, role), origin, of_session);
            let connection = match opened_connection {
                Ok(connection) => connection,
                Err(fault) => {
                    opened.send(Err(fault)).ok();
                    return;
                }
            };
            if opened.send(Ok(())).is_ok() {
                serve(&connection, waiting, &of_writer);
            }
            connection.release_locks();
            drop(connection);
            drop(lock);
        })?;
        let gone = |_| Fault::Broken("the store's writer has stopped".into());
        opening.recv().map_err(gone)??;
        let readers = Readers::open(Source::Postgres(Box::new(target.clone())))?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
            readers,
            outage,
            origin: Some(origin),
        })
    }
}

/// Returns a number that no other process has, most probably: the standard library seeds its hash maps
/// from the operating system. If two processes have the same, neither publishes what the other does.
#[cfg(feature = "postgres")]
fn new_origin() -> i32 {
    let random = RandomState::new().build_hasher().finish();
    i32::try_from(random & 0x7fff_ffff).unwrap_or_default()
}

fn spawn(job: impl FnOnce() + Send + 'static) -> Done<JoinHandle<()>> {
    let thread = thread::Builder::new().name("sortie-store".to_owned());
    thread
        .spawn(job)
        .map_err(|error| Fault::Broken(error.into()))
}

impl Drop for Threaded {
    /// Waits until all queued transitions are committed, or have failed because the database does
    /// not answer, and the lock is free.
    fn drop(&mut self) {
        self.outage.close();
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the store's writer had died");
        }
    }
}

impl fmt::Debug for Threaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threaded")
            .field("readers", &self.readers)
            .finish_non_exhaustive()
    }
}

impl Query for Threaded {
    async fn read<T, F>(&self, doing: &'static str, job: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        self.readers.read(doing, job).await
    }
}

impl Execute for Threaded {
    fn outage(&self) -> Option<String> {
        self.outage.reason()
    }

    fn origin(&self) -> Option<i32> {
        self.origin
    }

    async fn write<T, F>(&self, doing: &'static str, job: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        let gone = || StoreError::Failed {
            doing,
            source: "the store's writer has stopped".into(),
        };
        let (reply, answer) = oneshot::channel();
        let transition = Transition {
            doing,
            job,
            result: None,
            reply,
        };
        let jobs = self.jobs.as_ref().ok_or_else(gone)?;
        jobs.send(Box::new(transition)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

/// Runs until all senders are dropped and all jobs are answered.
fn serve(connection: &Connection, mut waiting: mpsc::Receiver<Box<dyn Job>>, outage: &Outage) {
    let mut batch = Vec::with_capacity(MAX_BATCH);
    while waiting.blocking_recv_many(&mut batch, MAX_BATCH) > 0 {
        let committed = commit(connection, &mut batch, outage);
        outage.end();
        let failure = committed.err().map(CommitFailure::new);
        if let Some(error) = &failure {
            tracing::error!(%error, jobs = batch.len(), "could not commit");
            connection.roll_back();
        }
        for job in batch.drain(..) {
            job.answer(failure.as_ref());
        }
    }
}

/// Runs a batch in one transaction, again if the database aborted it or does not answer.
fn commit(connection: &Connection, batch: &mut [Box<dyn Job>], outage: &Outage) -> Done<()> {
    loop {
        let committed = execute::again(|| {
            connection.roll_back();
            attempt(connection, batch).inspect_err(|fault| outage.record(fault))
        });
        match committed {
            Err(fault) if fault.is_outage() && outage.wait() => {}
            committed => return committed,
        }
    }
}

/// Runs a batch in one transaction. A job that fails rolls back only its own changes.
fn attempt(connection: &Connection, batch: &mut [Box<dyn Job>]) -> Done<()> {
    connection.begin(Begin::Writing)?;
    for job in batch {
        connection.begin_job()?;
        if !job.run(connection)? {
            connection.roll_back_job()?;
        }
        connection.end_job()?;
    }
    connection.commit()
}

/// Why a batch was not committed. Every job of the batch gets it.
#[derive(Clone, Debug, thiserror::Error)]
enum CommitFailure {
    /// Another process owns the store now.
    #[error("the store is in use by {owner}")]
    Locked { owner: String },
    #[error("the transaction was not committed")]
    Broken(#[source] Arc<dyn Error + Send + Sync>),
}

impl CommitFailure {
    fn new(fault: Fault) -> Self {
        match fault {
            Fault::Refused(StoreError::Locked { owner }) => Self::Locked { owner },
            Fault::Refused(error) => Self::Broken(Arc::new(error)),
            Fault::Broken(source) => Self::Broken(source.into()),
        }
    }

    fn while_doing(&self, doing: &'static str) -> StoreError {
        match self {
            Self::Locked { owner } => StoreError::Locked {
                owner: owner.clone(),
            },
            Self::Broken(_) => StoreError::Failed {
                doing,
                source: Box::new(self.clone()),
            },
        }
    }
}

/// A transition on its way through the writer thread.
trait Job: Send {
    /// Runs the transition; `false` if it has to be rolled back. Fails if the whole transaction has
    /// to be run again.
    fn run(&mut self, connection: &Connection) -> Done<bool>;
    /// Answers the caller, after the commit has succeeded or failed.
    fn answer(self: Box<Self>, failure: Option<&CommitFailure>);
}

struct Transition<T, F> {
    doing: &'static str,
    job: F,
    result: Option<Done<T>>,
    reply: oneshot::Sender<StoreResult<T>>,
}

impl<T, F> Job for Transition<T, F>
where
    T: Send,
    F: Fn(&Connection) -> Done<T> + Send,
{
    fn run(&mut self, connection: &Connection) -> Done<bool> {
        let result = match (self.job)(connection) {
            Err(fault) if fault.is_transient() => return Err(fault),
            result => result,
        };
        let succeeded = result.is_ok();
        self.result = Some(result);
        Ok(succeeded)
    }

    fn answer(self: Box<Self>, failure: Option<&CommitFailure>) {
        let doing = self.doing;
        let failed = |source: Box<dyn Error + Send + Sync>| StoreError::Failed { doing, source };
        let answer = match (failure, self.result) {
            // Also for a rejection: the state that it depended on may have been rolled back with
            // the batch.
            (Some(failure), _) => Err(failure.while_doing(doing)),
            (None, Some(Ok(value))) => Ok(value),
            (None, Some(Err(fault))) => Err(fault.while_doing(doing)),
            (None, None) => Err(failed("it was not run".into())),
        };
        // The caller may have stopped waiting; the change is committed nevertheless.
        self.reply.send(answer).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql;

    type Answer = oneshot::Receiver<StoreResult<()>>;

    /// Returns a job that runs this SQL and then succeeds or is rejected.
    fn job(sql: &'static str, succeeds: bool) -> (Box<dyn Job>, Answer) {
        let (reply, answer) = oneshot::channel();
        let job = move |connection: &Connection| {
            for statement in sql.split(';') {
                sql::run(connection, statement, ())?;
            }
            if succeeds {
                Ok(())
            } else {
                Err(StoreError::NotFound("refused".to_owned()).into())
            }
        };
        let transition = Transition {
            doing: "test",
            job,
            result: None,
            reply,
        };
        (Box::new(transition), answer)
    }

    /// Runs jobs as one batch; returns their answers and the stored rows.
    fn check(jobs: &[(&'static str, bool)]) -> (Vec<String>, Vec<i64>) {
        let sqlite = rusqlite::Connection::open_in_memory().unwrap();
        sqlite.execute_batch("CREATE TABLE t (n)").unwrap();
        let connection = Connection::Sqlite(sqlite);
        let (sender, waiting) = mpsc::channel(MAX_WAITING);
        let mut answers = Vec::new();
        for (sql, succeeds) in jobs {
            let (job, answer) = job(sql, *succeeds);
            sender.try_send(job).unwrap_or_else(|_| panic!("full"));
            answers.push(answer);
        }
        drop(sender);
        serve(&connection, waiting, &Outage::default());
        let answers = answers
            .into_iter()
            .map(|mut answer| match answer.try_recv().unwrap() {
                Ok(()) => "ok".to_owned(),
                Err(error) => error.to_string(),
            })
            .collect();
        let stored = sql::all(&connection, "SELECT n FROM t ORDER BY n", (), |row| {
            row.get(0)
        });
        (answers, stored.unwrap())
    }

    #[test]
    fn a_failed_job_rolls_back_only_its_own_changes() {
        let (answers, stored) = check(&[
            ("INSERT INTO t VALUES (1)", true),
            ("INSERT INTO t VALUES (2)", false),
            ("INSERT INTO t VALUES (3); SELECT nonsense", true),
            ("INSERT INTO t VALUES (4)", true),
        ]);
        assert_eq!(
            answers,
            [
                "ok",
                "there is no task refused",
                "the store could not test",
                "ok"
            ]
        );
        assert_eq!(stored, [1, 4]);
    }

    #[test]
    fn every_job_of_a_lost_batch_gets_an_error() {
        // As SQLite does on a full disk: it rolls back the whole transaction.
        let (answers, stored) = check(&[
            ("INSERT INTO t VALUES (1)", true),
            ("ROLLBACK", true),
            ("INSERT INTO t VALUES (2)", true),
        ]);
        assert_eq!(answers, ["the store could not test"; 3]);
        assert_eq!(stored, [] as [i64; 0]);
    }

    #[test]
    fn the_writer_continues_after_a_lost_batch() {
        let many = vec![("INSERT INTO t VALUES (7)", true); MAX_BATCH - 1];
        let mut jobs = vec![("ROLLBACK", true)];
        jobs.extend(many);
        jobs.push(("INSERT INTO t VALUES (8)", true));
        let (answers, stored) = check(&jobs);
        assert_eq!(answers[0], "the store could not test");
        assert_eq!(answers[MAX_BATCH], "ok");
        assert_eq!(stored, [8]);
    }
}
