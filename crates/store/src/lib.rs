//! The store: runs, journals, inboxes, outbox, leases, requests, accounts and the audit, on SQLite or
//! PostgreSQL (feature `postgres`).
//!
//! Every change is a transition: a function over a connection inside a transaction, in
//! `transitions/`. Both databases run the same functions; `sql` hides which of the two it is.
//! [`DurableStore`] sends transitions to one writer thread that commits many at once; [`InlineStore`]
//! runs the same functions immediately, for simulations. [`ReadStore`] reads a store that another
//! process may be writing.
//!
//! Invariants: one process writes a file (a lock file), except for the mailbox; several
//! may write a PostgreSQL database, whose transactions are serializable; no caller gets an answer before its change is durable; every write for
//! a run checks its fence; journals are gap-free and hash-chained; a terminal state and its
//! announcements are one transaction.

mod backup;
mod chain;
mod columns;
#[cfg(feature = "postgres")]
mod copy;
mod execute;
mod fault;
mod files;
mod letter_ports;
mod lock;
mod outage;
mod packed;
#[cfg(test)]
mod plans;
mod ports;
#[cfg(feature = "postgres")]
mod postgres_schema;
mod quarantine;
mod queries;
mod readers;
mod row;
mod schema;
mod sql;
mod transitions;
mod writer;

use std::path::Path;

use sortie_base::private_files;
use sortie_core::ports::store::{
    LeaveControl, LeftControl, Replied, ReplyTo, StoreError, StoreResult,
};
use sortie_core::request::{Reply, RequestId};
use sortie_core::time::Timestamp;

use crate::execute::{Inline, transact};
use crate::fault::{Done, Fault};
use crate::lock::Lock;
#[cfg(feature = "postgres")]
use crate::postgres_schema::Role;
use crate::readers::{Readers, Source};
#[cfg(feature = "postgres")]
use crate::sql::postgres::off_runtime;
use crate::sql::{Begin, Connection};
use crate::transitions::{mailbox, requests};
use crate::writer::Threaded;

pub use crate::backup::{CopyProgress, CopyReport};
#[cfg(feature = "postgres")]
pub use crate::copy::{CopyStores, CopyTo, back_up_database, copy};
pub use crate::lock::Owner;
#[cfg(feature = "crash-points")]
pub use crate::row::control::break_fences;
pub use crate::row::undetermined_columns;
#[cfg(feature = "postgres")]
pub use crate::sql::target::{InvalidTarget, Target};
pub use crate::transitions::rebuild::Fold;

/// The file name of the database.
const DATABASE: &str = "sortie.db";
/// The file name of the lock.
const LOCK: &str = "lock";
const OPENING: &str = "open its database";
const LEAVING: &str = "write into the mailbox";

/// The store, generic over the executor of its transitions.
#[derive(Clone, Debug)]
pub struct SqlStore<E> {
    execute: E,
}

/// The store of a runtime: durable, with one writer thread, on SQLite or PostgreSQL.
pub type DurableStore = SqlStore<Threaded>;

/// The store of a simulation or test: every transition runs immediately on the caller's thread.
pub type InlineStore = SqlStore<Inline>;

impl DurableStore {
    /// Opens the store in a folder; creates it if it does not exist. Fails while another process
    /// owns it, with that process's `owner`. Reading needs a Tokio runtime.
    pub fn open(home: &Path, owner: &Owner) -> StoreResult<Self> {
        let (lock, database) = (home.join(LOCK), home.join(DATABASE));
        make_home(home)?;
        files::refuse_damaged(&database, &lock).map_err(opening)?;
        let lock = Lock::take(&lock, owner)?;
        files::make_database(&database).map_err(opening)?;
        let execute = Threaded::start(&database, lock).map_err(opening)?;
        Ok(Self { execute })
    }

    /// Opens the store in a folder read-only, without the lock. A store that does not exist reads
    /// as empty.
    pub fn open_read_only(home: &Path) -> StoreResult<ReadStore> {
        let database = home.join(DATABASE);
        files::refuse_damaged(&database, &home.join(LOCK)).map_err(opening)?;
        let execute = Readers::open(Source::File(database)).map_err(opening)?;
        Ok(ReadStore { execute })
    }

    /// Returns the version of the tables in a folder; `None` if there are none.
    pub fn version(home: &Path) -> StoreResult<Option<i64>> {
        let database = home.join(DATABASE);
        if !database.exists() {
            return Ok(None);
        }
        let version = schema::version_of_file(&database).map_err(opening)?;
        Ok((version > 0).then_some(version))
    }

    /// Writes a consistent copy of the store in a folder to a new file, and checks it. Another
    /// process may be writing the store. Blocks, so an async thread must not call it.
    pub fn back_up(home: &Path, file: &Path, fold: Fold) -> StoreResult<CopyReport> {
        backup::back_up_file(&home.join(DATABASE), file, fold)
            .map_err(|fault| fault.while_doing("back up the tasks"))
    }

    /// Leaves a reply for the process that owns the store in a folder, without its lock. After
    /// `Accepted` that process takes it in, even if it starts later. `request` may be a prefix of
    /// an id.
    pub fn leave_reply(
        home: &Path,
        request: &RequestId,
        reply: Reply,
        at: Timestamp,
    ) -> StoreResult<Replied> {
        let reply_to = ReplyTo {
            request: request.clone(),
            reply,
            at,
        };
        beside(home, || requests::unknown(request.as_str()))
            .and_then(|connection| leave(&connection, mailbox::leave_reply, &reply_to))
            .map_err(|fault| fault.while_doing(LEAVING))
    }

    /// Leaves an operation on a run for the process that owns the store in a folder, without its
    /// lock. That process applies it, or the next one that owns the store.
    pub fn leave_control(home: &Path, left: &LeaveControl) -> StoreResult<LeftControl> {
        beside(home, || unknown_run(left))
            .and_then(|connection| leave(&connection, mailbox::leave_control, left))
            .map_err(|fault| fault.while_doing(LEAVING))
    }
}

#[cfg(feature = "postgres")]
impl DurableStore {
    /// Opens the store in a PostgreSQL database; creates it if the schema is empty. Fails while
    /// another process owns the store or the folder `home` on this machine, with that process's
    /// `owner`. Reading needs a Tokio runtime.
    pub fn connect(home: &Path, target: &Target, owner: &Owner) -> StoreResult<Self> {
        Self::share(home, target, (owner, Role::Front))
    }

    /// Opens the store in a PostgreSQL database as one of any number of workers, beside the process
    /// that owns it. Fails while another process owns the folder `home` on this machine.
    pub fn connect_worker(home: &Path, target: &Target, owner: &Owner) -> StoreResult<Self> {
        Self::share(home, target, (owner, Role::Worker))
    }

    fn share(home: &Path, target: &Target, owner: (&Owner, Role)) -> StoreResult<Self> {
        let lock = lock_home(home, owner.0)?;
        let execute = Threaded::connect(target, owner, lock).map_err(opening)?;
        Ok(Self { execute })
    }

    /// Opens the store in a PostgreSQL database read-only, without the lock. A store that does not
    /// exist reads as empty.
    pub fn connect_read_only(target: &Target) -> StoreResult<ReadStore> {
        let execute = Readers::open(Source::Postgres(Box::new(target.clone()))).map_err(opening)?;
        Ok(ReadStore { execute })
    }

    /// Returns the version of the tables in a PostgreSQL database; `None` if there are none.
    pub fn version_at(target: &Target) -> StoreResult<Option<i64>> {
        off_runtime(|| postgres_schema::stored_version(target)).map_err(opening)
    }

    /// Leaves a reply for the process that owns the store in a PostgreSQL database; see
    /// [`DurableStore::leave_reply`].
    pub fn leave_reply_at(
        target: &Target,
        request: &RequestId,
        reply: Reply,
        at: Timestamp,
    ) -> StoreResult<Replied> {
        let reply_to = ReplyTo {
            request: request.clone(),
            reply,
            at,
        };
        let left = off_runtime(|| {
            let connection = postgres_schema::open_existing(target)?;
            let connection = connection.ok_or_else(|| requests::unknown(request.as_str()))?;
            leave(&connection, mailbox::leave_reply, &reply_to)
        });
        left.map_err(|fault| fault.while_doing(LEAVING))
    }

    /// Leaves an operation on a run for the process that owns the store in a PostgreSQL database; see
    /// [`DurableStore::leave_control`].
    pub fn leave_control_at(target: &Target, left: &LeaveControl) -> StoreResult<LeftControl> {
        let done = off_runtime(|| {
            let connection = postgres_schema::open_existing(target)?;
            let connection = connection.ok_or_else(|| unknown_run(left))?;
            leave(&connection, mailbox::leave_control, left)
        });
        done.map_err(|fault| fault.while_doing(LEAVING))
    }
}

impl InlineStore {
    /// Opens a store that lives as long as this value.
    pub fn open_in_memory() -> StoreResult<Self> {
        let execute = Inline::in_memory().map_err(opening)?;
        Ok(Self { execute })
    }

    /// Opens a store in a file without a lock: the caller ensures that no other process writes it.
    pub fn open_file(path: &Path) -> StoreResult<Self> {
        let execute = Inline::at(path).map_err(opening)?;
        Ok(Self { execute })
    }
}

/// A read-only store, which another process may be writing; see [`DurableStore::open_read_only`].
pub type ReadStore = SqlStore<Readers>;

/// Opens the database of a folder beside the process that owns it.
fn beside(home: &Path, unknown: impl FnOnce() -> Fault) -> Done<Connection> {
    let path = home.join(DATABASE);
    let found = path.exists().then(|| schema::open_existing(&path));
    found.transpose()?.flatten().ok_or_else(unknown)
}

/// Writes into the mailbox in one transaction.
fn leave<L, T>(
    connection: &Connection,
    transition: impl Fn(&Connection, &L) -> Done<T>,
    left: &L,
) -> Done<T> {
    transact(connection, Begin::Writing, |connection| {
        transition(connection, left)
    })
}

fn unknown_run(left: &LeaveControl) -> Fault {
    Fault::Refused(StoreError::NotFound(left.run.to_string()))
}

fn make_home(home: &Path) -> StoreResult<()> {
    private_files::make_folder(home).map_err(|error| StoreError::Failed {
        doing: OPENING,
        source: Box::new(error),
    })
}

/// Takes the lock of a folder without a database.
#[cfg(feature = "postgres")]
fn lock_home(home: &Path, owner: &Owner) -> StoreResult<Lock> {
    make_home(home)?;
    Lock::take(&home.join(LOCK), owner)
}

fn opening(fault: Fault) -> StoreError {
    fault.while_doing(OPENING)
}
