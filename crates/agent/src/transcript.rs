//! The journal as a person reads it: one line for each thing that happened.

use sortie_core::{
    Arguments, Block, Event, InboxItem, JournalEntry, Reply, Request, RequestKind, ResultStatus,
    Timestamp,
};

/// One line of a transcript.
#[derive(Clone, Debug, PartialEq)]
pub struct TranscriptLine {
    /// The time of the entry.
    pub at: Timestamp,
    /// The source: `user`, `assistant`, `call`, `result`, `notice`, `runtime`.
    pub kind: &'static str,
    /// The whole text.
    pub text: String,
}

/// Returns the transcript of a journal.
pub fn transcript(entries: &[JournalEntry]) -> Vec<TranscriptLine> {
    entries.iter().flat_map(lines_of).collect()
}

fn lines_of(entry: &JournalEntry) -> Vec<TranscriptLine> {
    let line = |kind, text: String| TranscriptLine {
        at: entry.at,
        kind,
        text,
    };
    match &entry.event {
        Event::Admitted { spec } => vec![line("user", spec.task.clone())],
        Event::Claimed { epoch, recovered } if *recovered => vec![line(
            "runtime",
            format!("resumed after a crash (claim {})", epoch.0),
        )],
        Event::Paused => vec![line("runtime", "paused".to_owned())],
        Event::Resumed => vec![line("runtime", "resumed".to_owned())],
        Event::Updated { .. } | Event::Claimed { .. } => Vec::new(),
        Event::InboxTaken { items, .. } => items
            .iter()
            .map(|item| match item {
                InboxItem::Announcement(announcement) => line(
                    "announcement",
                    format!(
                        "[{}] {} {}: {}",
                        announcement.agent,
                        announcement.label,
                        announcement.outcome.status(),
                        announcement
                            .outcome
                            .text()
                            .map(str::to_owned)
                            .or_else(|| announcement.outcome.error())
                            .unwrap_or_default()
                    ),
                ),
                InboxItem::Steer { text, .. } => line("steer", text.clone()),
                InboxItem::Reply { request, reply, .. } => {
                    line("reply", format!("{request}: {}", reply_text(reply)))
                }
                InboxItem::Question {
                    request,
                    label,
                    question,
                    ..
                } => line(
                    "question",
                    format!("[{label}] {request}: {}", question.text),
                ),
            })
            .collect(),
        Event::Answered { blocks, .. } => blocks
            .iter()
            // A vendor's opaque mark means nothing to people.
            .filter(|block| !matches!(block, Block::Reasoning { text, .. } if text.is_empty()))
            .map(|block| match block {
                Block::Text { text } => line("assistant", text.clone()),
                Block::Reasoning { text, .. } => line("reasoning", text.clone()),
                Block::Call(call) => line(
                    "call",
                    match &call.arguments {
                        Arguments::Json(value) => format!("{} {value}", call.name),
                        Arguments::Malformed { raw, .. } => format!("{} {raw}", call.name),
                    },
                ),
            })
            .collect(),
        Event::Asked { request, .. } => vec![line("asked", request_text(request))],
        Event::BudgetLow { balances } => {
            let kinds: Vec<String> = balances
                .iter()
                .map(|balance| format!("{} of {} {}", balance.left(), balance.limit, balance.kind))
                .collect();
            vec![line(
                "runtime",
                format!("budget nearly spent, left: {}", kinds.join(", ")),
            )]
        }
        Event::BudgetSpent { kind, limit, left } => vec![line(
            "runtime",
            format!("budget spent: {left} of {limit} {kind} left"),
        )],
        Event::Isolated { worktree } => vec![line(
            "runtime",
            format!("works in a worktree of its own, branch {}", worktree.branch),
        )],
        Event::Collected { changes } => vec![line(
            "runtime",
            match changes {
                None => "changed nothing in its worktree".to_owned(),
                Some(changes) => format!(
                    "changed {} files (+{} -{}) on branch {}",
                    changes.files, changes.insertions, changes.deletions, changes.branch
                ),
            },
        )],
        Event::ModelFailed { model, message, .. } => {
            vec![line("runtime", format!("model {model}: {message}"))]
        }
        Event::Compacted {
            parts,
            chars_before,
            chars_after,
            ..
        } => vec![line(
            "runtime",
            format!(
                "history shortened: {} parts, {chars_before} to {chars_after} characters",
                parts.len()
            ),
        )],
        Event::Intended { .. } | Event::Delegated { .. } => Vec::new(),
        Event::ToolFinished { result, .. } => vec![line(
            match result.status {
                ResultStatus::Ok => "result",
                ResultStatus::Error => "error",
                ResultStatus::Denied => "denied",
                ResultStatus::Interrupted => "interrupted",
            },
            result.text.clone(),
        )],
        Event::Finished { outcome } => vec![line(
            "runtime",
            match outcome.error() {
                None => outcome.status().to_string(),
                Some(error) => format!("{}: {error}", outcome.status()),
            },
        )],
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
        Reply::Expired => "nobody answered in time".to_owned(),
    }
}
