//! The outcome of a run. Written once, never changed.

use serde::{Deserialize, Serialize};

use crate::check::Checked;
use crate::run::{Reason, Status};

/// The terminal state of a run, with the fields of that state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Outcome {
    Completed {
        text: String,
        /// The checks of the result, if it has some.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checked: Option<Checked>,
    },
    Failed {
        reason: Reason,
        /// The failure, as one sentence.
        message: String,
        /// The last text of the model, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partial: Option<String>,
    },
    Timeout {
        /// The time that was allowed.
        limit_ms: u64,
        /// The last text of the model, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partial: Option<String>,
    },
    Cancelled {
        cancellation: Cancellation,
        /// The last text of the model, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partial: Option<String>,
    },
}

impl Outcome {
    pub const fn status(&self) -> Status {
        match self {
            Self::Completed { .. } => Status::Completed,
            Self::Failed { .. } => Status::Failed,
            Self::Timeout { .. } => Status::Timeout,
            Self::Cancelled { .. } => Status::Cancelled,
        }
    }

    /// Returns the reason of a failure.
    pub const fn reason(&self) -> Option<Reason> {
        match self {
            Self::Failed { reason, .. } => Some(*reason),
            Self::Completed { .. } | Self::Timeout { .. } | Self::Cancelled { .. } => None,
        }
    }

    /// Returns the final or partial text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Completed { text, .. } => Some(text),
            Self::Failed { partial, .. }
            | Self::Timeout { partial, .. }
            | Self::Cancelled { partial, .. } => partial.as_deref(),
        }
    }

    /// Returns the checks of a result.
    pub const fn checked(&self) -> Option<&Checked> {
        match self {
            Self::Completed { checked, .. } => checked.as_ref(),
            Self::Failed { .. } | Self::Timeout { .. } | Self::Cancelled { .. } => None,
        }
    }

    /// Returns what went wrong, as a sentence.
    pub fn error(&self) -> Option<String> {
        match self {
            Self::Completed { .. } => None,
            Self::Failed { message, .. } => Some(message.clone()),
            Self::Timeout { limit_ms, .. } => Some(format!(
                "the deadline passed: {:.1} s were given",
                *limit_ms as f64 / 1000.0
            )),
            Self::Cancelled { cancellation, .. } => Some(cancellation.to_string()),
        }
    }
}

/// A durable request to stop a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancellation {
    pub by: CancelledBy,
    pub reason: String,
}

impl std::fmt::Display for Cancellation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let who = match self.by {
            CancelledBy::Person => "a person",
            CancelledBy::Parent => "its parent",
            CancelledBy::ParentEnded => "the end of its parent",
        };
        write!(f, "cancelled by {who}: {}", self.reason)
    }
}

/// Who requested a cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelledBy {
    /// A person, through the command line or the API.
    Person,
    /// The parent run, by its `subagents` tool.
    Parent,
    /// The store: the parent ended, so no run waits for the result.
    ParentEnded,
}
