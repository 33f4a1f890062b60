//! What the process tells its caller: documented in `docs/cli.md`.

use std::process::ExitCode;

use sortie_core::{Outcome, Reason, RunRecord};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Ok = 0,
    /// The run failed, or something that should not happen did.
    Failed = 1,
    /// It was asked in a way that cannot be understood.
    Usage = 2,
    /// The store is in use by another process, or cannot be used.
    Store = 3,
    /// There is no such task or agent.
    NotFound = 4,
    /// The run's deadline passed.
    Timeout = 5,
    /// The request was refused.
    Refused = 6,
    /// It was cancelled: 128 and the number of SIGINT, as shells count.
    Cancelled = 130,
    /// It was told to go; what it ran is back in the queue. 128 and the number of SIGTERM.
    Terminated = 143,
}

impl Exit {
    /// What the state of a run means for whoever waited for it. A run that has not ended is no
    /// failure.
    pub(crate) fn of(record: &RunRecord) -> Self {
        match &record.outcome {
            None | Some(Outcome::Completed { .. }) => Self::Ok,
            Some(Outcome::Failed { reason, .. }) => match reason {
                Reason::Denied => Self::Refused,
                Reason::Error
                | Reason::MaxIterations
                | Reason::Budget
                | Reason::EmptyResult
                | Reason::Schema
                | Reason::Loop
                | Reason::Interrupted => Self::Failed,
            },
            Some(Outcome::Timeout { .. }) => Self::Timeout,
            Some(Outcome::Cancelled { .. }) => Self::Cancelled,
        }
    }

    /// This exit, or the other if this one is a success.
    pub(crate) fn or(self, other: Self) -> Self {
        if self == Self::Ok { other } else { self }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
