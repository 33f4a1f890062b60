//! Sessions.

use serde::{Deserialize, Serialize};
use sortie_core::id::SessionKey;
use utoipa::ToSchema;

use crate::{Request, Task, TranscriptItem, time};

/// A session: a conversation with the main agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// `channel:chat_id`.
    #[schema(value_type = String)]
    pub session_id: SessionKey,
    /// The tenant of the session.
    #[schema(required)]
    pub tenant: Option<String>,
    /// The workspace of its runs.
    pub workspace: String,
    /// The first message, truncated.
    pub title: String,
    /// The number of main runs.
    pub turns: u64,
    /// Whether the last main run has not ended.
    pub running: bool,
    /// When the last run was admitted.
    pub last_at: String,
    /// The agent of the last turn.
    pub agent: String,
    /// The model of the last turn.
    pub model: String,
    /// The cost; null if a price is unknown.
    #[schema(required)]
    pub cost_usd: Option<f64>,
}

impl From<&sortie_core::session::SessionSummary> for Session {
    fn from(summary: &sortie_core::session::SessionSummary) -> Self {
        Self {
            session_id: summary.session.clone(),
            tenant: summary.tenant.as_ref().map(ToString::to_string),
            workspace: summary.workspace.display().to_string(),
            title: summary.title.clone(),
            turns: summary.turns,
            running: !summary.last_status.is_terminal(),
            last_at: time(summary.last_at),
            agent: summary.agent.clone(),
            model: summary.model.clone(),
            cost_usd: summary.cost_usd,
        }
    }
}

/// A session with its newest turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionDetail {
    /// The session.
    #[serde(flatten)]
    pub session: Session,
    /// The newest turns, oldest first.
    pub turns_list: Vec<Turn>,
    /// The grants of the session.
    pub grants: Vec<Grant>,
    /// The open requests of its runs.
    pub requests: Vec<Request>,
}

/// One turn of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Turn {
    /// The main run.
    pub task: Task,
    /// The transcript of the turn.
    pub items: Vec<TranscriptItem>,
    /// The number of earlier items that did not fit; the transcript of the task has them.
    pub left_out: u64,
    /// The runs that the main run started, as summaries.
    pub children: Vec<Task>,
}

/// A lasting permission for a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Grant {
    /// The rule that is allowed.
    pub rule: String,
    /// The approver who granted it.
    pub by: String,
    /// When it was granted.
    pub at: String,
}

impl From<&sortie_core::request::SessionGrant> for Grant {
    fn from(grant: &sortie_core::request::SessionGrant) -> Self {
        Self {
            rule: grant.rule.clone(),
            by: grant.by.clone(),
            at: time(grant.at),
        }
    }
}

/// The result of revoking grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Revoked {
    /// The number of grants revoked.
    pub revoked: u64,
}

/// The result of sending a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MessageAccepted {
    /// The run that received the message.
    #[schema(value_type = String)]
    pub task_id: sortie_core::id::RunId,
    /// Whether the message went to a run that was already executing.
    pub steered: bool,
}
