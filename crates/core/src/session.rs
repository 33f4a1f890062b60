//! What people see of conversations, of use over time, and of queues.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::id::{RunId, SessionKey};
use crate::run::{Lane, Status};
use crate::tenant::Tenant;
use crate::time::Timestamp;

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
