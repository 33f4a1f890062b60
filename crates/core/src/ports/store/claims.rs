//! How runs are claimed for execution, and how claims of dead executors are freed.

use crate::event::JournalEntry;
use crate::id::{Fence, RunId};
use crate::ports::store::{EndReport, StoreResult};
use crate::run::{Cancellation, Lane};
use crate::time::Timestamp;

/// Asks for work.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Who asks.
    pub owner: String,
    /// When.
    pub at: Timestamp,
    /// How long the claim holds without a heartbeat.
    pub lease_until: Timestamp,
    /// How many may be claimed at once in each lane.
    pub lanes: Vec<LaneLimit>,
    /// How many children of one parent may be claimed at once.
    pub per_parent: u32,
    /// How many runs of one tree may be claimed at once, in the subagent lane.
    pub per_tree: u32,
    /// Which runs are claimed alone, because their process died.
    pub deaths: DeathLimits,
}

/// How many deaths of its process a run survives.
///
/// Every run that was claimed when the process died is a suspect. Before a limit is reached the
/// run is claimed alone, so only deaths that it caused itself can end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeathLimits {
    /// Deaths without a new journal entry in between, before a run ends as interrupted.
    pub without_progress: u32,
    /// Deaths altogether.
    pub total: u32,
}

/// A lane's limit.
#[derive(Clone, Copy, Debug)]
pub struct LaneLimit {
    /// The lane.
    pub lane: Lane,
    /// How many may be claimed at once.
    pub max_concurrent: u32,
}

/// A claimed run.
#[derive(Debug)]
pub struct Claimed {
    /// The right to write.
    pub fence: Fence,
    /// Its whole journal, the claim included, checked against its hash chain. The error says
    /// whether the journal is damaged ([`crate::ports::store::StoreError::Damaged`]) or could not be read this time.
    pub entries: StoreResult<Vec<JournalEntry>>,
    /// Whether somebody wants it stopped.
    pub cancel: Option<Cancellation>,
    /// Whether there are messages for it.
    pub inbox_waiting: bool,
    /// Whether it is claimed alone: nothing else is claimed until it has made progress.
    pub alone: bool,
}

/// Asks to free leases.
#[derive(Clone, Debug)]
pub struct Recover {
    /// Whose leases.
    pub scope: RecoverScope,
    /// When.
    pub at: Timestamp,
    /// How many deaths a run survives.
    pub deaths: DeathLimits,
}

/// Whose leases to free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoverScope {
    /// All: the caller has just got the store's lock, so the process that had them is dead. Counts
    /// as a death of each run.
    All,
    /// Those whose time is up. Counts as a death.
    Expired,
    /// Those that no executor of this process has: a claim whose commit was reported as failed. The
    /// executors have these claims. Does not count as a death.
    Orphans(Vec<Fence>),
}

/// What recovery found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecoverReport {
    /// Runs that go on.
    pub resumed: Vec<RunId>,
    /// Runs that died too often.
    pub given_up: EndReport,
    /// Other runs that wait in the queue: never started, or given back by a process that shut down.
    pub queued: u64,
    /// Results that wait for delivery.
    pub undelivered: u64,
}
