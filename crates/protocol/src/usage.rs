//! Usage and budgets.

use serde::{Deserialize, Serialize};
use sortie_core::id::SessionKey;
use sortie_core::stats::{EndedUsage, UsageBy};
use sortie_core::tenant::{Period, Quota, Tenant, TenantUse, date_of};
use sortie_core::time::Timestamp;
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

/// What a tenant uses, and its limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TenantState {
    /// The name.
    #[schema(value_type = String)]
    pub tenant: Tenant,
    /// The share in the slots while several tenants have queued tasks.
    pub weight: u64,
    /// The tasks that an executor has.
    pub running: u64,
    /// The tasks that wait for their first slot.
    pub queued: u64,
    /// One for each quota of the configuration, limited or not.
    pub quotas: Vec<QuotaState>,
}

/// A quota of a tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QuotaState {
    /// Its key in the configuration; it names the unit.
    pub quota: Quota,
    /// The most; null is no limit.
    #[schema(required)]
    pub limit: Option<f64>,
    /// How much of it is used.
    pub used: f64,
    /// When the day or month ends; null for quotas that free up by themselves.
    #[schema(required)]
    pub resets_at: Option<String>,
}

impl TenantState {
    /// Describes the quotas at a moment, which decides when they reset.
    pub fn of(tenant: &TenantUse, at: Timestamp) -> Self {
        let period = Period::of(at);
        let quotas = Quota::ALL.iter().map(|quota| QuotaState {
            quota: *quota,
            limit: tenant
                .limits
                .limit(*quota)
                .map(|limit| quota.in_unit(limit)),
            used: quota.in_unit(tenant.used(*quota)),
            resets_at: period.resets_at(*quota).map(Timestamp::to_rfc3339),
        });
        Self {
            tenant: tenant.tenant.clone(),
            weight: tenant.limits.weight(),
            running: tenant.running,
            queued: tenant.queued,
            quotas: quotas.collect(),
        }
    }
}

/// What the ended tasks of one tenant, agent, model and day used. A field that the export is not broken
/// down by is left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageExportLine {
    /// Empty for tasks without a tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model that completed the prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The day on which the tasks ended, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    /// The number of tasks.
    pub tasks: u64,
    /// The number of tasks with a completion of unknown cost.
    pub unpriced: u64,
    /// The number of tool calls.
    pub tool_calls: u64,
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

impl From<EndedUsage> for UsageExportLine {
    fn from(line: EndedUsage) -> Self {
        Self {
            tenant: line.tenant,
            agent: line.agent,
            model: line.model,
            day: line.day.map(date_of),
            tasks: line.runs,
            unpriced: line.unpriced,
            tool_calls: line.tool_calls,
            input_tokens: line.usage.input_tokens,
            output_tokens: line.usage.output_tokens,
            cache_read_tokens: line.usage.cache_read_tokens,
            cache_write_tokens: line.usage.cache_write_tokens,
            cost_usd: line.usage.cost_usd,
        }
    }
}

/// Formats an export as CSV (RFC 4180) with a header, in the order of the fields in JSON. An unknown
/// value is empty.
pub fn usage_csv(by: &[UsageBy], lines: &[UsageExportLine]) -> String {
    let parts = UsageBy::ALL.iter().filter(|part| by.contains(part));
    let mut head: Vec<&str> = parts.clone().map(|part| part.as_str()).collect();
    head.extend([
        "tasks",
        "unpriced",
        "tool_calls",
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "cost_usd",
    ]);
    let mut csv = head.join(",");
    csv.push_str("\r\n");
    for line in lines {
        let mut fields: Vec<String> = parts
            .clone()
            .map(|part| {
                let text = match part {
                    UsageBy::Tenant => &line.tenant,
                    UsageBy::Agent => &line.agent,
                    UsageBy::Model => &line.model,
                    UsageBy::Day => &line.day,
                };
                csv_field(text.as_deref().unwrap_or_default())
            })
            .collect();
        let known = |number: Option<u64>| number.map(|number| number.to_string());
        fields.extend([line.tasks, line.unpriced, line.tool_calls].map(|count| count.to_string()));
        fields.extend(
            [
                known(line.input_tokens),
                known(line.output_tokens),
                known(line.cache_read_tokens),
                known(line.cache_write_tokens),
                line.cost_usd.map(|cost| format!("{cost:.9}")),
            ]
            .map(Option::unwrap_or_default),
        );
        csv.push_str(&fields.join(","));
        csv.push_str("\r\n");
    }
    csv
}

/// Quotes a field where that is needed. A name that a spreadsheet would read as a formula gets an
/// apostrophe, which marks text there.
fn csv_field(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if is_formula {
        format!("'{text}")
    } else {
        text.to_owned()
    };
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_quotes_names_and_defuses_formulas() {
        let line = UsageExportLine {
            tenant: Some("acme".to_owned()),
            agent: Some("=1+1".to_owned()),
            model: Some("a,\"b\"".to_owned()),
            day: None,
            tasks: 2,
            unpriced: 0,
            tool_calls: 3,
            input_tokens: Some(10),
            output_tokens: None,
            cache_read_tokens: None,
            cache_write_tokens: None,
            cost_usd: Some(0.000_001_5),
        };
        let by = [UsageBy::Model, UsageBy::Tenant, UsageBy::Agent];
        assert_eq!(
            usage_csv(&by, &[line]),
            "tenant,agent,model,tasks,unpriced,tool_calls,input_tokens,output_tokens,\
             cache_read_tokens,cache_write_tokens,cost_usd\r\n\
             acme,'=1+1,\"a,\"\"b\"\"\",2,0,3,10,,,,0.000001500\r\n"
        );
    }
}
