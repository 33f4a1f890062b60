//! Requests of the executor that holds a run's lease: append, park, finish, heartbeat.

use crate::audit::AuditEntry;
use crate::budget::Amount;
use crate::event::Event;
use crate::hook::NewLetter;
use crate::id::{BlobId, Fence, RunId, Seq};
use crate::ports::store::EndReport;
use crate::run::{Cancellation, Outcome, Summary, WaitingOn};
use crate::time::Timestamp;

/// Appends events to a journal.
#[derive(Clone, Debug)]
pub struct Append {
    pub fence: Fence,
    /// The last entry that the executor knows of; the events follow it.
    pub follows: Seq,
    pub at: Timestamp,
    pub events: Vec<Event>,
    /// The record's summary after the events.
    pub summary: Summary,
    /// Long outputs that the events refer to.
    pub blobs: Vec<Blob>,
    pub audit: Vec<AuditEntry>,
    /// The real cost of the completed prompt: charged instead of the reservation.
    pub spent: Option<Amount>,
    /// Messages for receivers outside about the events.
    pub letters: Vec<NewLetter>,
}

/// A long output, stored outside the journal.
#[derive(Clone, Debug)]
pub struct Blob {
    pub id: BlobId,
    pub bytes: Vec<u8>,
}

/// The folded history of a conversation up to a run. A copy: the journals stay the truth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The last run that it contains.
    pub run: RunId,
    /// The head of that run's journal.
    pub head: Seq,
    /// The history, as the runtime encoded it.
    pub body: Vec<u8>,
}

/// Saves a snapshot.
#[derive(Clone, Debug)]
pub struct SaveSnapshot {
    pub snapshot: Snapshot,
    /// The last run of the snapshot that this one continues.
    pub base: Option<RunId>,
    /// The runs whose journals were folded into it. All are roots of one session and tenant.
    pub folded: Vec<RunId>,
}

/// The result of an append.
#[derive(Clone, Debug, PartialEq)]
pub struct Appended {
    /// The last position of the journal.
    pub head: Seq,
    pub inbox_waiting: bool,
    pub cancel: Option<Cancellation>,
    pub paused: bool,
    /// Whether a quota of the tenant on tokens or money is used up: the run has to be released until
    /// the day or month ends.
    pub over_quota: bool,
}

/// Parks a run until its inbox fills.
#[derive(Clone, Debug)]
pub struct Park {
    pub fence: Fence,
    /// The last entry that the executor knows of.
    pub follows: Seq,
    pub at: Timestamp,
    pub waiting_on: WaitingOn,
}

/// Records that a rate limit delays a leased run, or no longer does. Not an event, so it is not
/// journaled.
#[derive(Clone, Copy, Debug)]
pub struct RunDelay {
    pub fence: Fence,
    /// Its position among the prompts to the same model; `None` when it is no longer delayed.
    pub position: Option<u32>,
}

/// Request to end a run.
#[derive(Clone, Debug)]
pub struct Finish {
    pub fence: Fence,
    /// The last entry that the executor knows of; the events follow it.
    pub follows: Seq,
    pub at: Timestamp,
    /// Events before the end.
    pub events: Vec<Event>,
    /// Long outputs that the events refer to.
    pub blobs: Vec<Blob>,
    /// The record's summary at the end.
    pub summary: Summary,
    pub outcome: Outcome,
    pub audit: Vec<AuditEntry>,
    pub unread: Unread,
}

/// What happens to inbox items that an ending run has not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The run does not end before it has read them.
    First,
    /// They are appended to its journal for a run that continues it; this run cannot answer them
    /// any more.
    Kept,
}

/// The result of ending a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Finishing {
    Ended(EndReport),
    /// The run did not end and nothing was written: its inbox is not empty.
    Unread,
}

/// Request to renew the leases of runs.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    pub fences: Vec<Fence>,
    /// When the leases expire, by the clock of leases.
    pub lease_until: Timestamp,
}

/// The result of a heartbeat.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeartbeatReport {
    /// Runs whose fence is no longer valid.
    pub lost: Vec<RunId>,
    /// Runs with a cancellation.
    pub cancelled: Vec<(RunId, Cancellation)>,
    /// Runs with items in the inbox.
    pub inbox_waiting: Vec<RunId>,
    pub paused: Vec<RunId>,
}
