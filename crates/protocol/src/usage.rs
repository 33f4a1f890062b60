//! Usage and budgets.

use serde::{Deserialize, Serialize};
use sortie_core::id::SessionKey;
use utoipa::ToSchema;

/// What a run used. An unknown value is null, never zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// Tokens of prompts.
    #[schema(required)]
    pub input_tokens: Option<u64>,
    /// Tokens of completions.
    #[schema(required)]
    pub output_tokens: Option<u64>,
    /// Tokens read from the provider's cache.
    #[schema(required)]
    pub cache_read_tokens: Option<u64>,
    /// Tokens written to the provider's cache.
    #[schema(required)]
    pub cache_write_tokens: Option<u64>,
    /// The estimated cost in dollars.
    #[schema(required)]
    pub cost_usd: Option<f64>,
}

impl Usage {
    /// Returns the tokens of prompts and completions, as far as they are known.
    pub fn total_tokens(self) -> Option<u64> {
        match (self.input_tokens, self.output_tokens) {
            (Some(input), Some(output)) => Some(input.saturating_add(output)),
            (Some(known), None) | (None, Some(known)) => Some(known),
            (None, None) => None,
        }
    }
}

impl From<sortie_core::message::Usage> for Usage {
    fn from(usage: sortie_core::message::Usage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            cache_write_tokens: usage.cache_write_tokens,
            cost_usd: usage.cost_usd,
        }
    }
}

/// What the runs of one session, agent and model used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageLine {
    /// The session.
    #[schema(value_type = String)]
    pub session_id: SessionKey,
    /// The agent.
    pub agent: String,
    /// The model that completed the prompts.
    pub model: String,
    /// The number of runs.
    pub runs: u64,
    /// The number of runs without a known price.
    pub unpriced: u64,
    /// The number of tool calls.
    pub tool_calls: u64,
    /// Their usage.
    pub usage: Usage,
}

impl From<sortie_core::stats::UsageLine> for UsageLine {
    fn from(line: sortie_core::stats::UsageLine) -> Self {
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

/// The usage of one interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsagePoint {
    /// The start of the interval.
    pub at: String,
    /// Runs that were admitted in the interval.
    pub tasks: u64,
    /// How many of them completed.
    pub completed: u64,
    /// How many of them ended without a result.
    pub failed: u64,
    /// Known tokens of prompts.
    pub input_tokens: u64,
    /// Known tokens of completions.
    pub output_tokens: u64,
    /// How many of them have a completion without a known price.
    pub unpriced: u64,
    /// The known cost in dollars; null if none is known.
    #[schema(required)]
    pub cost_usd: Option<f64>,
}

impl From<sortie_core::stats::UsagePoint> for UsagePoint {
    fn from(point: sortie_core::stats::UsagePoint) -> Self {
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

/// The budgets of the accounts that one run draws from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BudgetLine {
    /// The run.
    #[schema(value_type = String)]
    pub task_id: sortie_core::id::RunId,
    /// The label of the run.
    pub label: String,
    /// The agent of the run.
    pub agent: String,
    /// The status of the run.
    pub status: sortie_core::run::Status,
    /// The balance of each limited kind of budget.
    pub balances: Vec<crate::Balance>,
}
