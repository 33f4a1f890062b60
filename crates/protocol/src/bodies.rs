//! Request bodies.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sortie_core::budget::MICROS_PER_USD;
use sortie_core::check::Check;
use sortie_core::policy::Mode;
use sortie_core::run::{Announce, Cleanup, ContextFork, Isolation, Priority, Status};
use sortie_core::words::Lang;
use utoipa::ToSchema;

use crate::Role;

/// Selects ended tasks to delete. A task is deleted with its descendants, when all of them ended long
/// enough ago and their results are delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CleanBody {
    /// Hours since the end.
    #[schema(maximum = 876_000)]
    pub max_age_hours: u64,
    /// Only tasks with one of these states; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<Status>,
    /// Only tasks of this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Counts the tasks and deletes nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// The budget of a run and its descendants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Tokens of prompts and completions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Descendants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<u64>,
    /// Seconds from the first claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

impl From<Budget> for sortie_core::budget::Budget {
    fn from(budget: Budget) -> Self {
        Self {
            tokens: budget.tokens,
            // An invalid amount becomes a budget of zero, never an unlimited one.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "`as` saturates, and NaN becomes zero"
            )]
            usd_micros: budget.usd.map(|usd| (usd * MICROS_PER_USD).round() as u64),
            tool_calls: budget.tool_calls,
            children: budget.children,
            wall_ms: budget.seconds.map(|seconds| seconds.saturating_mul(1000)),
        }
    }
}

impl From<sortie_core::budget::Budget> for Budget {
    fn from(budget: sortie_core::budget::Budget) -> Self {
        Self {
            tokens: budget.tokens,
            #[expect(
                clippy::cast_precision_loss,
                reason = "realistic amounts of money are exact"
            )]
            usd: budget
                .usd_micros
                .map(|micros| micros as f64 / MICROS_PER_USD),
            tool_calls: budget.tool_calls,
            children: budget.children,
            seconds: budget.wall_ms.map(|millis| millis.div_ceil(1000)),
        }
    }
}

/// A task to create.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTask {
    /// The instruction.
    #[schema(min_length = 1)]
    pub message: String,
    /// A short name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub agent: Option<String>,
    /// The model, instead of the agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model if the agent names none; the default of the server if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_model: Option<String>,
    /// Models to prompt in turn if the one before fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallbacks: Option<Vec<String>>,
    /// The reasoning effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// `channel:chat_id`; an id without a colon means `api:{id}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub session_id: Option<String>,
    /// The workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub workspace: Option<String>,
    /// How calls that change something are treated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// The time limit; 0 for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// The limit of completions with tool calls; then the task has to report what it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
    /// The limit of the depth of its tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u32>,
    /// The budget of the task and its descendants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Whether the task works in a worktree of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// How much of the conversation of its session the task starts with: `clean`, `last:N` or
    /// `cached`; `clean` if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub fork: Option<ContextFork>,
    /// The JSON schema of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub result_schema: Option<Value>,
    /// What the server checks after the final answer: objects with one of the keys `command`,
    /// `file_exists`, `file_changed`, `matches`, `sha256` and `http`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub checks: Vec<Check>,
    /// The sampling temperature, from 0 to 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The limit of tokens of one completion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Where else to deliver the result, as `file:PATH`; for admins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub report_to: Vec<String>,
    /// Whether the task is a main run instead of a background task.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub main: bool,
    /// The language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lang: Option<Lang>,
    /// An ended run whose history to continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub continues: Option<String>,
    /// Whether the result of a background task is announced to its session: `steer` or `silent`. If
    /// missing, `steer` for a task with a `session_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub announce: Option<Announce>,
    /// What happens to the transcript once the result is delivered; `keep` if missing. Record, usage and
    /// audit are always kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<Cleanup>,
    /// Labels that the worker of the task and its descendants must have; at most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<String>,
}

/// A message to a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewMessage {
    /// The message.
    #[schema(min_length = 1)]
    pub text: String,
    /// The agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub agent: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub workspace: Option<String>,
    /// How calls that change something are treated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The reasoning effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// The budget of the run and its descendants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// The language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lang: Option<Lang>,
}

/// Changes to a queued task; a missing field stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskPatch {
    /// A short name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
}

/// A cancellation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelBody {
    /// The reason, which the record shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Where to fork a task, and how the fork continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkBody {
    /// The sequence number of the last journal entry that the fork keeps.
    pub at: i64,
    /// The model; the same if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How calls that change something are treated; the same if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
}

/// A text for a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SteerBody {
    /// The text.
    #[schema(min_length = 1)]
    pub text: String,
}

/// The answer to a question of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerBody {
    /// The id of the question; the only open one if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub request_id: Option<String>,
    /// The answer.
    #[schema(min_length = 1)]
    pub text: String,
}

/// What to do about a blocked delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeliveryBody {
    /// The action.
    pub action: DeliveryAction,
}

/// What to do about a blocked delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryAction {
    /// Try again.
    Retry,
    /// Give the delivery up.
    Dismiss,
}

/// A decision about an approval request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalBody {
    /// The decision.
    pub decision: ApprovalDecision,
    /// With `approve`: the rule to grant for the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasting: Option<String>,
    /// With `deny`: what the run is to do instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub words: Option<String>,
}

/// A decision about an approval request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalDecision {
    /// The call may run.
    Approve,
    /// The call may not run.
    Deny,
}

/// A hypothetical call to evaluate against the policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainBody {
    /// The name of the tool.
    #[schema(min_length = 1)]
    pub tool: String,
    /// The arguments of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub arguments: Option<Value>,
    /// The agent; the main agent if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub agent: Option<String>,
    /// The workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub workspace: Option<String>,
    /// How calls that change something are treated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
}

/// A key to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewKey {
    /// The name, unique within the tenant.
    #[schema(min_length = 1, max_length = 64)]
    pub name: String,
    /// The role.
    pub role: Role,
    /// The tenant to limit the key to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub tenant: Option<String>,
    /// Seconds until the key expires; never if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 3_153_600_000_u64)]
    pub expires_seconds: Option<u64>,
}

/// A rotation of a key's secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateBody {
    /// Seconds for which the old secret stays valid; none if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 604_800)]
    pub grace_seconds: Option<u64>,
}

/// A login link to create.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkBody {
    /// The role of the browser session, at most that of the caller; the same if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}
