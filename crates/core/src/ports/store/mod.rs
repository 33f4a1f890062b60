//! The durable registry. It speaks in transitions, not in rows; each is atomic and durable when it
//! returns, and each that writes for a run is refused when its fence is old.

mod accounts;
mod admission;
mod claims;
mod delivery;
mod filters;
mod idempotency;
mod journal;
mod lifecycle;
mod replies;

use std::fmt;

use async_trait::async_trait;

use crate::audit::{AuditLine, AuditReport};
use crate::budget::{Balance, BudgetKind};
use crate::event::JournalEntry;
use crate::id::{BlobId, Fence, RunId, Seq, SessionKey};
use crate::inbox::{InboxItem, OutboxEntry};
use crate::message::Usage;
use crate::request::{OpenRequest, RequestFilter, RequestId, SessionGrant};
use crate::run::{Cancellation, ChangesFate, RunRecord, Status};
use crate::session::{SessionFilter, SessionSummary};
use crate::stats::{LaneCount, Stats, UsageLine, UsagePlace, UsagePoint};
use crate::tenant::Tenant;
use crate::time::Timestamp;

pub use accounts::*;
pub use admission::*;
pub use claims::*;
pub use delivery::*;
pub use filters::*;
pub use idempotency::*;
pub use journal::*;
pub use lifecycle::*;
pub use replies::*;

/// Everything the runtime needs from a store.
pub trait Store:
    Registry + Journal + Outbox + Archive + Requests + Accounts + Audit + Idempotency + fmt::Debug
{
}

impl<T> Store for T where
    T: Registry
        + Journal
        + Outbox
        + Archive
        + Requests
        + Accounts
        + Audit
        + Idempotency
        + fmt::Debug
{
}

/// A result of the store.
pub type StoreResult<T> = Result<T, StoreError>;

/// Why the store did not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A newer claim exists, or the run has ended: the writer must stop at once.
    #[error("the claim on run {run} is no longer valid")]
    Fenced {
        /// The run.
        run: RunId,
    },
    /// The write does not follow the end of the journal: an earlier write of the same holder was
    /// lost. The holder must stop and load the journal again.
    #[error("the journal of run {run} ends at entry {head}, so nothing can follow entry {follows}")]
    NotNext {
        /// The run.
        run: RunId,
        /// The end of the journal.
        head: Seq,
        /// The entry that the write was to follow.
        follows: Seq,
    },
    /// There is no such run.
    #[error("there is no task {0}")]
    NotFound(String),
    /// A prefix fits more than one run.
    #[error("{prefix} fits {count} tasks; type more of the id")]
    Ambiguous {
        /// What was typed.
        prefix: String,
        /// How many it fits.
        count: usize,
    },
    /// The journal does not fit its hash chain: it was changed or torn.
    #[error("the journal of run {run} is damaged at entry {seq}: {what}")]
    Damaged {
        /// The run.
        run: RunId,
        /// Where.
        seq: Seq,
        /// What does not fit.
        what: String,
    },
    /// Another process owns the store.
    #[error("the store is in use by {owner}")]
    Locked {
        /// Who, with process id and command.
        owner: String,
    },
    /// The run is not in a state for this.
    #[error("task {run} is {status}: {what}")]
    WrongState {
        /// The run.
        run: RunId,
        /// Its state.
        status: Status,
        /// What was wanted.
        what: &'static str,
    },
    /// The database failed.
    #[error("the store could not {doing}")]
    Failed {
        /// What was attempted.
        doing: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Admits, claims, cancels and reads runs.
#[async_trait]
pub trait Registry: Send + Sync {
    /// Writes a run with its edge and first event, unless its parent's call already has one.
    /// Caps are checked in the same transaction.
    async fn admit(&self, admit: Admit) -> StoreResult<Admission>;
    /// Takes queued runs as far as the limits of their lanes, parents and trees allow.
    async fn claim(&self, claim: Claim) -> StoreResult<Vec<Claimed>>;
    /// Marks a run and all its descendants as unwanted. Those that nobody executes end at once.
    async fn cancel(
        &self,
        run: RunId,
        cancellation: Cancellation,
        at: Timestamp,
    ) -> StoreResult<CancelReport>;
    /// Wants a run and all its descendants to rest, those that it is yet to have included. Those that
    /// nobody executes rest at once; an executor gives its run back after its present step. Whoever
    /// is to be cancelled does not rest.
    async fn pause(&self, run: RunId, at: Timestamp) -> StoreResult<PauseReport>;
    /// Lets a run and all its descendants go on.
    async fn resume(&self, run: RunId, at: Timestamp) -> StoreResult<PauseReport>;
    /// Frees leases without an executor; see [`crate::ports::store::RecoverScope`]. A run that keeps killing its process
    /// ends as interrupted.
    async fn recover(&self, recover: Recover) -> StoreResult<RecoverReport>;
    /// Ends runs that wait for children, or rest, past their deadline.
    async fn expire_parked(&self, now: Timestamp) -> StoreResult<EndReport>;
    /// Changes label or priority of a run that waits in the queue.
    async fn update(&self, update: Update) -> StoreResult<()>;
    /// Notes what became of the changes in a run's worktree.
    async fn set_changes_fate(&self, run: RunId, fate: ChangesFate) -> StoreResult<()>;
    /// Puts a message into a run's inbox.
    async fn send(&self, run: RunId, item: InboxItem, at: Timestamp) -> StoreResult<()>;
    /// One record.
    async fn get(&self, run: RunId) -> StoreResult<RunRecord>;
    /// The run that a person means by a prefix of at least eight characters.
    async fn resolve(&self, prefix: &str) -> StoreResult<RunId>;
    /// Records, newest first unless the filter says otherwise.
    async fn list(&self, filter: ListFilter) -> StoreResult<Vec<RunRecord>>;
    /// How many runs are in which state.
    async fn stats(&self, filter: ListFilter) -> StoreResult<Stats>;
    /// What runs used, by session, agent and model: those lines that come after a place, at most so
    /// many; 0 is no limit.
    async fn usage(
        &self,
        filter: ListFilter,
        after: Option<UsagePlace>,
        limit: u32,
    ) -> StoreResult<Vec<UsageLine>>;
    /// What runs used, all together.
    async fn used(&self, filter: ListFilter) -> StoreResult<Usage>;
    /// What runs that began since a moment came to, in stretches of `bucket_ms`, oldest first.
    /// Stretches in which nothing began are left out.
    async fn usage_series(
        &self,
        filter: ListFilter,
        bucket_ms: u64,
        since: Timestamp,
    ) -> StoreResult<Vec<UsagePoint>>;
    /// Conversations, the one with the latest turn first.
    async fn sessions(&self, filter: SessionFilter) -> StoreResult<Vec<SessionSummary>>;
    /// The last main run of a conversation. Background tasks of the same session are not part of it.
    async fn last_turn(
        &self,
        session: SessionKey,
        tenant: Option<Tenant>,
    ) -> StoreResult<Option<RunRecord>>;
    /// How full the lanes are.
    async fn lanes(&self) -> StoreResult<Vec<LaneCount>>;
    /// Commits a small change, as every other transition does: fails while nothing can be written.
    async fn probe(&self) -> StoreResult<()>;
    /// The earliest moment at which something happens by itself: a deadline of a parked run, a
    /// delivery to be tried again, a lease that ends.
    async fn next_due(&self) -> StoreResult<Option<Timestamp>>;
}

/// Writes and reads one run's journal.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Adds events. Refused unless they follow the end of the journal, so that a lost append can
    /// never be jumped over; the same holds for the transitions below that name an entry.
    async fn append(&self, append: Append) -> StoreResult<Appended>;
    /// Moves the inbox into the journal, as one event; `None` if it is empty.
    async fn take_inbox(
        &self,
        fence: Fence,
        follows: Seq,
        at: Timestamp,
    ) -> StoreResult<Option<JournalEntry>>;
    /// Gives the run up until its inbox fills; refused (`false`) if there is something in it.
    async fn park(&self, park: Park) -> StoreResult<bool>;
    /// Adds the last events and the outcome, frees the lease, puts announcements into the outbox
    /// and cancels descendants, in one transaction.
    async fn finish(&self, finish: Finish) -> StoreResult<Finishing>;
    /// Puts a claimed run back at its place in the queue: when the process shuts down, when the run
    /// is to rest, or when its executor lost a write and the journal has to be loaded again.
    async fn release(&self, fence: Fence, at: Timestamp) -> StoreResult<()>;
    /// Renews leases; tells which of them are lost and which runs are unwanted.
    async fn heartbeat(&self, beat: Heartbeat) -> StoreResult<HeartbeatReport>;
    /// Shows in the record whether the run waits for its provider.
    async fn hold(&self, hold: Hold) -> StoreResult<()>;
    /// The journal after `after`, checked against its hash chain.
    async fn read(&self, run: RunId, after: Seq) -> StoreResult<Vec<JournalEntry>>;
    /// The beginning of the same: as many entries as have so many bytes, and at least one if there is
    /// one. Only what is read is checked.
    async fn read_part(
        &self,
        run: RunId,
        after: Seq,
        max_bytes: usize,
    ) -> StoreResult<Vec<JournalEntry>>;
    /// The first entry of the journal, checked as far as one entry can be; `None` if the journal was
    /// removed.
    async fn first(&self, run: RunId) -> StoreResult<Option<JournalEntry>>;
    /// A long output of a run.
    async fn blob(&self, run: RunId, id: &BlobId) -> StoreResult<Option<Vec<u8>>>;
}

/// Delivers results.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Moves what is due to parents inside the store; exactly once.
    async fn deliver(&self, now: Timestamp) -> StoreResult<Vec<Delivered>>;
    /// What is due outside the store.
    async fn due_outside(&self, now: Timestamp) -> StoreResult<Vec<OutboxEntry>>;
    /// Notes how an outside delivery went.
    async fn record_attempt(&self, id: i64, attempt: DeliveryAttempt) -> StoreResult<()>;
    /// Tries a blocked delivery again, or gives it up for good.
    async fn unblock(&self, run: RunId, choice: Unblock, at: Timestamp) -> StoreResult<()>;
}

/// Keeps what runs ask, until somebody has replied.
#[async_trait]
pub trait Requests: Send + Sync {
    /// Requests: the open ones, oldest first; or all, newest first.
    async fn requests(&self, filter: RequestFilter) -> StoreResult<Vec<OpenRequest>>;
    /// The request that a person means by the beginning of its id.
    async fn find_request(&self, prefix: &str) -> StoreResult<OpenRequest>;
    /// Notes a reply and puts it into the run's inbox, once: the first reply holds. A lasting yes
    /// becomes a grant of the root's session in the same transaction.
    async fn reply(&self, reply: ReplyTo) -> StoreResult<Replied>;
    /// Hands a question that a parent has not answered to a person.
    async fn escalate(&self, request: &RequestId) -> StoreResult<()>;
    /// Takes in what other processes replied, and ends what nobody replied to in time. Returns the
    /// runs that have something in their inbox now, each with its request.
    async fn reconcile_requests(&self, now: Timestamp) -> StoreResult<Vec<(RunId, RequestId)>>;
    /// What persons allowed for a whole session.
    async fn grants(
        &self,
        tenant: Option<&Tenant>,
        session: &SessionKey,
    ) -> StoreResult<Vec<SessionGrant>>;
    /// Takes back what a person allowed; all of the session's if no rule is named.
    async fn revoke(
        &self,
        tenant: Option<&Tenant>,
        session: &SessionKey,
        rule: Option<&str>,
    ) -> StoreResult<u64>;
}

/// Keeps accounts. What may be spent is reserved first, so nothing is ever overspent.
#[async_trait]
pub trait Accounts: Send + Sync {
    /// Sets so much aside for a question of a run, all or nothing. What an earlier question of the
    /// run had set aside and never settled counts as spent.
    async fn reserve(&self, reserve: Reserve) -> StoreResult<Reserved>;
    /// Spends up to so many of one kind for good; returns how many there were.
    async fn charge(&self, fence: Fence, kind: BudgetKind, wanted: u64) -> StoreResult<Charged>;
    /// The accounts that a run draws from, one line for each kind that is limited.
    async fn balances(&self, run: RunId) -> StoreResult<Vec<Balance>>;
}

/// Reads the audit.
#[async_trait]
pub trait Audit: Send + Sync {
    /// Lines in order.
    async fn audit(&self, filter: AuditFilter) -> StoreResult<Vec<AuditLine>>;
    /// Checks the whole chain, and that every journaled answer of a call is in it.
    async fn verify_audit(&self) -> StoreResult<AuditReport>;
}

/// Removes and checks what is old.
#[async_trait]
pub trait Archive: Send + Sync {
    /// Removes the record and journal of an ended run and of its ended descendants.
    async fn delete(&self, run: RunId) -> StoreResult<Vec<RunRef>>;
    /// Removes transcripts that are due: `cleanup = delete` and delivered, or older than
    /// `archive_before`. Records, usage and outcome stay. Never one that still owes a delivery.
    async fn archive(&self, archive_before: Timestamp, at: Timestamp) -> StoreResult<u64>;
    /// Removes records of trees that ended before `before`. Never one that still owes a delivery.
    async fn delete_before(&self, before: Timestamp) -> StoreResult<Vec<RunRef>>;
    /// Checks every journal against its hash chain and the record against the journal.
    async fn verify(&self) -> StoreResult<VerifyReport>;
}
