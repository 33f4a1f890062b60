//! Formats tasks as a table: a tree by parent, newest tree first.

use std::collections::{BTreeMap, BTreeSet};

use comfy_table::{CellAlignment, Table, presets};
use sortie_core::id::RunId;
use sortie_core::run::{Delivery, RunRecord, Status};
use sortie_core::time::Timestamp;
use sortie_core::words::Lang;
use sortie_text::{columns, one_line, t, truncate_columns};

/// The least and the most columns of the label.
const LABEL_COLUMNS: (usize, usize) = (12, 48);
/// If the label gets fewer columns than this, the progress bar is left out in its favour.
const ROOMY_LABEL_COLUMNS: usize = 24;
/// The steps of a progress bar.
const BAR_STEPS: u32 = 10;
/// The padding around each cell.
const CELL_PADDING: usize = 2;
/// The index of the label column.
const LABEL: usize = 3;

/// The options of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableOptions {
    /// The language of its headings.
    pub(crate) lang: Lang,
    /// The width of the terminal; `None` if there is none.
    pub(crate) columns: Option<u16>,
    /// The end of the elapsed time of active tasks.
    pub(crate) now: Timestamp,
}

/// Formats tasks as a table.
pub(crate) fn tasks(records: &[RunRecord], look: TableOptions) -> String {
    let lang = look.lang;
    let head = [
        t!(lang, "column-id"),
        t!(lang, "column-status"),
        t!(lang, "column-agent"),
        t!(lang, "column-label"),
        t!(lang, "column-progress"),
        t!(lang, "column-tools"),
        t!(lang, "column-elapsed"),
        t!(lang, "column-waiting"),
    ];
    let tree = tree(records);
    let rows = |bar: bool| -> Vec<[String; 8]> {
        tree.iter()
            .map(|(depth, record)| {
                [
                    record.handle.clone(),
                    record.status.to_string(),
                    one_line(&record.agent),
                    label(record, *depth),
                    progress(record, bar),
                    record.summary.tool_calls.to_string(),
                    elapsed(record, look.now),
                    waiting(record, lang),
                ]
            })
            .collect()
    };
    let (least, most) = LABEL_COLUMNS;
    let mut rows_to_show = rows(false);
    let mut room = most;
    if let Some(columns) = look.columns {
        let with_bar = rows(true);
        room = label_room(&head, &with_bar, columns);
        if room >= ROOMY_LABEL_COLUMNS {
            rows_to_show = with_bar;
        } else {
            room = label_room(&head, &rows_to_show, columns);
        }
    }
    for row in &mut rows_to_show {
        row[LABEL] = truncate_columns(&row[LABEL], room.clamp(least, most));
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(head);
    table.add_rows(rows_to_show);
    for column in [5, 6] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    trimmed(&table)
}

/// Returns the columns that the other cells leave for the label.
fn label_room(head: &[String; 8], rows: &[[String; 8]], width: u16) -> usize {
    let widest = |column: usize| {
        std::iter::once(head)
            .chain(rows)
            .map(|row| columns(&row[column]))
            .max()
            .unwrap_or(0)
    };
    let others: usize = (0..head.len())
        .filter(|column| *column != LABEL)
        .map(widest)
        .sum();
    usize::from(width).saturating_sub(others + CELL_PADDING * head.len())
}

/// Formats pairs as two columns without a header.
pub(crate) fn pairs(rows: &[(String, String)]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for (name, value) in rows {
        table.add_row([name, value]);
    }
    trimmed(&table)
}

/// Formats rows under a header.
pub(crate) fn rows(head: Vec<String>, rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(head);
    table.add_rows(rows);
    trimmed(&table)
}

fn trimmed(table: &Table) -> String {
    let lines: Vec<String> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    lines.join("\n")
}

/// Returns the records with their depth: roots newest first, children below their parents in order.
/// A record whose parent is not in the list is a root.
pub(crate) fn tree(records: &[RunRecord]) -> Vec<(usize, &RunRecord)> {
    let listed: BTreeSet<RunId> = records.iter().map(|record| record.run_id).collect();
    let mut children: BTreeMap<RunId, Vec<&RunRecord>> = BTreeMap::new();
    let mut stack: Vec<(usize, &RunRecord)> = Vec::new();
    for record in records {
        match record.parent.filter(|parent| listed.contains(parent)) {
            Some(parent) => children.entry(parent).or_default().push(record),
            None => stack.push((0, record)),
        }
    }
    stack.reverse();
    let mut ordered = Vec::with_capacity(records.len());
    while let Some((depth, record)) = stack.pop() {
        ordered.push((depth, record));
        // Pushed newest first, so that the oldest is popped first.
        let below = children.remove(&record.run_id).unwrap_or_default();
        stack.extend(below.into_iter().map(|child| (depth + 1, child)));
    }
    ordered
}

fn label(record: &RunRecord, depth: usize) -> String {
    let mark = match depth {
        0 => String::new(),
        depth => format!("{}└ ", "  ".repeat(depth - 1)),
    };
    format!("{mark}{}", one_line(&record.label))
}

fn progress(record: &RunRecord, bar: bool) -> String {
    let percent = u32::from(record.summary.progress);
    if !bar {
        return format!("{percent}%");
    }
    let full = (percent * BAR_STEPS / 100).min(BAR_STEPS);
    let part = |character: &str, count: u32| character.repeat(count as usize);
    format!(
        "{}{} {percent:>3}%",
        part("█", full),
        part("░", BAR_STEPS - full)
    )
}

/// Returns how long a run has executed, for people.
pub(crate) fn elapsed(record: &RunRecord, now: Timestamp) -> String {
    if record.started_at.is_none() {
        return "-".to_owned();
    }
    span(record.elapsed_ms(now))
}

/// Formats a duration for people.
pub(crate) fn span(ms: u64) -> String {
    match ms / 1000 {
        0..60 => format!("{:.1}s", ms as f64 / 1000.0),
        seconds @ 60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        seconds => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

fn waiting(record: &RunRecord, lang: Lang) -> String {
    match record.status {
        Status::Pending => record.queue_position.map_or_else(
            || "-".to_owned(),
            |position| t!(lang, "waiting-queue", position = position),
        ),
        Status::Running => record
            .summary
            .waiting_on
            .map_or_else(|| "-".to_owned(), |waiting| waiting.to_string()),
        Status::Completed | Status::Failed | Status::Timeout | Status::Cancelled => {
            let blocked = record.delivery == Delivery::Blocked;
            let reason = record.reason().map(|reason| reason.to_string());
            let blocked = blocked.then(|| t!(lang, "waiting-blocked"));
            reason.or(blocked).unwrap_or_else(|| "-".to_owned())
        }
    }
}
