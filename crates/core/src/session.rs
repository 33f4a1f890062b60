//! Sessions, as interfaces list them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::id::{RunId, SessionKey};
use crate::run::Status;
use crate::tenant::Tenant;
use crate::time::Timestamp;

/// The length of a session's title, taken from its first message.
pub const TITLE_CHARS: usize = 120;

/// A conversation: the main runs of one session of one tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSummary {
    pub session: SessionKey,
    pub tenant: Option<Tenant>,
    /// The workspace of its last turn.
    pub workspace: PathBuf,
    /// The beginning of its first message.
    pub title: String,
    /// The number of turns.
    pub turns: u64,
    /// The run of its last turn.
    pub last: RunId,
    pub last_status: Status,
    /// When the last turn began; lists are sorted by it.
    pub last_at: Timestamp,
    pub agent: String,
    pub model: String,
    /// The cost of all turns and their ended descendants; `None` if a part of it is unknown.
    pub cost_usd: Option<f64>,
}

#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    pub tenant: Option<Tenant>,
    pub session: Option<SessionKey>,
    /// Sessions that come after this position.
    pub after: Option<SessionPlace>,
    /// The page size; 0 is unlimited.
    pub limit: u32,
}

/// The position of a session in a list that begins with the latest turn. Several sessions may have
/// begun their last turn in the same millisecond, so the time alone does not identify one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPlace {
    pub last_at: Timestamp,
    pub session: SessionKey,
    pub tenant: Option<Tenant>,
}

impl SessionSummary {
    /// Returns its position in a list.
    pub fn place(&self) -> SessionPlace {
        SessionPlace {
            last_at: self.last_at,
            session: self.session.clone(),
            tenant: self.tenant.clone(),
        }
    }
}
