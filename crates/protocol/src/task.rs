//! A task: what people call a run.

use serde::{Deserialize, Serialize};
use sortie_core::{
    ChangesFate, Delivery, Isolation, Lane, Outcome, Priority, Reason, RunId, RunRecord,
    SessionKey, Status, WaitingOn,
};
use utoipa::ToSchema;

use crate::{Balance, Request, Usage, time, time_of};

/// How many characters of a message or result stand in a summary.
pub const SUMMARY_CHARS: usize = 280;

/// A task as JSON: the shape that the command line and every API give out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Task {
    /// The run id.
    #[schema(value_type = String)]
    pub task_id: RunId,
    /// What people call it.
    pub label: String,
    /// What it is to do.
    pub message: String,
    /// The session that asked.
    #[schema(value_type = String)]
    pub session_id: SessionKey,
    /// The run that asked.
    #[schema(value_type = Option<String>, required)]
    pub parent_id: Option<RunId>,
    /// The first run of the tree.
    #[schema(value_type = String)]
    pub root_id: RunId,
    /// The agent's name.
    pub agent: String,
    /// The model that really answered.
    pub model: String,
    /// How far it is.
    pub status: Status,
    /// Why it failed.
    #[schema(required)]
    pub reason: Option<Reason>,
    /// What it waits for.
    #[schema(required)]
    pub waiting_on: Option<WaitingOn>,
    /// Whether somebody has told it to pause.
    pub paused: bool,
    /// 0 to 100.
    pub progress: u8,
    /// The final text, or what there was of it.
    #[schema(required)]
    pub result: Option<String>,
    /// What went wrong.
    #[schema(required)]
    pub error: Option<String>,
    /// When it was admitted.
    pub created_at: String,
    /// When it was first claimed.
    #[schema(required)]
    pub started_at: Option<String>,
    /// When it ended.
    #[schema(required)]
    pub completed_at: Option<String>,
    /// How far below the root.
    pub depth: u32,
    /// `subagent:{run_id}:{task_hash}`.
    #[schema(value_type = String)]
    pub child_session: SessionKey,
    /// The queue.
    pub lane: Lane,
    /// How urgent.
    pub priority: Priority,
    /// How many calls it made.
    pub tool_calls: u32,
    /// What it used.
    pub usage: Usage,
    /// What it and its ended descendants used.
    pub total_usage: Usage,
    /// Whether the result has arrived.
    pub delivery: Delivery,
    /// What checks said about the result; none are run yet.
    #[schema(value_type = Option<Object>, required)]
    pub verdict: Option<serde_json::Value>,
    /// Its place in the queue, from 1; that of a tenant's task, among those of the tenant.
    #[schema(required)]
    pub queue_position: Option<u32>,
    /// Whom it belongs to.
    #[schema(required)]
    pub tenant: Option<String>,
    /// Whether somebody wants it stopped.
    pub cancel_requested: bool,
    /// The end of its journal.
    pub seq: i64,
    /// What is left of the accounts it draws from; nothing where nothing is limited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budget: Vec<Balance>,
}

impl From<&RunRecord> for Task {
    fn from(record: &RunRecord) -> Self {
        Self {
            task_id: record.run_id,
            label: record.label.clone(),
            message: record.task.clone(),
            session_id: record.session.clone(),
            parent_id: record.parent,
            root_id: record.root,
            agent: record.agent.clone(),
            model: record.summary.model.clone(),
            status: record.status,
            reason: record.reason(),
            waiting_on: if record.status.is_terminal() {
                None
            } else {
                record.summary.waiting_on
            },
            paused: record.paused,
            progress: record.summary.progress,
            result: record.result().map(str::to_owned),
            error: record.outcome.as_ref().and_then(Outcome::error),
            created_at: time(record.created_at),
            started_at: time_of(record.started_at),
            completed_at: time_of(record.ended_at),
            depth: record.depth,
            child_session: record.child_session.clone(),
            lane: record.lane,
            priority: record.priority,
            tool_calls: record.summary.tool_calls,
            usage: record.summary.usage.into(),
            total_usage: record.total_usage().into(),
            delivery: record.delivery,
            verdict: None,
            queue_position: record.queue_position,
            tenant: record.tenant.as_ref().map(ToString::to_string),
            cancel_requested: record.cancel_requested,
            seq: record.head.0,
            budget: record.budget.clone(),
        }
    }
}

impl Task {
    /// The same with long texts cut to [`SUMMARY_CHARS`] characters: what lists and live views need.
    #[must_use]
    pub fn summary(mut self) -> Self {
        cut(&mut self.message);
        if let Some(result) = &mut self.result {
            cut(result);
        }
        if let Some(error) = &mut self.error {
            cut(error);
        }
        self
    }
}

fn cut(text: &mut String) {
    sortie_core::truncate_chars(text, SUMMARY_CHARS);
}

/// Something that a command left, that would have acted later outside of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Neutralised {
    /// Where it is or was, seen from the workspace.
    pub path: String,
    /// What was done: `reduced`, `moved_aside`, `restored`, `left_in_place`, `failed`,
    /// `not_checked` or `more`.
    pub measure: String,
    /// Settings of git that were removed.
    #[serde(default)]
    pub dropped: Vec<String>,
    /// Where the original is kept.
    #[serde(default)]
    #[schema(required)]
    pub kept_as: Option<String>,
    /// Why it could not be neutralised.
    #[serde(default)]
    #[schema(required)]
    pub cause: Option<String>,
}

/// A task with everything that one view of it needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskDetail {
    /// The task itself.
    #[serde(flatten)]
    pub task: Task,
    /// The folder it works in.
    pub workspace: String,
    /// How calls that change something are treated.
    pub mode: String,
    /// What its commands are started in.
    pub sandbox: String,
    /// Whether its commands may reach the network.
    pub network: bool,
    /// Where it works.
    pub isolation: Isolation,
    /// The branch that its changes are on.
    #[schema(required)]
    pub branch: Option<String>,
    /// What it changed in its worktree.
    #[schema(required)]
    pub changes: Option<ChangeCount>,
    /// What became of them, once somebody has decided.
    #[schema(required)]
    pub changes_fate: Option<ChangesFate>,
    /// The hash of its policy.
    pub policy_hash: String,
    /// How hard the model should think.
    #[schema(required)]
    pub thinking: Option<String>,
    /// The tools it may call.
    pub tools: Vec<String>,
    /// The skills it may load.
    pub skills: Vec<String>,
    /// How long it may run.
    #[schema(required)]
    pub timeout_seconds: Option<f64>,
    /// When its time is up, once it has started.
    #[schema(required)]
    pub deadline: Option<String>,
    /// The run whose history it goes on from.
    #[schema(value_type = Option<String>, required)]
    pub continues: Option<RunId>,
    /// Why delivery was given up.
    #[schema(required)]
    pub delivery_error: Option<String>,
    /// How often its process died under it.
    pub crashes: u32,
    /// Its todo list.
    pub todos: Vec<TodoItem>,
    /// What its commands left that would have acted outside of the sandbox.
    pub neutralised: Vec<Neutralised>,
    /// How many runs it has started.
    pub children: u64,
    /// What it asks and nobody has replied to.
    pub requests: Vec<Request>,
}

/// How much a run changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangeCount {
    /// Files.
    pub files: u64,
    /// Lines added.
    pub insertions: u64,
    /// Lines removed.
    pub deletions: u64,
}

/// One line of a todo list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TodoItem {
    /// What is to be done.
    pub text: String,
    /// `pending`, `in_progress` or `completed`.
    pub status: String,
}

impl From<&sortie_core::Todo> for TodoItem {
    fn from(todo: &sortie_core::Todo) -> Self {
        Self {
            text: todo.content.clone(),
            status: match todo.status {
                sortie_core::TodoStatus::Pending => "pending",
                sortie_core::TodoStatus::InProgress => "in_progress",
                sortie_core::TodoStatus::Completed => "completed",
            }
            .to_owned(),
        }
    }
}

/// How many tasks are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stats {
    /// All of them.
    pub total: u64,
    /// Not started.
    pub pending: u64,
    /// Started, not ended.
    pub running: u64,
    /// Ended with a result.
    pub completed: u64,
    /// Ended without.
    pub failed: u64,
    /// Ended by a deadline.
    pub timeout: u64,
    /// Ended by somebody.
    pub cancelled: u64,
}

impl From<sortie_core::Stats> for Stats {
    fn from(stats: sortie_core::Stats) -> Self {
        Self {
            total: stats.total,
            pending: stats.pending,
            running: stats.running,
            completed: stats.completed,
            failed: stats.failed,
            timeout: stats.timeout,
            cancelled: stats.cancelled,
        }
    }
}

/// What a cancel did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cancelled {
    /// The task.
    #[schema(value_type = String)]
    pub task_id: RunId,
    /// Everything that ends because of it, itself included.
    #[schema(value_type = Vec<String>)]
    pub cancelled: Vec<RunId>,
    /// How it had ended before.
    #[schema(required)]
    pub already_ended: Option<Status>,
}

/// What a delete did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Deleted {
    /// The task.
    #[schema(value_type = String)]
    pub task_id: RunId,
    /// How many records are gone, those below it included.
    pub deleted: u64,
}

/// The files that an apply changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Applied {
    /// The task.
    #[schema(value_type = String)]
    pub task_id: RunId,
    /// The files.
    pub files: Vec<String>,
}

/// What a run changed in its worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Diff {
    /// The task.
    #[schema(value_type = String)]
    pub task_id: RunId,
    /// A unified diff, bounded.
    pub diff: String,
}

/// How a task ended, or how far it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskResult {
    /// The task.
    #[schema(value_type = String)]
    pub task_id: RunId,
    /// How far it is.
    pub status: Status,
    /// The final text, or what there was of it.
    #[schema(required)]
    pub result: Option<String>,
    /// What went wrong.
    #[schema(required)]
    pub error: Option<String>,
    /// What checks said about the result.
    #[schema(value_type = Option<Object>, required)]
    pub verdict: Option<serde_json::Value>,
}

impl From<Task> for TaskResult {
    fn from(task: Task) -> Self {
        Self {
            task_id: task.task_id,
            status: task.status,
            result: task.result,
            error: task.error,
            verdict: task.verdict,
        }
    }
}

/// Names a task; what routes without anything else to say answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskRef {
    /// The task.
    #[schema(value_type = String)]
    pub task_id: RunId,
}

/// One entry of a run's journal, as the store keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JournalEntry {
    /// Whose.
    #[schema(value_type = String)]
    pub run: RunId,
    /// Its place.
    pub seq: i64,
    /// When it was appended.
    pub at: String,
    /// The fence it was written under.
    pub epoch: i64,
    /// What happened.
    pub event: String,
    /// What belongs to it.
    #[serde(flatten)]
    #[schema(additional_properties, value_type = Object)]
    pub fields: serde_json::Map<String, serde_json::Value>,
}
