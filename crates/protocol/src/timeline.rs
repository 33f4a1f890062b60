//! When a tree did what.

use serde::{Deserialize, Serialize};
use sortie_core::{RunId, Status};
use utoipa::ToSchema;

/// When the runs of a tree did what, and what its length came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Timeline {
    /// The first run of the tree.
    #[schema(value_type = String)]
    pub root_id: RunId,
    /// When it begins.
    pub from: String,
    /// When it ends, or now.
    pub until: String,
    /// Its runs, oldest first: the root, and of a very large tree the newest ones.
    pub tasks: Vec<TimelineTask>,
    /// Runs of the tree that are not among them.
    pub left_out: u64,
    /// What the length of the whole came from, in order of time.
    pub critical_path: Vec<CriticalSpan>,
}

/// One run in a timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TimelineTask {
    /// The run.
    #[schema(value_type = String)]
    pub task_id: RunId,
    /// The run that asked for it.
    #[schema(value_type = Option<String>, required)]
    pub parent_id: Option<RunId>,
    /// What people call it.
    pub label: String,
    /// Its agent.
    pub agent: String,
    /// How far it is.
    pub status: Status,
    /// How far below the root.
    pub depth: u32,
    /// When it was first claimed.
    #[schema(required)]
    pub started: Option<String>,
    /// When it ended.
    #[schema(required)]
    pub ended: Option<String>,
    /// What it did when. In a long life, short stretches are told with longer ones beside them.
    pub spans: Vec<Span>,
}

/// A stretch of time in which a run did one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Span {
    /// Its begin.
    pub from: String,
    /// Its end.
    pub until: String,
    /// `slot`, `model`, `rate_limit`, `tool`, `approval`, `question`, `children`, `paused` or
    /// `other`.
    pub kind: String,
    /// The tool or model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether the length of the whole depends on it.
    pub critical: bool,
}

/// A stretch of time that the length of the whole depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CriticalSpan {
    /// The run.
    #[schema(value_type = String)]
    pub task_id: RunId,
    /// Its begin.
    pub from: String,
    /// Its end.
    pub until: String,
    /// What was done, as in [`Span`].
    pub kind: String,
}
