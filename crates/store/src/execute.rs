//! How a transition gets its connection: through the writer's thread, or at once.

use std::fmt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use sortie_core::StoreResult;

use crate::fault::{Done, Fault};
use crate::schema;

/// Runs queries, each on one consistent state of the database.
pub trait Query: Send + Sync + fmt::Debug {
    /// Runs a query.
    fn read<T, F>(
        &self,
        doing: &'static str,
        job: F,
    ) -> impl Future<Output = StoreResult<T>> + Send
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static;
}

/// Runs transitions, each whole or not at all, and durable when it returns.
pub trait Execute: Query {
    /// Runs a transition.
    fn write<T, F>(
        &self,
        doing: &'static str,
        job: F,
    ) -> impl Future<Output = StoreResult<T>> + Send
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static;
}

/// Runs everything at once on the caller's thread, so that a simulation decides the order.
pub struct Inline {
    connection: Mutex<Connection>,
}

impl Inline {
    /// A database that lives as long as this value.
    pub(crate) fn in_memory() -> Done<Self> {
        schema::open_in_memory().map(Self::on)
    }

    /// A database in a file.
    pub(crate) fn at(path: &Path) -> Done<Self> {
        schema::open_for_writing(path).map(Self::on)
    }

    fn on(connection: Connection) -> Self {
        Self {
            connection: Mutex::new(connection),
        }
    }

    /// A panic inside a transaction leaves nothing behind that `transact` would not roll back.
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

/// What a transaction is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Begin {
    /// Queries: one state for all of them.
    Reading,
    /// Changes: the write lock is taken at once, so that nothing has to be tried twice.
    Writing,
}

/// Runs a job in a transaction of its own.
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

/// Ends an open transaction without its changes.
pub(crate) fn roll_back(connection: &Connection) {
    if connection.is_autocommit() {
        return;
    }
    if let Err(error) = connection.execute_batch("ROLLBACK") {
        // SQLite has usually rolled back by itself; the next BEGIN tells if it has not.
        tracing::warn!(%error, "could not roll back");
    }
}
