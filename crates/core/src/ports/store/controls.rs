//! What a process asks of runs that another process executes.

use serde::{Deserialize, Serialize};

use super::{CancelReport, PauseReport};
use crate::id::RunId;
use crate::request::RequestId;
use crate::run::{Cancellation, Status};
use crate::time::Timestamp;

/// An operation on a run, left in the mailbox of the process that owns the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "control", rename_all = "snake_case")]
pub enum Control {
    /// Cancels the run and its descendants.
    Cancel { reason: String },
    /// Pauses the run and its descendants.
    Pause,
    /// Resumes the run and its descendants.
    Resume,
    /// Sends the run a message of a person.
    Steer { text: String },
}

/// Request to leave an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveControl {
    pub run: RunId,
    pub control: Control,
    pub at: Timestamp,
}

/// The operation is in the mailbox, unless there was nothing to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftControl {
    /// Its place in the mailbox; `None` if there is nothing to do.
    pub mail: Option<i64>,
    /// The run and its descendants, as far as they are active.
    pub active: Vec<RunId>,
    /// The status of a run that has ended.
    pub already_ended: Option<Status>,
}

/// What the mailbox and the expiry of requests changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reconciled {
    /// Runs that have a reply in their inbox, each with its request.
    pub replied: Vec<(RunId, RequestId)>,
    /// Operations that were applied, oldest first.
    pub controlled: Vec<(RunId, Controlled)>,
}

/// An operation of another process that was applied.
#[derive(Clone, Debug, PartialEq)]
pub enum Controlled {
    Cancelled {
        cancellation: Cancellation,
        report: CancelReport,
    },
    Paused(PauseReport),
    Resumed(PauseReport),
    Steered,
}
