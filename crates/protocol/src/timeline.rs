//! The timeline of a tree.

use serde::{Deserialize, Serialize};
use sortie_core::id::RunId;
use sortie_core::run::Status;
use utoipa::ToSchema;

/// The timeline of a tree, with its critical path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Timeline {
    /// The root of the tree.
    #[schema(value_type = String)]
    pub root_id: RunId,
    /// The start.
    pub from: String,
    /// The end, or the present.
    pub until: String,
    /// The runs, oldest first. Of a very large tree: the root and the newest runs.
    pub tasks: Vec<TimelineTask>,
    /// The number of runs that are not listed.
    pub left_out: u64,
    /// The spans that determine the duration of the tree, in order of time.
    pub critical_path: Vec<CriticalSpan>,
}

/// One run of a timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TimelineTask {
    /// The run.
    #[schema(value_type = String)]
    pub task_id: RunId,
    /// The run that started it; null for the root.
    #[schema(value_type = Option<String>, required)]
    pub parent_id: Option<RunId>,
    /// The label of the run.
    pub label: String,
    /// The agent of the run.
    pub agent: String,
    /// The status of the run.
    pub status: Status,
    /// The depth below the root.
    pub depth: u32,
    /// When it was first claimed.
    #[schema(required)]
    pub started: Option<String>,
    /// When it ended.
    #[schema(required)]
    pub ended: Option<String>,
    /// What the run did when. In a long run, short spans are merged into longer neighbours.
    pub spans: Vec<Span>,
}

/// A period in which a run did one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Span {
    /// The start.
    pub from: String,
    /// The end.
    pub until: String,
    /// `slot`, `model`, `rate_limit`, `tool`, `approval`, `question`, `children`, `paused` or
    /// `other`.
    pub kind: String,
    /// The tool or model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether the span is on the critical path.
    pub critical: bool,
}

/// A span of the critical path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CriticalSpan {
    /// The run.
    #[schema(value_type = String)]
    pub task_id: RunId,
    /// The start.
    pub from: String,
    /// The end.
    pub until: String,
    /// The kind, as in [`Span`].
    pub kind: String,
}
