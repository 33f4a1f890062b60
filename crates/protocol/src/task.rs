//! Tasks: the user's word for runs.

use serde::{Deserialize, Serialize};
use sortie_base::truncate::truncate_in_place;
use sortie_core::check::{CheckResult, Verdict};
use sortie_core::id::{RunId, SessionKey};
use sortie_core::run::{
    Changes, ChangesFate, Delivery, Isolation, Lane, Outcome, Priority, Reason, RunDetails,
    RunRecord, Status, WaitingOn,
};
use utoipa::ToSchema;

use crate::{Balance, Request, Usage, time, time_of};

/// Maximum number of characters of a message, result or error in a summary.
pub const SUMMARY_CHARS: usize = 280;

/// A task: the shape that the command line and the API show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Task {
    /// The id of the run.
    #[schema(value_type = String)]
    pub task_id: RunId,
    /// The short name that people type, unique in the store: 4 to 6 characters.
    pub handle: String,
    /// A short name for people.
    pub label: String,
    /// The instruction.
    pub message: String,
    /// The session of the task.
    #[schema(value_type = String)]
    pub session_id: SessionKey,
    /// The run that started it; null for a root.
    #[schema(value_type = Option<String>, required)]
    pub parent_id: Option<RunId>,
    /// The root of its tree.
    #[schema(value_type = String)]
    pub root_id: RunId,
    /// The name of the agent.
    pub agent: String,
    /// The model that completed its prompts.
    pub model: String,
    /// The status.
    pub status: Status,
    /// Why it failed.
    #[schema(required)]
    pub reason: Option<Reason>,
    /// What the task waits for.
    #[schema(required)]
    pub waiting_on: Option<WaitingOn>,
    /// Whether the task is paused.
    pub paused: bool,
    /// From 0 to 100.
    pub progress: u8,
    /// The final text, or the last text if it did not complete.
    #[schema(required)]
    pub result: Option<String>,
    /// Why the task ended without a result.
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
    /// The depth below the root.
    pub depth: u32,
    /// `subagent:{run_id}:{task_hash}`.
    #[schema(value_type = String)]
    pub child_session: SessionKey,
    /// The lane.
    pub lane: Lane,
    /// The priority.
    pub priority: Priority,
    /// The number of tool calls.
    pub tool_calls: u32,
    /// The usage of the task itself.
    pub usage: Usage,
    /// The usage of the task and its ended descendants.
    pub total_usage: Usage,
    /// The state of the delivery of the result.
    pub delivery: Delivery,
    /// What the checks say about the result: `verified`, `unverified` or `refuted`. Null for a task that
    /// has no checks or did not complete.
    #[schema(required)]
    pub verdict: Option<Verdict>,
    /// The checks with their evidence; missing if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub checks: Vec<CheckResult>,
    /// The position in the queue, from 1; for a task of a tenant, among the tasks of that tenant.
    #[schema(required)]
    pub queue_position: Option<u32>,
    /// The tenant of the task.
    #[schema(required)]
    pub tenant: Option<String>,
    /// Whether a cancellation was requested.
    pub cancel_requested: bool,
    /// The sequence number of its last journal entry.
    pub seq: i64,
    /// The balances of the accounts that it draws from; missing if nothing is limited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budget: Vec<Balance>,
}

impl From<&RunRecord> for Task {
    fn from(record: &RunRecord) -> Self {
        let checked = record.outcome.as_ref().and_then(Outcome::checked);
        Self {
            task_id: record.run_id,
            handle: record.handle.clone(),
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
            verdict: checked.map(|checked| checked.verdict),
            checks: checked
                .map(|checked| checked.results.clone())
                .unwrap_or_default(),
            queue_position: record.queue_position,
            tenant: record.tenant.as_ref().map(ToString::to_string),
            cancel_requested: record.cancel_requested,
            seq: record.head.0,
            budget: record.budget.clone(),
        }
    }
}

impl Task {
    /// Truncates long texts to [`SUMMARY_CHARS`] characters, for lists and live views.
    #[must_use]
    pub fn summary(mut self) -> Self {
        shorten(&mut self.message);
        if let Some(result) = &mut self.result {
            shorten(result);
        }
        if let Some(error) = &mut self.error {
            shorten(error);
        }
        self
    }
}

fn shorten(text: &mut String) {
    truncate_in_place(text, SUMMARY_CHARS);
}

/// A file that a command left and that would have taken effect outside of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Neutralised {
    /// The path, relative to the workspace.
    pub path: String,
    /// What was done: `reduced`, `moved_aside`, `restored`, `left_in_place`, `failed`,
    /// `not_checked` or `more`.
    pub measure: String,
    /// The git settings that were removed.
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

/// A task with everything that a detail view needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskDetail {
    /// The task.
    #[serde(flatten)]
    pub task: Task,
    /// The workspace.
    pub workspace: String,
    /// How calls that change something are treated.
    pub mode: String,
    /// The sandbox mode of its commands.
    pub sandbox: String,
    /// The sandbox that was applied to its last command.
    #[schema(value_type = Option<Object>, required)]
    pub sandbox_applied: Option<serde_json::Value>,
    /// Whether its commands may reach the network.
    pub network: bool,
    /// Whether the task works in a worktree of its own.
    pub isolation: Isolation,
    /// The branch of its changes.
    #[schema(required)]
    pub branch: Option<String>,
    /// The changes in its worktree.
    #[schema(required)]
    pub changes: Option<Changes>,
    /// Whether the changes were applied or discarded; null before a decision.
    #[schema(required)]
    pub changes_fate: Option<ChangesFate>,
    /// The hash of its policy.
    pub policy_hash: String,
    /// The reasoning effort.
    #[schema(required)]
    pub thinking: Option<String>,
    /// The tools it may call.
    pub tools: Vec<String>,
    /// The skills it may load.
    pub skills: Vec<String>,
    /// The time limit.
    #[schema(required)]
    pub timeout_seconds: Option<f64>,
    /// The most milliseconds that the task and its descendants may take.
    #[schema(required)]
    pub wall_ms: Option<u64>,
    /// When the time limit passes, once the task has started.
    #[schema(required)]
    pub deadline: Option<String>,
    /// The run whose history it continues.
    #[schema(value_type = Option<String>, required)]
    pub continues: Option<RunId>,
    /// Why the delivery is blocked.
    #[schema(required)]
    pub delivery_error: Option<String>,
    /// How often a process died while executing it.
    pub crashes: u32,
    /// The todo list.
    pub todos: Vec<TodoItem>,
    /// Files of its commands that were neutralised.
    pub neutralised: Vec<Neutralised>,
    /// The number of runs that it started.
    pub children: u64,
    /// Its open requests.
    pub requests: Vec<Request>,
}

impl TaskDetail {
    /// Returns a task by its record and its journal; a deleted journal leaves its fields empty.
    /// `children` counts the runs that it started.
    pub fn new(
        record: &RunRecord,
        journal: Option<&RunDetails>,
        children: u64,
        requests: Vec<Request>,
    ) -> Self {
        let limit = record
            .timeout_ms
            .map(|ms| i64::try_from(ms).unwrap_or(i64::MAX));
        let deadline = record.started_at.zip(limit).map(|(at, ms)| at.plus_ms(ms));
        let changes = journal.and_then(|journal| journal.changes.clone());
        let worktree = journal.and_then(|journal| journal.worktree.as_ref());
        let neutralised = journal.map_or(&[][..], |journal| &journal.neutralised);
        let todos = journal.map_or(&[][..], |journal| &journal.todos);
        let text = |of: fn(&RunDetails) -> String| journal.map_or_else(String::new, of);
        let names = |of: fn(&RunDetails) -> &Vec<String>| {
            journal.map_or_else(Vec::new, |journal| of(journal).clone())
        };
        Self {
            task: Task::from(record),
            workspace: text(|journal| journal.workspace.display().to_string()),
            mode: text(|journal| journal.mode.to_string()),
            sandbox: text(|journal| journal.sandbox.to_string()),
            sandbox_applied: journal.and_then(|journal| journal.sandbox_applied.clone()),
            network: journal.is_some_and(|journal| journal.network),
            isolation: journal.map_or(Isolation::None, |journal| journal.isolation),
            branch: worktree.map(|worktree| worktree.branch.clone()),
            changes,
            changes_fate: record.changes_fate,
            policy_hash: text(|journal| journal.policy_hash.clone()),
            thinking: record.thinking.clone(),
            tools: names(|journal| &journal.tools),
            skills: names(|journal| &journal.skills),
            timeout_seconds: record.timeout_ms.map(|ms| ms as f64 / 1_000.0),
            wall_ms: journal.and_then(|journal| journal.wall_ms),
            deadline: time_of(deadline),
            continues: journal.and_then(|journal| journal.continues),
            delivery_error: record.delivery_error.clone(),
            crashes: record.crashes,
            todos: todos.iter().map(TodoItem::from).collect(),
            neutralised: neutralised
                .iter()
                .filter_map(|thing| serde_json::from_value(thing.clone()).ok())
                .collect(),
            children,
            requests,
        }
    }
}

/// One item of a todo list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TodoItem {
    /// The text of the item.
    pub text: String,
    /// `pending`, `in_progress` or `completed`.
    pub status: String,
}

impl From<&sortie_core::message::Todo> for TodoItem {
    fn from(todo: &sortie_core::message::Todo) -> Self {
        Self {
            text: todo.content.clone(),
            status: match todo.status {
                sortie_core::message::TodoStatus::Pending => "pending",
                sortie_core::message::TodoStatus::InProgress => "in_progress",
                sortie_core::message::TodoStatus::Completed => "completed",
            }
            .to_owned(),
        }
    }
}

/// The number of tasks by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stats {
    /// All tasks.
    pub total: u64,
    /// Tasks that have not started.
    pub pending: u64,
    /// Tasks that have started and not ended.
    pub running: u64,
    /// Tasks that ended with a result.
    pub completed: u64,
    /// Tasks that failed.
    pub failed: u64,
    /// Tasks whose deadline passed.
    pub timeout: u64,
    /// Tasks that were cancelled.
    pub cancelled: u64,
}

impl From<sortie_core::stats::Stats> for Stats {
    fn from(stats: sortie_core::stats::Stats) -> Self {
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

/// The result of a cancel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cancelled {
    /// The task.
    #[schema(value_type = String)]
    pub task_id: RunId,
    /// The tasks that the cancel ends, this one included.
    #[schema(value_type = Vec<String>)]
    pub cancelled: Vec<RunId>,
    /// The status with which the task had ended before.
    #[schema(required)]
    pub already_ended: Option<Status>,
}

/// The result of a delete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Deleted {
    /// The task.
    #[schema(value_type = String)]
    pub task_id: RunId,
    /// The number of deleted records, descendants included.
    pub deleted: u64,
}

/// The result of deleting old tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cleaned {
    /// The number of deleted records; with `dry_run` of those that would be deleted.
    pub deleted: u64,
    /// Whether nothing was deleted, because the request only asked.
    pub dry_run: bool,
}

/// The result of applying changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Applied {
    /// The task.
    #[schema(value_type = String)]
    pub task_id: RunId,
    /// The changed files.
    pub files: Vec<String>,
}

/// The changes in the worktree of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Diff {
    /// The task.
    #[schema(value_type = String)]
    pub task_id: RunId,
    /// A unified diff, truncated if it is long.
    pub diff: String,
}

/// The result of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskResult {
    /// The task.
    #[schema(value_type = String)]
    pub task_id: RunId,
    /// The status.
    pub status: Status,
    /// The final text, or the last text if it did not complete.
    #[schema(required)]
    pub result: Option<String>,
    /// Why the task ended without a result.
    #[schema(required)]
    pub error: Option<String>,
    /// What the checks say about the result: `verified`, `unverified` or `refuted`.
    #[schema(required)]
    pub verdict: Option<Verdict>,
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

/// The id of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskRef {
    /// The task.
    #[schema(value_type = String)]
    pub task_id: RunId,
}

/// One entry of a run's journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JournalEntry {
    /// The run.
    #[schema(value_type = String)]
    pub run: RunId,
    /// The sequence number in the journal.
    pub seq: i64,
    /// When it was appended.
    pub at: String,
    /// The fencing epoch under which it was appended.
    pub epoch: i64,
    /// The type of the event.
    pub event: String,
    /// The fields of the event.
    #[serde(flatten)]
    #[schema(additional_properties, value_type = Object)]
    pub fields: serde_json::Map<String, serde_json::Value>,
}
