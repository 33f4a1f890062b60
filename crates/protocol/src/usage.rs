//! What was used, and what is left.

use serde::{Deserialize, Serialize};
use sortie_core::SessionKey;
use utoipa::ToSchema;

/// What a run has used. Unknown is null, never zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// Tokens sent.
    #[schema(required)]
    pub input_tokens: Option<u64>,
    /// Tokens received.
    #[schema(required)]
    pub output_tokens: Option<u64>,
    /// Tokens read from the provider's cache.
    #[schema(required)]
    pub cache_read_tokens: Option<u64>,
    /// Tokens written to the provider's cache.
    #[schema(required)]
    pub cache_write_tokens: Option<u64>,
    /// Money, estimated.
    #[schema(required)]
    pub cost_usd: Option<f64>,
}

impl Usage {
    /// Tokens in both directions, where known.
    pub fn total_tokens(self) -> Option<u64> {
        match (self.input_tokens, self.output_tokens) {
            (Some(input), Some(output)) => Some(input.saturating_add(output)),
            (Some(known), None) | (None, Some(known)) => Some(known),
            (None, None) => None,
        }
    }
}

impl From<sortie_core::Usage> for Usage {
    fn from(usage: sortie_core::Usage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            cache_write_tokens: usage.cache_write_tokens,
            cost_usd: usage.cost_usd,
        }
    }
}

/// What runs of one session, agent and model used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageLine {
    /// The session that asked.
    #[schema(value_type = String)]
    pub session_id: SessionKey,
    /// The agent.
    pub agent: String,
    /// The model that answered.
    pub model: String,
    /// How many runs.
    pub runs: u64,
    /// How many of them have no known price.
    pub unpriced: u64,
    /// How many calls they made.
    pub tool_calls: u64,
    /// What they used.
    pub usage: Usage,
}

impl From<sortie_core::UsageLine> for UsageLine {
    fn from(line: sortie_core::UsageLine) -> Self {
        Self {
            session_id: line.session,
            agent: line.agent,
            model: line.model,
            runs: line.runs,
            unpriced: line.unpriced,
            tool_calls: line.tool_calls,
            usage: line.usage.into(),
        }
    }
}

/// What happened in one stretch of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsagePoint {
    /// When the stretch begins.
    pub at: String,
    /// Runs that were admitted.
    pub tasks: u64,
    /// Runs of these that ended with a result.
    pub completed: u64,
    /// Runs of these that ended without.
    pub failed: u64,
    /// Tokens sent, where known.
    pub input_tokens: u64,
    /// Tokens received, where known.
    pub output_tokens: u64,
    /// Runs of these with an answer whose price is unknown.
    pub unpriced: u64,
    /// Money, where known; null if it is known of none of them.
    #[schema(required)]
    pub cost_usd: Option<f64>,
}

impl From<sortie_core::UsagePoint> for UsagePoint {
    fn from(point: sortie_core::UsagePoint) -> Self {
        Self {
            at: crate::time(point.at),
            tasks: point.tasks,
            completed: point.completed,
            failed: point.failed,
            input_tokens: point.input_tokens,
            output_tokens: point.output_tokens,
            unpriced: point.unpriced,
            cost_usd: point.cost_usd,
        }
    }
}

/// The accounts that one run draws from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BudgetLine {
    /// The run.
    #[schema(value_type = String)]
    pub task_id: sortie_core::RunId,
    /// What people call it.
    pub label: String,
    /// Its agent.
    pub agent: String,
    /// How far it is.
    pub status: sortie_core::Status,
    /// Each kind that is limited.
    pub balances: Vec<crate::Balance>,
}
