//! `sortie tasks events`.

use clap::Args;
use sortie_core::event::{ChildWait, Event, JournalEntry};
use sortie_core::id::Seq;
use sortie_core::inbox::InboxItem;
use sortie_core::message::Block;
use sortie_text::{one_line, t, truncate_columns};

use super::{READ_INTERVAL, open};
use crate::exit::Exit;
use crate::lock::is_free;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;

/// Columns of an entry in a line; `--json` prints all of it.
const DETAIL_COLUMNS: usize = 120;

/// Prints the journal of a task, one event per line
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Handle or id of the task; at least 8 characters of an id
    id: String,
    /// Prints new events until the task has ended
    #[arg(long, short)]
    follow: bool,
    /// Prints complete events, one JSON object per line
    #[arg(long)]
    json: bool,
}

impl Events {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let (store, mut record) = open(settings, &self.id).await?;
        let mut seen = Seq(0);
        loop {
            for entry in store.read(record.run_id, seen).await? {
                seen = entry.seq;
                if self.json {
                    output::json_line(&entry)?;
                } else {
                    output::text(&line(&entry))?;
                }
            }
            // The record was read before the journal, so no entry can be missing.
            if !self.follow || record.status.is_terminal() {
                return Ok(Exit::Ok);
            }
            if is_free(&settings.options.home) {
                output::note(&t!(settings.lang, "watch-left-alone"));
                return Ok(Exit::Ok);
            }
            tokio::time::sleep(READ_INTERVAL).await;
            record = store.get(record.run_id).await?;
        }
    }
}

/// Formats an entry as one line.
pub(crate) fn line(entry: &JournalEntry) -> String {
    let detail = truncate_columns(&one_line(&detail(&entry.event)), DETAIL_COLUMNS);
    let line = format!(
        "{:>4} {} {:<13} {detail}",
        entry.seq.0,
        entry.at.to_rfc3339(),
        entry.event.name()
    );
    line.trim_end().to_owned()
}

/// Formats an entry with the journal's own terms.
fn detail(event: &Event) -> String {
    match event {
        Event::Admitted { spec } => format!(
            "agent={} model={} lane={} depth={} tools={}",
            spec.agent.name,
            spec.model,
            spec.lane,
            spec.depth,
            spec.tools.len()
        ),
        Event::Updated { label, priority } => format!(
            "label={} priority={}",
            label.as_deref().map_or_else(|| "-".to_owned(), one_line),
            priority.map_or("-", sortie_core::run::Priority::as_str)
        ),
        Event::Paused | Event::Resumed => String::new(),
        Event::Claimed { epoch, recovered } => {
            format!("epoch={} recovered={recovered}", epoch.0)
        }
        Event::InboxTaken { items, .. } => items
            .iter()
            .map(|item| match item {
                InboxItem::Announcement(announcement) => format!(
                    "announcement={} [{}] {}",
                    announcement.child,
                    announcement.label,
                    announcement.outcome.status()
                ),
                InboxItem::Steer { text, .. } => format!("steer={text}"),
                InboxItem::Reply { request, reply, .. } => {
                    format!("reply={request} {}", word_of(reply, "reply"))
                }
                InboxItem::Question {
                    request, question, ..
                } => format!("question={request} {}", question.text),
            })
            .collect::<Vec<_>>()
            .join("; "),
        Event::Answered {
            turn, blocks, stop, ..
        } => {
            let parts: Vec<&str> = blocks.iter().map(block).collect();
            format!("turn={turn} stop={} {}", word(stop), parts.join(" | "))
        }
        Event::ModelFailed {
            model,
            fault,
            message,
            ..
        } => format!("model={model} fault={} {message}", fault.name()),
        Event::Compacted {
            parts,
            chars_before,
            chars_after,
            ..
        } => format!("parts={} chars={chars_before}..{chars_after}", parts.len()),
        Event::Intended { call, .. } => format!("call={call}"),
        Event::Asked { call, request } => {
            format!("call={call} {}={}", request.kind.name(), request.id)
        }
        Event::Delegated { call, wait, .. } => match wait {
            ChildWait::Result { child } => {
                format!("call={call} child={} [{}]", child.run, child.label)
            }
            ChildWait::Finished { children } => {
                format!("call={call} children={}", children.len())
            }
            ChildWait::FanOut { plan, members, .. } => {
                format!("call={call} items={} started={}", plan.items, members.len())
            }
        },
        Event::ToolFinished {
            result, elapsed_ms, ..
        } => format!(
            "call={} status={} {elapsed_ms}ms {}",
            result.call,
            word(&result.status),
            result.text
        ),
        Event::BudgetLow { balances } => balances
            .iter()
            .map(|balance| format!("{}={}%", balance.kind, balance.percent_spent()))
            .collect::<Vec<_>>()
            .join(" "),
        Event::BudgetSpent { kind, limit, left } => format!("{kind} left={left} limit={limit}"),
        Event::Isolated { worktree } => {
            format!("branch={} base={}", worktree.branch, worktree.base)
        }
        Event::Checked { results } => results
            .iter()
            .map(|result| format!("{}={}", result.check, result.status))
            .collect::<Vec<_>>()
            .join(" "),
        Event::Collected { changes: None } => "changes=0".to_owned(),
        Event::Collected {
            changes: Some(changes),
        } => format!(
            "branch={} files={} +{} -{}",
            changes.branch, changes.files, changes.insertions, changes.deletions
        ),
        Event::Finished { outcome } => {
            let error = outcome.error().unwrap_or_default();
            format!("status={} {error}", outcome.status())
        }
    }
}

fn block(block: &Block) -> &str {
    match block {
        Block::Text { text } | Block::Reasoning { text, .. } => text,
        Block::Call(call) => &call.name,
    }
}

/// Returns a field of a value as its JSON string.
fn word_of(value: &impl serde::Serialize, field: &str) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value[field].as_str().unwrap_or_default().to_owned()
}

/// Returns a value as its JSON string.
fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}
