//! What clients send.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sortie_core::{Isolation, Lang, MICROS_PER_USD, Mode, Priority};
use utoipa::ToSchema;

use crate::Role;

/// What a run and everything below it may spend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Tokens in both directions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Runs below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<u64>,
    /// Time from its first claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

impl From<Budget> for sortie_core::Budget {
    fn from(budget: Budget) -> Self {
        Self {
            tokens: budget.tokens,
            // A float that is no amount of money becomes nothing to spend, never no limit.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "`as` saturates, and what is no number becomes zero"
            )]
            usd_micros: budget.usd.map(|usd| (usd * MICROS_PER_USD).round() as u64),
            tool_calls: budget.tool_calls,
            children: budget.children,
            wall_ms: budget.seconds.map(|seconds| seconds.saturating_mul(1000)),
        }
    }
}

impl From<sortie_core::Budget> for Budget {
    fn from(budget: sortie_core::Budget) -> Self {
        Self {
            tokens: budget.tokens,
            #[expect(
                clippy::cast_precision_loss,
                reason = "amounts of money that matter are exact"
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

/// A task to be made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTask {
    /// What it is to do.
    #[schema(min_length = 1)]
    pub message: String,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub agent: Option<String>,
    /// The model, whatever the agent wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model if the agent wants none in particular; the server's own default if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_model: Option<String>,
    /// Models to ask in turn when the one before cannot answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallbacks: Option<Vec<String>>,
    /// How hard to think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// `channel:chat_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub session_id: Option<String>,
    /// The folder it works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub workspace: Option<String>,
    /// How calls that change something are treated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// How urgent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// How long it may run; 0 is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// Answers with tool calls before it has to report what it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
    /// How deep its tree may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u32>,
    /// What it and everything below it may spend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Where it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// The JSON schema that the result has to fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub result_schema: Option<Value>,
    /// From 0, always the likeliest word, to 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The most tokens of one answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Places outside that want the result, as `file:PATH`; for admins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub report_to: Vec<String>,
    /// Whether it is a main run rather than a background task.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub main: bool,
    /// Its language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lang: Option<Lang>,
    /// A finished run to go on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub continues: Option<String>,
}

/// A message to a conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewMessage {
    /// The words.
    #[schema(min_length = 1)]
    pub text: String,
    /// The agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub agent: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The folder it works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub workspace: Option<String>,
    /// How calls that change something are treated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// How hard to think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// What it and everything below it may spend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Its language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lang: Option<Lang>,
}

/// How a queued task is to wait; what is missing stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskPatch {
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// How urgent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
}

/// Why something is to stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelBody {
    /// For people who wonder later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Where a task is to branch off another, and how it goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkBody {
    /// The last entry of the other's journal that counts.
    pub at: i64,
    /// The model to go on with, if not the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How calls that change something are treated; as before if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
}

/// Words for a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SteerBody {
    /// The words.
    #[schema(min_length = 1)]
    pub text: String,
}

/// The answer to a question of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerBody {
    /// Which question; its only open one if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub request_id: Option<String>,
    /// The words.
    #[schema(min_length = 1)]
    pub text: String,
}

/// What to do about a blocked delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeliveryBody {
    /// Which of the two.
    pub action: DeliveryAction,
}

/// What to do about a blocked delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryAction {
    /// Try again.
    Retry,
    /// Nobody needs it any more.
    Dismiss,
}

/// Whether a call may run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalBody {
    /// Yes or no.
    pub decision: ApprovalDecision,
    /// With a yes: what is allowed for the whole session from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasting: Option<String>,
    /// With a no: what to do instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub words: Option<String>,
}

/// Yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalDecision {
    /// The call may run.
    Approve,
    /// It may not.
    Deny,
}

/// A call to be judged, without running it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainBody {
    /// The tool.
    #[schema(min_length = 1)]
    pub tool: String,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub arguments: Option<Value>,
    /// The agent; the main agent if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub agent: Option<String>,
    /// The folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub workspace: Option<String>,
    /// How calls that change something are treated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
}

/// A key to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewKey {
    /// What people call it; no other key of the same tenant is called so.
    #[schema(min_length = 1, max_length = 64)]
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Whose things it sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub tenant: Option<String>,
    /// How long it holds; for ever if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 3_153_600_000_u64)]
    pub expires_seconds: Option<u64>,
}

/// How a key is to get another secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateBody {
    /// How long the old secret still holds; not at all if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 604_800)]
    pub grace_seconds: Option<u64>,
}

/// For whom a login link is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkBody {
    /// What the browser may do; never more than whoever asks. The same if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}
