//! Shows one line for each executing child: updated in place on a terminal, at its start and end on
//! other outputs.
//!
//! Events are hints, records are authoritative: the next record corrects what a lost event left.

use std::collections::BTreeMap;
use std::sync::Arc;

use sortie_core::id::RunId;
use sortie_core::notification::{Notification, NotificationKind};
use sortie_core::run::{Lane, Outcome, RunRecord, Status, WaitingOn};
use sortie_core::time::Timestamp;
use sortie_core::words::Lang;
use sortie_text::{columns, one_line, t, truncate_columns};

use crate::colors::Colors;
use crate::report;
use crate::screen::Screen;

/// The indentation of every line.
const INDENT: &str = "  ";
/// A label is never truncated below this, however narrow the terminal is.
const LEAST_LABEL_COLUMNS: usize = 12;
/// The columns of an error in a line.
const WHY_COLUMNS: usize = 160;

/// The progress of the runs that a command waits for.
#[derive(Debug)]
pub(crate) struct Progress {
    lang: Lang,
    screen: Arc<Screen>,
    colors: Colors,
    /// Runs that ended before are not shown.
    since: Timestamp,
    runs: BTreeMap<RunId, Line>,
    /// The labels of children that wait for a slot.
    queued: BTreeMap<RunId, String>,
}

/// The state of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    agent: String,
    label: String,
    tools: u32,
    started_at: Timestamp,
    /// Whether it is the main run, which the last line shows, instead of a run with a line of its
    /// own.
    is_main: bool,
    ended: bool,
    /// Its position among the prompts that wait for the provider.
    queue_position: Option<u32>,
    /// Whether the wait was shown in a line of its own.
    wait_shown: bool,
}

impl Progress {
    /// Shows runs on this screen, except those that ended before `since`.
    pub(crate) fn new(lang: Lang, screen: Arc<Screen>, colors: Colors, since: Timestamp) -> Self {
        Self {
            lang,
            screen,
            colors,
            since,
            runs: BTreeMap::new(),
            queued: BTreeMap::new(),
        }
    }

    /// Updates a run from its record, which is authoritative.
    pub(crate) fn record(&mut self, record: &RunRecord) {
        let run = record.run_id;
        if record.status == Status::Pending {
            if record.parent.is_some() {
                self.queued.insert(run, one_line(&record.label));
            }
            return;
        }
        let is_old = record.ended_at.is_some_and(|ended| ended < self.since);
        if !self.runs.contains_key(&run) && !is_old {
            self.start(run, Line::of(record), record.outcome.is_none());
        }
        self.count(run, record.summary.tool_calls);
        if let Some(line) = self.runs.get_mut(&run) {
            line.queue_position = queue_position(record);
        }
        if let Some(outcome) = &record.outcome {
            self.end(record, outcome);
        }
    }

    /// Updates a run from an event. Returns whether its record should be read: the run has ended.
    pub(crate) fn event(&mut self, notification: &Notification) -> bool {
        let run = notification.task_id;
        let is_child = notification.parent_id.is_some();
        match &notification.kind {
            NotificationKind::Started { agent, label } if is_child => {
                let line = Line {
                    agent: agent.clone(),
                    label: one_line(label),
                    tools: 0,
                    started_at: notification.at,
                    is_main: false,
                    ended: false,
                    queue_position: None,
                    wait_shown: false,
                };
                if !self.runs.contains_key(&run) {
                    self.start(run, line, true);
                }
                false
            }
            // Only the record of a root says which lane it is in.
            NotificationKind::Started { .. } => true,
            NotificationKind::Progress { tool_calls, .. } => {
                self.count(run, *tool_calls);
                false
            }
            NotificationKind::Tool { tool_calls, .. } => {
                self.count(run, tool_calls.saturating_add(1));
                false
            }
            NotificationKind::Said { text } => {
                self.intermediate_text(run, text);
                false
            }
            NotificationKind::Held {
                position,
                resumes_in_ms,
            } => {
                self.queue_position(run, *position, *resumes_in_ms);
                false
            }
            NotificationKind::Retrying { error, model, .. } => {
                let words = t!(
                    self.lang,
                    "progress-retrying",
                    error = one_line(error),
                    model = model
                );
                self.remark(run, &words);
                false
            }
            NotificationKind::Compacted {
                chars_before,
                chars_after,
            } => {
                let words = t!(
                    self.lang,
                    "progress-compacted",
                    before = *chars_before,
                    after = *chars_after
                );
                self.remark(run, &words);
                false
            }
            NotificationKind::BudgetLow { balances } => {
                let left = balances
                    .first()
                    .map_or(0, |balance| balance.percent_spent());
                let words = t!(self.lang, "progress-budget", percent = left);
                self.remark(run, &words);
                false
            }
            NotificationKind::Asked { .. } | NotificationKind::Replied { .. } => false,
            NotificationKind::Queued { label, .. } if is_child => {
                // The event may arrive after the run has started.
                if !self.runs.contains_key(&run) {
                    self.queued.insert(run, one_line(label));
                }
                false
            }
            NotificationKind::Queued { .. }
            | NotificationKind::Changed { .. }
            | NotificationKind::Paused
            | NotificationKind::Resumed
            | NotificationKind::Deleted => false,
            NotificationKind::Completed { .. }
            | NotificationKind::Failed { .. }
            | NotificationKind::Timeout { .. }
            | NotificationKind::Cancelled { .. } => true,
            // Only if the event of its end was lost.
            NotificationKind::Delivery { .. } => {
                self.runs.get(&run).is_some_and(|line| !line.ended)
            }
        }
    }

    /// Draws the lines that change with time.
    pub(crate) fn draw(&self, now: Timestamp) {
        if !self.screen.is_live() {
            return;
        }
        for (run, line) in self.children() {
            self.screen.show(*run, self.running(line, now));
        }
        if let Some(text) = self.main_text(now) {
            self.screen.status(text);
        }
    }

    /// Returns the runs that are known to execute.
    pub(crate) fn running_runs(&self) -> Vec<RunId> {
        self.runs
            .iter()
            .filter(|(_, line)| !line.ended)
            .map(|(run, _)| *run)
            .collect()
    }

    fn start(&mut self, run: RunId, line: Line, show: bool) {
        self.queued.remove(&run);
        if show && !self.screen.is_live() && !line.is_main {
            let words = self.fitted(&line.label, |label| {
                t!(
                    self.lang,
                    "progress-started",
                    agent = &line.agent,
                    label = label
                )
            });
            self.screen.line(&words);
        }
        self.runs.insert(run, line);
    }

    fn count(&mut self, run: RunId, tools: u32) {
        if let Some(line) = self.runs.get_mut(&run) {
            line.tools = line.tools.max(tools);
        }
    }

    /// Shows a remark that does not fit into the line of the run.
    fn remark(&self, run: RunId, words: &str) {
        let Some(line) = self.runs.get(&run) else {
            return;
        };
        let remark = if line.is_main {
            format!("{INDENT}[{}] {words}", line.agent)
        } else {
            format!("{INDENT}[{}] {}: {words}", line.agent, line.label)
        };
        if self.screen.is_live() {
            self.screen
                .line(&truncate_columns(&remark, self.screen.columns()));
        } else {
            self.screen.line(&remark);
        }
    }

    fn queue_position(&mut self, run: RunId, position: Option<u32>, resumes_in_ms: Option<u64>) {
        let Some(line) = self.runs.get_mut(&run) else {
            return;
        };
        let begins = !line.wait_shown && position.is_some();
        line.queue_position = position;
        line.wait_shown = position.is_some();
        // A terminal shows it in the line of the run; other outputs get a line when the wait starts.
        if begins && !self.screen.is_live() {
            let words = t!(
                self.lang,
                "progress-held",
                position = position.unwrap_or(1),
                seconds = resumes_in_ms.unwrap_or(0).div_ceil(1000)
            );
            self.remark(run, &words);
        }
    }

    /// Shows a text of the main agent, which continues when its children have reported.
    fn intermediate_text(&self, run: RunId, text: &str) {
        self.remark(run, &one_line(text));
        if !self.screen.is_live()
            && let Some(waiting) = self.waiting_text()
        {
            self.screen.line(&waiting);
        }
    }

    fn end(&mut self, record: &RunRecord, outcome: &Outcome) {
        let run = record.run_id;
        let line = match self.runs.get_mut(&run) {
            Some(line) if !line.ended => {
                line.ended = true;
                line.clone()
            }
            Some(_) | None => return,
        };
        if line.is_main {
            return;
        }
        let now = record.ended_at.unwrap_or(line.started_at);
        let work = self.work(&line, now);
        let why = || {
            let why = report::why(self.lang, record).unwrap_or_default();
            truncate_columns(&one_line(&why), WHY_COLUMNS)
        };
        let lang = self.lang;
        let words = self.fitted(&line.label, |label| {
            let agent = self.colors.paint(&line.agent, &line.agent);
            match outcome {
                Outcome::Completed { .. } => {
                    t!(
                        lang,
                        "progress-done",
                        agent = agent,
                        label = label,
                        work = &work
                    )
                }
                Outcome::Failed { .. } => t!(
                    lang,
                    "progress-failed",
                    agent = agent,
                    label = label,
                    why = why(),
                    work = &work
                ),
                Outcome::Timeout { .. } => {
                    t!(
                        lang,
                        "progress-timeout",
                        agent = agent,
                        label = label,
                        work = &work
                    )
                }
                Outcome::Cancelled { .. } => {
                    t!(
                        lang,
                        "progress-cancelled",
                        agent = agent,
                        label = label,
                        work = &work
                    )
                }
            }
        });
        self.screen.hide(run);
        self.screen.line(&words);
    }

    fn children(&self) -> impl Iterator<Item = (&RunId, &Line)> {
        self.runs
            .iter()
            .filter(|(_, line)| !line.ended && !line.is_main)
    }

    fn running(&self, line: &Line, now: Timestamp) -> String {
        let work = self.work(line, now);
        self.fitted(&line.label, |label| {
            t!(
                self.lang,
                "progress-running",
                agent = self.colors.paint(&line.agent, &line.agent),
                label = label,
                work = &work
            )
        })
    }

    fn main_text(&self, now: Timestamp) -> Option<String> {
        self.waiting_text().or_else(|| {
            let line = self
                .runs
                .values()
                .find(|line| line.is_main && !line.ended)?;
            Some(self.running(line, now))
        })
    }

    /// Returns which children the main run waits for.
    fn waiting_text(&self) -> Option<String> {
        let main = self
            .runs
            .values()
            .find(|line| line.is_main && !line.ended)?;
        let labels: Vec<&str> = self
            .children()
            .map(|(_, line)| line.label.as_str())
            .chain(self.queued.values().map(String::as_str))
            .collect();
        if labels.is_empty() {
            return None;
        }
        let words = t!(
            self.lang,
            "progress-waiting",
            agent = &main.agent,
            count = labels.len(),
            list = labels.join(", ")
        );
        Some(truncate_columns(
            &format!("{INDENT}{words}"),
            self.screen.columns(),
        ))
    }

    fn work(&self, line: &Line, now: Timestamp) -> String {
        let seconds = now.ms_since(line.started_at) as f64 / 1000.0;
        let work = t!(
            self.lang,
            "progress-work",
            tools = line.tools,
            seconds = format!("{seconds:.1}")
        );
        match line.queue_position {
            Some(position) if !line.ended => {
                let waits = t!(self.lang, "progress-place", position = position);
                format!("{work}, {waits}")
            }
            Some(_) | None => work,
        }
    }

    /// Builds a line with its label truncated to the width of the screen.
    fn fitted(&self, label: &str, words: impl Fn(&str) -> String) -> String {
        let rest = columns(&console::strip_ansi_codes(&words(""))) + columns(INDENT);
        let columns = self
            .screen
            .columns()
            .saturating_sub(rest)
            .max(LEAST_LABEL_COLUMNS);
        format!("{INDENT}{}", words(&truncate_columns(label, columns)))
    }
}

impl Line {
    fn of(record: &RunRecord) -> Self {
        Self {
            agent: record.agent.clone(),
            label: one_line(&record.label),
            tools: record.summary.tool_calls,
            started_at: record.started_at.unwrap_or(record.created_at),
            is_main: record.parent.is_none() && record.lane == Lane::Main,
            ended: false,
            queue_position: queue_position(record),
            wait_shown: false,
        }
    }
}

/// The place of a run that waits for its provider.
fn queue_position(record: &RunRecord) -> Option<u32> {
    match record.summary.waiting_on {
        Some(WaitingOn::RateLimit) => Some(record.queue_position.unwrap_or(1)),
        Some(
            WaitingOn::Model
            | WaitingOn::Tool
            | WaitingOn::Approval
            | WaitingOn::Question
            | WaitingOn::Children
            | WaitingOn::Slot,
        )
        | None => None,
    }
}
