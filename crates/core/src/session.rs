//! What people see of conversations, of use over time, and of queues.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Lane, RunId, SessionKey, Status, Tenant, Timestamp};

/// How many characters of the first message become a session's title.
pub const TITLE_CHARS: usize = 120;

/// A conversation: the main runs of one session of one tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSummary {
    /// The session.
    pub session: SessionKey,
    /// Whose it is.
    pub tenant: Option<Tenant>,
    /// The folder that its last turn works in.
    pub workspace: PathBuf,
    /// The beginning of its first message.
    pub title: String,
    /// How many turns it has.
    pub turns: u64,
    /// Its last turn.
    pub last: RunId,
    /// How far that is.
    pub last_status: Status,
    /// When it began; sessions are sorted by this.
    pub last_at: Timestamp,
    /// The agent of the last turn.
    pub agent: String,
    /// The model of the last turn.
    pub model: String,
    /// What all turns and their ended descendants cost; `None` if a part of it is unknown.
    pub cost_usd: Option<f64>,
}

/// Which sessions.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    /// Of this tenant.
    pub tenant: Option<Tenant>,
    /// Only this one.
    pub session: Option<SessionKey>,
    /// Those that come after this one.
    pub after: Option<SessionPlace>,
    /// At most so many; 0 is no limit.
    pub limit: u32,
}

/// A place among sessions, the one with the latest turn first. Several may have begun their last turn
/// in the same millisecond, so the time alone is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPlace {
    /// When the last turn began.
    pub last_at: Timestamp,
    /// The session.
    pub session: SessionKey,
    /// Whose it is.
    pub tenant: Option<Tenant>,
}

impl SessionSummary {
    /// Where it is among all.
    pub fn place(&self) -> SessionPlace {
        SessionPlace {
            last_at: self.last_at,
            session: self.session.clone(),
            tenant: self.tenant.clone(),
        }
    }
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
