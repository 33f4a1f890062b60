//! Live events of runs, which the runtime publishes to its subscribers.
//!
//! One type for every channel: a subscriber in the same process, `sortie run --stream-json`, the
//! WebSocket and server-sent events see the same JSON. An event is a hint: the record in the store is
//! authoritative, and a subscriber that missed events reads the records again.

use serde::{Deserialize, Serialize};
use sortie_base::truncate::truncate_in_place;

use crate::budget::Balance;
use crate::id::{RunId, Seq, SessionKey};
use crate::request::RequestId;
use crate::request_view::RequestView;
use crate::run::{Delivery, WaitingOn};
use crate::tenant::Tenant;
use crate::time::Timestamp;

/// Maximum number of characters of a result, a text or an error in an event. The record has the whole
/// text.
pub const MAX_EVENT_CHARS: usize = 4_000;

/// A live event of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Notification {
    /// The task.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub task_id: RunId,
    /// The session of the task.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub session_id: SessionKey,
    /// The root of its tree.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub root_id: RunId,
    /// The task that started it; null for a root.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, required))]
    pub parent_id: Option<RunId>,
    /// The tenant of the task.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, required))]
    pub tenant: Option<Tenant>,
    /// The sequence number of the task's last journal entry when the event was published.
    #[serde(rename = "task_seq")]
    #[cfg_attr(feature = "openapi", schema(value_type = i64))]
    pub seq: Seq,
    /// When the event was published.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub kind: NotificationKind,
}

impl Notification {
    /// Truncates the texts of the event to [`MAX_EVENT_CHARS`] characters.
    #[must_use]
    pub fn truncated(mut self) -> Self {
        if let NotificationKind::Retrying { error: text, .. }
        | NotificationKind::Said { text }
        | NotificationKind::Completed { result: text }
        | NotificationKind::Failed { error: text }
        | NotificationKind::Timeout { error: text }
        | NotificationKind::Cancelled { error: text } = &mut self.kind
        {
            truncate_in_place(text, MAX_EVENT_CHARS);
        }
        self
    }
}

/// What happened to a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum NotificationKind {
    /// The task was admitted and waits for a slot.
    Queued {
        /// The agent of the task.
        agent: String,
        /// The label of the task.
        label: String,
    },
    /// The task was claimed for the first time.
    Started {
        /// The agent of the task.
        agent: String,
        /// The label of the task.
        label: String,
    },
    /// The task's progress grew.
    Progress {
        /// From 0 to 100.
        progress: u8,
        /// Tool calls so far.
        tool_calls: u32,
    },
    /// The task called a tool.
    Tool {
        /// The name of the tool.
        tool: String,
        /// Tool calls before this one.
        tool_calls: u32,
    },
    /// The task waits for the provider's rate limit, or no longer waits.
    Held {
        /// Its position among the prompts for the same model, from 1; null when it continues.
        #[cfg_attr(feature = "openapi", schema(required))]
        position: Option<u32>,
        /// How long the provider asked to wait, if it did.
        #[cfg_attr(feature = "openapi", schema(required))]
        resumes_in_ms: Option<u64>,
    },
    /// The model failed; the same model or a fallback is prompted again. Text that was streamed of
    /// the failed completion is void.
    Retrying {
        /// Why the model failed.
        error: String,
        /// The model that is prompted next.
        model: String,
        /// How long the task waits first.
        delay_ms: u64,
        /// Whether a part of the void completion was streamed.
        shown: bool,
    },
    /// The older part of the task's history was compacted.
    Compacted {
        /// Characters of the history before.
        chars_before: u64,
        /// Characters of the history after.
        chars_after: u64,
    },
    /// The task waits for an approval or for an answer to a question.
    Asked {
        /// The request, with long texts truncated.
        request: Box<RequestView>,
    },
    /// A request got its reply, or expired.
    Replied {
        /// The id of the request.
        #[serde(rename = "request_id")]
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        request: RequestId,
    },
    /// Most of a budget of the task is spent.
    BudgetLow {
        /// The budgets that are nearly spent.
        balances: Vec<Balance>,
    },
    /// The task wrote a text that is not its result: it continues when its children have reported.
    Said {
        /// The text; truncated after 4,000 characters.
        text: String,
    },
    /// A part of the record changed that has no event of its own: what the task waits for, its label,
    /// its priority. Only subscribers in the same process get it; the API sends the changed record in
    /// a `tasks` message instead.
    Changed {
        /// What the task waits for now.
        #[cfg_attr(feature = "openapi", schema(required))]
        waiting_on: Option<WaitingOn>,
    },
    /// The task was paused.
    Paused,
    /// The task was resumed.
    Resumed,
    /// The task ended with a result.
    Completed {
        /// The result; truncated after 4,000 characters.
        result: String,
    },
    /// The task failed.
    Failed {
        /// Why it failed.
        error: String,
    },
    /// The task's deadline passed.
    Timeout {
        /// The deadline that passed.
        error: String,
    },
    /// The task was cancelled.
    Cancelled {
        /// Who cancelled it, and why.
        error: String,
    },
    /// The result was delivered, or its delivery is blocked.
    Delivery {
        /// The state of the delivery.
        delivery: Delivery,
    },
    /// The record of the task was deleted.
    Deleted,
}

impl NotificationKind {
    /// Returns whether the task has ended.
    pub const fn is_end(&self) -> bool {
        matches!(
            self,
            Self::Completed { .. }
                | Self::Failed { .. }
                | Self::Timeout { .. }
                | Self::Cancelled { .. }
        )
    }

    /// Returns the value of `type` in JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Queued { .. } => "queued",
            Self::Started { .. } => "started",
            Self::Progress { .. } => "progress",
            Self::Tool { .. } => "tool",
            Self::Held { .. } => "held",
            Self::Retrying { .. } => "retrying",
            Self::Compacted { .. } => "compacted",
            Self::Asked { .. } => "asked",
            Self::Replied { .. } => "replied",
            Self::BudgetLow { .. } => "budget_low",
            Self::Said { .. } => "said",
            Self::Changed { .. } => "changed",
            Self::Paused => "paused",
            Self::Resumed => "resumed",
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::Timeout { .. } => "timeout",
            Self::Cancelled { .. } => "cancelled",
            Self::Delivery { .. } => "delivery",
            Self::Deleted => "deleted",
        }
    }

    /// Returns whether only subscribers in the same process get the event.
    pub const fn is_internal(&self) -> bool {
        matches!(self, Self::Changed { .. })
    }
}
