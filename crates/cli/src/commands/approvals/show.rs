//! `sortie approvals show`.

use clap::Args;
use console::Style;
use serde_json::Value;
use sortie_base::hidden::{write_out, write_out_line};
use sortie_core::request::{ApprovalRequest, OpenRequest, Question, RequestKind};
use sortie_core::request_view::RequestView;
use sortie_core::time::{Clock, Timestamp};
use sortie_core::words::Lang;
use sortie_runtime::ProcessClock;
use sortie_text::t;

use super::{find, reply_words, time_left};
use crate::approval::danger_lines;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::report::indented;
use crate::settings::Settings;
use crate::table;
use crate::theme::Themed as _;

/// Shows a request with everything needed to decide it
#[derive(Debug, Args)]
pub(super) struct Show {
    /// Id of the request, or at least its first 4 characters
    id: String,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(super) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let request = find(settings, &self.id).await?;
        if self.json {
            output::json(&RequestView::from(&request))?;
        } else {
            let now = ProcessClock::start().now();
            output::text(&page(settings.lang, &request, now))?;
        }
        Ok(Exit::Ok)
    }
}

fn page(lang: Lang, request: &OpenRequest, now: Timestamp) -> String {
    let id = request.request.id.as_str();
    let mut rows = vec![
        (t!(lang, "field-id"), id.to_owned()),
        (
            t!(lang, "field-kind"),
            request.request.kind.name().to_owned(),
        ),
        (t!(lang, "field-task-id"), request.task_id.to_string()),
        (t!(lang, "field-agent"), write_out_line(&request.agent)),
        (t!(lang, "field-label"), write_out_line(&request.label)),
        (
            t!(lang, "field-session"),
            write_out_line(request.session_id.as_str()),
        ),
        (t!(lang, "field-asked"), request.asked_at.to_rfc3339()),
        (t!(lang, "field-time-left"), time_left(request, now)),
        (
            t!(lang, "field-reply"),
            reply_words(lang, request.reply.as_ref()),
        ),
    ];
    let mut parts = match &request.request.kind {
        RequestKind::Approval(approval) => {
            rows.extend(approval_rows(lang, approval));
            approval_parts(lang, approval)
        }
        RequestKind::Question(question) => question_parts(lang, question),
    };
    // What would run comes first, so that no text above it can be mistaken for it.
    parts.insert(first_parts(&request.request.kind), table::pairs(&rows));
    if request.reply.is_none() {
        parts.push(match &request.request.kind {
            RequestKind::Approval(_) => t!(lang, "approvals-how", id = id),
            RequestKind::Question(_) => t!(lang, "approvals-how-answer", id = id),
        });
    }
    parts.join("\n\n")
}

/// Returns the number of parts above the table: what would run, and its dangers.
fn first_parts(kind: &RequestKind) -> usize {
    match kind {
        RequestKind::Approval(approval) if approval.dangers.is_empty() => 1,
        RequestKind::Approval(_) => 2,
        RequestKind::Question(_) => 0,
    }
}

fn approval_rows(lang: Lang, approval: &ApprovalRequest) -> Vec<(String, String)> {
    let mut rows = vec![
        (t!(lang, "field-tool"), write_out_line(&approval.tool)),
        (t!(lang, "field-layer"), approval.layer.to_string()),
    ];
    if let Some(rule) = &approval.rule {
        rows.push((t!(lang, "field-rule"), write_out_line(rule)));
    }
    rows.push((t!(lang, "field-why"), write_out_line(&approval.reason)));
    rows
}

fn approval_parts(lang: Lang, approval: &ApprovalRequest) -> Vec<String> {
    let tool = write_out_line(&approval.tool);
    let exact = write_out(&approval.exact);
    let mut parts = vec![format!(
        "{}\n{}",
        t!(lang, "field-exact", tool = tool),
        indented(&exact)
    )];
    if !approval.dangers.is_empty() {
        let red = Style::new().bad().bold();
        let lines = danger_lines(lang, &approval.dangers);
        parts.push(red.apply_to(lines.join("\n")).to_string());
    }
    parts.push(part(
        &t!(lang, "field-arguments"),
        arguments(&approval.arguments).iter().map(String::as_str),
    ));
    if let Some(preview) = &approval.preview {
        parts.push(part(&t!(lang, "field-preview"), preview.lines()));
    }
    if !approval.lasting.is_empty() {
        let rules = approval.lasting.iter().map(String::as_str);
        parts.push(part(&t!(lang, "field-lasting"), rules));
    }
    parts
}

fn question_parts(lang: Lang, question: &Question) -> Vec<String> {
    let mut parts = vec![part(&t!(lang, "field-question"), question.text.lines())];
    if !question.options.is_empty() {
        let options: Vec<String> = question
            .options
            .iter()
            .enumerate()
            .map(|(index, option)| format!("{}. {option}", index + 1))
            .collect();
        let options = options.iter().map(String::as_str);
        parts.push(part(&t!(lang, "field-options"), options));
    }
    if let Some(default) = &question.default {
        parts.push(part(&t!(lang, "field-default"), default.lines()));
    }
    parts
}

/// Formats every argument with its name; a value of several lines is printed line by line.
fn arguments(arguments: &Value) -> Vec<String> {
    let Some(fields) = arguments.as_object() else {
        return vec![arguments.to_string()];
    };
    let mut lines = Vec::new();
    for (name, value) in fields {
        match value.as_str() {
            Some(text) if text.trim_end().contains('\n') => {
                lines.push(format!("{name}:"));
                lines.extend(text.lines().map(|line| format!("  {line}")));
            }
            Some(text) => lines.push(format!("{name}: {text}")),
            None => lines.push(format!("{name}: {value}")),
        }
    }
    lines
}

/// Formats a heading and lines that a model wrote, each escaped and indented.
fn part<'a>(heading: &str, lines: impl Iterator<Item = &'a str>) -> String {
    let lines: Vec<String> = lines.map(write_out_line).collect();
    format!("{heading}\n{}", indented(&lines.join("\n")))
}
