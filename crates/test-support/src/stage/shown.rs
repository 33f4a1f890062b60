//! Journals, records, messages and notifications as readable lines for snapshots.

use std::fmt::Write as _;
use std::path::Path;

use sortie_base::truncate::truncate;
use sortie_core::event::{ChildWait, Event, JournalEntry};
use sortie_core::fan_out::{FanOutMember, MemberStart};
use sortie_core::id::RunId;
use sortie_core::inbox::InboxItem;
use sortie_core::message::{Arguments, Block, Message, ResultStatus, SharedMessage, ToolResult};
use sortie_core::notification::{Notification, NotificationKind};
use sortie_core::request::Reply;
use sortie_core::run::{Outcome, RunRecord};
use sortie_protocol::Task;
use tokio::sync::broadcast;

/// How much of a text a line shows.
const SHOWN_CHARS: usize = 400;

/// Returns one line for each event.
pub(super) fn event_lines(entries: &[JournalEntry]) -> String {
    lines(entries.iter().map(|entry| event_line(&entry.event)))
}

fn event_line(event: &Event) -> String {
    match event {
        Event::Admitted { spec } => format!("admitted {}: {}", spec.agent.name, spec.task),
        Event::Paused => "paused".to_owned(),
        Event::Resumed => "resumed".to_owned(),
        Event::Updated { label, priority } => format!("updated {label:?} {priority:?}"),
        Event::Claimed {
            recovered: false, ..
        } => "claimed".to_owned(),
        Event::Claimed {
            recovered: true, ..
        } => "claimed after a crash".to_owned(),
        Event::InboxTaken { items, .. } => {
            let items: Vec<String> = items.iter().map(item).collect();
            format!("inbox {}", items.join(", "))
        }
        Event::Answered { turn, blocks, .. } => format!("answered {turn}: {}", blocks_text(blocks)),
        Event::ModelFailed { fault, message, .. } => {
            format!("model failed ({}): {}", fault.name(), short(message))
        }
        Event::Compacted { parts, .. } => format!("compacted {} parts", parts.len()),
        Event::Intended { call, .. } => format!("intended {call}"),
        Event::Asked { call, request } => {
            format!("asked {call} for {}", request.kind.name())
        }
        Event::BudgetLow { balances } => {
            let kinds: Vec<&str> = balances.iter().map(|it| it.kind.as_str()).collect();
            format!("budget low: {}", kinds.join(", "))
        }
        Event::BudgetSpent { kind, .. } => format!("budget spent: {kind}"),
        Event::Isolated { .. } => "isolated".to_owned(),
        Event::Checked { results } => {
            let shown = results
                .iter()
                .map(|it| format!("{}: {}", it.check, it.status));
            format!("checked {}", shown.collect::<Vec<_>>().join(", "))
        }
        Event::Collected { changes: None } => "collected nothing".to_owned(),
        Event::Collected {
            changes: Some(changes),
        } => format!("collected {} files", changes.files),
        Event::Delegated { call, wait, .. } => format!("delegated {call} to {}", waited(wait)),
        Event::ToolFinished { result, .. } => result_line(result),
        Event::Finished { outcome } => format!("finished {}", ended(outcome)),
    }
}

fn item(item: &InboxItem) -> String {
    match item {
        InboxItem::Announcement(announcement) => {
            format!("<{}> {}", announcement.label, announcement.outcome.status())
        }
        InboxItem::Steer { text, .. } => format!("steer {text:?}"),
        InboxItem::Reply { call, reply, .. } => format!("reply to {call}: {}", replied(reply)),
        InboxItem::Question {
            label, question, ..
        } => format!("<{label}> asks {:?}", question.text),
    }
}

fn replied(reply: &Reply) -> String {
    match reply {
        Reply::Approved { lasting: None, .. } => "approved".to_owned(),
        Reply::Approved {
            lasting: Some(rule),
            ..
        } => format!("approved always {rule}"),
        Reply::Refused { .. } => "refused".to_owned(),
        Reply::Answered { text, .. } => format!("{text:?}"),
        Reply::Expired => "expired".to_owned(),
    }
}

fn waited(wait: &ChildWait) -> String {
    match wait {
        ChildWait::Result { child } => format!("<{}>", child.label),
        ChildWait::Finished { children } => {
            let ids: Vec<String> = children.iter().map(ToString::to_string).collect();
            ids.join(", ")
        }
        ChildWait::FanOut {
            plan,
            members,
            stopped,
        } => {
            let member = |member: &FanOutMember| match &member.started {
                MemberStart::Child(child) => {
                    format!("{}.{} <{}>", member.item, member.attempt, child.label)
                }
                MemberStart::Refused(why) => format!("{} refused: {why}", member.item),
            };
            let members: Vec<String> = members.iter().map(member).collect();
            let stopped = if *stopped { ", stopped" } else { "" };
            format!("{} of {} items{stopped}", members.join(", "), plan.items)
        }
    }
}

fn ended(outcome: &Outcome) -> String {
    let status = outcome.status();
    match (outcome.error(), outcome.text()) {
        (None, text) => format!("{status}: {}", short(text.unwrap_or_default())),
        (Some(error), None) => format!("{status}: {error}"),
        (Some(error), Some(partial)) => format!("{status}: {error} | {}", short(partial)),
    }
}

fn blocks_text(blocks: &[Block]) -> String {
    let parts: Vec<String> = blocks
        .iter()
        .map(|block| match block {
            Block::Text { text } => format!("{:?}", short(text)),
            Block::Reasoning { text, .. } => format!("({})", short(text)),
            Block::Call(call) => match &call.arguments {
                Arguments::Json(value) => format!("{}{}", call.name, short(&value.to_string())),
                Arguments::Malformed { raw, .. } => format!("{}{}", call.name, short(raw)),
            },
        })
        .collect();
    parts.join(" ")
}

fn result_line(result: &ToolResult) -> String {
    format!(
        "result {} {}: {}",
        result.call,
        status(result.status),
        short(&result.text)
    )
}

const fn status(status: ResultStatus) -> &'static str {
    match status {
        ResultStatus::Ok => "ok",
        ResultStatus::Error => "error",
        ResultStatus::Denied => "denied",
        ResultStatus::Interrupted => "interrupted",
    }
}

/// Returns one line for each message; several for several tool results.
pub(super) fn message_lines(messages: &[SharedMessage]) -> String {
    lines(messages.iter().map(|message| match message.as_ref() {
        Message::User { text } => format!("user: {}", short(text)),
        Message::Assistant { blocks } => format!("assistant: {}", blocks_text(blocks)),
        Message::Tools { results } => lines(results.iter().map(result_line)),
        Message::Notice { text } => format!("notice: {text}"),
    }))
}

/// Returns the set fields of a task, one on each line.
pub fn task_lines(task: &Task) -> String {
    let mut text = String::new();
    let mut field = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            // Writing to a String cannot fail.
            writeln!(text, "{name}: {value}").ok();
        }
    };
    field("status", Some(task.status.to_string()));
    field("reason", task.reason.map(|reason| reason.to_string()));
    field("waiting_on", task.waiting_on.map(|what| what.to_string()));
    field("error", task.error.clone());
    field("progress", Some(task.progress.to_string()));
    field("result", task.result.clone());
    field("tool_calls", Some(task.tool_calls.to_string()));
    field("tokens", task.usage.total_tokens().map(|it| it.to_string()));
    field("delivery", Some(task.delivery.to_string()));
    text.trim_end().to_owned()
}

/// Replaces what varies: ids, the folder, seconds and frames.
pub(super) fn plain(text: &str, records: &[RunRecord], workspace: &Path) -> String {
    let mut text = text.replace(&workspace.display().to_string(), "<workspace>");
    for record in records {
        text = text.replace(&record.run_id.to_string(), &format!("<{}>", record.label));
    }
    for mark in ["subagent output ", "输出开始 ", "输出结束 "] {
        text = after(&text, mark, char::is_ascii_hexdigit, "<token>");
    }
    let text = after(&text, "tool calls, ", in_seconds, "<n>");
    after(&text, "tool call, ", in_seconds, "<n>")
}

fn in_seconds(character: &char) -> bool {
    character.is_ascii_digit() || *character == '.'
}

/// Replaces the characters of a kind after each mark.
fn after(text: &str, mark: &str, kind: impl Fn(&char) -> bool, word: &str) -> String {
    let mut parts = text.split(mark);
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|character| kind(&character));
        plain.push_str(mark);
        if rest.len() < part.len() {
            plain.push_str(word);
        }
        plain.push_str(rest);
    }
    plain
}

fn short(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let one_line = lines.join(" ⏎ ");
    truncate(&one_line, SHOWN_CHARS)
}

fn lines(lines: impl Iterator<Item = String>) -> String {
    lines.collect::<Vec<_>>().join("\n")
}

/// The notifications about runs since the recording began.
#[derive(Debug)]
pub struct Notes {
    notifications: broadcast::Receiver<Notification>,
}

impl Notes {
    pub(super) const fn new(notifications: broadcast::Receiver<Notification>) -> Self {
        Self { notifications }
    }

    /// Returns the notifications about one run so far, one on each line.
    pub fn about(&mut self, run: RunId) -> String {
        let mut all = Vec::new();
        while let Ok(notification) = self.notifications.try_recv() {
            if notification.task_id == run {
                all.push(kind_line(&notification.kind));
            }
        }
        all.join("\n")
    }

    /// Returns all notifications so far.
    pub fn all(&mut self) -> Vec<Notification> {
        let mut all = Vec::new();
        while let Ok(notification) = self.notifications.try_recv() {
            all.push(notification);
        }
        all
    }
}

fn kind_line(kind: &NotificationKind) -> String {
    match kind {
        NotificationKind::Queued { agent, label, .. } => format!("queued {agent} {label}"),
        NotificationKind::Started { agent, label, .. } => format!("started {agent} {label}"),
        NotificationKind::Progress {
            progress,
            tool_calls,
        } => format!("progress {progress} after {tool_calls}"),
        NotificationKind::Tool { tool, tool_calls } => format!("tool {tool} after {tool_calls}"),
        NotificationKind::Held {
            position: Some(position),
            ..
        } => format!("held at {position}"),
        NotificationKind::Held { position: None, .. } => "held no longer".to_owned(),
        NotificationKind::Retrying {
            error,
            model,
            shown,
            ..
        } => format!(
            "asks {model} {}after {}",
            if *shown { "again " } else { "" },
            short(error)
        ),
        NotificationKind::Compacted { .. } => "compacted".to_owned(),
        NotificationKind::Asked { request } => format!("asks for {}", request.kind),
        NotificationKind::Replied { .. } => "replied".to_owned(),
        NotificationKind::BudgetLow { .. } => "budget low".to_owned(),
        NotificationKind::Changed { waiting_on } => format!("changed {waiting_on:?}"),
        NotificationKind::Paused => "paused".to_owned(),
        NotificationKind::Resumed => "resumed".to_owned(),
        NotificationKind::Deleted => "deleted".to_owned(),
        NotificationKind::Said { text } => format!("said {}", short(text)),
        NotificationKind::Completed { result } => format!("completed {}", short(result)),
        NotificationKind::Failed { error } => format!("failed {}", short(error)),
        NotificationKind::Timeout { error } => format!("timeout {}", short(error)),
        NotificationKind::Cancelled { error } => format!("cancelled {}", short(error)),
        NotificationKind::Delivery { delivery } => format!("delivery {delivery}"),
    }
}
