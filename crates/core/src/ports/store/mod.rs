//! The store port: transitions and queries.
//!
//! A store offers transitions, not rows. This is the contract that every implementation keeps and
//! that the conformance suite of `sortie-store` checks.
//!
//! # Atomicity
//! A transition is one transaction. When its future returns `Ok`, the change is durable; when it
//! returns a rejection ([`StoreError::Fenced`], [`StoreError::NotNext`],
//! [`StoreError::WrongState`] and the like), nothing was written. [`StoreError::Failed`] leaves
//! open whether the change was committed: the caller reads the state again and never assumes
//! either. A future that is dropped after its first poll may still take effect.
//!
//! # Order
//! The position in the journal is the ticket of a run: an executor names the entry that its write
//! follows, and a write that does not follow the head is rejected. So the writes of one run take
//! effect in the order of their positions or not at all, in every process. In addition, the
//! transitions of one store value take effect in the order in which their futures were first
//! polled, so an executor may hand over several writes without waiting for each. Nothing is
//! promised about the order of transitions of different runs in different processes, except that
//! each sees every transition that had returned before it began.
//!
//! # Fences and clocks
//! A claim gives a run a new epoch. Every write for a leased run names that epoch and is rejected
//! when it is stale, so a stopped executor that continues later changes nothing. Fences alone make
//! this safe; leases only decide how soon the runs of a dead executor are claimed again. The ends
//! of leases are moments of one clock, [`Workers::clock`]: the database's where several processes
//! share a store, the caller's otherwise. A caller may use a reading of that clock that is too
//! early; its leases are then shorter, and it frees fewer. All other timestamps are the caller's; where
//! the store is shared, a caller follows the database's clock for these too, so that no process ends
//! runs of others by a wrong clock of its own.
//!
//! # Owners
//! A store in a file has one owner. A store in a database may be shared ([`Workers::is_shared`]):
//! one front process (a server or a command) receives messages, starts turns, delivers to sinks and
//! applies retention; any number of workers beside it claim and execute runs, deliver inside the
//! store and free expired leases. Each has an id, which owns its leases, and an entry in the list of
//! workers. The limits of lanes hold for each process, those of parents and trees for all of them.
//!
//! # Recovery
//! Every process may free expired leases ([`RecoverScope::Expired`]) and the leases that its own
//! lost claims left behind ([`RecoverScope::Orphans`]). The front process may free those of earlier
//! front processes ([`RecoverScope::Predecessors`]). All leases are freed only by a process that
//! shares the store with no other at that moment ([`RecoverScope::All`]); the store checks it.
//!
//! # What a transition may touch
//! The tree is the unit of consistency: a transition reads and writes the runs, journals, inboxes,
//! outbox entries, requests and accounts of one tree. The exceptions are the claim (all queued
//! runs), recovery, delivery, retention and expiry (batches of trees), conversations and grants
//! (all trees of a session), idempotency keys, the counts per status and the audit, which today is
//! one chain for the whole store. A query reads one consistent snapshot and changes nothing.
//!
//! # Hints
//! The store does not notify. What a transition returns ([`EndReport`], [`Delivered`],
//! [`HeartbeatReport`]) tells the calling process whom to wake; other processes find out by
//! polling: [`Registry::next_due`], [`Workers::signals`] for the runs that they execute, and
//! [`Workers::feed`] for everything that is journaled. A hint may be lost or repeated, so no
//! result may depend on it: whatever is due stays due until a transition handles it. The feed loses
//! nothing while it is read, and its order is that of the commits.

mod accounts;
mod admission;
mod claims;
mod controls;
mod delivery;
mod filters;
mod idempotency;
mod journal;
mod lifecycle;
mod replies;
mod workers;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use async_trait::async_trait;

use crate::audit::{AuditLine, AuditReport};
use crate::budget::{Balance, BudgetKind};
use crate::event::JournalEntry;
use crate::hook::{Letter, LetterState, NewLetter};
use crate::id::{BlobId, Fence, RunId, Seq, SessionKey};
use crate::inbox::{InboxItem, OutboxEntry};
use crate::message::Usage;
use crate::request::{OpenRequest, RequestFilter, RequestId, SessionGrant};
use crate::run::{Cancellation, RecordField, RunRecord, Status};
use crate::session::{SessionFilter, SessionSummary};
use crate::stats::{EndedUsage, LaneCount, Stats, UsageLine, UsagePlace, UsagePoint, UsageRange};
use crate::tenant::{Tenant, TenantRules, TenantUse};
use crate::time::Timestamp;
use crate::worker::{WorkerId, WorkerRecord};

pub use accounts::*;
pub use admission::*;
pub use claims::*;
pub use controls::*;
pub use delivery::*;
pub use filters::*;
pub use idempotency::*;
pub use journal::*;
pub use lifecycle::*;
pub use replies::*;
pub use workers::*;

/// Everything that the runtime needs from a store.
pub trait Store:
    Registry
    + Journal
    + Outbox
    + Letters
    + Archive
    + Requests
    + Accounts
    + Audit
    + Idempotency
    + Workers
    + Tenants
    + fmt::Debug
{
}

impl<T> Store for T where
    T: Registry
        + Journal
        + Outbox
        + Letters
        + Archive
        + Requests
        + Accounts
        + Audit
        + Idempotency
        + Workers
        + Tenants
        + fmt::Debug
{
}

pub type StoreResult<T> = Result<T, StoreError>;

/// Why a store operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A newer claim exists, or the run has ended. The executor must stop at once.
    #[error("the claim on run {run} is no longer valid")]
    Fenced { run: RunId },
    /// The write does not follow the last journal entry: an earlier write of the same executor was
    /// lost. The executor must stop and load the journal again.
    #[error("the journal of run {run} ends at entry {head}, so nothing can follow entry {follows}")]
    NotNext {
        run: RunId,
        /// The last position of the journal.
        head: Seq,
        /// The position that the write was to follow.
        follows: Seq,
    },
    #[error("there is no task {0}")]
    NotFound(String),
    /// A prefix matches more than one run.
    #[error("{prefix} matches {count} tasks; give more characters of the id")]
    Ambiguous { prefix: String, count: usize },
    /// The journal does not match its hash chain: it was changed or torn.
    #[error("the journal of run {run} is damaged at entry {seq}: {what}")]
    Damaged { run: RunId, seq: Seq, what: String },
    /// Another process owns the store.
    #[error("the store is in use by {owner}")]
    Locked {
        /// Its process id and command.
        owner: String,
    },
    /// The operation is not possible in the run's state.
    #[error("task {run} is {status}: {what}")]
    WrongState {
        run: RunId,
        status: Status,
        /// The reason, and what to do instead.
        what: &'static str,
    },
    #[error("the store could not {doing}")]
    Failed {
        /// The attempted operation, after "could not".
        doing: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Admits, claims, cancels and reads runs.
#[async_trait]
pub trait Registry: Send + Sync {
    /// Admits a run with its first event, unless its parent's call already has a child. Limits are
    /// checked in the same transaction.
    async fn admit(&self, admit: Admit) -> StoreResult<Admission>;
    /// Claims queued runs as far as the limits of their lanes, parents and trees allow.
    async fn claim(&self, claim: Claim) -> StoreResult<Vec<Claimed>>;
    /// Cancels a run and all its descendants. Those without a lease end at once. A run that has ended
    /// can still have active descendants, which are cancelled.
    async fn cancel(
        &self,
        run: RunId,
        cancellation: Cancellation,
        at: Timestamp,
    ) -> StoreResult<CancelReport>;
    /// Pauses a run and all its descendants, including those admitted later. Runs without a lease
    /// pause at once; an executor releases its run after the current step. Runs with a cancellation
    /// are not paused.
    async fn pause(&self, run: RunId, at: Timestamp) -> StoreResult<PauseReport>;
    /// Resumes a run and all its descendants.
    async fn resume(&self, run: RunId, at: Timestamp) -> StoreResult<PauseReport>;
    /// Frees leases without an executor; see [`crate::ports::store::RecoverScope`]. A run that
    /// keeps killing its process ends as interrupted.
    async fn recover(&self, recover: Recover) -> StoreResult<RecoverReport>;
    /// Ends parked and paused runs whose deadline has passed.
    async fn expire_parked(&self, now: Timestamp) -> StoreResult<EndReport>;
    /// Changes the label or the priority of a queued run.
    async fn update(&self, update: Update) -> StoreResult<()>;
    /// Sets a field of a record that its executor does not write.
    async fn set(&self, run: RunId, field: RecordField) -> StoreResult<()>;
    /// Puts a message into a run's inbox.
    async fn send(&self, run: RunId, item: InboxItem, at: Timestamp) -> StoreResult<()>;
    async fn get(&self, run: RunId) -> StoreResult<RunRecord>;
    /// Returns the run with this handle, or whose id begins with a prefix of at least eight characters.
    async fn resolve(&self, prefix: &str) -> StoreResult<RunId>;
    /// Returns the handles of these runs; runs that do not exist are left out.
    async fn handles(&self, runs: Vec<RunId>) -> StoreResult<BTreeMap<RunId, String>>;
    /// Returns those of these ids that belong to no run.
    async fn missing(&self, runs: Vec<RunId>) -> StoreResult<Vec<RunId>>;
    /// Returns records, newest first unless the filter asks for the opposite.
    async fn list(&self, filter: ListFilter) -> StoreResult<Vec<RunRecord>>;
    /// Counts runs for each status.
    async fn stats(&self, filter: ListFilter) -> StoreResult<Stats>;
    /// Returns a page of usage by session, agent and model, after a position; a limit of 0 is
    /// unlimited.
    async fn usage(
        &self,
        filter: ListFilter,
        after: Option<UsagePlace>,
        limit: u32,
    ) -> StoreResult<Vec<UsageLine>>;
    /// Returns the usage of ended runs by the parts that the range names, sorted by them. Each run counts
    /// on the day of its end, so lines of past days never change.
    async fn ended_usage(&self, range: UsageRange) -> StoreResult<Vec<EndedUsage>>;
    /// Returns the total usage.
    async fn used(&self, filter: ListFilter) -> StoreResult<Usage>;
    /// Returns the usage of runs admitted since a moment, in intervals of `bucket_ms`, oldest
    /// first. Intervals without runs are left out.
    async fn usage_series(
        &self,
        filter: ListFilter,
        bucket_ms: u64,
        since: Timestamp,
    ) -> StoreResult<Vec<UsagePoint>>;
    /// Returns conversations, the one with the latest turn first.
    async fn sessions(&self, filter: SessionFilter) -> StoreResult<Vec<SessionSummary>>;
    /// Returns the last main run of a conversation, in this folder if one is given. Background tasks
    /// of the session are not part of it.
    async fn last_turn(
        &self,
        session: SessionKey,
        tenant: Option<Tenant>,
        workspace: Option<PathBuf>,
    ) -> StoreResult<Option<RunRecord>>;
    /// Returns how full the lanes are.
    async fn lanes(&self) -> StoreResult<Vec<LaneCount>>;
    /// Commits a small change; fails while the store cannot be written.
    async fn probe(&self) -> StoreResult<()>;
    /// Returns the earliest moment at which a transition falls due: the deadline of a parked run, a
    /// delivery to retry, the end of a lease.
    async fn next_due(&self) -> StoreResult<Option<Timestamp>>;
}

/// Writes and reads one run's journal.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Appends events. Rejected unless they follow the last entry, so that a lost append cannot be
    /// skipped; the same applies to the transitions below that name an entry.
    async fn append(&self, append: Append) -> StoreResult<Appended>;
    /// Moves the inbox into the journal as one event; `None` if it is empty.
    async fn take_inbox(
        &self,
        fence: Fence,
        follows: Seq,
        at: Timestamp,
    ) -> StoreResult<Option<JournalEntry>>;
    /// Parks the run until its inbox fills; returns `false` if it is not empty.
    async fn park(&self, park: Park) -> StoreResult<bool>;
    /// Appends the last events and the outcome, frees the lease, puts announcements into the outbox
    /// and cancels descendants, in one transaction.
    async fn finish(&self, finish: Finish) -> StoreResult<Finishing>;
    /// Releases a claimed run to its place in the queue: on shutdown, on a pause, or when its
    /// executor lost a write and the journal has to be loaded again.
    async fn release(&self, fence: Fence, at: Timestamp) -> StoreResult<()>;
    /// Renews leases; reports lost leases, cancellations, pauses and waiting items.
    async fn heartbeat(&self, beat: Heartbeat) -> StoreResult<HeartbeatReport>;
    /// Records whether a rate limit delays the run.
    async fn record_delay(&self, wait: RunDelay) -> StoreResult<()>;
    /// Returns the journal after `after`, checked against its hash chain.
    async fn read(&self, run: RunId, after: Seq) -> StoreResult<Vec<JournalEntry>>;
    /// Returns the beginning of the journal after `after`: at most `max_bytes`, but at least one
    /// entry. Only these entries are checked.
    async fn read_part(
        &self,
        run: RunId,
        after: Seq,
        max_bytes: usize,
    ) -> StoreResult<Vec<JournalEntry>>;
    /// Returns the first entry, checked as far as one entry can be; `None` if the journal was
    /// deleted.
    async fn first(&self, run: RunId) -> StoreResult<Option<JournalEntry>>;
    /// Returns the snapshot of a conversation, if its last run's journal still has the same head.
    async fn snapshot(
        &self,
        session: SessionKey,
        tenant: Option<Tenant>,
    ) -> StoreResult<Option<Snapshot>>;
    /// Replaces the snapshot of a conversation. Returns `false`, and writes nothing, if one of the
    /// journals or the earlier snapshot that it was folded from is gone or has changed.
    async fn save_snapshot(&self, save: SaveSnapshot) -> StoreResult<bool>;
    /// Returns a long output of a run.
    async fn blob(&self, run: RunId, id: &BlobId) -> StoreResult<Option<Vec<u8>>>;
}

/// Deliveries of results to parents and sinks.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Moves due announcements to the inboxes of parents and of the turns of sessions, exactly once.
    async fn deliver(&self, now: Timestamp) -> StoreResult<Vec<Delivered>>;
    /// Returns sessions with results that wait for a turn. The admission of a turn makes them due.
    async fn waiting_sessions(&self) -> StoreResult<Vec<WaitingSession>>;
    /// Counts the results that were not delivered.
    async fn undelivered(&self) -> StoreResult<Undelivered>;
    /// Returns due deliveries to sinks.
    async fn due_outside(&self, now: Timestamp) -> StoreResult<Vec<OutboxEntry>>;
    /// Records the result of a delivery to a sink.
    async fn record_attempt(&self, id: i64, attempt: DeliveryAttempt) -> StoreResult<()>;
    /// Retries a blocked delivery or drops it.
    async fn unblock(&self, run: RunId, choice: Unblock, at: Timestamp) -> StoreResult<()>;
}

/// Letters for receivers outside.
#[async_trait]
pub trait Letters: Send + Sync {
    /// Writes letters. One whose key is known already is left as it is.
    async fn post(&self, letters: Vec<NewLetter>, at: Timestamp) -> StoreResult<()>;
    /// Returns due letters for these receivers, the oldest first; of one queue only the first.
    async fn due_letters(&self, receivers: Vec<String>, now: Timestamp)
    -> StoreResult<Vec<Letter>>;
    /// Records an attempt to deliver a letter. A delivered letter is removed, a blocked one is dead.
    async fn record_letter(&self, id: i64, attempt: DeliveryAttempt) -> StoreResult<()>;
    /// Returns letters in this state, the oldest first.
    async fn letters(&self, state: LetterState, limit: u32) -> StoreResult<Vec<Letter>>;
    /// Counts the letters of each receiver.
    async fn letter_counts(&self) -> StoreResult<Vec<LetterCount>>;
    /// Retries dead letters or drops them: one, or all; returns how many.
    async fn unblock_letters(
        &self,
        id: Option<i64>,
        choice: Unblock,
        at: Timestamp,
    ) -> StoreResult<u64>;
    /// Marks old letters as dead whose receivers this process does not know, and removes old dead ones.
    async fn tidy_letters(&self, known: Vec<String>, at: Timestamp) -> StoreResult<()>;
}

/// Stores approval requests and questions until they have a reply.
#[async_trait]
pub trait Requests: Send + Sync {
    /// Returns requests: the open ones, oldest first; or all, newest first.
    async fn requests(&self, filter: RequestFilter) -> StoreResult<Vec<OpenRequest>>;
    /// Returns the request whose id begins with a prefix.
    async fn find_request(&self, prefix: &str) -> StoreResult<OpenRequest>;
    /// Records a reply and puts it into the run's inbox; the first reply wins. A lasting approval
    /// becomes a grant of the root's session in the same transaction.
    async fn reply(&self, reply: ReplyTo) -> StoreResult<Replied>;
    /// Hands a question that the parent has not answered to a person.
    async fn escalate(&self, request: &RequestId) -> StoreResult<()>;
    /// Takes in the replies and operations that other processes left, and expires requests whose time
    /// is over.
    async fn reconcile(&self, now: Timestamp) -> StoreResult<Reconciled>;
    /// Returns the grants of a session.
    async fn grants(
        &self,
        tenant: Option<&Tenant>,
        session: &SessionKey,
    ) -> StoreResult<Vec<SessionGrant>>;
    /// Revokes one grant of a session, or all if no rule is named.
    async fn revoke(
        &self,
        tenant: Option<&Tenant>,
        session: &SessionKey,
        rule: Option<&str>,
    ) -> StoreResult<u64>;
}

/// Keeps accounts. Every charge is reserved first, so no account is overspent.
#[async_trait]
pub trait Accounts: Send + Sync {
    /// Reserves an amount for a prompt of a run, all or nothing. An earlier reservation of the run
    /// that was never charged counts as charged.
    async fn reserve(&self, reserve: Reserve) -> StoreResult<Reserved>;
    /// Charges up to `wanted` of one kind; returns how much there was.
    async fn charge(&self, fence: Fence, kind: BudgetKind, wanted: u64) -> StoreResult<Charged>;
    /// Returns the balances that a run draws from, one for each limited kind.
    async fn balances(&self, run: RunId) -> StoreResult<Vec<Balance>>;
}

#[async_trait]
pub trait Audit: Send + Sync {
    /// Returns lines in order.
    async fn audit(&self, filter: AuditFilter) -> StoreResult<Vec<AuditLine>>;
    /// Checks the whole chain, and that it contains every journaled tool result.
    async fn verify_audit(&self) -> StoreResult<AuditReport>;
}

/// Archives, deletes and checks old data.
#[async_trait]
pub trait Archive: Send + Sync {
    /// Deletes the record and journal of an ended run and of its ended descendants. Usage and audit
    /// are kept.
    async fn delete(&self, run: RunId) -> StoreResult<Vec<RunRef>>;
    /// Deletes the transcripts of ended runs with `cleanup = delete`, once their results are delivered.
    /// Records, usage and outcome are kept.
    async fn clean(&self, at: Timestamp) -> StoreResult<u64>;
    /// Takes runs that ended before `archive_before` out of the lists and compresses their journals and
    /// outputs, which stay readable. Skips runs with a pending delivery. Returns how many; a call archives
    /// a limited number, so that no other work waits for it.
    async fn archive(&self, archive_before: Timestamp, at: Timestamp) -> StoreResult<u64>;
    /// Deletes the trees that a rule selects. Skips trees with a pending delivery. Usage and audit are
    /// kept.
    async fn delete_ended(&self, rule: RetentionRule) -> StoreResult<Vec<RunRef>>;
    /// Returns the number of runs that [`Archive::delete_ended`] would delete.
    async fn count_ended(&self, rule: RetentionRule) -> StoreResult<u64>;
    /// Checks every journal against its hash chain and every record against its journal.
    async fn verify(&self) -> StoreResult<VerifyReport>;
}

/// Processes that execute the runs of one store.
#[async_trait]
pub trait Workers: Send + Sync {
    /// Returns whether other processes may execute runs of this store at the same time. If not, the
    /// list of workers and the feed stay empty.
    fn is_shared(&self) -> bool;
    /// Returns the present time of the clock of leases. `own` is that of the caller, and the result
    /// where the store is not shared.
    async fn clock(&self, own: Timestamp) -> StoreResult<Timestamp>;
    /// Adds a process to the list of workers, or renews its entry.
    async fn join(&self, join: Join) -> StoreResult<()>;
    /// Removes a process from the list of workers.
    async fn leave(&self, worker: WorkerId) -> StoreResult<()>;
    /// Returns the workers, the oldest first. `at` is by the clock of leases.
    async fn workers(&self, at: Timestamp) -> StoreResult<Vec<WorkerRecord>>;
    /// Reports what [`Journal::heartbeat`] reports, without renewing the leases.
    async fn signals(&self, fences: Vec<Fence>) -> StoreResult<HeartbeatReport>;
    /// Returns what other processes have journaled since a position.
    async fn feed(&self, after: FeedPlace) -> StoreResult<Feed>;
}

/// Weights and quotas of tenants. Admissions, claims and appends of all processes apply them.
#[async_trait]
pub trait Tenants: Send + Sync {
    /// Replaces the weights and quotas of all tenants.
    async fn set_tenants(&self, rules: TenantRules) -> StoreResult<()>;
    /// Returns what tenants use, by name: one of them, or all that are named in the rules or have runs.
    async fn tenants(&self, tenant: Option<Tenant>, at: Timestamp) -> StoreResult<Vec<TenantUse>>;
}
