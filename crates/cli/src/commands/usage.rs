//! `sortie usage`.

use clap::{Args, ValueEnum};
use sortie_core::id::SessionKey;
use sortie_core::message::Usage as Used;
use sortie_core::ports::store::ListFilter;
use sortie_core::stats::{UsageBy, UsageLine, UsageRange};
use sortie_core::time::Clock as _;
use sortie_protocol::{UsageExportLine, usage_csv};
use sortie_runtime::ProcessClock;
use sortie_text::t;

use crate::commands::tasks::output_columns;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::table;

/// Shows tokens and estimated cost by session, agent and model
///
/// Costs are estimates by the price table (`docs/models.md`); a model without a known price shows
/// no cost.
#[derive(Debug, Args)]
pub(crate) struct Usage {
    /// Shows only this session, written channel:chat_id; ID alone means api:ID
    #[arg(long, value_name = "SESSION")]
    session: Option<SessionKey>,
    /// Exports the usage of ended tasks by these parts: tenant, agent, model, day
    ///
    /// Deleted tasks are included. A task counts on the day of its end (UTC).
    #[arg(long, value_name = "PARTS", conflicts_with = "session")]
    by: Option<String>,
    /// Format of the export [default: a table]
    #[arg(long, requires = "by", conflicts_with = "json")]
    format: Option<ExportFormat>,
    /// First day of the export, such as 2027-03-01 [default: the first of this month]
    #[arg(long, value_name = "DAY", requires = "by")]
    since: Option<String>,
    /// Last day of the export, which is included [default: today]
    #[arg(long, value_name = "DAY", requires = "by")]
    until: Option<String>,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    Csv,
    Json,
}

impl Usage {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        if let Some(by) = &self.by {
            return self.export(settings, by).await;
        }
        let store = settings.options.read_store()?;
        let lines = store
            .usage(ListFilter {
                session: self.session,
                archived: true,
                ..ListFilter::default()
            })
            .await?;
        let total = lines
            .iter()
            .fold(Used::default(), |sum, line| sum.plus(line.usage));
        if self.json {
            output::json(&serde_json::json!({"lines": lines, "total": total}))?;
        } else if lines.is_empty() {
            output::note(&t!(settings.lang, "no-tasks"));
        } else {
            output::text(&shown(settings, &lines, total))?;
        }
        Ok(Exit::Ok)
    }
}

impl Usage {
    async fn export(&self, settings: &Settings, by: &str) -> Result<Exit, Problem> {
        let now = ProcessClock::start().now();
        let days = (self.since.as_deref(), self.until.as_deref());
        let range = UsageRange::parse(by, days, now).map_err(Problem::Typed)?;
        let by = range.by.clone();
        let lines = settings.options.read_store()?.ended_usage(range).await?;
        let lines = UsageRange::checked(lines).map_err(Problem::Typed)?;
        let lines: Vec<_> = lines.into_iter().map(UsageExportLine::from).collect();
        match self.format {
            Some(ExportFormat::Csv) => output::text(&usage_csv(&by, &lines))?,
            Some(ExportFormat::Json) => output::json(&lines)?,
            None if self.json => output::json(&lines)?,
            None if lines.is_empty() => output::note(&t!(settings.lang, "no-tasks")),
            None => output::text(&shown_export(settings, &by, lines))?,
        }
        Ok(Exit::Ok)
    }
}

fn shown_export(settings: &Settings, by: &[UsageBy], lines: Vec<UsageExportLine>) -> String {
    let mut head: Vec<&str> = by
        .iter()
        .map(|part| match part {
            UsageBy::Tenant => "column-tenant",
            UsageBy::Agent => "column-agent",
            UsageBy::Model => "column-model",
            UsageBy::Day => "column-day",
        })
        .collect();
    head.extend([
        "column-tasks",
        "column-input",
        "column-cached",
        "column-output",
        "column-cost",
    ]);
    let rows = lines.into_iter().map(|line| {
        let used = numbers(Used {
            input_tokens: line.input_tokens,
            output_tokens: line.output_tokens,
            cache_read_tokens: line.cache_read_tokens,
            cache_write_tokens: line.cache_write_tokens,
            cost_usd: line.cost_usd,
        });
        let parts = [line.tenant, line.agent, line.model, line.day];
        let mut row: Vec<String> = parts.into_iter().flatten().collect();
        row.push(line.tasks.to_string());
        row.extend(used);
        row
    });
    let head = head.into_iter().map(|key| t!(settings.lang, key)).collect();
    table::rows(head, rows.collect(), output_columns(settings))
}

fn shown(settings: &Settings, lines: &[UsageLine], total: Used) -> String {
    let lang = settings.lang;
    let head = [
        "column-session",
        "column-agent",
        "column-model",
        "column-tasks",
        "column-input",
        "column-cached",
        "column-output",
        "column-cost",
    ];
    let mut rows: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            let mut row = vec![
                line.session.to_string(),
                line.agent.clone(),
                line.model.clone(),
                line.runs.to_string(),
            ];
            row.extend(numbers(line.usage));
            row
        })
        .collect();
    let runs: u64 = lines.iter().map(|line| line.runs).sum();
    let mut last = vec![
        t!(lang, "usage-total"),
        String::new(),
        String::new(),
        runs.to_string(),
    ];
    last.extend(numbers(total));
    rows.push(last);
    let head = head.map(|key| t!(lang, key)).to_vec();
    table::rows(head, rows, output_columns(settings))
}

/// Formats the numbers; an unknown number is a dash, not a zero.
fn numbers(usage: Used) -> [String; 4] {
    let tokens =
        |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    [
        tokens(usage.input_tokens),
        tokens(usage.cache_read_tokens),
        tokens(usage.output_tokens),
        usage
            .cost_usd
            .map_or_else(|| "-".to_owned(), |cost| format!("~${cost:.4}")),
    ]
}
