//! Requests that a claimed run's executor makes: append, park, finish, heartbeat.

use crate::audit::AuditEntry;
use crate::budget::Amount;
use crate::event::Event;
use crate::id::{BlobId, Fence, RunId, Seq};
use crate::ports::store::EndReport;
use crate::run::{Cancellation, Outcome, Summary, WaitingOn};
use crate::time::Timestamp;

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
