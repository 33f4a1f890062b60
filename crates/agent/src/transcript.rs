//! The journal as a person reads it: one line for each thing that happened.

use sortie_core::check::{CheckResult, Verdict};
use sortie_core::event::{Event, JournalEntry};
use sortie_core::inbox::InboxItem;
use sortie_core::message::{Arguments, Block, ResultStatus};
use sortie_core::request::{Reply, Request, RequestKind};
use sortie_core::time::Timestamp;

/// One line of a transcript.
#[derive(Clone, Debug, PartialEq)]
pub struct TranscriptLine {
    /// The time of the entry.
    pub at: Timestamp,
    /// The source: `user`, `assistant`, `call`, `result`, `notice`, `runtime`.
    pub kind: &'static str,
    pub text: String,
}

/// Returns the transcript of a journal.
pub fn transcript(entries: &[JournalEntry]) -> Vec<TranscriptLine> {
    entries.iter().flat_map(lines_of).collect()
}

fn lines_of(entry: &JournalEntry) -> Vec<TranscriptLine> {
    let lines = match &entry.event {
        Event::Admitted { spec } => vec![("user", spec.task.clone())],
        Event::InboxTaken { items, .. } => items.iter().map(inbox_line).collect(),
        Event::Answered { blocks, .. } => blocks.iter().filter_map(block_line).collect(),
        Event::Asked { request, .. } => vec![("asked", request_text(request))],
        Event::ToolFinished { result, .. } => {
            let kind = match result.status {
                ResultStatus::Ok => "result",
                ResultStatus::Error => "error",
                ResultStatus::Denied => "denied",
                ResultStatus::Interrupted => "interrupted",
            };
            vec![(kind, result.text.clone())]
        }
        Event::Updated { .. }
        | Event::Paused
        | Event::Resumed
        | Event::Claimed { .. }
        | Event::ModelFailed { .. }
        | Event::Compacted { .. }
        | Event::Intended { .. }
        | Event::Delegated { .. }
        | Event::BudgetLow { .. }
        | Event::BudgetSpent { .. }
        | Event::Isolated { .. }
        | Event::Collected { .. }
        | Event::Checked { .. }
        | Event::Finished { .. } => runtime_text(&entry.event)
            .map(|text| ("runtime", text))
            .into_iter()
            .collect(),
    };
    let at = entry.at;
    lines
        .into_iter()
        .map(|(kind, text)| TranscriptLine { at, kind, text })
        .collect()
}

fn inbox_line(item: &InboxItem) -> (&'static str, String) {
    match item {
        InboxItem::Announcement(announcement) => {
            let outcome = &announcement.outcome;
            let text = outcome
                .text()
                .map(str::to_owned)
                .or_else(|| outcome.error());
            let line = format!(
                "[{}] {} {}: {}",
                announcement.agent,
                announcement.label,
                outcome.status(),
                text.unwrap_or_default()
            );
            ("announcement", line)
        }
        InboxItem::Steer { text, .. } => ("steer", text.clone()),
        InboxItem::Reply { request, reply, .. } => {
            ("reply", format!("{request}: {}", reply_text(reply)))
        }
        InboxItem::Question {
            request,
            label,
            question,
            ..
        } => (
            "question",
            format!("[{label}] {request}: {}", question.text),
        ),
    }
}

fn block_line(block: &Block) -> Option<(&'static str, String)> {
    match block {
        Block::Text { text } => Some(("assistant", text.clone())),
        // A vendor's opaque mark means nothing to people.
        Block::Reasoning { text, .. } if text.is_empty() => None,
        Block::Reasoning { text, .. } => Some(("reasoning", text.clone())),
        Block::Call(call) => {
            let line = match &call.arguments {
                Arguments::Json(value) => format!("{} {value}", call.name),
                Arguments::Malformed { raw, .. } => format!("{} {raw}", call.name),
            };
            Some(("call", line))
        }
    }
}

/// Returns what the runtime itself did, if the event shows something to people.
fn runtime_text(event: &Event) -> Option<String> {
    match event {
        Event::Claimed {
            epoch,
            recovered: true,
        } => Some(format!("resumed after a crash (claim {})", epoch.0)),
        Event::Paused => Some("paused".to_owned()),
        Event::Resumed => Some("resumed".to_owned()),
        Event::BudgetLow { balances } => {
            let kinds: Vec<String> = balances
                .iter()
                .map(|balance| format!("{} of {} {}", balance.left(), balance.limit, balance.kind))
                .collect();
            Some(format!("budget nearly spent, left: {}", kinds.join(", ")))
        }
        Event::BudgetSpent { kind, limit, left } => {
            Some(format!("budget spent: {left} of {limit} {kind} left"))
        }
        Event::Isolated { worktree } => Some(format!(
            "works in a worktree of its own, branch {}",
            worktree.branch
        )),
        Event::Checked { results } => Some(checked_text(results)),
        Event::Collected { changes: None } => Some("changed nothing in its worktree".to_owned()),
        Event::Collected {
            changes: Some(changes),
        } => Some(format!(
            "changed {} files (+{} -{}) on branch {}",
            changes.files, changes.insertions, changes.deletions, changes.branch
        )),
        Event::ModelFailed { model, message, .. } => Some(format!("model {model}: {message}")),
        Event::Compacted {
            parts,
            chars_before,
            chars_after,
            ..
        } => Some(format!(
            "history shortened: {} parts, {chars_before} to {chars_after} characters",
            parts.len()
        )),
        Event::Finished { outcome } => Some(match outcome.error() {
            None => outcome.status().to_string(),
            Some(error) => format!("{}: {error}", outcome.status()),
        }),
        Event::Admitted { .. }
        | Event::Updated { .. }
        | Event::Claimed {
            recovered: false, ..
        }
        | Event::InboxTaken { .. }
        | Event::Answered { .. }
        | Event::Intended { .. }
        | Event::Asked { .. }
        | Event::Delegated { .. }
        | Event::ToolFinished { .. } => None,
    }
}

fn request_text(request: &Request) -> String {
    match &request.kind {
        RequestKind::Approval(approval) => format!(
            "{}: may {} run? {}",
            request.id, approval.tool, approval.reason
        ),
        RequestKind::Question(question) => format!("{}: {}", request.id, question.text),
    }
}

fn reply_text(reply: &Reply) -> String {
    match reply {
        Reply::Approved { by, lasting: None } => format!("approved by {by}"),
        Reply::Approved {
            by,
            lasting: Some(rule),
        } => format!("approved by {by}, for the whole session: {rule}"),
        Reply::Refused { by, words: None } => format!("refused by {by}"),
        Reply::Refused {
            by,
            words: Some(words),
        } => format!("refused by {by}: {words}"),
        Reply::Answered { text, .. } => text.clone(),
        Reply::Expired => "expired without a reply".to_owned(),
    }
}

/// Returns the verdict of checks and one line for each.
fn checked_text(results: &[CheckResult]) -> String {
    let mut lines = vec![format!("checked by the host: {}", Verdict::of(results))];
    lines.extend(results.iter().map(|result| {
        let CheckResult {
            check,
            status,
            evidence,
        } = result;
        format!("{status}: {check}: {evidence}")
    }));
    lines.join("\n")
}
