//! Why a request is refused.

use sortie_core::time::Timestamp;

/// A request that was refused. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What is wrong, for programs to match on.
    pub reason: RefusalReason,
    /// What is wrong and what to do, for people and models.
    pub message: String,
}

/// What is wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalReason {
    UnknownAgent,
    /// The configuration or the parent's policy does not let this agent be sent out.
    AgentNotAllowed,
    ModelNotAllowed,
    UnknownTool,
    /// Policy takes every tool away from the agent.
    NoToolLeft,
    SubagentsDisabled,
    /// The path of the workspace contains a symbolic link.
    WorkspaceLinked,
    /// A folder of skills cannot be read.
    Skills,
    InvalidSchema,
    /// There are too many checks, or one is too long.
    InvalidChecks,
    /// The context fork does not fit the rest of the request, or there is nothing to fork.
    InvalidFork,
    EmptyTask,
    TaskTooLong,
    MessageTooLong,
    /// A limit on depth, tree size or budget is reached, or the parent ends.
    LimitReached,
    /// A quota of the tenant is reached.
    QuotaReached {
        /// When the day or month of the quota ends; `None` if it frees up by itself.
        resets_at: Option<Timestamp>,
    },
    /// The operation needs a task that has ended.
    StillRunning,
    /// The journal of the task was deleted.
    NoJournal,
    /// The task has no event of this number to fork from.
    UnknownForkPoint,
    /// The task has no worktree, or changed nothing in it.
    NoChanges,
    /// The worktree could not be read or applied.
    Worktree,
    /// A computation of the runtime failed.
    Internal,
}

impl Refusal {
    pub(crate) fn new(reason: RefusalReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }
}
