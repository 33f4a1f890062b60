//! Executors of transitions: the writer thread, or the caller's thread.

use std::fmt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use sortie_core::ports::store::StoreResult;

use crate::fault::{Done, Fault};
use crate::schema;

/// Runs queries, each on one consistent snapshot of the database.
pub trait Query: Send + Sync + fmt::Debug {
    fn read<T, F>(
        &self,
        doing: &'static str,
        job: F,
    ) -> impl Future<Output = StoreResult<T>> + Send
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static;
}

/// Runs transitions. Each is atomic, and durable when it returns.
pub trait Execute: Query {
    fn write<T, F>(
        &self,
        doing: &'static str,
        job: F,
    ) -> impl Future<Output = StoreResult<T>> + Send
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static;
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
        F: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        transact(&self.lock(), Begin::Reading, job).map_err(|fault| fault.while_doing(doing))
    }
}

impl Execute for Inline {
    async fn write<T, F>(&self, doing: &'static str, job: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        transact(&self.lock(), Begin::Writing, job).map_err(|fault| fault.while_doing(doing))
    }
}

/// The kind of a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Begin {
    /// Queries: one snapshot for all of them.
    Reading,
    /// Changes: takes the write lock at once, so that no statement has to be retried.
    Writing,
}

/// Runs a job in its own transaction.
pub(crate) fn transact<T>(
    connection: &Connection,
    begin: Begin,
    job: impl FnOnce(&Connection) -> Done<T>,
) -> Done<T> {
    roll_back(connection);
    connection.execute_batch(match begin {
        Begin::Reading => "BEGIN",
        Begin::Writing => "BEGIN IMMEDIATE",
    })?;
    let result = job(connection).and_then(|value| {
        connection.execute_batch("COMMIT")?;
        Ok(value)
    });
    if result.is_err() {
        roll_back(connection);
    }
    result
}

/// Rolls back an open transaction.
pub(crate) fn roll_back(connection: &Connection) {
    if connection.is_autocommit() {
        return;
    }
    if let Err(error) = connection.execute_batch("ROLLBACK") {
        // SQLite has usually rolled back by itself; otherwise the next BEGIN fails.
        tracing::warn!(%error, "could not roll back");
    }
}
