//! The state of a conversation as it is shown: the current turn, its children, and what they do.
//!
//! Journals are authoritative. Text that streams is only shown until the journal has the completion,
//! or until the model failed and the text is void.

use std::collections::BTreeMap;

use console::Style;
use serde_json::Value;
use sortie_base::diff;
use sortie_base::hidden::write_out_line;
use sortie_core::event::{ChildWait, Event, JournalEntry};
use sortie_core::id::{CallId, RunId, Seq};
use sortie_core::inbox::{InboxItem, Sender};
use sortie_core::message::{Arguments, Block, ResultStatus, Todo, TodoStatus, ToolCall};
use sortie_core::notification::{Notification, NotificationKind};
use sortie_core::run::{Outcome, RunRecord, Status};
use sortie_core::time::Timestamp;
use sortie_core::words::Lang;
use sortie_text::{columns, one_line, outcome_error, strip_sequences, t, truncate_columns};

use super::highlight::diff_style;
use super::markdown;
use crate::colors::Colors;
use crate::report;
use crate::table::span;
use crate::theme::Themed as _;

/// The most lines of a diff that a change prints.
const DIFF_LINES: usize = 16;
/// The most children and todos in the live area.
const MAX_CHILDREN: usize = 8;
const MAX_TODOS: usize = 8;
/// The most characters of streamed text that are kept; the journal has all of it.
const MAX_STREAM_BYTES: usize = 256 * 1024;
/// Arguments that say what a call is about, the most telling first.
const TELLING: [&str; 13] = [
    "command",
    "path",
    "file_path",
    "pattern",
    "query",
    "url",
    "description",
    "label",
    "question",
    "name",
    "task",
    "prompt",
    "id",
];
/// Tools whose effect the live area shows by itself.
const SHOWN_OTHERWISE: [&str; 6] = [
    "todo_write",
    "task",
    "spawn_subagent",
    "spawn",
    "fan_out",
    "ask",
];

/// The state of the conversation.
#[derive(Debug)]
pub(super) struct Board {
    lang: Lang,
    colors: Colors,
    turn: Option<Turn>,
    children: BTreeMap<RunId, Child>,
    /// Messages to the running turn that were typed here, so that they are on the screen.
    steers: Vec<String>,
}

/// The turn that executes.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) run: RunId,
    /// The last journal entry that was shown.
    pub(super) seen: Seq,
    /// Whether the user typed its message here, so that it is on the screen.
    typed_here: bool,
    /// The text of the completion that arrives.
    streaming: String,
    todos: Vec<Todo>,
    calls: BTreeMap<CallId, Running>,
    started_at: Timestamp,
    /// The last text of the model that was printed.
    last_text: String,
    pub(super) paused: bool,
    pub(super) stopping: bool,
    /// What delays the turn: a retry or a rate limit.
    delay: Option<String>,
}

/// A call that has no result yet.
#[derive(Debug)]
struct Running {
    name: String,
    arguments: Value,
    words: String,
}

#[derive(Debug)]
struct Child {
    parent: Option<RunId>,
    agent: String,
    label: String,
    started_at: Timestamp,
    tools: u32,
    seen: Seq,
    current: Option<String>,
    is_queued: bool,
}

impl Board {
    pub(super) fn new(lang: Lang, colors: Colors) -> Self {
        Self {
            lang,
            colors,
            turn: None,
            children: BTreeMap::new(),
            steers: Vec::new(),
        }
    }

    /// Notes a message to the running turn that was typed here.
    pub(super) fn steered(&mut self, text: &str) {
        self.steers.push(text.to_owned());
    }

    /// Forgets everything: another session is shown.
    pub(super) fn reset(&mut self) {
        self.turn = None;
        self.children.clear();
        self.steers.clear();
    }

    pub(super) fn turn(&self) -> Option<&Turn> {
        self.turn.as_ref()
    }

    pub(super) fn turn_mut(&mut self) -> Option<&mut Turn> {
        self.turn.as_mut()
    }

    /// Returns the children that have not ended.
    pub(super) fn children(&self) -> impl Iterator<Item = (RunId, Seq)> + '_ {
        self.children.iter().map(|(run, child)| (*run, child.seen))
    }

    /// Makes a run the current turn.
    pub(super) fn begin(&mut self, run: RunId, typed_here: bool, now: Timestamp) {
        if self.turn.as_ref().is_some_and(|turn| turn.run == run) {
            return;
        }
        self.turn = Some(Turn {
            run,
            seen: Seq(0),
            typed_here,
            streaming: String::new(),
            todos: Vec::new(),
            calls: BTreeMap::new(),
            started_at: now,
            last_text: String::new(),
            paused: false,
            stopping: false,
            delay: None,
        });
    }

    /// Adds a piece of a completion.
    pub(super) fn text(&mut self, run: RunId, text: &str) {
        if let Some(turn) = self.turn.as_mut().filter(|turn| turn.run == run) {
            turn.delay = None;
            if turn.streaming.len() + text.len() <= MAX_STREAM_BYTES {
                turn.streaming.push_str(text);
            }
        }
    }

    /// Updates a child or the turn from an event.
    pub(super) fn event(&mut self, notification: &Notification) {
        let run = notification.task_id;
        match &notification.kind {
            NotificationKind::Queued { agent, label }
            | NotificationKind::Started { agent, label }
                if notification.parent_id.is_some() =>
            {
                let is_queued = matches!(notification.kind, NotificationKind::Queued { .. });
                let child = self.children.entry(run).or_insert_with(|| Child {
                    parent: notification.parent_id,
                    agent: agent.clone(),
                    label: one_line(label),
                    started_at: notification.at,
                    tools: 0,
                    seen: Seq(0),
                    current: None,
                    is_queued,
                });
                if !is_queued {
                    child.is_queued = false;
                    child.started_at = notification.at;
                }
            }
            NotificationKind::Tool { tool, tool_calls } => {
                if let Some(child) = self.children.get_mut(&run) {
                    child.tools = child.tools.max(tool_calls.saturating_add(1));
                    child.current = Some(one_line(tool));
                }
            }
            NotificationKind::Progress { tool_calls, .. } => {
                if let Some(child) = self.children.get_mut(&run) {
                    child.tools = child.tools.max(*tool_calls);
                }
            }
            NotificationKind::Held { position, .. } => {
                let words = position.map(|place| t!(self.lang, "progress-place", position = place));
                self.delay(run, words);
            }
            NotificationKind::Retrying { error, model, .. } => {
                let words = t!(
                    self.lang,
                    "progress-retrying",
                    error = one_line(error),
                    model = model
                );
                // The text of the failed completion is void.
                if let Some(turn) = self.turn.as_mut().filter(|turn| turn.run == run) {
                    turn.streaming.clear();
                }
                self.delay(run, Some(words));
            }
            NotificationKind::Paused | NotificationKind::Resumed => {
                let paused = matches!(notification.kind, NotificationKind::Paused);
                if let Some(turn) = self.turn.as_mut().filter(|turn| turn.run == run) {
                    turn.paused = paused;
                }
            }
            NotificationKind::Queued { .. }
            | NotificationKind::Started { .. }
            | NotificationKind::Compacted { .. }
            | NotificationKind::Asked { .. }
            | NotificationKind::Replied { .. }
            | NotificationKind::BudgetLow { .. }
            | NotificationKind::Said { .. }
            | NotificationKind::Changed { .. }
            | NotificationKind::Completed { .. }
            | NotificationKind::Failed { .. }
            | NotificationKind::Timeout { .. }
            | NotificationKind::Cancelled { .. }
            | NotificationKind::Delivery { .. }
            | NotificationKind::Deleted => {}
        }
    }

    fn delay(&mut self, run: RunId, words: Option<String>) {
        if let Some(turn) = self.turn.as_mut().filter(|turn| turn.run == run) {
            turn.delay = words;
        } else if let Some(child) = self.children.get_mut(&run)
            && words.is_some()
        {
            child.current = words;
        }
    }

    /// Adds or corrects a child from its record; returns the line that reports its end.
    pub(super) fn record(&mut self, record: &RunRecord) -> Option<String> {
        let Some(outcome) = &record.outcome else {
            let child = self.children.entry(record.run_id).or_insert_with(|| Child {
                parent: record.parent,
                agent: record.agent.clone(),
                label: one_line(&record.label),
                started_at: record.started_at.unwrap_or(record.created_at),
                tools: 0,
                seen: Seq(0),
                current: None,
                is_queued: true,
            });
            child.is_queued = record.status == Status::Pending;
            child.tools = child.tools.max(record.summary.tool_calls);
            return None;
        };
        self.children.remove(&record.run_id)?;
        let ended_at = record.ended_at.unwrap_or(record.created_at);
        let work = self.work(record.summary.tool_calls, record.elapsed_ms(ended_at));
        let agent = self.colors.paint(&record.agent, &record.agent);
        let label = one_line(&record.label);
        let lang = self.lang;
        let words = match outcome {
            Outcome::Completed { .. } => {
                t!(
                    lang,
                    "progress-done",
                    agent = agent,
                    label = label,
                    work = work
                )
            }
            Outcome::Failed { .. } => {
                let why = one_line(&report::why(lang, record).unwrap_or_default());
                t!(
                    lang,
                    "progress-failed",
                    agent = agent,
                    label = label,
                    why = why,
                    work = work
                )
            }
            Outcome::Timeout { .. } => {
                t!(
                    lang,
                    "progress-timeout",
                    agent = agent,
                    label = label,
                    work = work
                )
            }
            Outcome::Cancelled { .. } => {
                t!(
                    lang,
                    "progress-cancelled",
                    agent = agent,
                    label = label,
                    work = work
                )
            }
        };
        let mark = match outcome {
            Outcome::Completed { .. } => Style::new().good().apply_to("✓"),
            Outcome::Failed { .. } | Outcome::Timeout { .. } => Style::new().bad().apply_to("✗"),
            Outcome::Cancelled { .. } => Style::new().warning().apply_to("■"),
        };
        Some(format!("  {mark} {words}"))
    }

    /// Updates the current call of a child from its journal.
    pub(super) fn child_journal(&mut self, run: RunId, entries: &[JournalEntry]) {
        let Some(child) = self.children.get_mut(&run) else {
            return;
        };
        for entry in entries {
            child.seen = child.seen.max(entry.seq);
            if let Event::Answered { blocks, .. } = &entry.event {
                for block in blocks {
                    if let Block::Call(call) = block {
                        child.current = Some(call_words(call));
                    }
                }
            }
        }
    }

    /// Shows entries of the turn's journal; returns the lines to print.
    pub(super) fn journal(&mut self, entries: &[JournalEntry], width: usize) -> Vec<String> {
        let mut lines = Vec::new();
        for entry in entries {
            let Some(turn) = self
                .turn
                .as_mut()
                .filter(|turn| turn.run == entry.run && entry.seq > turn.seen)
            else {
                continue;
            };
            turn.seen = entry.seq;
            match &entry.event {
                Event::Admitted { spec } => {
                    turn.started_at = entry.at;
                    if !turn.typed_here {
                        lines.extend(message_lines(&spec.task, width));
                    }
                }
                Event::Answered { blocks, .. } => turn.answered(blocks, width, &mut lines),
                Event::ModelFailed { .. } => turn.streaming.clear(),
                Event::ToolFinished { result, todos, .. } => {
                    if let Some(todos) = todos {
                        turn.todos.clone_from(todos);
                    }
                    if let Some(call) = turn.calls.remove(&result.call) {
                        lines.extend(call.ended(self.lang, result.status, &result.text, width));
                    }
                }
                Event::Delegated { call, wait, .. } => {
                    // The child has its own line while the call waits.
                    if matches!(wait, ChildWait::Result { .. } | ChildWait::FanOut { .. }) {
                        turn.calls.remove(call);
                    }
                }
                Event::InboxTaken { items, unread } => {
                    for item in items {
                        lines.extend(inbox_lines(
                            self.lang,
                            item,
                            *unread,
                            &mut self.steers,
                            width,
                        ));
                    }
                }
                Event::Compacted {
                    chars_before,
                    chars_after,
                    ..
                } => {
                    let words = t!(
                        self.lang,
                        "progress-compacted",
                        before = *chars_before,
                        after = *chars_after
                    );
                    lines.push(dim(&format!("  {words}"), width));
                }
                Event::Paused => turn.paused = true,
                Event::Resumed | Event::Claimed { .. } => turn.paused = false,
                Event::Finished { outcome } => {
                    lines.extend(turn.finished(self.lang, outcome, width));
                    self.turn = None;
                }
                Event::Updated { .. }
                | Event::Intended { .. }
                | Event::Asked { .. }
                | Event::BudgetLow { .. }
                | Event::BudgetSpent { .. }
                | Event::Isolated { .. }
                | Event::Collected { .. }
                | Event::Checked { .. } => {}
            }
        }
        lines
    }

    /// Returns the lines of the live area above the input: at most `height`, the newest text kept.
    pub(super) fn live(&self, now: Timestamp, width: usize, height: usize) -> Vec<String> {
        let mut below = Vec::new();
        if let Some(turn) = &self.turn {
            below.extend(turn.calls.values().map(|call| {
                let words = truncate_columns(&call.words, width.saturating_sub(4));
                format!("  {} {words}", Style::new().info().apply_to("●"))
            }));
        }
        below.extend(self.child_lines(now, width));
        if let Some(turn) = &self.turn {
            below.extend(turn.todo_lines(self.lang, width));
            below.push(turn.status_line(self.lang, now, width));
        }
        let room = height.saturating_sub(below.len());
        let mut text = match &self.turn {
            Some(turn) if !turn.streaming.trim().is_empty() => {
                markdown::render(&turn.streaming, width)
            }
            Some(_) | None => Vec::new(),
        };
        let hidden = text.len().saturating_sub(room);
        text.drain(..hidden);
        text.extend(below);
        text
    }

    fn child_lines(&self, now: Timestamp, width: usize) -> Vec<String> {
        let mut ordered = Vec::new();
        let roots = self.children.iter().filter(|(_, child)| {
            child
                .parent
                .is_none_or(|parent| !self.children.contains_key(&parent))
        });
        for (run, child) in roots {
            self.subtree(*run, child, 0, &mut ordered);
        }
        let more = ordered.len().saturating_sub(MAX_CHILDREN);
        ordered.truncate(MAX_CHILDREN);
        let mut lines: Vec<String> = ordered
            .into_iter()
            .map(|(depth, child)| self.child_line(child, depth, now, width))
            .collect();
        if more > 0 {
            lines.push(dim(&t!(self.lang, "chat-more-tasks", count = more), width));
        }
        lines
    }

    fn subtree<'a>(
        &'a self,
        run: RunId,
        child: &'a Child,
        depth: usize,
        ordered: &mut Vec<(usize, &'a Child)>,
    ) {
        ordered.push((depth, child));
        let below = self
            .children
            .iter()
            .filter(|(_, other)| other.parent == Some(run));
        for (run, child) in below {
            self.subtree(*run, child, depth + 1, ordered);
        }
    }

    fn child_line(&self, child: &Child, depth: usize, now: Timestamp, width: usize) -> String {
        let indent = format!("  {}", "  ".repeat(depth.min(6)));
        let work = match child.is_queued {
            true => t!(self.lang, "chat-queued"),
            false => self.work(child.tools, now.ms_since(child.started_at)),
        };
        let fixed = columns(&indent) + columns(&child.agent) + columns(&work) + 8;
        let room = width.saturating_sub(fixed);
        let label = truncate_columns(&child.label, room.max(8));
        let rest = room.saturating_sub(columns(&label) + 3);
        let current = match &child.current {
            Some(current) if rest >= 8 => format!(" · {}", truncate_columns(current, rest)),
            Some(_) | None => String::new(),
        };
        let agent = self.colors.paint(&child.agent, &child.agent);
        format!(
            "{indent}[{agent}] {label} ... {work}{}",
            Style::new().muted().apply_to(current)
        )
    }

    fn work(&self, tools: u32, ms: u64) -> String {
        let seconds = ms as f64 / 1000.0;
        t!(
            self.lang,
            "progress-work",
            tools = tools,
            seconds = format!("{seconds:.1}")
        )
    }
}

impl Turn {
    fn answered(&mut self, blocks: &[Block], width: usize, lines: &mut Vec<String>) {
        self.streaming.clear();
        self.delay = None;
        for block in blocks {
            match block {
                Block::Text { text } if !text.trim().is_empty() => {
                    lines.push(String::new());
                    lines.extend(markdown::render(text, width));
                    self.last_text.clone_from(text);
                }
                Block::Call(call) => {
                    self.calls.insert(call.id.clone(), Running::of(call));
                }
                Block::Text { .. } | Block::Reasoning { .. } => {}
            }
        }
    }

    fn finished(&self, lang: Lang, outcome: &Outcome, width: usize) -> Vec<String> {
        match outcome {
            Outcome::Completed { text, .. } if text.trim() == self.last_text.trim() => Vec::new(),
            Outcome::Completed { text, .. } => {
                let mut lines = vec![String::new()];
                lines.extend(markdown::render(text, width));
                lines
            }
            Outcome::Failed { .. } | Outcome::Timeout { .. } => {
                let message = strip_sequences(&outcome_error(lang, outcome).unwrap_or_default());
                let words = t!(lang, "error-line", message = message);
                vec![Style::new().bad().apply_to(words).to_string()]
            }
            Outcome::Cancelled { .. } => {
                let words = t!(lang, "chat-stopped");
                vec![Style::new().warning().apply_to(words).to_string()]
            }
        }
    }

    fn todo_lines(&self, lang: Lang, width: usize) -> Vec<String> {
        let more = self.todos.len().saturating_sub(MAX_TODOS);
        let first_open = self
            .todos
            .iter()
            .position(|todo| todo.status != TodoStatus::Completed)
            .unwrap_or(0);
        let start = first_open.saturating_sub(2).min(more);
        let shown = self.todos.iter().skip(start).take(MAX_TODOS);
        let mut lines: Vec<String> = shown
            .map(|todo| {
                let words = truncate_columns(&one_line(&todo.content), width.saturating_sub(5));
                match todo.status {
                    TodoStatus::Completed => {
                        format!(
                            "  {} {}",
                            Style::new().good().apply_to("☑"),
                            Style::new().muted().apply_to(words)
                        )
                    }
                    TodoStatus::InProgress => {
                        format!(
                            "  {} {}",
                            Style::new().warning().apply_to("▶"),
                            Style::new().bold().apply_to(words)
                        )
                    }
                    TodoStatus::Pending => format!("  ☐ {words}"),
                }
            })
            .collect();
        if more > 0 {
            lines.push(dim(&t!(lang, "chat-more-todos", count = more), width));
        }
        lines
    }

    fn status_line(&self, lang: Lang, now: Timestamp, width: usize) -> String {
        let elapsed = span(now.ms_since(self.started_at));
        let words = match (&self.delay, self.stopping, self.paused) {
            (_, true, _) => t!(lang, "chat-stopping"),
            (_, false, true) => t!(lang, "chat-paused"),
            (Some(delay), false, false) => format!("{delay} · {elapsed}"),
            (None, false, false) => t!(lang, "chat-working", elapsed = elapsed),
        };
        dim(&words, width)
    }
}

impl Running {
    fn of(call: &ToolCall) -> Self {
        Self {
            name: call.name.clone(),
            arguments: match &call.arguments {
                Arguments::Json(value) => value.clone(),
                Arguments::Malformed { .. } => Value::Null,
            },
            words: call_words(call),
        }
    }

    /// Returns the lines that report the end of the call.
    fn ended(&self, lang: Lang, status: ResultStatus, result: &str, width: usize) -> Vec<String> {
        let words = truncate_columns(&self.words, width.saturating_sub(4));
        let mark = match status {
            ResultStatus::Ok if SHOWN_OTHERWISE.contains(&self.name.as_str()) => return Vec::new(),
            ResultStatus::Ok => {
                let mut lines = vec![format!("  {} {words}", Style::new().good().apply_to("✓"))];
                lines.extend(self.diff(lang, width));
                return lines;
            }
            ResultStatus::Error | ResultStatus::Denied | ResultStatus::Interrupted => {
                Style::new().bad().apply_to("✗")
            }
        };
        let why = one_line(result);
        let why = truncate_columns(&why, width.saturating_sub(6));
        vec![
            format!("  {mark} {words}"),
            dim(&format!("    {why}"), width),
        ]
    }

    /// Returns the change of a file as a coloured diff.
    fn diff(&self, lang: Lang, width: usize) -> Vec<String> {
        let field = |name: &str| self.arguments.get(name).and_then(Value::as_str);
        let changes: Vec<String> =
            match (self.name.as_str(), field("old_string"), field("new_string")) {
                ("edit_file", Some(old), Some(new)) => diff::lines(old, new)
                    .into_iter()
                    .filter(|line| line.sign() != ' ')
                    .map(|line| {
                        let text = line.text().replace('\t', "    ");
                        format!("{}{}", line.sign(), write_out_line(&text))
                    })
                    .collect(),
                _ => return Vec::new(),
            };
        let more = changes.len().saturating_sub(DIFF_LINES);
        let mut lines: Vec<String> = changes
            .iter()
            .take(DIFF_LINES)
            .map(|line| {
                let text = truncate_columns(line, width.saturating_sub(6));
                format!("    {}", diff_style(line).apply_to(text))
            })
            .collect();
        if more > 0 {
            let words = t!(lang, "approval-more", count = more);
            lines.push(dim(&format!("    {words}"), width));
        }
        lines
    }
}

/// Returns the lines of a message that the user typed.
pub(super) fn message_lines(text: &str, width: usize) -> Vec<String> {
    let style = Style::new().bold();
    let mut lines = vec![String::new()];
    for (index, line) in strip_sequences(text).lines().enumerate() {
        let mark = if index == 0 { "> " } else { "  " };
        let spans = [super::styled::Span::new(line, style.clone())];
        lines.extend(super::styled::wrap(&spans, width, mark, "  "));
    }
    lines
}

/// Returns the lines for what the turn received.
fn inbox_lines(
    lang: Lang,
    item: &InboxItem,
    unread: bool,
    typed_here: &mut Vec<String>,
    width: usize,
) -> Vec<String> {
    match item {
        InboxItem::Steer {
            from: Sender::Person,
            text,
        } => match typed_here.iter().position(|typed| typed == text) {
            Some(place) => {
                typed_here.remove(place);
                Vec::new()
            }
            None => message_lines(text, width),
        },
        InboxItem::Announcement(announcement) if !unread => {
            let words = t!(
                lang,
                "chat-announced",
                agent = &announcement.agent,
                label = one_line(&announcement.label)
            );
            vec![dim(&format!("  ← {words}"), width)]
        }
        InboxItem::Steer { .. }
        | InboxItem::Announcement(_)
        | InboxItem::Reply { .. }
        | InboxItem::Question { .. } => Vec::new(),
    }
}

/// Returns a call in a few words: its tool and the argument that says what it is about.
pub(crate) fn call_words(call: &ToolCall) -> String {
    let about = match &call.arguments {
        Arguments::Json(value) => TELLING
            .iter()
            .find_map(|name| value.get(name)?.as_str())
            .map(one_line),
        Arguments::Malformed { .. } => None,
    };
    let name = one_line(&call.name);
    match about {
        Some(about) if !about.is_empty() => format!("{name} {about}"),
        Some(_) | None => name,
    }
}

/// Returns a line that fits, in a faint style.
pub(super) fn dim(text: &str, width: usize) -> String {
    Style::new()
        .muted()
        .apply_to(truncate_columns(text, width))
        .to_string()
}
