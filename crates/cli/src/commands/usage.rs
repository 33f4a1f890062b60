//! `sortie usage`.

use clap::Args;
use sortie_core::id::SessionKey;
use sortie_core::message::Usage as Used;
use sortie_core::ports::store::ListFilter;
use sortie_core::stats::UsageLine;
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
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

impl Usage {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
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
