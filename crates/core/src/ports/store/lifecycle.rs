//! Reports about runs that were cancelled, paused, updated or ended.

use crate::id::{RunId, Seq, SessionKey};
use crate::run::{Cleanup, Outcome, Priority, Status};
use crate::tenant::Tenant;
use crate::time::Timestamp;

/// The result of a cancellation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CancelReport {
    /// Runs without a lease: ended now.
    pub ended: Vec<Ended>,
    /// Runs with a lease: their executor has to stop them.
    pub signalled: Vec<RunId>,
    /// The status of a run that had already ended, if none of its descendants was active.
    pub already_ended: Option<Status>,
}

/// The ids of a run that notifications about it carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRef {
    pub run: RunId,
    pub session: SessionKey,
    pub root: RunId,
    pub parent: Option<RunId>,
    pub tenant: Option<Tenant>,
    /// The last position of its journal.
    pub head: Seq,
}

/// The result of a pause or a resume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PauseReport {
    pub changed: Vec<RunRef>,
    /// Changed runs with a lease.
    pub leased: Vec<RunId>,
}

/// A run that ended, for notifications.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    pub run: RunId,
    pub session: SessionKey,
    pub root: RunId,
    pub parent: Option<RunId>,
    pub tenant: Option<Tenant>,
    /// The last position of its journal.
    pub head: Seq,
    pub outcome: Outcome,
    pub cleanup: Cleanup,
}

/// Runs that ended, and runs that have to be stopped because of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndReport {
    pub ended: Vec<Ended>,
    /// Descendants with a lease: their executor has to stop them.
    pub signalled: Vec<RunId>,
}

/// Changes a queued run; `None` leaves a field as it is.
#[derive(Clone, Debug)]
pub struct Update {
    pub run: RunId,
    pub label: Option<String>,
    pub priority: Option<Priority>,
    pub at: Timestamp,
}
