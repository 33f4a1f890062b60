//! `sortie tasks show`.

use clap::Args;
use serde::Serialize;
use sortie_core::id::Seq;
use sortie_core::message::Usage;
use sortie_core::request::{OpenRequest, RequestFilter};
use sortie_core::request_view::RequestView;
use sortie_core::run::RunRecord;
use sortie_core::time::{Clock, Timestamp};
use sortie_core::words::Lang;
use sortie_protocol::Task;
use sortie_runtime::ProcessClock;
use sortie_text::{one_line, strip_sequences, t, truncate_middle};

use super::circumstances::Circumstances;
use super::{all_records, budget, open, prefixes};
use crate::commands::approvals::what;
use crate::exit::Exit;
use crate::ids::Prefixes;
use crate::output;
use crate::problem::Problem;
use crate::report::{self, indented};
use crate::settings::Settings;
use crate::table;

/// The most characters of the instruction that are printed; `--json` prints all of it.
const TASK_CHARS: usize = 2_000;

/// Shows a task: how far it is, what it used, its children and its result
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The task's id, or the beginning of it
    id: String,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let (store, record) = open(settings, &self.id).await?;
        let circumstances = Circumstances::of(&record, store.read(record.run_id, Seq(0)).await?);
        let filter = RequestFilter {
            run: Some(record.run_id),
            ..RequestFilter::default()
        };
        let requests = store.requests(filter).await?;
        if self.json {
            output::json(&Shown {
                task: Task::from(&record),
                circumstances,
                requests: requests.iter().map(RequestView::from).collect(),
            })?;
            return Ok(Exit::Ok);
        }
        let all = all_records(&store).await?;
        let lang = settings.lang;
        let now = ProcessClock::start().now();
        let mut rows = fields(lang, &record, now);
        rows.extend(circumstances.rows(lang));
        for balance in &record.budget {
            rows.push((t!(lang, "field-budget"), budget::balance(lang, *balance)));
        }
        let mut parts = vec![table::pairs(&rows)];
        if let Some(asked) = asked(lang, &requests) {
            parts.push(asked);
        }
        let task = truncate_middle(&strip_sequences(&record.task), TASK_CHARS, "\n[…]\n").text;
        parts.push(format!("{}\n{}", t!(lang, "field-task"), indented(&task)));
        if let Some(children) = children(lang, &record, &all, &prefixes(&all)) {
            parts.push(children);
        }
        if let Some(outcome) = &record.outcome {
            if let Some(error) = report::why(lang, &record) {
                let error = indented(&strip_sequences(&error));
                parts.push(format!("{}\n{error}", t!(lang, "field-error")));
            }
            if let Some(text) = outcome.text() {
                let text = indented(&strip_sequences(text));
                parts.push(format!("{}\n{text}", t!(lang, "field-result")));
            }
        }
        output::text(&parts.join("\n\n"))?;
        Ok(Exit::Ok)
    }
}

/// The task as all interfaces return it, with further fields.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    task: Task,
    #[serde(flatten)]
    circumstances: Circumstances,
    /// Its open requests.
    requests: Vec<RequestView>,
}

/// Formats the open requests and how to reply to them.
fn asked(lang: Lang, requests: &[OpenRequest]) -> Option<String> {
    let lines: Vec<String> = requests
        .iter()
        .map(|request| format!("{} {}", request.request.id, what(lang, request)))
        .collect();
    if lines.is_empty() {
        return None;
    }
    let lines = indented(&lines.join("\n"));
    Some(format!("{}\n{lines}", t!(lang, "field-asks")))
}

fn fields(lang: Lang, record: &RunRecord, now: Timestamp) -> Vec<(String, String)> {
    let task = Task::from(record);
    let unknown = || "-".to_owned();
    let mut rows = vec![
        (t!(lang, "field-id"), record.run_id.to_string()),
        (t!(lang, "field-label"), one_line(&record.label)),
        (t!(lang, "field-status"), record.status.to_string()),
    ];
    if let Some(reason) = task.reason {
        rows.push((t!(lang, "field-reason"), reason.to_string()));
    }
    if let Some(waiting) = task.waiting_on {
        rows.push((t!(lang, "field-waiting"), waiting.to_string()));
    }
    if let Some(position) = record.queue_position {
        rows.push((t!(lang, "field-position"), position.to_string()));
    }
    rows.extend([
        (
            t!(lang, "field-progress"),
            format!("{}%", record.summary.progress),
        ),
        (t!(lang, "field-agent"), one_line(&record.agent)),
        (t!(lang, "field-model"), one_line(&record.summary.model)),
        (t!(lang, "field-session"), one_line(record.session.as_str())),
        (
            t!(lang, "field-parent"),
            record.parent.map_or_else(unknown, |run| run.to_string()),
        ),
        (t!(lang, "field-created"), task.created_at),
        (
            t!(lang, "field-started"),
            task.started_at.unwrap_or_else(unknown),
        ),
        (
            t!(lang, "field-ended"),
            task.completed_at.unwrap_or_else(unknown),
        ),
        (t!(lang, "field-elapsed"), table::elapsed(record, now)),
        (
            t!(lang, "field-tools"),
            record.summary.tool_calls.to_string(),
        ),
        (
            t!(lang, "field-tokens"),
            report::spent(lang, record.summary.usage).unwrap_or_else(unknown),
        ),
        (t!(lang, "field-delivery"), record.delivery.to_string()),
    ]);
    if record.children_usage != Usage::default() {
        let whole = report::spent(lang, record.total_usage()).unwrap_or_else(unknown);
        rows.push((t!(lang, "field-total"), whole));
    }
    if let Some(error) = &record.delivery_error {
        rows.push((t!(lang, "field-delivery-error"), one_line(error)));
    }
    rows
}

fn children(
    lang: Lang,
    record: &RunRecord,
    all: &[RunRecord],
    prefixes: &Prefixes,
) -> Option<String> {
    let lines: Vec<String> = all
        .iter()
        .rev()
        .filter(|run| run.parent == Some(record.run_id))
        .map(|run| {
            format!(
                "{} [{}] {}: {}",
                prefixes.short(run.run_id),
                one_line(&run.agent),
                one_line(&run.label),
                run.status
            )
        })
        .collect();
    if lines.is_empty() {
        return None;
    }
    let lines = indented(&lines.join("\n"));
    Some(format!("{}\n{lines}", t!(lang, "field-children")))
}
