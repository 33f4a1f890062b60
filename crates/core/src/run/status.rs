//! The states of a run that interfaces show. Words and spellings are part of the API.

use crate::run::EdgeMode;

words! {
    /// The status of a run. Terminal states are final.
    Status {
        /// Admitted and never claimed.
        Pending = "pending",
        /// Claimed at least once, not ended; see [`WaitingOn`].
        Running = "running",
        Completed = "completed",
        /// Ended without a full result; see [`Reason`].
        Failed = "failed",
        Timeout = "timeout",
        /// Ended by a person, its parent, or the end of its parent.
        Cancelled = "cancelled",
    }
}

impl Status {
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
        /// An error of the model or the runtime that retries did not resolve.
        Error = "error",
        MaxIterations = "max_iterations",
        Budget = "budget",
        /// The model returned no text.
        EmptyResult = "empty_result",
        /// The result does not match the requested schema.
        Schema = "schema",
        /// The model repeated the same call.
        Loop = "loop",
        /// What the run needed was denied.
        Denied = "denied",
        /// The process kept dying while it executed the run.
        Interrupted = "interrupted",
    }
}

words! {
    /// What a running run waits for.
    WaitingOn {
        /// Waits for a completion.
        Model = "model",
        Tool = "tool",
        Approval = "approval",
        Question = "question",
        Children = "children",
        /// A free slot in its lane.
        Slot = "slot",
        /// The provider's rate limit.
        RateLimit = "rate_limit",
    }
}

words! {
    /// Whether the result was delivered; independent of execution.
    Delivery {
        /// No parent or sink receives it.
        NotRequired = "not_required",
        /// In the outbox, or the run has not ended.
        Pending = "pending",
        /// In the parent's inbox or journal, or accepted by a sink.
        Delivered = "delivered",
        /// Delivery failed for good. A person can retry or dismiss it.
        Blocked = "blocked",
    }
}

words! {
    /// A queue with a concurrency limit.
    Lane {
        /// Runs that people start.
        Main = "main",
        /// Runs that other runs start, and background tasks.
        Subagent = "subagent",
    }
}

words! {
    /// The priority of a queued run. Waiting raises every run's effective priority.
    Priority {
        Low = "low",
        Normal = "normal",
        High = "high",
    }
}

words! {
    /// What happens to the transcript of an ended child. Record, usage and audit are always kept.
    Cleanup {
        /// Keep it, also when the run is archived.
        Keep = "keep",
        /// Delete it once the result is delivered.
        Delete = "delete",
    }
}

words! {
    /// How a child's result reaches its parent.
    Announce {
        /// As an announcement that enters the parent's history before its next prompt.
        Steer = "steer",
        /// Not at all; only the record has the result.
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
