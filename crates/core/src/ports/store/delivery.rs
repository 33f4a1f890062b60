//! Delivery of results from the outbox.

use std::path::PathBuf;

use crate::hook::LetterState;
use crate::id::{RunId, Seq, SessionKey};
use crate::inbox::Announcement;
use crate::run::Cleanup;
use crate::tenant::Tenant;
use crate::time::Timestamp;

/// The attempt to deliver a result inside the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivered {
    pub announcement: Announcement,
    pub session: SessionKey,
    pub root: RunId,
    pub tenant: Option<Tenant>,
    /// The last position of the child's journal.
    pub head: Seq,
    /// The child's parent.
    pub parent: Option<RunId>,
    pub cleanup: Cleanup,
    pub receipt: Receipt,
}

/// The result of a delivery inside the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// It is in the inbox of this run: the parent, or a turn of the session.
    Accepted { by: RunId },
    /// No turn of its session is active. The next one receives it.
    Waiting,
    /// The parent had ended or was deleted.
    Blocked,
}

/// A session with results that wait for a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingSession {
    pub session: SessionKey,
    pub tenant: Option<Tenant>,
    /// The folder in which the turn has to work, if that matters.
    pub workspace: Option<PathBuf>,
}

/// Results that were not delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Undelivered {
    /// Deliveries that are due, or will be retried.
    pub pending: u64,
    /// Runs with a delivery that is not retried, without archived ones.
    pub blocked: u64,
}

/// The result of an attempt to deliver to a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryAttempt {
    Delivered,
    /// Not accepted; retry at `at`.
    Retry {
        at: Timestamp,
        error: String,
    },
    /// Not accepted, and not retried.
    Blocked {
        error: String,
    },
}

/// What to do about a blocked delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unblock {
    Retry,
    /// Drops the delivery for good.
    Dismiss,
}

/// The letters for one receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LetterCount {
    pub receiver: String,
    pub state: LetterState,
    pub letters: u64,
}
