//! Claims of runs, and recovery of the leases of dead executors.

use crate::event::JournalEntry;
use crate::id::{Fence, RunId};
use crate::ports::store::{EndReport, StoreResult};
use crate::run::{Cancellation, Lane};
use crate::time::Timestamp;
use crate::worker::{Label, WorkerId};

/// Request to claim queued runs.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The process that claims. No two processes have the same name at once.
    pub owner: WorkerId,
    pub at: Timestamp,
    /// When the leases expire unless a heartbeat renews them, by the clock of leases
    /// ([`crate::ports::store::Workers::clock`]).
    pub lease_until: Timestamp,
    /// The lanes to claim from, and how many of their runs this process may have.
    pub lanes: Vec<LaneLimit>,
    /// The labels of this process: runs that require others are left in the queue.
    pub labels: Vec<Label>,
    /// The most children of one parent that may be claimed at once.
    pub per_parent: u32,
    /// The most runs of one tree that may be claimed at once, in the subagent lane.
    pub per_tree: u32,
    /// Decides which runs are claimed alone because their process died.
    pub deaths: DeathLimits,
}

/// How many deaths of its process a run survives.
///
/// Every run that was claimed when the process died is a suspect. Before it reaches a limit it is
/// claimed alone, so only deaths that it caused itself can end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeathLimits {
    /// Deaths without a new journal entry in between, before the run ends as interrupted.
    pub without_progress: u32,
    /// Deaths of the executing process, in total.
    pub total: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct LaneLimit {
    pub lane: Lane,
    pub max_concurrent: u32,
}

#[derive(Debug)]
pub struct Claimed {
    pub fence: Fence,
    /// Its whole journal including the claim, checked against its hash chain. The error tells
    /// whether the journal is damaged ([`crate::ports::store::StoreError::Damaged`]) or could not
    /// be read this time.
    pub entries: StoreResult<Vec<JournalEntry>>,
    pub cancel: Option<Cancellation>,
    pub inbox_waiting: bool,
    /// Whether it is claimed alone: no other run is claimed until it has made progress.
    pub alone: bool,
}

/// Requests the recovery of leases.
#[derive(Clone, Debug)]
pub struct Recover {
    pub scope: RecoverScope,
    pub at: Timestamp,
    pub deaths: DeathLimits,
}

/// Which leases to free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoverScope {
    /// All. Rejected with [`crate::ports::store::StoreError::Locked`] while another process shares
    /// the store: the processes that held these leases are dead or fenced. Counts as a death of
    /// each run.
    All,
    /// Those of earlier front processes ([`crate::worker::Worker::is_front`]), beside workers that
    /// keep theirs. Allowed to the front process: there is only one at a time. Counts as a death.
    Predecessors {
        /// The front process itself.
        owner: WorkerId,
    },
    /// Expired ones: `at` is by the clock of leases. Counts as a death.
    Expired,
    /// Those of this process that no executor of it holds, after a claim whose commit was reported
    /// as failed. Does not count as a death.
    Orphans {
        owner: WorkerId,
        /// The fences that executors hold.
        executed: Vec<Fence>,
    },
}

/// The result of a recovery.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecoverReport {
    /// Runs that are queued again.
    pub resumed: Vec<RunId>,
    /// Runs that reached a death limit.
    pub given_up: EndReport,
    /// Other queued runs: never claimed, or released by a process that shut down.
    pub queued: u64,
    /// Results in the outbox.
    pub undelivered: u64,
}
