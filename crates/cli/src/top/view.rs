//! The screen of `sortie top` as lines, computed from what was read.

use console::{Style, strip_ansi_codes, truncate_str};
use sortie_core::event::{Event, JournalEntry};
use sortie_core::id::CallId;
use sortie_core::message::{Block, ToolCall};
use sortie_core::request::OpenRequest;
use sortie_core::run::{RunRecord, Status};
use sortie_core::time::Timestamp;
use sortie_core::words::Lang;
use sortie_text::{columns, one_line, pad_columns, strip_sequences, t, truncate_columns};

use crate::approval;
use crate::chat::{call_words, render_markdown};
use crate::commands::tasks::events;
use crate::report;
use crate::table::{self, TableOptions};
use crate::theme::Themed as _;

/// Columns of a label in the timeline.
const NAME_COLUMNS: usize = 26;
/// Columns of a duration in the timeline.
const SPAN_COLUMNS: usize = 7;
/// Lines of the instruction in the detail.
const TASK_LINES: usize = 4;

/// What the lower half shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pane {
    Detail,
    Timeline,
    Log,
}

impl Pane {
    const ALL: [Self; 3] = [Self::Detail, Self::Timeline, Self::Log];

    pub(super) const fn next(self) -> Self {
        match self {
            Self::Detail => Self::Timeline,
            Self::Timeline => Self::Log,
            Self::Log => Self::Detail,
        }
    }

    fn title(self, lang: Lang) -> String {
        match self {
            Self::Detail => t!(lang, "top-detail"),
            Self::Timeline => t!(lang, "top-timeline"),
            Self::Log => t!(lang, "top-log"),
        }
    }
}

/// Everything that one drawing shows.
pub(super) struct Shown<'a> {
    pub(super) lang: Lang,
    pub(super) now: Timestamp,
    /// All tasks, newest first.
    pub(super) records: &'a [RunRecord],
    pub(super) table: &'a TableOptions,
    pub(super) selected: Option<&'a RunRecord>,
    /// The open request of the selected task.
    pub(super) request: Option<&'a OpenRequest>,
    /// The end of its journal.
    pub(super) journal: &'a [JournalEntry],
    /// The process that holds the store.
    pub(super) holder: &'a str,
    pub(super) pane: Pane,
    pub(super) scroll: usize,
    pub(super) help: bool,
    /// The last line, if it is not the keys.
    pub(super) bottom: Option<String>,
}

impl Shown<'_> {
    /// Returns the lines of a screen of this size.
    pub(super) fn lines(&self, rows: usize, width: usize) -> Vec<String> {
        let mut lines = vec![self.header(width)];
        // Header, titles of the panes, and the last line.
        let room = rows.saturating_sub(3);
        let upper = (room / 2).max(2);
        if self.help {
            let words = t!(self.lang, "top-help");
            lines.extend(words.lines().map(|line| truncate_columns(line, width)));
            lines.truncate(rows - 1);
        } else {
            lines.extend(self.tree(upper, width));
            lines.resize(upper + 1, String::new());
            lines.push(self.tabs(width));
            lines.extend(self.lower(room - upper, width));
        }
        lines.resize(rows - 1, String::new());
        let last = match &self.bottom {
            Some(words) => Style::new().bold().apply_to(tail(words, width)).to_string(),
            None => dim(&truncate_columns(&t!(self.lang, "top-keys"), width)),
        };
        lines.push(last);
        lines
    }

    fn header(&self, width: usize) -> String {
        let count = |status: Status| {
            let all = self.records.iter();
            all.filter(|record| record.status == status).count()
        };
        let people = self.table.needs_person.len();
        let mut words = t!(
            self.lang,
            "top-header",
            running = count(Status::Running),
            pending = count(Status::Pending)
        );
        if people > 0 {
            words = format!("{words} · {}", t!(self.lang, "top-people", count = people));
        }
        let name = format!("sortie top · {words}");
        let left = width.saturating_sub(columns(&name) + 3);
        let holder = match left {
            0..12 => String::new(),
            left => format!(" · {}", truncate_columns(&one_line(self.holder), left)),
        };
        let style = match people {
            0 => Style::new().bold(),
            _ => Style::new().bold().warning(),
        };
        let name = style.apply_to(truncate_columns(&name, width));
        format!("{name}{}", dim(&holder))
    }

    /// Returns the table of tasks, with the selected row in it.
    fn tree(&self, height: usize, width: usize) -> Vec<String> {
        if self.records.is_empty() {
            return vec![String::new(), t!(self.lang, "no-tasks")];
        }
        let table = table::task_table(self.records, self.table);
        let selected = self.selected.map(|record| record.run_id);
        let at = table.rows.iter().position(|(run, _)| *run == selected);
        let height = height.saturating_sub(1);
        let first = at.unwrap_or(0).saturating_sub(height.saturating_sub(2));
        let first = first.min(table.rows.len().saturating_sub(height));
        let mut lines = vec![fit(&table.head, width)];
        for (run, row) in table.rows.iter().skip(first).take(height) {
            lines.push(match *run == selected && run.is_some() {
                true => {
                    let plain = strip_ansi_codes(row);
                    let row = pad_columns(&plain, width);
                    Style::new().reverse().apply_to(row).to_string()
                }
                false => fit(row, width),
            });
        }
        lines
    }

    fn tabs(&self, width: usize) -> String {
        let tabs: Vec<String> = Pane::ALL
            .iter()
            .enumerate()
            .map(|(index, pane)| {
                let title = format!(" {} {} ", index + 1, pane.title(self.lang));
                match *pane == self.pane {
                    true => Style::new().reverse().apply_to(title).to_string(),
                    false => dim(&title),
                }
            })
            .collect();
        let tabs = tabs.join(" ");
        let left = width.saturating_sub(columns(&strip_ansi_codes(&tabs)) + 1);
        format!("{tabs} {}", dim(&"─".repeat(left)))
    }

    /// Returns the lower pane; the log shows its end.
    fn lower(&self, height: usize, width: usize) -> Vec<String> {
        let Some(record) = self.selected else {
            return Vec::new();
        };
        let lines = match self.pane {
            Pane::Detail => self.detail(record, width),
            Pane::Timeline => self.timeline(record, width),
            Pane::Log => self.log(width),
        };
        let hidden = lines.len().saturating_sub(height);
        let first = match self.pane {
            Pane::Detail | Pane::Timeline => self.scroll.min(hidden),
            Pane::Log => hidden.saturating_sub(self.scroll),
        };
        lines.into_iter().skip(first).take(height).collect()
    }

    fn detail(&self, record: &RunRecord, width: usize) -> Vec<String> {
        let lang = self.lang;
        let needs_person = self.request.is_some();
        let (status, style) = table::status(record, needs_person, lang);
        let mut facts = vec![
            style.apply_to(status).to_string(),
            one_line(&record.agent),
            one_line(&record.summary.model),
            t!(lang, "count-tools", count = record.summary.tool_calls),
            table::elapsed(record, self.now),
        ];
        facts.extend(report::spent(lang, record.total_usage()));
        let mut lines = vec![
            fit(
                &format!("{} {}", record.handle, bold(&one_line(&record.label))),
                width,
            ),
            fit(&facts.join(" · "), width),
            dim(&truncate_columns(
                &one_line(&record.workspace.display().to_string()),
                width,
            )),
        ];
        if let Some(open) = self.request {
            let question = approval::question(lang, open);
            let mut asked: Vec<String> = question.lines().map(|line| fit(line, width)).collect();
            // The last line is the prompt of a terminal that reads lines.
            asked.pop();
            let keys = t!(lang, "top-decide");
            let yellow = Style::new().warning().bold();
            lines.push(yellow.apply_to(truncate_columns(&keys, width)).to_string());
            lines.extend(asked);
            return lines;
        }
        if let Some(call) = current_call(self.journal) {
            let words = t!(lang, "top-now", call = call_words(call));
            lines.push(fit(&words, width));
        }
        if let Some(why) = report::why(lang, record) {
            let red = Style::new().bad();
            let words = truncate_columns(&one_line(&why), width);
            lines.push(red.apply_to(words).to_string());
        }
        lines.push(String::new());
        let task = strip_sequences(&record.task);
        let task = task.lines().take(TASK_LINES);
        lines.extend(task.map(|line| dim(&truncate_columns(&format!("> {line}"), width))));
        let text = record.result().or(record.summary.last_text.as_deref());
        if let Some(text) = text {
            lines.push(String::new());
            lines.extend(render_markdown(text, width));
        }
        lines
    }

    /// Returns one bar for each task of the tree: the wait for a slot, then the execution.
    fn timeline(&self, record: &RunRecord, width: usize) -> Vec<String> {
        let tree: Vec<RunRecord> = self
            .records
            .iter()
            .filter(|other| other.root == record.root)
            .cloned()
            .collect();
        let end_of = |record: &RunRecord| record.ended_at.unwrap_or(self.now);
        let first = tree.iter().map(|record| record.created_at).min();
        let last = tree.iter().map(end_of).max();
        let (Some(first), Some(last)) = (first, last) else {
            return Vec::new();
        };
        let room = width.saturating_sub(NAME_COLUMNS + SPAN_COLUMNS + 2).max(8);
        let total = last.ms_since(first).max(1);
        let column = |at: Timestamp| {
            let share = at.ms_since(first) as f64 / total as f64;
            ((share * room as f64).round() as usize).min(room)
        };
        table::tree(&tree)
            .into_iter()
            .map(|(depth, task)| {
                let label = format!("{}{}", "  ".repeat(depth), one_line(&task.label));
                let name = pad_columns(&label, NAME_COLUMNS);
                let created = column(task.created_at).min(room - 1);
                let started = task.started_at.map_or(room, column).max(created);
                let end = column(end_of(task)).max(started).min(room);
                let waits = match task.started_at {
                    Some(_) => started - created,
                    None => end.max(created + 1) - created,
                };
                let works = match task.started_at {
                    Some(_) => (end - started).max(1),
                    None => 0,
                };
                let (_, style) = table::status(
                    task,
                    self.table.needs_person.contains(&task.run_id),
                    self.lang,
                );
                let bar = format!(
                    "{}{}{}",
                    " ".repeat(created),
                    dim(&"·".repeat(waits)),
                    style.apply_to("█".repeat(works))
                );
                let span = table::elapsed(task, self.now);
                let gap = (room + 1).saturating_sub(created + waits + works);
                let mark = match self
                    .selected
                    .is_some_and(|chosen| chosen.run_id == task.run_id)
                {
                    true => bold(&name),
                    false => name,
                };
                fit(&format!("{mark} {bar}{}{span}", " ".repeat(gap)), width)
            })
            .collect()
    }

    fn log(&self, width: usize) -> Vec<String> {
        let lines = self.journal.iter().map(events::line);
        lines.map(|line| truncate_columns(&line, width)).collect()
    }
}

/// Returns the last call without a result.
fn current_call(journal: &[JournalEntry]) -> Option<&ToolCall> {
    let mut finished: Vec<&CallId> = Vec::new();
    for entry in journal.iter().rev() {
        match &entry.event {
            Event::ToolFinished { result, .. } => finished.push(&result.call),
            Event::Answered { blocks, .. } => {
                return blocks.iter().rev().find_map(|block| match block {
                    Block::Call(call) if !finished.contains(&&call.id) => Some(call),
                    Block::Call(_) | Block::Text { .. } | Block::Reasoning { .. } => None,
                });
            }
            Event::Finished { .. } => return None,
            Event::Admitted { .. }
            | Event::Updated { .. }
            | Event::Paused
            | Event::Resumed
            | Event::Claimed { .. }
            | Event::InboxTaken { .. }
            | Event::ModelFailed { .. }
            | Event::Compacted { .. }
            | Event::Intended { .. }
            | Event::Asked { .. }
            | Event::Delegated { .. }
            | Event::BudgetLow { .. }
            | Event::BudgetSpent { .. }
            | Event::Isolated { .. }
            | Event::Collected { .. }
            | Event::Checked { .. } => {}
        }
    }
    None
}

fn dim(text: &str) -> String {
    Style::new().muted().apply_to(text).to_string()
}

fn bold(text: &str) -> String {
    Style::new().bold().apply_to(text).to_string()
}

/// Truncates a line that may have colours.
fn fit(line: &str, width: usize) -> String {
    truncate_str(line, width, "…").into_owned()
}

/// Returns the end of an input that is longer than the line.
fn tail(text: &str, width: usize) -> String {
    let mut kept = text;
    while columns(kept) > width {
        let mut rest = kept.chars();
        rest.next();
        kept = rest.as_str();
    }
    kept.to_owned()
}
