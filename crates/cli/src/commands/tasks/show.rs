//! `sortie tasks show`.

use clap::Args;
use sortie_base::hidden::write_out_line;
use sortie_core::id::Seq;
use sortie_core::message::Usage;
use sortie_core::ports::store::ListFilter;
use sortie_core::request::{OpenRequest, RequestFilter};
use sortie_core::request_view::RequestView;
use sortie_core::run::{ChangesFate, Isolation, RunDetails, RunRecord};
use sortie_core::time::{Clock, Timestamp};
use sortie_core::words::Lang;
use sortie_protocol::TaskDetail;
use sortie_runtime::ProcessClock;
use sortie_sandbox::Neutralised;
use sortie_text::{one_line, strip_sequences, t, truncate_middle};

use super::{budget, handles, open};
use crate::commands::approvals::what;
use crate::commands::audit::backend;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::report::{self, indented};
use crate::settings::Settings;
use crate::table;

/// The most characters of the instruction that are printed; `--json` prints all of it.
const TASK_CHARS: usize = 2_000;
/// The characters of a policy hash that are printed.
const HASH_CHARS: usize = 12;

/// Shows a task: progress, usage, children and result
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Handle or id of the task; at least 8 characters of an id
    id: String,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let (store, record) = open(settings, &self.id).await?;
        let run = record.run_id;
        let journal = RunDetails::of(&store.read(run, Seq(0)).await?);
        let filter = RequestFilter {
            run: Some(run),
            ..RequestFilter::default()
        };
        let requests = store.requests(filter).await?;
        let children = store
            .list(ListFilter {
                parent: Some(run),
                archived: true,
                oldest_first: true,
                ..ListFilter::default()
            })
            .await?;
        let views = requests.iter().map(RequestView::from).collect();
        let detail = TaskDetail::new(&record, journal.as_ref(), children.len() as u64, views);
        if self.json {
            output::json(&detail)?;
            return Ok(Exit::Ok);
        }
        let parent = handles(&store, record.parent.into_iter()).await?;
        let parent = record.parent.map(|run| parent.of(run));
        let lang = settings.lang;
        let now = ProcessClock::start().now();
        let mut rows = fields(lang, &record, parent, &detail, now);
        if let Some(journal) = &journal {
            rows.extend(journal_fields(lang, &detail, journal));
        }
        for balance in &record.budget {
            rows.push((t!(lang, "field-budget"), budget::balance(lang, *balance)));
        }
        let mut parts = vec![table::pairs(&rows)];
        if let Some(open_requests) = open_requests(lang, &requests) {
            parts.push(open_requests);
        }
        let task = truncate_middle(&strip_sequences(&record.task), TASK_CHARS, "\n[…]\n").text;
        parts.push(format!("{}\n{}", t!(lang, "field-task"), indented(&task)));
        if let Some(children) = children_lines(lang, &children) {
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

/// Formats the open requests and how to reply to them.
fn open_requests(lang: Lang, requests: &[OpenRequest]) -> Option<String> {
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

/// Returns the fields of the record as rows for people.
fn fields(
    lang: Lang,
    record: &RunRecord,
    parent: Option<String>,
    detail: &TaskDetail,
    now: Timestamp,
) -> Vec<(String, String)> {
    let task = &detail.task;
    let unknown = || "-".to_owned();
    let mut rows = vec![
        (t!(lang, "field-handle"), record.handle.clone()),
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
        (t!(lang, "field-parent"), parent.unwrap_or_else(unknown)),
        (t!(lang, "field-created"), task.created_at.clone()),
        (
            t!(lang, "field-started"),
            task.started_at.clone().unwrap_or_else(unknown),
        ),
        (
            t!(lang, "field-ended"),
            task.completed_at.clone().unwrap_or_else(unknown),
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
    if let Some(verdict) = task.verdict {
        rows.push((t!(lang, "field-verdict"), verdict.to_string()));
    }
    for check in &task.checks {
        let line = format!("{}: {}: {}", check.status, check.check, check.evidence);
        rows.push((t!(lang, "field-check"), write_out_line(&one_line(&line))));
    }
    if let Some(error) = &record.delivery_error {
        rows.push((t!(lang, "field-delivery-error"), one_line(error)));
    }
    rows
}

/// Returns the fields that the journal adds as rows for people.
fn journal_fields(lang: Lang, detail: &TaskDetail, journal: &RunDetails) -> Vec<(String, String)> {
    let mut rows = vec![(t!(lang, "field-mode"), detail.mode.clone())];
    if !detail.policy_hash.is_empty() {
        let short = detail.policy_hash.chars().take(HASH_CHARS).collect();
        rows.push((t!(lang, "field-policy"), short));
    }
    let applied = detail.sandbox_applied.as_ref().and_then(backend);
    let sandbox = match applied {
        Some(backend) => t!(
            lang,
            "sandbox-applied",
            mode = detail.sandbox.as_str(),
            backend = write_out_line(backend)
        ),
        None => detail.sandbox.clone(),
    };
    rows.push((t!(lang, "field-sandbox"), sandbox));
    for thing in &journal.neutralised {
        if let Ok(thing) = serde_json::from_value::<Neutralised>(thing.clone()) {
            rows.push((
                t!(lang, "field-neutralised"),
                write_out_line(&thing.sentence()),
            ));
        }
    }
    if detail.isolation != Isolation::None {
        rows.push((t!(lang, "field-isolation"), detail.isolation.to_string()));
        if let Some(branch) = &detail.branch {
            rows.push((t!(lang, "field-branch"), write_out_line(branch)));
        }
        if let Some(changes) = &detail.changes {
            let words = t!(
                lang,
                "changes-line",
                files = changes.files,
                insertions = changes.insertions,
                deletions = changes.deletions,
                fate = detail.changes_fate.map_or("open", ChangesFate::as_str)
            );
            rows.push((t!(lang, "field-changes"), words));
        }
    }
    if let Some(limit) = detail.wall_ms {
        rows.push((t!(lang, "field-budget-time"), table::span(limit)));
    }
    rows
}

fn children_lines(lang: Lang, children: &[RunRecord]) -> Option<String> {
    let lines: Vec<String> = children
        .iter()
        .map(|run| {
            format!(
                "{} [{}] {}: {}",
                run.handle,
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
