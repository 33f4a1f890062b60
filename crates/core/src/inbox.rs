//! What reaches a run from outside: results of its children, and words of its parent.

use serde::{Deserialize, Serialize};

use crate::id::{CallId, RunId};
use crate::message::Usage;
use crate::request::{Question, Reply, RequestId};
use crate::run::{Changes, EdgeMode, Outcome, SinkAddress};

/// A finished child's result on its way to whoever asked for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Announcement {
    /// The child; also the key that makes delivery happen once.
    pub child: RunId,
    /// The parent's call that made it; `None` for a run without a parent.
    pub call: Option<CallId>,
    /// Whether that call waits.
    pub mode: EdgeMode,
    /// The child's agent.
    pub agent: String,
    /// The child's label.
    pub label: String,
    /// The child's task.
    pub task: String,
    /// How it ended.
    pub outcome: Outcome,
    /// How many tool calls it made.
    pub tool_calls: u32,
    /// How long it ran.
    pub elapsed_ms: u64,
    /// What it used.
    pub usage: Usage,
    /// What it changed in a worktree of its own, to be applied or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
}

/// The longest message that a run can be sent, in characters.
pub const MAX_MESSAGE_CHARS: usize = 100_000;

/// Something waiting in a run's inbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum InboxItem {
    /// A child has finished.
    Announcement(Box<Announcement>),
    /// The parent or a person adds to the instruction.
    Steer {
        /// Who.
        from: Sender,
        /// What.
        text: String,
    },
    /// Somebody has said something about a call that waits.
    Reply {
        /// The request.
        request: RequestId,
        /// The call.
        call: CallId,
        /// What was said.
        reply: Reply,
    },
    /// A child asks something.
    Question {
        /// The request.
        request: RequestId,
        /// The child.
        child: RunId,
        /// Its label.
        label: String,
        /// What it asks.
        question: Question,
    },
}

/// Who steers a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sender {
    /// Somebody at the command line or an API.
    Person,
    /// The run that spawned it.
    Parent,
}

/// An entry of the outbox.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboxEntry {
    /// The entry's own number in the store.
    pub id: i64,
    /// Where it goes.
    pub sink: SinkAddress,
    /// What it says.
    pub announcement: Announcement,
    /// How often delivery was tried.
    pub attempts: u32,
}
