//! The durable registry on SQLite: runs, journal, inbox, outbox, leases, requests, accounts and the
//! audit.
//!
//! Every change is a transition: a function over a connection inside a transaction, in
//! `transitions/`. [`SqliteStore`] hands transitions to one writer's thread that commits many at
//! once; [`InlineStore`] runs the same ones at once, for simulations. [`ReadStore`] reads a store
//! that another process may be writing.
//!
//! Invariants: one process writes (a lock file), but for words left in a mailbox; nothing is answered before it is on disk; every
//! write for a run checks its fence; journals are gap-free and hash-chained; a terminal state and
//! its announcements are one transaction.

mod chain;
mod columns;
mod execute;
mod fault;
mod files;
mod lock;
mod ports;
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
use sortie_core::{
    AuditFilter, AuditLine, AuditReport, Balance, BlobId, JournalEntry, ListFilter, OpenRequest,
    Replied, Reply, ReplyTo, RequestFilter, RequestId, RunId, RunRecord, Seq, SessionGrant,
    SessionKey, Stats, StoreError, StoreResult, Tenant, Timestamp, UsageLine, VerifyReport,
};

use crate::execute::{Begin, Inline, transact};
use crate::fault::Fault;
use crate::lock::Lock;
use crate::readers::Readers;
use crate::transitions::{mailbox, requests};
use crate::writer::Threaded;

pub use crate::lock::Owner;
pub use crate::transitions::rebuild::Fold;

/// The database's name in its directory.
const DATABASE: &str = "sortie.db";
/// The lock's name beside it.
const LOCK: &str = "lock";
const OPENING: &str = "open its database";

/// The store, on whatever runs its transitions.
#[derive(Debug)]
pub struct SqlStore<E> {
    execute: E,
}

/// The store of a process that works: durable, with one writer's thread.
pub type SqliteStore = SqlStore<Threaded>;

/// The store of a simulation or test: everything happens at once on the caller's thread.
pub type InlineStore = SqlStore<Inline>;

impl SqliteStore {
    /// Opens the store in a directory and makes it if it does not exist. One process at a time;
    /// the next is told about `owner`. Needs a Tokio runtime for reading.
    pub fn open(home: &Path, owner: &Owner) -> StoreResult<Self> {
        let failed = |error: std::io::Error| StoreError::Failed {
            doing: OPENING,
            source: Box::new(error),
        };
        private_files::make_folder(home).map_err(failed)?;
        let (lock, database) = (home.join(LOCK), home.join(DATABASE));
        files::refuse_damaged(&database, &lock).map_err(opening)?;
        let lock = Lock::take(&lock, owner)?;
        files::make_database(&database).map_err(opening)?;
        let execute = Threaded::start(&database, lock).map_err(opening)?;
        Ok(Self { execute })
    }

    /// Opens the store in a directory for reading, without the lock. One that does not exist reads
    /// as empty.
    pub fn open_read_only(home: &Path) -> StoreResult<ReadStore> {
        let database = home.join(DATABASE);
        files::refuse_damaged(&database, &home.join(LOCK)).map_err(opening)?;
        let readers = Readers::open(database).map_err(opening)?;
        Ok(ReadStore { readers })
    }

    /// Leaves a reply for whoever owns the store in a directory, without its lock. `Accepted` says that
    /// the owner will find it, also one that starts later. `request` may be the beginning of an id.
    pub fn leave_reply(
        home: &Path,
        request: &RequestId,
        reply: Reply,
        at: Timestamp,
    ) -> StoreResult<Replied> {
        const LEAVING: &str = "leave a reply";
        let letter = ReplyTo {
            request: request.clone(),
            reply,
            at,
        };
        let path = home.join(DATABASE);
        let nobody = || requests::unknown(request.as_str());
        let left = path
            .exists()
            .then(|| schema::open_existing(&path))
            .transpose()
            .and_then(|connection| connection.flatten().ok_or_else(nobody))
            .and_then(|connection| {
                transact(&connection, Begin::Writing, |connection| {
                    mailbox::leave_reply(connection, &letter)
                })
            });
        left.map_err(|fault| fault.while_doing(LEAVING))
    }
}

impl InlineStore {
    /// A store that lives as long as this value.
    pub fn open_in_memory() -> StoreResult<Self> {
        let execute = Inline::in_memory().map_err(opening)?;
        Ok(Self { execute })
    }

    /// A store in a file. Takes no lock: the caller knows that nobody else writes it.
    pub fn open_file(path: &Path) -> StoreResult<Self> {
        let execute = Inline::at(path).map_err(opening)?;
        Ok(Self { execute })
    }
}

/// A store that can only be read, also while another process writes it; see
/// [`SqliteStore::open_read_only`].
#[derive(Clone, Debug)]
pub struct ReadStore {
    readers: Readers,
}

impl ReadStore {
    /// One record.
    pub async fn get(&self, run: RunId) -> StoreResult<RunRecord> {
        queries::get(&self.readers, run).await
    }

    /// The run that a person means by a prefix of at least eight characters.
    pub async fn resolve(&self, prefix: &str) -> StoreResult<RunId> {
        queries::resolve(&self.readers, prefix).await
    }

    /// Records, newest first.
    pub async fn list(&self, filter: ListFilter) -> StoreResult<Vec<RunRecord>> {
        queries::list(&self.readers, filter).await
    }

    /// How many runs are in which state.
    pub async fn stats(&self, filter: ListFilter) -> StoreResult<Stats> {
        queries::stats(&self.readers, filter).await
    }

    /// What runs used, by session, agent and model.
    pub async fn usage(&self, filter: ListFilter) -> StoreResult<Vec<UsageLine>> {
        queries::usage(&self.readers, filter, None, 0).await
    }

    /// The journal after `after`, checked against its hash chain.
    pub async fn read(&self, run: RunId, after: Seq) -> StoreResult<Vec<JournalEntry>> {
        queries::journal(&self.readers, run, after).await
    }

    /// A long output of a run.
    pub async fn blob(&self, run: RunId, id: &BlobId) -> StoreResult<Option<Vec<u8>>> {
        queries::blob(&self.readers, run, id).await
    }

    /// Requests: the open ones, oldest first; or all, newest first.
    pub async fn requests(&self, filter: RequestFilter) -> StoreResult<Vec<OpenRequest>> {
        queries::requests(&self.readers, filter).await
    }

    /// The request that a person means by the beginning of its id.
    pub async fn find_request(&self, prefix: &str) -> StoreResult<OpenRequest> {
        queries::find_request(&self.readers, prefix).await
    }

    /// What persons allowed for a whole session.
    pub async fn grants(
        &self,
        tenant: Option<&Tenant>,
        session: &SessionKey,
    ) -> StoreResult<Vec<SessionGrant>> {
        queries::grants(&self.readers, tenant, session).await
    }

    /// The accounts that a run draws from, one line for each kind that is limited.
    pub async fn balances(&self, run: RunId) -> StoreResult<Vec<Balance>> {
        queries::balances(&self.readers, run).await
    }

    /// Lines of the audit, in order.
    pub async fn audit(&self, filter: AuditFilter) -> StoreResult<Vec<AuditLine>> {
        queries::audit(&self.readers, filter).await
    }

    /// Checks the whole audit, and that every journaled answer of a call is in it.
    pub async fn verify_audit(&self) -> StoreResult<AuditReport> {
        queries::verify_audit(&self.readers).await
    }

    /// Checks the schema, every journal against its hash chain and every record against its journal.
    /// `fold` computes what a journal adds up to.
    pub async fn verify(&self, fold: Fold) -> StoreResult<VerifyReport> {
        queries::verify(&self.readers, Some(fold)).await
    }
}

fn opening(fault: Fault) -> StoreError {
    fault.while_doing(OPENING)
}
