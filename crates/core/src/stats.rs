//! Totals over many runs: states, usage, lanes.

use serde::{Deserialize, Serialize};

use crate::id::SessionKey;
use crate::message::Usage;
use crate::run::{Lane, Status};
use crate::time::Timestamp;

/// Counts of runs for each status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    pub total: u64,
    pub pending: u64,
    pub running: u64,
    pub completed: u64,
    pub failed: u64,
    pub timeout: u64,
    pub cancelled: u64,
}

impl Stats {
    /// Counts `count` more runs in `status`.
    pub fn add(&mut self, status: Status, count: u64) {
        self.total += count;
        match status {
            Status::Pending => self.pending += count,
            Status::Running => self.running += count,
            Status::Completed => self.completed += count,
            Status::Failed => self.failed += count,
            Status::Timeout => self.timeout += count,
            Status::Cancelled => self.cancelled += count,
        }
    }
}

/// The usage of all runs of one session, agent and model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsageLine {
    pub session: SessionKey,
    pub agent: String,
    pub model: String,
    pub runs: u64,
    /// Runs with a completion of unknown cost.
    pub unpriced: u64,
    pub tool_calls: u64,
    pub usage: Usage,
}

impl UsageLine {
    /// Returns its position in a list.
    pub fn place(&self) -> UsagePlace {
        UsagePlace {
            session: self.session.clone(),
            agent: self.agent.clone(),
            model: self.model.clone(),
        }
    }
}

/// The position of a usage line; lists are sorted by these fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsagePlace {
    pub session: SessionKey,
    pub agent: String,
    pub model: String,
}

/// Usage of the runs that were admitted in one interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UsagePoint {
    /// The beginning of the interval.
    pub at: Timestamp,
    pub tasks: u64,
    pub completed: u64,
    /// Runs that failed or reached their deadline.
    pub failed: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Runs with a completion of unknown cost.
    pub unpriced: u64,
    /// The sum of all known costs; `None` if none is known.
    pub cost_usd: Option<f64>,
}

/// How full a lane is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneCount {
    pub lane: Lane,
    /// Runs with a lease.
    pub claimed: u64,
    /// Runs that wait for a slot, without paused ones.
    pub queued: u64,
}
