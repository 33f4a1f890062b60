//! Renders what a model reads from the runtime: bounded, localised, and framed so that content
//! cannot pass for the frame.

use sha2::{Digest, Sha256};
use sortie_core::budget::{Balance, BudgetKind, MICROS_PER_USD};
use sortie_core::check::{CheckResult, CheckStatus, Checked, Verdict};
use sortie_core::id::{BlobId, CallId, RunId, hex};
use sortie_core::inbox::{Announcement, InboxItem, Sender};
use sortie_core::message::{ChildRef, ResultStatus, Todo, TodoStatus, ToolCall, ToolResult};
use sortie_core::request::{Question, RequestId};
use sortie_core::run::{EdgeMode, Outcome};
use sortie_core::words::Lang;
use sortie_text::{Arg, one_line, outcome_error, text, truncate_middle};

use crate::fan_out::{FanOut, ItemResult};

/// The most characters of one tool result or announcement that a model reads. About 6,000 tokens:
/// enough for a long file, far from filling a context with one careless call.
pub const MAX_RESULT_CHARS: usize = 24_000;

/// The least characters of one item in the result of a fan-out.
const MIN_ITEM_CHARS: usize = 200;

/// Truncates a tool's text for the model. The second value is the whole text, if something was left
/// out.
pub fn bound_result(lang: Lang, whole: String) -> (String, Option<Vec<u8>>) {
    let cut = truncate_middle(&whole, MAX_RESULT_CHARS, "\n…\n");
    if cut.left_out == 0 {
        return (whole, None);
    }
    let id = BlobId::of(whole.as_bytes());
    let note = text(
        lang,
        "call-cut",
        &[("count", cut.left_out.into()), ("id", id.as_str().into())],
    );
    (format!("{}\n{note}", cut.text), Some(whole.into_bytes()))
}

/// Returns the result of a blocking call: the child's final text and one closing line.
pub(crate) fn blocking_result(
    lang: Lang,
    call: CallId,
    provider_id: Option<String>,
    announcement: &Announcement,
) -> ToolResult {
    let status = match announcement.outcome {
        Outcome::Completed { .. } => ResultStatus::Ok,
        Outcome::Failed { .. } | Outcome::Timeout { .. } | Outcome::Cancelled { .. } => {
            ResultStatus::Error
        }
    };
    let body = match &announcement.outcome {
        Outcome::Completed { text, .. } => bounded(lang, text),
        Outcome::Failed { .. } | Outcome::Timeout { .. } | Outcome::Cancelled { .. } => {
            unfinished(lang, announcement)
        }
    };
    let framed = frame(lang, &announcement.child.to_string(), &body);
    let mut after = changed(lang, announcement).unwrap_or_default();
    after.push_str(&verdict(lang, announcement));
    after.push_str(&closing_line(lang, announcement));
    ToolResult {
        call,
        provider_id,
        text: format!("{framed}\n\n{after}"),
        status,
        full: None,
        images: Vec::new(),
    }
}

/// Returns the bytes that the result of a child adds to the context of its parent.
pub(crate) fn announced_bytes(lang: Lang, announcement: &Announcement) -> u64 {
    let text = match (announcement.mode, &announcement.call) {
        (EdgeMode::Blocking, Some(call)) => {
            blocking_result(lang, call.clone(), None, announcement).text
        }
        (EdgeMode::Blocking, None) | (EdgeMode::Background, _) => announced(lang, announcement),
    };
    text.len() as u64
}

/// Returns the combined result of a fan-out: a line for the whole, and each item in order with the
/// result of its last attempt. All items share the room of one result.
pub(crate) fn fan_out_result(lang: Lang, call: &ToolCall, fan_out: &FanOut) -> ToolResult {
    let results: Vec<_> = fan_out.results().collect();
    let total = results.len();
    let completed = results.iter().flatten();
    let completed = completed
        .filter(|(_, result)| result.is_completed())
        .count();
    let failed: Vec<String> = (1..)
        .zip(&results)
        .filter(|(_, result)| !result.is_some_and(|(_, result)| result.is_completed()))
        .map(|(number, _): (u32, _)| number.to_string())
        .collect();
    let mut parts = vec![match failed.as_slice() {
        [] => text(lang, "fan-out-completed", &[("total", total.into())]),
        some => text(
            lang,
            "fan-out-failed",
            &[
                ("total", total.into()),
                ("completed", completed.into()),
                ("failed", some.join(", ").into()),
            ],
        ),
    }];
    let room = (MAX_RESULT_CHARS / total.max(1)).max(MIN_ITEM_CHARS);
    for (number, result) in (1_u32..).zip(results) {
        parts.push(fan_out_item(lang, number, result, room));
    }
    ToolResult {
        call: call.id.clone(),
        provider_id: call.provider_id.clone(),
        text: parts.join("\n\n"),
        status: if failed.is_empty() {
            ResultStatus::Ok
        } else {
            ResultStatus::Error
        },
        full: None,
        images: Vec::new(),
    }
}

fn fan_out_item(
    lang: Lang,
    number: u32,
    result: Option<(u32, &ItemResult)>,
    room: usize,
) -> String {
    let number = ("number", u64::from(number).into());
    let announcement = match result {
        None => return text(lang, "fan-out-not-started", &[number]),
        Some((_, ItemResult::Refused(why))) => {
            let why = truncate_middle(why, room, "…").text;
            return text(lang, "fan-out-refused", &[number, ("why", why.into())]);
        }
        Some((attempt, ItemResult::Reported(announcement))) => (attempt, announcement),
    };
    let (attempt, announcement) = announcement;
    let body = match &announcement.outcome {
        Outcome::Completed { text, .. } => text.clone(),
        Outcome::Failed { .. } | Outcome::Timeout { .. } | Outcome::Cancelled { .. } => {
            unfinished(lang, announcement)
        }
    };
    let header = text(
        lang,
        "fan-out-item",
        &[
            number,
            ("label", label(&announcement.label).into()),
            (
                "status",
                text(lang, status_key(&announcement.outcome), &[]).into(),
            ),
            ("attempt", u64::from(attempt).into()),
        ],
    );
    let body = truncate_middle(&body, room, "\n…\n").text;
    let framed = frame(lang, &announcement.child.to_string(), &body);
    let verdict = verdict(lang, announcement);
    let closing = closing_line(lang, announcement);
    format!("{header}\n{framed}\n{verdict}{closing}")
}

/// Returns the todo list, one line for each item.
pub(crate) fn todo_list(lang: Lang, todos: &[Todo]) -> String {
    let mut lines = vec![text(lang, "todo-list", &[])];
    lines.extend(todos.iter().map(|todo| {
        let mark = match todo.status {
            TodoStatus::Completed => "[x]",
            TodoStatus::InProgress => "[>]",
            TodoStatus::Pending => "[ ]",
        };
        format!("{mark} {}", todo.content)
    }));
    lines.join("\n")
}

fn closing_line(lang: Lang, announcement: &Announcement) -> String {
    let tokens = match announcement.usage.total_tokens() {
        Some(tokens) => Arg::from(tokens),
        None => text(lang, "tokens-unknown", &[]).into(),
    };
    text(
        lang,
        "task-closing",
        &[
            ("agent", announcement.agent.as_str().into()),
            ("id", announcement.child.to_string().into()),
            ("tools", u64::from(announcement.tool_calls).into()),
            ("seconds", seconds(announcement.elapsed_ms).into()),
            ("tokens", tokens),
        ],
    )
}

/// Returns the message about background children that finished together, in their parent's history:
/// one part for each child, and one list of those that are still running.
pub fn announcement_notice(
    lang: Lang,
    announcements: &[Announcement],
    pending: &[&ChildRef],
) -> String {
    let mut notice = String::new();
    for announcement in announcements {
        notice.push_str(&announced(lang, announcement));
    }
    let pending = match pending {
        [] => text(lang, "announce-all-done", &[]),
        some => text(
            lang,
            "announce-pending",
            &[(
                "list",
                some.iter()
                    .map(|child| format!("{} ({})", label(&child.label), child.run))
                    .collect::<Vec<_>>()
                    .join(", ")
                    .into(),
            )],
        ),
    };
    let guidance = text(lang, "announce-guidance", &[]);
    format!("{notice}{pending}\n{guidance}")
}

/// Returns the part of a notice about one child, with a line end.
fn announced(lang: Lang, announcement: &Announcement) -> String {
    let status = text(lang, status_key(&announcement.outcome), &[]);
    let header = text(
        lang,
        "announce-header",
        &[
            ("label", label(&announcement.label).into()),
            ("status", status.into()),
        ],
    );
    let result = match &announcement.outcome {
        Outcome::Completed { text: body, .. } => format!(
            "{}\n{}",
            text(lang, "announce-result", &[]),
            bounded(lang, body)
        ),
        Outcome::Failed { .. } | Outcome::Timeout { .. } | Outcome::Cancelled { .. } => {
            unfinished(lang, announcement)
        }
    };
    let body = format!(
        "{}\n{}\n\n{result}",
        text(lang, "announce-task", &[]),
        sortie_text::first_chars(&announcement.task, 400),
    );
    let framed = frame(lang, &announcement.child.to_string(), &body);
    let changed = changed(lang, announcement).unwrap_or_default();
    let verdict = verdict(lang, announcement);
    format!("{header}\n{framed}\n{changed}{verdict}")
}

/// Returns the verdict of the checks and the evidence against the result, with a line end; empty if
/// there were no checks.
fn verdict(lang: Lang, announcement: &Announcement) -> String {
    let Some(Checked { verdict, results }) = announcement.outcome.checked() else {
        return String::new();
    };
    let key = match verdict {
        Verdict::Verified => "announce-verified",
        Verdict::Unverified => "announce-unverified",
        Verdict::Refuted => "announce-refuted",
    };
    let line = text(lang, key, &[("count", results.len().into())]);
    if *verdict == Verdict::Verified || results.is_empty() {
        return format!("{line}\n");
    }
    let evidence = frame(
        lang,
        &format!("{} checks", announcement.child),
        &failed_checks(lang, results),
    );
    format!("{line}\n{evidence}\n")
}

/// Returns the checks that did not pass, with their evidence.
pub(crate) fn failed_checks(lang: Lang, results: &[CheckResult]) -> String {
    let open = results
        .iter()
        .filter(|result| result.status != CheckStatus::Passed);
    let lines =
        open.map(|result| format!("- {} {}: {}", result.check, result.status, result.evidence));
    bounded(lang, &lines.collect::<Vec<_>>().join("\n"))
}

/// Returns what a child changed in its own worktree, and what the parent can do about it.
fn changed(lang: Lang, announcement: &Announcement) -> Option<String> {
    let changes = announcement.changes.as_ref()?;
    let message = text(
        lang,
        "announce-changes",
        &[
            ("files", changes.files.into()),
            ("insertions", changes.insertions.into()),
            ("deletions", changes.deletions.into()),
            ("branch", changes.branch.as_str().into()),
            ("id", announcement.child.to_string().into()),
        ],
    );
    Some(format!("{message}\n"))
}

/// Returns the message for a steer in a run's history.
pub(crate) fn steer_notice(lang: Lang, from: Sender, message: &str) -> String {
    let key = match from {
        Sender::Person => "notice-steer-person",
        Sender::Parent => "notice-steer-parent",
    };
    text(lang, key, &[("text", bounded(lang, message).into())])
}

/// Returns the blocking call that this item answers.
pub(crate) fn answered_call(item: &InboxItem) -> Option<(&CallId, &Announcement)> {
    match item {
        InboxItem::Announcement(announcement) => match (announcement.mode, &announcement.call) {
            (EdgeMode::Blocking, Some(call)) => Some((call, announcement)),
            (EdgeMode::Blocking, None) | (EdgeMode::Background, _) => None,
        },
        InboxItem::Steer { .. } | InboxItem::Reply { .. } | InboxItem::Question { .. } => None,
    }
}

/// A child that asks a question.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub(crate) child: RunId,
    pub(crate) label: &'a str,
}

/// Returns the message for a child's question in its parent's history.
pub(crate) fn question_notice(
    lang: Lang,
    asker: Asker<'_>,
    request: &RequestId,
    question: &Question,
) -> String {
    let mut body = bounded(lang, &question.text);
    if !question.options.is_empty() {
        body.push('\n');
        body.push_str(&text(
            lang,
            "question-options",
            &[("list", question.options.join(" | ").into())],
        ));
    }
    let header = text(
        lang,
        "question-header",
        &[("label", label(asker.label).into())],
    );
    let guidance = text(
        lang,
        "question-guidance",
        &[("request", request.as_str().into())],
    );
    let framed = frame(lang, &asker.child.to_string(), &body);
    format!("{header}\n{framed}\n{guidance}")
}

/// Returns the message about a budget that is nearly spent.
pub(crate) fn budget_notice(lang: Lang, balances: &[Balance]) -> String {
    let list: Vec<String> = balances
        .iter()
        .map(|balance| {
            text(
                lang,
                "budget-line",
                &[
                    ("left", amount(lang, balance.kind, balance.left()).into()),
                    ("limit", amount(lang, balance.kind, balance.limit).into()),
                ],
            )
        })
        .collect();
    text(lang, "notice-budget", &[("list", list.join("; ").into())])
}

/// Returns an amount of a kind, as text.
pub(crate) fn amount(lang: Lang, kind: BudgetKind, count: u64) -> String {
    let key = match kind {
        BudgetKind::Usd => return format!("${:.4}", count as f64 / MICROS_PER_USD),
        BudgetKind::Tokens => "amount-tokens",
        BudgetKind::ToolCalls => "amount-calls",
        BudgetKind::Children => "amount-children",
    };
    text(lang, key, &[("count", count.into())])
}

fn unfinished(lang: Lang, announcement: &Announcement) -> String {
    let error = outcome_error(lang, &announcement.outcome).unwrap_or_default();
    let mut body = format!("{} {error}", text(lang, "announce-error", &[]));
    match announcement.outcome.text() {
        Some(partial) => {
            body.push_str("\n\n");
            body.push_str(&text(lang, "announce-partial", &[]));
            body.push('\n');
            body.push_str(&bounded(lang, partial));
        }
        None => {
            body.push('\n');
            body.push_str(&text(lang, "announce-none", &[]));
        }
    }
    body
}

fn status_key(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Completed { .. } => "announce-completed",
        Outcome::Failed { .. } => "announce-failed",
        Outcome::Timeout { .. } => "announce-timeout",
        Outcome::Cancelled { .. } => "announce-cancelled",
    }
}

/// Returns a label for a line outside a frame. A label is a model's text: in one line, and without the
/// characters that end a header or begin a mark of a frame, it cannot pass for a line of the runtime.
fn label(text: &str) -> String {
    let line: String = one_line(text)
        .chars()
        .map(|character| match character {
            '[' => '(',
            ']' => ')',
            '\'' => '’',
            other => other,
        })
        .collect();
    line.replace("--", "–")
}

/// Frames a child's text between two lines that it cannot contain: the token is a hash over the
/// text, and a text cannot contain its own hash.
pub fn frame(lang: Lang, salt: &str, body: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(salt.as_bytes());
    hash.update(body.as_bytes());
    let mut token = hex(&hash.finalize());
    token.truncate(12);
    format!(
        "{}\n{}\n{body}\n{}",
        text(lang, "frame-note", &[]),
        text(lang, "frame-open", &[("token", token.as_str().into())]),
        text(lang, "frame-close", &[("token", token.as_str().into())]),
    )
}

fn bounded(lang: Lang, whole: &str) -> String {
    let cut = truncate_middle(whole, MAX_RESULT_CHARS, "\n…\n");
    if cut.left_out == 0 {
        return whole.to_owned();
    }
    let note = text(lang, "announce-cut", &[("count", cut.left_out.into())]);
    format!("{}\n{note}", cut.text)
}

fn seconds(elapsed_ms: u64) -> String {
    format!("{:.1}", elapsed_ms as f64 / 1000.0)
}
