//! The exit codes, documented in `docs/cli.md`.

use std::process::ExitCode;

use sortie_core::run::{Outcome, Reason, RunRecord};

/// The exit code of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Ok = 0,
    /// The run failed, or an unexpected error occurred.
    Failed = 1,
    /// The arguments are invalid.
    Usage = 2,
    /// The store is in use by another process, or cannot be used.
    Store = 3,
    /// There is no such task or agent.
    NotFound = 4,
    /// The run's deadline passed.
    Timeout = 5,
    /// The request was refused.
    Refused = 6,
    /// The run was cancelled: 128 plus the number of SIGINT, as in shells.
    Cancelled = 130,
    /// The process was terminated, and its runs are back in the queue: 128 plus the number of
    /// SIGTERM.
    Terminated = 143,
}

impl Exit {
    /// Returns the exit code for the state of a run. A run that has not ended is no failure.
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

    /// Returns this code, or the other one if this is a success.
    pub(crate) fn or(self, other: Self) -> Self {
        if self == Self::Ok { other } else { self }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
