//! Totals over many runs: states, usage, lanes.

use serde::{Deserialize, Serialize};

use crate::id::SessionKey;
use crate::message::Usage;
use crate::run::{Lane, Status};
use crate::time::Timestamp;

/// How many tasks are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// All of them.
    pub total: u64,
    /// Not started.
    pub pending: u64,
    /// Started, not ended.
    pub running: u64,
    /// Ended with a result.
    pub completed: u64,
    /// Ended without.
    pub failed: u64,
    /// Ended by a deadline.
    pub timeout: u64,
    /// Ended by somebody.
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

/// What runs of one session, agent and model used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsageLine {
    /// The session that asked.
    pub session: SessionKey,
    /// The agent.
    pub agent: String,
    /// The model that answered.
    pub model: String,
    /// How many runs.
    pub runs: u64,
    /// How many of them have no known price.
    pub unpriced: u64,
    /// How many calls they made.
    pub tool_calls: u64,
    /// What they used.
    pub usage: Usage,
}

impl UsageLine {
    /// Where it is among all.
    pub fn place(&self) -> UsagePlace {
        UsagePlace {
            session: self.session.clone(),
            agent: self.agent.clone(),
            model: self.model.clone(),
        }
    }
}

/// A place among lines of usage, which are sorted by these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsagePlace {
    /// The session that asked.
    pub session: SessionKey,
    /// The agent.
    pub agent: String,
    /// The model that answered.
    pub model: String,
}

/// What runs that began in one stretch of time came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UsagePoint {
    /// The beginning of the stretch.
    pub at: Timestamp,
    /// Runs that were admitted in it.
    pub tasks: u64,
    /// Those that completed.
    pub completed: u64,
    /// Those that failed or ran out of time.
    pub failed: u64,
    /// Tokens they read.
    pub input_tokens: u64,
    /// Tokens they wrote.
    pub output_tokens: u64,
    /// Those with an answer whose price is unknown.
    pub unpriced: u64,
    /// What they cost, as far as that is known; `None` if it is known of none of them.
    pub cost_usd: Option<f64>,
}

/// How full a lane is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneCount {
    /// The lane.
    pub lane: Lane,
    /// Runs that somebody executes.
    pub claimed: u64,
    /// Runs that wait for a slot; paused ones do not.
    pub queued: u64,
}
