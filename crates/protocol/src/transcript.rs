//! A journal as a transcript for people.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sortie_core::check::Verdict;
use sortie_core::event::{ChildWait, Event, JournalEntry};
use sortie_core::id::CallId;
use sortie_core::inbox::InboxItem;
use sortie_core::message::{Arguments, Block, ToolCall, ToolResult};
use sortie_core::request::{Reply, Request, RequestKind};
use sortie_core::run::Outcome;
use utoipa::ToSchema;

use crate::Ruling;
use crate::audit::result_status;
use crate::time;

/// One item of a transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TranscriptItem {
    /// The sequence number of the journal entry.
    pub seq: i64,
    /// When the entry was appended.
    pub at: String,
    /// The kind of the item: `user`, `assistant`, `reasoning`, `call`, `result`, `announcement`,
    /// `steer`, `reply`, `question`, `asked`, `notice`, `runtime`, `finished`.
    pub kind: String,
    /// The text, not truncated.
    pub text: String,
    /// The tool call, for `call`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<TranscriptCall>,
    /// The tool result, for `result`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<TranscriptResult>,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TranscriptCall {
    /// The id of the call within the run.
    pub id: String,
    /// The name of the tool, as the model wrote it.
    pub name: String,
    /// The arguments; a string if they are not JSON.
    pub arguments: Value,
}

/// A tool result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TranscriptResult {
    /// The id of the call.
    pub call_id: String,
    /// `ok`, `error`, `denied` or `interrupted`.
    pub status: String,
    /// How long the call took.
    pub elapsed_ms: u64,
    /// The name of the blob with the whole output, if the text is truncated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<String>,
    /// The diff of a changed file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The policy decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ruling: Option<Ruling>,
    /// The task that the call started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<String>,
}

/// Calls that children answer. The journal names the child before the result of the call.
#[derive(Clone, Debug, Default)]
pub struct CallsOfChildren(HashMap<CallId, String>);

impl TranscriptItem {
    /// Converts a whole journal.
    pub fn of_journal(entries: &[JournalEntry]) -> Vec<Self> {
        Self::of_part(entries, &mut CallsOfChildren::default())
    }

    /// Converts a part of a journal, with what the earlier parts recorded about children.
    pub fn of_part(entries: &[JournalEntry], before: &mut CallsOfChildren) -> Vec<Self> {
        entries
            .iter()
            .flat_map(|entry| items_of(entry, &mut before.0))
            .collect()
    }

    fn new(entry: &JournalEntry, kind: &str, text: impl Into<String>) -> Self {
        Self {
            seq: entry.seq.0,
            at: time(entry.at),
            kind: kind.to_owned(),
            text: text.into(),
            call: None,
            result: None,
        }
    }
}

fn items_of(entry: &JournalEntry, delegated: &mut HashMap<CallId, String>) -> Vec<TranscriptItem> {
    let one = |kind: &str, text: String| vec![TranscriptItem::new(entry, kind, text)];
    match &entry.event {
        Event::Admitted { spec } => one("user", spec.task.clone()),
        Event::Claimed { epoch, recovered } if *recovered => one(
            "runtime",
            format!("resumed after a crash (claim {})", epoch.0),
        ),
        Event::InboxTaken { items, .. } => items.iter().map(|item| inbox(entry, item)).collect(),
        Event::Answered { blocks, .. } => blocks
            .iter()
            .filter_map(|block| block_item(entry, block))
            .collect(),
        Event::ModelFailed { model, message, .. } => {
            one("runtime", format!("model {model}: {message}"))
        }
        Event::Compacted {
            parts,
            chars_before,
            chars_after,
            ..
        } => one(
            "runtime",
            format!(
                "history shortened: {} parts, {chars_before} to {chars_after} characters",
                parts.len()
            ),
        ),
        Event::Asked { request, .. } => one("asked", request_text(request)),
        Event::Delegated { call, wait, .. } => {
            if let ChildWait::Result { child } = wait {
                delegated.insert(call.clone(), child.run.to_string());
            }
            Vec::new()
        }
        Event::ToolFinished { .. } => vec![finished_call(entry, delegated)],
        Event::BudgetLow { .. } => one("runtime", "most of the budget is spent".to_owned()),
        Event::BudgetSpent { kind, limit, left } => one(
            "runtime",
            format!("budget spent: {left} of {limit} {kind} left"),
        ),
        Event::Isolated { worktree } => one(
            "runtime",
            format!("works in a worktree of its own, branch {}", worktree.branch),
        ),
        Event::Collected { changes } => one(
            "runtime",
            changes.as_ref().map_or_else(
                || "changed nothing in its worktree".to_owned(),
                |changes| {
                    format!(
                        "changed {} files (+{} -{}) on branch {}",
                        changes.files, changes.insertions, changes.deletions, changes.branch
                    )
                },
            ),
        ),
        Event::Checked { results } => {
            let verdict = Verdict::of(results);
            let mut lines = vec![format!("checked by the host: {verdict}")];
            lines.extend(
                results.iter().map(|result| {
                    format!("{}: {}: {}", result.status, result.check, result.evidence)
                }),
            );
            one("runtime", lines.join("\n"))
        }
        Event::Finished { outcome } => one("finished", ended(outcome)),
        Event::Paused => one("runtime", "paused".to_owned()),
        Event::Resumed => one("runtime", "resumed".to_owned()),
        Event::Updated { .. } | Event::Claimed { .. } | Event::Intended { .. } => Vec::new(),
    }
}

fn block_item(entry: &JournalEntry, block: &Block) -> Option<TranscriptItem> {
    match block {
        Block::Text { text } => Some(TranscriptItem::new(entry, "assistant", text.clone())),
        // A vendor's own mark says nothing to people.
        Block::Reasoning { text, .. } if text.is_empty() => None,
        Block::Reasoning { text, .. } => {
            Some(TranscriptItem::new(entry, "reasoning", text.clone()))
        }
        Block::Call(call) => Some(called(entry, call)),
    }
}

fn called(entry: &JournalEntry, call: &ToolCall) -> TranscriptItem {
    let arguments = match &call.arguments {
        Arguments::Json(value) => value.clone(),
        Arguments::Malformed { raw, .. } => Value::String(raw.clone()),
    };
    TranscriptItem {
        call: Some(TranscriptCall {
            id: call.id.to_string(),
            name: call.name.clone(),
            arguments,
        }),
        ..TranscriptItem::new(entry, "call", call.name.clone())
    }
}

fn finished_call(entry: &JournalEntry, delegated: &HashMap<CallId, String>) -> TranscriptItem {
    let Event::ToolFinished {
        result,
        elapsed_ms,
        spawned,
        ruling,
        ..
    } = &entry.event
    else {
        return TranscriptItem::new(entry, "runtime", entry.event.name());
    };
    let child = spawned
        .as_ref()
        .map(|child| child.run.to_string())
        .or_else(|| delegated.get(&result.call).cloned());
    TranscriptItem {
        result: Some(TranscriptResult {
            call_id: result.call.to_string(),
            status: result_status(result.status).to_owned(),
            elapsed_ms: *elapsed_ms,
            full: result.full.as_ref().map(ToString::to_string),
            diff: diff_in(result),
            ruling: ruling.as_ref().map(Ruling::from),
            child,
        }),
        ..TranscriptItem::new(entry, "result", result.text.clone())
    }
}

/// Returns the unified diff at the end of the result of a tool that changes files.
fn diff_in(result: &ToolResult) -> Option<String> {
    let start = if result.text.starts_with("--- ") {
        0
    } else {
        result.text.find("\n--- ")? + 1
    };
    let diff = &result.text[start..];
    (diff.contains("\n+++ ") && diff.contains("\n@@ ")).then(|| diff.to_owned())
}

fn inbox(entry: &JournalEntry, item: &InboxItem) -> TranscriptItem {
    match item {
        InboxItem::Announcement(announcement) => TranscriptItem::new(
            entry,
            "announcement",
            format!(
                "[{}] {} {}",
                announcement.agent,
                announcement.label,
                ended(&announcement.outcome)
            ),
        ),
        InboxItem::Steer { text, .. } => TranscriptItem::new(entry, "steer", text.clone()),
        InboxItem::Reply { request, reply, .. } => {
            TranscriptItem::new(entry, "reply", format!("{request}: {}", replied(reply)))
        }
        InboxItem::Question {
            request,
            label,
            question,
            ..
        } => TranscriptItem::new(
            entry,
            "question",
            format!("[{label}] {request}: {}", question.text),
        ),
    }
}

fn ended(outcome: &Outcome) -> String {
    match (outcome.text(), outcome.error()) {
        (_, Some(error)) => format!("{}: {error}", outcome.status()),
        (Some(text), None) => format!("{}: {text}", outcome.status()),
        (None, None) => outcome.status().to_string(),
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

fn replied(reply: &Reply) -> String {
    match reply {
        Reply::Approved { by, lasting } => match lasting {
            None => format!("approved by {by}"),
            Some(rule) => format!("approved by {by}, for the whole session: {rule}"),
        },
        Reply::Refused { by, words } => match words {
            None => format!("refused by {by}"),
            Some(words) => format!("refused by {by}: {words}"),
        },
        Reply::Answered { text, .. } => text.clone(),
        Reply::Expired => "expired without a reply".to_owned(),
    }
}
