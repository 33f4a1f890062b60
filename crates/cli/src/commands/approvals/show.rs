//! `sortie approvals show`.

use clap::Args;
use serde_json::Value;
use sortie_core::{ApprovalRequest, Clock, Lang, OpenRequest, Question, RequestKind, Timestamp};
use sortie_runtime::ProcessClock;
use sortie_text::t;

use super::{find, reply_words, request_json, time_left};
use crate::escape::escaped;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::report::indented;
use crate::settings::Settings;
use crate::table;

/// Shows one with everything that is needed to decide
#[derive(Debug, Args)]
pub(super) struct Show {
    /// Its id, or at least 4 characters of it
    id: String,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(super) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let request = find(settings, &self.id).await?;
        if self.json {
            output::json(&request_json(&request)?)?;
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
        (t!(lang, "field-agent"), escaped(&request.agent)),
        (t!(lang, "field-label"), escaped(&request.label)),
        (
            t!(lang, "field-session"),
            escaped(request.session_id.as_str()),
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
    parts.insert(0, table::pairs(&rows));
    if request.reply.is_none() {
        parts.push(match &request.request.kind {
            RequestKind::Approval(_) => t!(lang, "approvals-how", id = id),
            RequestKind::Question(_) => t!(lang, "approvals-how-answer", id = id),
        });
    }
    parts.join("\n\n")
}

fn approval_rows(lang: Lang, approval: &ApprovalRequest) -> Vec<(String, String)> {
    let mut rows = vec![
        (t!(lang, "field-tool"), escaped(&approval.tool)),
        (t!(lang, "field-layer"), approval.layer.to_string()),
    ];
    if let Some(rule) = &approval.rule {
        rows.push((t!(lang, "field-rule"), escaped(rule)));
    }
    rows.push((t!(lang, "field-why"), escaped(&approval.reason)));
    rows
}

fn approval_parts(lang: Lang, approval: &ApprovalRequest) -> Vec<String> {
    let mut parts = vec![part(
        &t!(lang, "field-arguments"),
        arguments(&approval.arguments).iter().map(String::as_str),
    )];
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

/// Every argument by its name; one with several lines is shown line by line.
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

/// A heading and lines of a model, each escaped and set off from the margin.
fn part<'a>(heading: &str, lines: impl Iterator<Item = &'a str>) -> String {
    let lines: Vec<String> = lines.map(escaped).collect();
    format!("{heading}\n{}", indented(&lines.join("\n")))
}
