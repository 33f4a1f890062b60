//! The journal: the append-only events of a run. All other state of a run is derived from it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::budget::{Balance, BudgetKind};
use crate::check::CheckResult;
use crate::fan_out::{FanOutMember, FanOutPlan};
use crate::id::{BlobId, CallId, Epoch, RunId, Seq};
use crate::inbox::InboxItem;
use crate::message::{Block, ChildRef, ResultStatus, Todo, ToolResult, Usage};
use crate::policy::Ruling;
use crate::ports::model::Fault;
use crate::request::Request;
use crate::run::{Changes, Outcome, Priority, RunSpec, Worktree};
use crate::time::Timestamp;

/// The version of every journal row. Readers accept all versions up to this one.
pub const JOURNAL_VERSION: i64 = 1;

/// An event in a run's journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The run was admitted. Always the first event.
    Admitted { spec: Box<RunSpec> },
    /// The label or the priority changed while the run was queued.
    Updated {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        priority: Option<Priority>,
    },
    /// The run is paused, and no executor holds it any more.
    Paused,
    /// The run is no longer paused.
    Resumed,
    /// An executor claimed the run. Tool calls in flight under an earlier epoch are interrupted by
    /// it.
    Claimed {
        /// The fence. Serialized as `claim`, because the entry has its own `epoch`.
        #[serde(rename = "claim", alias = "epoch")]
        epoch: Epoch,
        /// Whether the lease before this one was recovered from a dead process.
        recovered: bool,
    },
    /// Items moved from the inbox into the run.
    InboxTaken {
        /// In order of arrival.
        items: Vec<InboxItem>,
        /// Whether the run ended before it read them; they are only kept for the record.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unread: bool,
    },
    /// The model returned a completion.
    Answered {
        /// The turn of the run, from 1.
        turn: u32,
        blocks: Vec<Block>,
        stop: StopReason,
        usage: Usage,
        /// The model that replied, which may be a fallback.
        model: String,
        /// How long the provider's rate limit delayed the prompt.
        #[serde(default, skip_serializing_if = "is_zero")]
        held_ms: u64,
    },
    /// The model returned no completion.
    ModelFailed {
        model: String,
        fault: Fault,
        message: String,
        /// Whether a viewer may have read a part of the discarded completion.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        shown: bool,
    },
    /// The history exceeded the model's context, and older parts were summarized.
    Compacted {
        /// The summarized parts with their summaries.
        parts: Vec<CompactedPart>,
        /// Characters of the history before the compaction.
        chars_before: u64,
        /// Characters of the history after the compaction.
        chars_after: u64,
        /// Messages in the history at that time. Parts are counted from its beginning, which may
        /// have been removed since.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        messages: Option<usize>,
    },
    /// The intent to run a call that must not be repeated blindly. Durable before the call runs.
    Intended {
        call: CallId,
        /// What the tool needs to find out, after a crash, whether the call happened.
        fingerprint: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ruling: Option<Ruling>,
    },
    /// A call waits for a reply to an approval request or a question.
    Asked { call: CallId, request: Box<Request> },
    /// A call waits for children: for the result of one, or for the end of several.
    Delegated {
        call: CallId,
        wait: ChildWait,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ruling: Option<Ruling>,
    },
    /// A call has its result.
    ToolFinished {
        result: ToolResult,
        elapsed_ms: u64,
        /// The child that the call started in the background.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spawned: Option<ChildRef>,
        /// The todo list that the call wrote.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        todos: Option<Vec<Todo>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ruling: Option<Ruling>,
        /// The sandbox that its commands ran in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sandbox: Option<Value>,
    },
    /// Most of a budget is charged; the model reads a notice.
    BudgetLow { balances: Vec<Balance> },
    /// The next step would cost more than the account has left.
    BudgetSpent {
        kind: BudgetKind,
        limit: u64,
        left: u64,
    },
    /// A worktree was created for the run.
    Isolated { worktree: Worktree },
    /// The worktree was removed and its changes were kept.
    Collected {
        /// `None` if the run changed nothing.
        changes: Option<Changes>,
    },
    /// The host has checked the final answer. If a check failed, the model may be prompted again.
    Checked { results: Vec<CheckResult> },
    /// The run ended. Always the last event.
    Finished { outcome: Outcome },
}

/// What a delegated call waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ChildWait {
    /// One child, whose result becomes the tool result.
    Result { child: ChildRef },
    /// Children that were started earlier in the background; the tool result reports that they have
    /// ended.
    Finished { children: Vec<RunId> },
    /// The children of a fan-out; the combined result becomes the tool result. Written again whenever
    /// the call has started further children, or has cancelled the rest.
    FanOut {
        plan: FanOutPlan,
        /// What was started now.
        members: Vec<FanOutMember>,
        /// Whether the children that still ran were cancelled now.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stopped: bool,
    },
}

/// A part of a history that was summarized.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactedPart {
    /// The index of the message in the history.
    pub message: usize,
    /// The index of the tool result within the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<usize>,
    /// The text that the model reads now.
    pub summary: String,
    /// Blob of the original text.
    pub full: BlobId,
}

/// Why a model stopped generating.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model finished its turn.
    EndTurn,
    /// The model calls tools.
    ToolUse,
    /// The completion reached its token limit.
    MaxTokens,
    /// The model declined the task.
    Refusal,
    /// The provider's content filter stopped the completion.
    ContentFilter,
}

/// An event with its position and fence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalEntry {
    pub run: RunId,
    pub seq: Seq,
    pub at: Timestamp,
    /// The fence under which the entry was written.
    pub epoch: Epoch,
    #[serde(flatten)]
    pub event: Event,
}

impl Event {
    /// Returns the outcome, if this is the end of the run.
    pub fn outcome(&self) -> Option<&Outcome> {
        if let Self::Finished { outcome } = self {
            Some(outcome)
        } else {
            None
        }
    }

    /// Returns the tool result, if this is the end of a call.
    pub fn tool_result(&self) -> Option<&ToolResult> {
        if let Self::ToolFinished { result, .. } = self {
            Some(result)
        } else {
            None
        }
    }

    /// Returns the event's name in JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Admitted { .. } => "admitted",
            Self::Updated { .. } => "updated",
            Self::Paused => "paused",
            Self::Resumed => "resumed",
            Self::Claimed { .. } => "claimed",
            Self::InboxTaken { .. } => "inbox_taken",
            Self::Answered { .. } => "answered",
            Self::ModelFailed { .. } => "model_failed",
            Self::Compacted { .. } => "compacted",
            Self::Intended { .. } => "intended",
            Self::Asked { .. } => "asked",
            Self::Delegated { .. } => "delegated",
            Self::ToolFinished { .. } => "tool_finished",
            Self::BudgetLow { .. } => "budget_low",
            Self::BudgetSpent { .. } => "budget_spent",
            Self::Isolated { .. } => "isolated",
            Self::Collected { .. } => "collected",
            Self::Checked { .. } => "checked",
            Self::Finished { .. } => "finished",
        }
    }
}

impl ToolResult {
    /// Returns the result of a call that was not run.
    pub fn not_run(
        call: &crate::message::ToolCall,
        status: ResultStatus,
        text: impl Into<String>,
    ) -> Self {
        Self {
            call: call.id.clone(),
            provider_id: call.provider_id.clone(),
            text: text.into(),
            status,
            full: None,
            images: Vec::new(),
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out references"
)]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}
