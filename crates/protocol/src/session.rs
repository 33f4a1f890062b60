//! Conversations.

use serde::{Deserialize, Serialize};
use sortie_core::SessionKey;
use utoipa::ToSchema;

use crate::{Request, Task, TranscriptItem, time};

/// A conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// `channel:chat_id`.
    #[schema(value_type = String)]
    pub session_id: SessionKey,
    /// Whom it belongs to.
    #[schema(required)]
    pub tenant: Option<String>,
    /// The folder it works in.
    pub workspace: String,
    /// The first message, cut.
    pub title: String,
    /// How many main runs it has.
    pub turns: u64,
    /// Whether the last of them has not ended.
    pub running: bool,
    /// When something last began in it.
    pub last_at: String,
    /// The agent of the last turn.
    pub agent: String,
    /// The model of the last turn.
    pub model: String,
    /// What it cost; null where a price is unknown.
    #[schema(required)]
    pub cost_usd: Option<f64>,
}

impl From<&sortie_core::SessionSummary> for Session {
    fn from(summary: &sortie_core::SessionSummary) -> Self {
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

/// A conversation with what was said in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionDetail {
    /// The conversation itself.
    #[serde(flatten)]
    pub session: Session,
    /// The newest turns, oldest first.
    pub turns_list: Vec<Turn>,
    /// What persons allowed for all of it.
    pub grants: Vec<Grant>,
    /// What its runs ask and nobody has replied to.
    pub requests: Vec<Request>,
}

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Turn {
    /// The main run.
    pub task: Task,
    /// What was said and done.
    pub items: Vec<TranscriptItem>,
    /// Items before these that did not fit; the task's own transcript has them.
    pub left_out: u64,
    /// The runs that it started, with their texts cut.
    pub children: Vec<Task>,
}

/// Something a person allowed for a whole session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Grant {
    /// What is allowed.
    pub rule: String,
    /// Who allowed it.
    pub by: String,
    /// When.
    pub at: String,
}

impl From<&sortie_core::SessionGrant> for Grant {
    fn from(grant: &sortie_core::SessionGrant) -> Self {
        Self {
            rule: grant.rule.clone(),
            by: grant.by.clone(),
            at: time(grant.at),
        }
    }
}

/// How many grants were taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Revoked {
    /// So many.
    pub revoked: u64,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MessageAccepted {
    /// The run that has it.
    #[schema(value_type = String)]
    pub task_id: sortie_core::RunId,
    /// Whether it went into a run that was already under way.
    pub steered: bool,
}
