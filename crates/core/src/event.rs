//! The journal: the append-only events of a run, and the only truth about it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::budget::{Balance, BudgetKind};
use crate::id::{BlobId, CallId, Epoch, RunId, Seq};
use crate::inbox::InboxItem;
use crate::message::{Block, ChildRef, ResultStatus, Todo, ToolResult, Usage};
use crate::policy::Ruling;
use crate::ports::model::Fault;
use crate::request::Request;
use crate::run::{Changes, Outcome, Priority, RunSpec, Worktree};
use crate::time::Timestamp;

/// The version written with every journal row. Readers accept all versions up to this one.
pub const JOURNAL_VERSION: i64 = 1;

/// A fact about a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The run exists. Always the first.
    Admitted {
        /// All it was admitted with.
        spec: Box<RunSpec>,
    },
    /// Somebody changed how it waits, while it waited in the queue.
    Updated {
        /// What people call it now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
        /// How urgent it is now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        priority: Option<Priority>,
    },
    /// Somebody wants it to rest, and nobody executes it any more.
    Paused,
    /// It may go on.
    Resumed,
    /// An executor holds the run. After a crash or a park there is a new claim; calls that were
    /// under way in an earlier epoch are interrupted by it.
    Claimed {
        /// The fence. Beside it stands that of the entry, which has the shorter name.
        #[serde(rename = "claim", alias = "epoch")]
        epoch: Epoch,
        /// Whether the claim before this one died.
        recovered: bool,
    },
    /// Messages from the inbox became part of the run.
    InboxTaken {
        /// The messages, in order of arrival.
        items: Vec<InboxItem>,
        /// Whether the run ended before it had read them: they only stay known.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unread: bool,
    },
    /// The model answered.
    Answered {
        /// Which turn of the run, from 1.
        turn: u32,
        /// What it said.
        blocks: Vec<Block>,
        /// Why it stopped.
        stop: StopReason,
        /// What it cost.
        usage: Usage,
        /// The model that really answered.
        model: String,
        /// How long the question waited for the provider's rate limit.
        #[serde(default, skip_serializing_if = "is_zero")]
        held_ms: u64,
    },
    /// The model did not answer.
    ModelFailed {
        /// The model that was asked.
        model: String,
        /// What kind of failure.
        fault: Fault,
        /// What went wrong.
        message: String,
        /// Whether somebody may have read a part of the answer that is now void.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        shown: bool,
    },
    /// The history grew longer than the model can read, and older parts became short.
    Compacted {
        /// The parts that became short, and what stands in their places.
        parts: Vec<CompactedPart>,
        /// Characters of the history before.
        chars_before: u64,
        /// Characters of the history after.
        chars_after: u64,
        /// Messages of the history: the parts are counted from its beginning, which may have been
        /// removed since. Journals of earlier versions do not say it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        messages: Option<usize>,
    },
    /// A call that must not be repeated blindly is about to run.
    Intended {
        /// The call.
        call: CallId,
        /// What the tool wants to remember to tell, after a crash, whether it happened.
        fingerprint: Value,
        /// Why it may run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ruling: Option<Ruling>,
    },
    /// A call waits until somebody has said something about it.
    Asked {
        /// The call.
        call: CallId,
        /// What is asked.
        request: Box<Request>,
    },
    /// A call waits for children; their announcements will answer it.
    Delegated {
        /// The call.
        call: CallId,
        /// Whom it waits for.
        wait: ChildWait,
        /// Why it may run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ruling: Option<Ruling>,
    },
    /// A call was answered.
    ToolFinished {
        /// The answer.
        result: ToolResult,
        /// How long it took.
        elapsed_ms: u64,
        /// A child that the call started in the background.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spawned: Option<ChildRef>,
        /// The todo list, if the call wrote it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        todos: Option<Vec<Todo>>,
        /// Why it might run, or might not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ruling: Option<Ruling>,
        /// What its commands ran in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sandbox: Option<Value>,
    },
    /// Most of a budget is spent; the model is told.
    BudgetLow {
        /// How much of what.
        balances: Vec<Balance>,
    },
    /// What comes next would cost more than is left.
    BudgetSpent {
        /// Of what.
        kind: BudgetKind,
        /// The limit.
        limit: u64,
        /// What is left of it.
        left: u64,
    },
    /// A worktree was made for the run.
    Isolated {
        /// The worktree.
        worktree: Worktree,
    },
    /// The worktree is gone; what was changed in it is kept.
    Collected {
        /// What was changed, if anything was.
        changes: Option<Changes>,
    },
    /// The run ended. Always the last.
    Finished {
        /// How.
        outcome: Outcome,
    },
}

/// What an open call waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ChildWait {
    /// One child, whose result is the answer.
    Result {
        /// The child.
        child: ChildRef,
    },
    /// Children started earlier in the background; the answer says that they are done.
    Finished {
        /// The children.
        children: Vec<RunId>,
    },
}

/// A part of a history that became short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactedPart {
    /// The message, counted from the beginning of the history.
    pub message: usize,
    /// The answer within the message, for messages with answers of tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<usize>,
    /// What the model reads now.
    pub summary: String,
    /// What it read before.
    pub full: BlobId,
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It was done.
    EndTurn,
    /// It wants tools.
    ToolUse,
    /// It ran out of tokens.
    MaxTokens,
    /// It declined.
    Refusal,
    /// The provider's filter stopped it.
    ContentFilter,
}

/// A journaled event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Whose.
    pub run: RunId,
    /// Its place.
    pub seq: Seq,
    /// When it was written.
    pub at: Timestamp,
    /// The fence it was written under.
    pub epoch: Epoch,
    /// The fact.
    #[serde(flatten)]
    pub event: Event,
}

impl Event {
    /// The event's name in JSON.
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
            Self::Finished { .. } => "finished",
        }
    }
}

impl ToolResult {
    /// An answer that nothing ran for.
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
