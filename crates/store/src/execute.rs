//! Executors of transitions: the writer thread, or the caller's thread.

use std::fmt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sortie_core::ports::store::StoreResult;

use crate::fault::{Done, Fault};
use crate::schema;
use crate::sql::{Begin, Connection};

/// Runs queries, each on one consistent snapshot of the database.
pub trait Query: Send + Sync + fmt::Debug {
    fn read<T, F>(
        &self,
        doing: &'static str,
        job: F,
    ) -> impl Future<Output = StoreResult<T>> + Send
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, Fault> + Send + 'static;
}

/// Runs transitions. Each is atomic, and durable when it returns. A job may run more than once, and
/// only its last run takes effect.
pub trait Execute: Query {
    /// Returns why the database does not answer at the moment, so that transitions wait.
    fn outage(&self) -> Option<String>;

    /// Returns the mark of what this process journals; `None` where it is the only one that writes.
    fn origin(&self) -> Option<i32>;

    fn write<T, F>(
        &self,
        doing: &'static str,
        job: F,
    ) -> impl Future<Output = StoreResult<T>> + Send
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, Fault> + Send + 'static;
}

/// Runs everything immediately on the caller's thread, so that a simulation controls the order.
pub struct Inline {
    connection: Mutex<Connection>,
}

impl Inline {
    /// Opens a database that lives as long as this value.
    pub(crate) fn in_memory() -> Done<Self> {
        schema::open_in_memory().map(Self::on)
    }

    /// Opens a database file.
    pub(crate) fn at(path: &Path) -> Done<Self> {
        schema::open_for_writing(path).map(Self::on)
    }

    fn on(connection: Connection) -> Self {
        Self {
            connection: Mutex::new(connection),
        }
    }

    /// Ignores poisoning: `transact` rolls back whatever a panic left in a transaction.
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Inline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inline")
    }
}

impl Query for Inline {
    async fn read<T, F>(&self, doing: &'static str, job: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        transact(&self.lock(), Begin::Reading, job).map_err(|fault| fault.while_doing(doing))
    }
}

impl Execute for Inline {
    fn outage(&self) -> Option<String> {
        None
    }

    fn origin(&self) -> Option<i32> {
        None
    }

    async fn write<T, F>(&self, doing: &'static str, job: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        transact(&self.lock(), Begin::Writing, job).map_err(|fault| fault.while_doing(doing))
    }
}

/// How often a transaction is run that the database aborts.
const MAX_ATTEMPTS: u32 = 12;
/// Before the second attempt; doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// Runs a transaction until it is not aborted by another one or by a lost connection, at most
/// [`MAX_ATTEMPTS`] times: about four seconds in all.
pub(crate) fn again<T>(mut attempt: impl FnMut() -> Done<T>) -> Done<T> {
    let mut pause = FIRST_PAUSE;
    for _ in 1..MAX_ATTEMPTS {
        match attempt() {
            Err(fault) if fault.is_transient() => {
                let error = fault.while_doing("commit");
                tracing::debug!(%error, "a transaction is run again");
                wait(pause);
                pause *= 2;
            }
            result => return result,
        }
    }
    attempt()
}

/// Waits on a thread of the store.
pub(crate) fn wait(duration: Duration) {
    #[expect(
        clippy::disallowed_methods,
        reason = "only threads of the store wait here, never an async one"
    )]
    std::thread::sleep(duration);
}

/// Runs a job in its own transaction.
pub(crate) fn transact<T>(
    connection: &Connection,
    begin: Begin,
    job: impl Fn(&Connection) -> Done<T>,
) -> Done<T> {
    again(|| {
        connection.roll_back();
        connection.begin(begin)?;
        let result = job(connection).and_then(|value| {
            connection.commit()?;
            Ok(value)
        });
        if result.is_err() {
            connection.roll_back();
        }
        result
    })
}
