//! The durable registry. It speaks in transitions, not in rows; each is atomic and durable when it
//! returns, and each that writes for a run is refused when its fence is old.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    Amount, Announcement, AuditEntry, AuditLine, AuditReport, Balance, BlobId, BudgetKind,
    Cancellation, ChangesFate, Claim, Claimed, Event, Fence, Idempotency, InboxItem, JournalEntry,
    LaneCount, OpenRequest, OutboxEntry, Outcome, Priority, Recover, RecoverReport, Reply,
    RequestFilter, RequestId, RunId, RunRecord, RunSpec, Seq, SessionFilter, SessionGrant,
    SessionKey, SessionSummary, Stats, Status, Summary, Tenant, Timestamp, Usage, UsageLine,
    UsagePlace, UsagePoint, WaitingOn,
};

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
    async fn unpause(&self, run: RunId, at: Timestamp) -> StoreResult<PauseReport>;
    /// Frees leases without an executor; see [`crate::RecoverScope`]. A run that keeps killing its process
    /// ends as interrupted.
    async fn recover(&self, recover: Recover) -> StoreResult<RecoverReport>;
    /// Ends runs that wait for children, or rest, past their deadline.
    async fn expire_parked(&self, now: Timestamp) -> StoreResult<EndReport>;
    /// Changes label or priority of a run that waits in the queue.
    async fn update(&self, update: Update) -> StoreResult<()>;
    /// Notes what became of the changes in a run's worktree.
    async fn note_fate(&self, run: RunId, fate: ChangesFate) -> StoreResult<()>;
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
    async fn settle(&self, id: i64, settlement: Settlement, at: Timestamp) -> StoreResult<()>;
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
    async fn escalate(&self, request: &RequestId, at: Timestamp) -> StoreResult<()>;
    /// Takes in what other processes replied, and ends what nobody replied to in time. Returns the
    /// runs that have something in their inbox now, each with its request.
    async fn settle_requests(&self, now: Timestamp) -> StoreResult<Vec<(RunId, RequestId)>>;
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
    async fn spend(&self, fence: Fence, kind: BudgetKind, wanted: u64) -> StoreResult<Spent>;
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

/// Asks to note a reply.
#[derive(Clone, Debug)]
pub struct ReplyTo {
    /// To which request.
    pub request: RequestId,
    /// What is said.
    pub reply: Reply,
    /// When.
    pub at: Timestamp,
}

/// What came of a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Replied {
    /// It is in the run's inbox.
    Noted {
        /// The run.
        run: RunId,
    },
    /// Somebody was faster, or the run has ended.
    TooLate {
        /// What was said before, if anything was.
        earlier: Option<Reply>,
    },
}

/// Asks to set something aside.
#[derive(Clone, Copy, Debug)]
pub struct Reserve {
    /// The right to write.
    pub fence: Fence,
    /// The most that the question can cost.
    pub amount: Amount,
}

/// What came of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// It is set aside. The balances are those before it.
    Granted {
        /// Each kind that is limited.
        balances: Vec<Balance>,
    },
    /// There is not enough, and nothing was set aside.
    Short {
        /// The first kind that is short.
        balance: Balance,
    },
}

/// What came of spending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// How many were there.
    pub granted: u64,
    /// The account after that; `None` if this kind is not limited.
    pub balance: Option<Balance>,
}

/// Which lines of the audit.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Of this run and all below it.
    pub run: Option<RunId>,
    /// Of this tenant.
    pub tenant: Option<Tenant>,
    /// After this place.
    pub after: u64,
    /// At most so many; 0 is no limit.
    pub limit: u32,
}

/// Removes and checks what is old.
#[async_trait]
pub trait Archive: Send + Sync {
    /// Removes the record and journal of an ended run and of its ended descendants.
    async fn delete(&self, run: RunId) -> StoreResult<Vec<About>>;
    /// Removes transcripts that are due: `cleanup = delete` and delivered, or older than
    /// `archive_before`. Records, usage and outcome stay. Never one that still owes a delivery.
    async fn archive(&self, archive_before: Timestamp, at: Timestamp) -> StoreResult<u64>;
    /// Removes records of trees that ended before `before`. Never one that still owes a delivery.
    async fn clean_up(&self, before: Timestamp) -> StoreResult<Vec<About>>;
    /// Checks every journal against its hash chain and the record against the journal.
    async fn verify(&self) -> StoreResult<VerifyReport>;
}

/// Asks for a run.
#[derive(Clone, Debug)]
pub struct Admit {
    /// The id to give it.
    pub run: RunId,
    /// What it is admitted with.
    pub spec: RunSpec,
    /// When.
    pub at: Timestamp,
    /// The parent's right to spawn, checked in the same transaction.
    pub parent: Option<ParentClaim>,
}

/// A parent's right to spawn.
#[derive(Clone, Copy, Debug)]
pub struct ParentClaim {
    /// Its claim.
    pub fence: Fence,
    /// The entry that its journal must have: the child is a consequence of it.
    pub reached: Seq,
}

/// Caps that hold at admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmissionCaps {
    /// Runs in one tree, over its whole life.
    pub max_children_per_tree: u32,
    /// Depth below the root.
    pub max_depth: u32,
}

/// What came of asking for a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Admission {
    /// It was written.
    Admitted {
        /// Its place in the queue, from 1.
        queue_position: u32,
    },
    /// The parent's call already has this one.
    Existing {
        /// The run.
        run: RunId,
    },
    /// Nothing was written.
    Refused(Refusal),
}

/// Why a run was not admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The tree has had all its children.
    TreeFull {
        /// The cap.
        max: u32,
    },
    /// Too deep.
    TooDeep {
        /// The cap.
        max: u32,
    },
    /// The parent has ended or is to be cancelled.
    ParentEnding,
    /// The account that it would draw from has nothing left.
    BudgetSpent {
        /// Of what.
        kind: BudgetKind,
    },
}

/// What a cancel did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CancelReport {
    /// Runs that nobody executed: ended now.
    pub ended: Vec<Ended>,
    /// Runs that an executor holds: it has to stop them.
    pub signalled: Vec<RunId>,
    /// Whether the run had already ended.
    pub already_ended: Option<Status>,
}

/// Who a run is, for those who are told about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The run.
    pub run: RunId,
    /// The session that asked for it.
    pub session: SessionKey,
    /// The first run of its tree.
    pub root: RunId,
    /// The run that asked for it.
    pub parent: Option<RunId>,
    /// Whose it is.
    pub tenant: Option<Tenant>,
    /// The end of its journal.
    pub head: Seq,
}

/// What a pause, or its end, did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PauseReport {
    /// Runs whose record changed.
    pub changed: Vec<About>,
    /// Those of them that an executor holds.
    pub held: Vec<RunId>,
}

/// A run that ended, for notifications.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// The run.
    pub run: RunId,
    /// The session that asked for it.
    pub session: SessionKey,
    /// The first run of its tree.
    pub root: RunId,
    /// The run that asked for it.
    pub parent: Option<RunId>,
    /// Whose it is.
    pub tenant: Option<Tenant>,
    /// The end of its journal.
    pub head: Seq,
    /// How.
    pub outcome: Outcome,
}

/// What ended, and what has to be stopped because of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndReport {
    /// Runs that ended in the transaction.
    pub ended: Vec<Ended>,
    /// Descendants that an executor holds: it has to stop them.
    pub signalled: Vec<RunId>,
}

/// Asks to change how a queued run waits; `None` leaves a thing as it is.
#[derive(Clone, Debug)]
pub struct Update {
    /// The run.
    pub run: RunId,
    /// What people call it.
    pub label: Option<String>,
    /// How urgent it is.
    pub priority: Option<Priority>,
    /// When.
    pub at: Timestamp,
}

/// Asks to add events.
#[derive(Clone, Debug)]
pub struct Append {
    /// The right to write.
    pub fence: Fence,
    /// The entry that the events follow.
    pub follows: Seq,
    /// When.
    pub at: Timestamp,
    /// The facts.
    pub events: Vec<Event>,
    /// The record after them.
    pub summary: Summary,
    /// Long outputs that the facts refer to.
    pub blobs: Vec<Blob>,
    /// What happened to calls.
    pub audit: Vec<AuditEntry>,
    /// What the question under way really cost: settles what was set aside for it.
    pub spent: Option<Amount>,
}

/// A long output.
#[derive(Clone, Debug)]
pub struct Blob {
    /// Its name.
    pub id: BlobId,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// What an append tells the writer.
#[derive(Clone, Debug, PartialEq)]
pub struct Appended {
    /// The end of the journal.
    pub head: Seq,
    /// Whether there is something in the inbox.
    pub inbox_waiting: bool,
    /// Whether somebody wants the run stopped.
    pub cancel: Option<Cancellation>,
    /// Whether somebody wants the run to rest.
    pub paused: bool,
}

/// Asks to give a run up until its inbox fills.
#[derive(Clone, Debug)]
pub struct Park {
    /// The right to write.
    pub fence: Fence,
    /// The last entry that the holder knows of.
    pub follows: Seq,
    /// When.
    pub at: Timestamp,
    /// What it waits for.
    pub waiting_on: WaitingOn,
}

/// Says that a run which an executor holds waits for its provider, or no longer does. Not a fact
/// about the run, so nothing of it is journaled.
#[derive(Clone, Copy, Debug)]
pub struct Hold {
    /// The right to write.
    pub fence: Fence,
    /// Its place among the questions to the same model; `None` when it goes on.
    pub position: Option<u32>,
}

/// Asks to end a run.
#[derive(Clone, Debug)]
pub struct Finish {
    /// The right to write.
    pub fence: Fence,
    /// The entry that the events follow.
    pub follows: Seq,
    /// When.
    pub at: Timestamp,
    /// Facts before the end.
    pub events: Vec<Event>,
    /// Long outputs that the facts refer to.
    pub blobs: Vec<Blob>,
    /// The record at the end.
    pub summary: Summary,
    /// How it ended.
    pub outcome: Outcome,
    /// What happened to calls.
    pub audit: Vec<AuditEntry>,
    /// Whether it ends before it has taken its messages.
    pub unread: Unread,
}

/// What becomes of messages that an ending run has not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The run does not end before it has taken them.
    First,
    /// They go into its journal, for whoever goes on from it: it cannot answer them any more.
    Kept,
}

/// What came of ending a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Finishing {
    /// It ended.
    Ended(EndReport),
    /// It did not, and nothing was written: there are messages that it has not taken.
    Unread,
}

/// Renews leases.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    /// The claims.
    pub fences: Vec<Fence>,
    /// Their new end.
    pub lease_until: Timestamp,
}

/// What a heartbeat found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeartbeatReport {
    /// Claims that no longer hold.
    pub lost: Vec<RunId>,
    /// Runs that somebody wants stopped.
    pub cancelled: Vec<(RunId, Cancellation)>,
    /// Runs with something in the inbox.
    pub inbox_waiting: Vec<RunId>,
    /// Runs that somebody wants to rest.
    pub paused: Vec<RunId>,
}

/// A delivery inside the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivered {
    /// The child.
    pub announcement: Announcement,
    /// The session that asked for the child.
    pub session: SessionKey,
    /// The first run of the tree.
    pub root: RunId,
    /// Whose it is.
    pub tenant: Option<Tenant>,
    /// The end of the child's journal.
    pub head: Seq,
    /// The parent.
    pub parent: RunId,
    /// `false` if the parent had ended: the delivery is blocked, and visible.
    pub accepted: bool,
}

/// How an outside delivery went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// It was accepted.
    Delivered,
    /// It was not; try again then.
    Retry {
        /// When.
        at: Timestamp,
        /// Why not.
        error: String,
    },
    /// It is given up, visibly.
    Blocked {
        /// Why.
        error: String,
    },
}

/// What to do about a blocked delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unblock {
    /// Try again.
    Retry,
    /// Nobody needs it any more.
    Dismiss,
}

/// Which runs.
#[derive(Clone, Debug, Default)]
pub struct ListFilter {
    /// Of this session.
    pub session: Option<SessionKey>,
    /// In one of these states; any if there are none.
    pub statuses: Vec<Status>,
    /// Children of this run.
    pub parent: Option<RunId>,
    /// Of this tree.
    pub root: Option<RunId>,
    /// Only the first runs of trees.
    pub roots_only: bool,
    /// Of this agent.
    pub agent: Option<String>,
    /// Of this tenant.
    pub tenant: Option<Tenant>,
    /// With this text in label or task, or with an id that begins with it.
    pub text: Option<String>,
    /// Made before this one.
    pub before: Option<RunId>,
    /// Made after this one.
    pub after: Option<RunId>,
    /// The oldest are first, not the newest.
    pub oldest_first: bool,
    /// One of these; any if there are none.
    pub runs: Vec<RunId>,
    /// Archived ones too.
    pub archived: bool,
    /// At most so many; 0 is no limit.
    pub limit: u32,
}

/// What a check of the store found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VerifyReport {
    /// Journals read.
    pub runs: u64,
    /// Entries read.
    pub entries: u64,
    /// What is wrong, one sentence each.
    pub problems: Vec<String>,
}
