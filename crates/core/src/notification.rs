//! What subscribers hear. A hint: the record is the truth, and a snapshot heals a missed one.

use serde::{Deserialize, Serialize};

use crate::{
    Balance, Delivery, OpenRequest, RequestId, RunId, Seq, SessionKey, Tenant, Timestamp, WaitingOn,
};

/// Something happened to a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notification {
    /// The run.
    pub task_id: RunId,
    /// The session that asked for it.
    pub session_id: SessionKey,
    /// The first run of its tree.
    pub root_id: RunId,
    /// The run that asked for it.
    #[serde(default)]
    pub parent_id: Option<RunId>,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    /// The end of its journal at that moment.
    pub seq: Seq,
    /// When.
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub kind: NotificationKind,
}

/// What happened to a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum NotificationKind {
    /// It was admitted and waits.
    Queued {
        /// Its agent.
        agent: String,
        /// Its label.
        label: String,
    },
    /// It was first claimed.
    Started {
        /// Its agent.
        agent: String,
        /// Its label.
        label: String,
    },
    /// It has come further.
    Progress {
        /// 0 to 100.
        progress: u8,
        /// Calls made.
        tool_calls: u32,
    },
    /// It called a tool.
    Tool {
        /// Which.
        tool: String,
        /// Calls made before.
        tool_calls: u32,
    },
    /// It waits for the provider's rate limit, or no longer does.
    Held {
        /// Its place among the questions to the same model, from 1; `None` when it goes on.
        position: Option<u32>,
        /// When the provider said to come back, if it did.
        resumes_in_ms: Option<u64>,
    },
    /// The model did not answer and is asked again, or another one is. What it had said of the
    /// answer is void.
    Retrying {
        /// What went wrong.
        error: String,
        /// The model that is asked next.
        model: String,
        /// How long it waits first.
        delay_ms: u64,
        /// Whether somebody may have read a part of the answer that is now void.
        shown: bool,
    },
    /// Older parts of its history became short, so that the model can read on.
    Compacted {
        /// Characters of the history before.
        chars_before: u64,
        /// Characters of the history after.
        chars_after: u64,
    },
    /// It waits for somebody's word.
    Asked {
        /// What it asks, and who it is.
        request: Box<OpenRequest>,
    },
    /// Somebody has said something about what it asked, or nobody did in time.
    Replied {
        /// The request.
        request: RequestId,
    },
    /// Most of its budget is spent.
    BudgetLow {
        /// How much of what.
        balances: Vec<Balance>,
    },
    /// It said something that is not its final word: it goes on when its children report.
    Said {
        /// What.
        text: String,
    },
    /// Its record changed in a way that no other word tells: what it waits for, its label, its
    /// priority. Whoever shows it reads it again.
    Changed {
        /// What it waits for now.
        waiting_on: Option<WaitingOn>,
    },
    /// Somebody wants it to rest, or it has come to rest.
    Paused,
    /// It may go on.
    Resumed,
    /// It ended with a result.
    Completed {
        /// The result.
        result: String,
    },
    /// It ended without.
    Failed {
        /// Why.
        error: String,
    },
    /// Its deadline passed.
    Timeout {
        /// The deadline.
        error: String,
    },
    /// It was stopped.
    Cancelled {
        /// By whom.
        error: String,
    },
    /// Its result arrived, or was given up.
    Delivery {
        /// Which.
        delivery: Delivery,
    },
    /// Its record was removed.
    Deleted,
}
