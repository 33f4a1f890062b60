//! How a run ended. Written once, never changed.

use serde::{Deserialize, Serialize};

use crate::run::{Reason, Status};

/// The terminal state of a run, with what only that state has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Outcome {
    /// It did its work.
    Completed {
        /// The final text.
        text: String,
    },
    /// It did not.
    Failed {
        /// Why, as a word.
        reason: Reason,
        /// Why, as a sentence.
        message: String,
        /// What it had by then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partial: Option<String>,
    },
    /// Its deadline passed.
    Timeout {
        /// The time it was given.
        limit_ms: u64,
        /// What it had by then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partial: Option<String>,
    },
    /// It was stopped.
    Cancelled {
        /// Who stopped it, and why.
        cancellation: Cancellation,
        /// What it had by then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partial: Option<String>,
    },
}

impl Outcome {
    /// The status this outcome gives a run.
    pub const fn status(&self) -> Status {
        match self {
            Self::Completed { .. } => Status::Completed,
            Self::Failed { .. } => Status::Failed,
            Self::Timeout { .. } => Status::Timeout,
            Self::Cancelled { .. } => Status::Cancelled,
        }
    }

    /// Why it failed, if it did.
    pub const fn reason(&self) -> Option<Reason> {
        match self {
            Self::Failed { reason, .. } => Some(*reason),
            Self::Completed { .. } | Self::Timeout { .. } | Self::Cancelled { .. } => None,
        }
    }

    /// The final or partial text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Completed { text } => Some(text),
            Self::Failed { partial, .. }
            | Self::Timeout { partial, .. }
            | Self::Cancelled { partial, .. } => partial.as_deref(),
        }
    }

    /// What went wrong, as a sentence.
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

/// Who wants a run stopped, and why. A durable intent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancellation {
    /// Who asked.
    pub by: CancelledBy,
    /// Why.
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

/// Who wants a run stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelledBy {
    /// Somebody at the command line or an API.
    Person,
    /// The run that spawned it, by its `subagents` tool.
    Parent,
    /// Nobody in particular: its parent ended, so nobody waits for it.
    ParentEnded,
}
