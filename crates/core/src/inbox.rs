//! What reaches a run from outside: announcements of its children, messages, replies and questions.

use serde::{Deserialize, Serialize};

use crate::id::{CallId, RunId};
use crate::message::Usage;
use crate::request::{Question, Reply, RequestId};
use crate::run::{Changes, EdgeMode, Outcome, SinkAddress};

/// The result of an ended child, on its way to the parent or to a sink.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Announcement {
    /// The child. Also the key by which delivery happens once.
    pub child: RunId,
    /// The parent's call that spawned it; `None` for a run without a parent.
    pub call: Option<CallId>,
    /// Whether that call waits for the result.
    pub mode: EdgeMode,
    pub agent: String,
    pub label: String,
    pub task: String,
    pub outcome: Outcome,
    pub tool_calls: u32,
    pub elapsed_ms: u64,
    pub usage: Usage,
    /// The changes in its worktree, not applied yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
}

/// The longest message that can be sent to a run, in characters.
pub const MAX_MESSAGE_CHARS: usize = 100_000;

/// An item in a run's inbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum InboxItem {
    /// The result of a child.
    Announcement(Box<Announcement>),
    /// A message from the parent or a person, added to the instruction.
    Steer { from: Sender, text: String },
    /// The reply to an approval request or a question.
    Reply {
        request: RequestId,
        call: CallId,
        reply: Reply,
    },
    /// A question of a child to its parent.
    Question {
        request: RequestId,
        child: RunId,
        label: String,
        question: Question,
    },
}

/// The sender of a message to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sender {
    /// A person, through the command line or the API.
    Person,
    Parent,
}

/// An outbox entry for a sink outside the store.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboxEntry {
    /// The entry's row id.
    pub id: i64,
    pub sink: SinkAddress,
    pub announcement: Announcement,
    /// The number of delivery attempts so far.
    pub attempts: u32,
}
