//! A pool of read-only connections, used outside the async threads.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use sortie_core::ports::store::{StoreError, StoreResult};
use tokio::sync::Semaphore;

use crate::execute::{Query, transact};
use crate::fault::{Done, Fault};
#[cfg(feature = "postgres")]
use crate::postgres_schema;
use crate::schema;
#[cfg(feature = "postgres")]
use crate::sql::postgres::off_runtime;
#[cfg(feature = "postgres")]
use crate::sql::target::Target;
use crate::sql::{Begin, Connection};

/// The most concurrent queries; more wait. Queries are short, and each connection has its own cache.
const MAX_READERS: usize = 4;
/// The fewest: a long query must not stop all others.
const MIN_READERS: usize = 2;

/// Reads a store that a writer may be changing.
#[derive(Clone)]
pub struct Readers {
    pool: Arc<Pool>,
}

/// The database that readers open.
#[derive(Debug)]
pub(crate) enum Source {
    /// A file, which may not exist yet.
    File(PathBuf),
    #[cfg(feature = "postgres")]
    Postgres(Box<Target>),
}

impl Source {
    /// Opens a connection; `None` if the store does not exist yet.
    fn open(&self) -> Done<Option<Connection>> {
        match self {
            Self::File(path) if path.exists() => schema::open_for_reading(path),
            Self::File(_) => Ok(None),
            #[cfg(feature = "postgres")]
            Self::Postgres(target) => off_runtime(|| postgres_schema::open_existing(target)),
        }
    }
}

struct Pool {
    source: Source,
    idle: Mutex<Vec<Connection>>,
    places: Arc<Semaphore>,
}

/// Returns how many queries run at once. More connections than processors only cost time: each parses
/// the schema and prepares its own statements.
fn readers() -> usize {
    let processors = std::thread::available_parallelism().map_or(MIN_READERS, usize::from);
    processors.clamp(MIN_READERS, MAX_READERS)
}

impl Readers {
    /// Opens a database. Opens the first connection at once, so that an unreadable database fails
    /// here.
    pub(crate) fn open(source: Source) -> Done<Self> {
        let pool = Pool {
            source,
            idle: Mutex::new(Vec::new()),
            places: Arc::new(Semaphore::new(readers())),
        };
        pool.give_back(pool.take()?);
        Ok(Self {
            pool: Arc::new(pool),
        })
    }
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readers")
            .field("source", &self.pool.source)
            .finish_non_exhaustive()
    }
}

impl Query for Readers {
    async fn read<T, F>(&self, doing: &'static str, job: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        let failed = |source| StoreError::Failed { doing, source };
        let place = Arc::clone(&self.pool.places)
            .acquire_owned()
            .await
            .map_err(|closed| failed(closed.into()))?;
        let pool = Arc::clone(&self.pool);
        let result = tokio::task::spawn_blocking(move || {
            let result = pool.with_connection(job);
            drop(place);
            result
        })
        .await;
        match result {
            Ok(result) => result.map_err(|fault| fault.while_doing(doing)),
            Err(died) => Err(failed(died.into())),
        }
    }
}

impl Pool {
    /// A query that panics drops its connection; the next one opens another.
    fn with_connection<T>(&self, job: impl Fn(&Connection) -> Done<T>) -> Done<T> {
        let connection = self.take()?;
        let result = transact(&connection, Begin::Reading, job);
        self.give_back(connection);
        result
    }

    fn take(&self) -> Done<Connection> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        idle.map_or_else(|| self.open(), Ok)
    }

    /// Opens a connection. A store that does not exist yet reads as empty.
    fn open(&self) -> Done<Connection> {
        match self.source.open()? {
            Some(connection) => Ok(connection),
            None => schema::open_in_memory(),
        }
    }

    fn give_back(&self, connection: Connection) {
        // The empty database of a missing store is not pooled: the store may exist by the next
        // query.
        if !connection.is_reusable() {
            return;
        }
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(connection);
    }
}
