//! Reports about runs that were cancelled, paused, updated or ended.

use crate::id::{RunId, Seq, SessionKey};
use crate::run::{Outcome, Priority, Status};
use crate::tenant::Tenant;
use crate::time::Timestamp;

/// What a cancel did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CancelReport {
    /// Runs that nobody executed: ended now.
    pub ended: Vec<Ended>,
    /// Runs that an executor holds: it has to stop them.
    pub signalled: Vec<RunId>,
    /// Whether the run had already ended.
    pub already_ended: Option<Status>,
}

/// Who a run is, for those who are told about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRef {
    /// The run.
    pub run: RunId,
    /// The session that asked for it.
    pub session: SessionKey,
    /// The first run of its tree.
    pub root: RunId,
    /// The run that asked for it.
    pub parent: Option<RunId>,
    /// Whose it is.
    pub tenant: Option<Tenant>,
    /// The end of its journal.
    pub head: Seq,
}

/// What a pause, or its end, did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PauseReport {
    /// Runs whose record changed.
    pub changed: Vec<RunRef>,
    /// Those of them that an executor holds.
    pub held: Vec<RunId>,
}

/// A run that ended, for notifications.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// The run.
    pub run: RunId,
    /// The session that asked for it.
    pub session: SessionKey,
    /// The first run of its tree.
    pub root: RunId,
    /// The run that asked for it.
    pub parent: Option<RunId>,
    /// Whose it is.
    pub tenant: Option<Tenant>,
    /// The end of its journal.
    pub head: Seq,
    /// How.
    pub outcome: Outcome,
}

/// What ended, and what has to be stopped because of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndReport {
    /// Runs that ended in the transaction.
    pub ended: Vec<Ended>,
    /// Descendants that an executor holds: it has to stop them.
    pub signalled: Vec<RunId>,
}

/// Asks to change how a queued run waits; `None` leaves a thing as it is.
#[derive(Clone, Debug)]
pub struct Update {
    /// The run.
    pub run: RunId,
    /// What people call it.
    pub label: Option<String>,
    /// How urgent it is.
    pub priority: Option<Priority>,
    /// When.
    pub at: Timestamp,
}
