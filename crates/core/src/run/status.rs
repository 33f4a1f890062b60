//! The states that people and programs see. Words and spellings are part of the contract.

use crate::run::EdgeMode;

words! {
    /// How far a run has come. Terminal states are sticky.
    Status {
        /// Admitted, never started.
        Pending = "pending",
        /// Started, not ended; see [`WaitingOn`] for what it is doing.
        Running = "running",
        /// Ended with a result.
        Completed = "completed",
        /// Ended without a full result; see [`Reason`].
        Failed = "failed",
        /// Ended by its deadline.
        Timeout = "timeout",
        /// Ended by a person, its parent, or the end of its parent.
        Cancelled = "cancelled",
    }
}

impl Status {
    /// Whether the run can still change.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Pending | Self::Running => false,
            Self::Completed | Self::Failed | Self::Timeout | Self::Cancelled => true,
        }
    }
}

words! {
    /// Why a run failed.
    Reason {
        /// The model or the runtime gave an error that could not be overcome.
        Error = "error",
        /// The iteration cap was reached.
        MaxIterations = "max_iterations",
        /// The budget was used up.
        Budget = "budget",
        /// The model had nothing to say.
        EmptyResult = "empty_result",
        /// The result did not fit the schema asked for.
        Schema = "schema",
        /// The same call was made over and over.
        Loop = "loop",
        /// What the run needed was refused.
        Denied = "denied",
        /// The run kept dying with its process.
        Interrupted = "interrupted",
    }
}

words! {
    /// What a running run waits for.
    WaitingOn {
        /// An answer of the model.
        Model = "model",
        /// A tool.
        Tool = "tool",
        /// A person's approval.
        Approval = "approval",
        /// An answer to its question.
        Question = "question",
        /// Its children.
        Children = "children",
        /// A free slot in its lane.
        Slot = "slot",
        /// The provider's rate limit.
        RateLimit = "rate_limit",
    }
}

words! {
    /// Whether the result has reached whoever asked for it; apart from execution.
    Delivery {
        /// Nobody waits for it.
        NotRequired = "not_required",
        /// In the outbox, or not finished yet.
        Pending = "pending",
        /// Part of its parent, or accepted outside.
        Delivered = "delivered",
        /// Given up; visible, and can be retried or dismissed.
        Blocked = "blocked",
    }
}

words! {
    /// A named queue with a concurrency limit.
    Lane {
        /// Runs that people start.
        Main = "main",
        /// Runs that other runs start, and background tasks.
        Subagent = "subagent",
    }
}

words! {
    /// How urgent a queued run is; waiting makes any run more urgent.
    Priority {
        /// When nothing else is waiting.
        Low = "low",
        /// The default.
        Normal = "normal",
        /// Before the others.
        High = "high",
    }
}

words! {
    /// What happens to the transcript of a finished child. Record, usage and audit always stay.
    Cleanup {
        /// Keep it until it is archived.
        Keep = "keep",
        /// Remove it once the result is delivered.
        Delete = "delete",
    }
}

words! {
    /// How a child's result reaches its parent.
    Announce {
        /// Enters the parent's turn at its next model call.
        Steer = "steer",
        /// Nobody is told; the record has the result.
        Silent = "silent",
    }
}

impl Announce {
    /// Returns the mode of a child. A blocking call is answered by the result, so it cannot be silent.
    pub fn of_child(edge: EdgeMode, requested: Option<Self>) -> Self {
        match edge {
            EdgeMode::Blocking => Self::Steer,
            EdgeMode::Background => requested.unwrap_or(Self::Steer),
        }
    }

    /// Whether the result is delivered to the parent's inbox.
    pub const fn reaches_parent(self) -> bool {
        match self {
            Self::Steer => true,
            Self::Silent => false,
        }
    }

    /// Whether the run continues after its parent has completed. A run whose parent was going to
    /// receive the result is cancelled instead.
    pub const fn outlives_parent(self) -> bool {
        !self.reaches_parent()
    }
}
