//! Formats tasks as a table: a tree by parent, newest tree first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::theme::Themed as _;
use console::Style;
use sortie_core::id::RunId;
use sortie_core::request::{Addressee, OpenRequest, RequestKind};
use sortie_core::run::{Delivery, RunRecord, Status, WaitingOn};
use sortie_core::time::Timestamp;
use sortie_core::words::Lang;
use sortie_text::{columns, one_line, pad_columns, t, truncate_columns};

/// The columns that the label gets before optional columns are shown.
const LABEL_COLUMNS: usize = 24;
/// The most columns of the label.
const MAX_LABEL_COLUMNS: usize = 60;
/// The most columns of an agent's name.
const AGENT_COLUMNS: usize = 16;
/// The most columns of a folder's name.
const FOLDER_COLUMNS: usize = 18;
/// The least columns of a cell that is truncated to fit the terminal.
const LEAST_COLUMNS: usize = 6;
/// The columns between two cells.
const GAP: usize = 2;
/// The most rows of one tree. Of a longer one, tasks that have completed are left out.
const MAX_TREE_ROWS: usize = 40;

/// The options of a table.
#[derive(Clone, Debug)]
pub(crate) struct TableOptions {
    /// The language of its headings.
    pub(crate) lang: Lang,
    /// The width of the terminal; `None` if there is none.
    pub(crate) columns: Option<u16>,
    /// The end of the elapsed time of active tasks.
    pub(crate) now: Timestamp,
    /// Tasks that wait for a person.
    pub(crate) needs_person: BTreeSet<RunId>,
    /// The current folder. Tasks of other folders show theirs.
    pub(crate) folder: Option<PathBuf>,
}

/// Returns the tasks that wait for a person.
pub(crate) fn needs_person(requests: &[OpenRequest]) -> BTreeSet<RunId> {
    let for_person = requests.iter().filter(|open| match &open.request.kind {
        RequestKind::Approval(_) => true,
        RequestKind::Question(question) => question.to == Addressee::Person,
    });
    for_person.map(|open| open.task_id).collect()
}

/// One column of the table of tasks, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Id,
    Status,
    Agent,
    Label,
    Note,
    Tools,
    Elapsed,
    Age,
    Folder,
}

impl Column {
    const ALL: [Self; 9] = [
        Self::Id,
        Self::Status,
        Self::Agent,
        Self::Label,
        Self::Note,
        Self::Tools,
        Self::Elapsed,
        Self::Age,
        Self::Folder,
    ];
    /// The columns that make room for the label, in this order.
    const OPTIONAL: [Self; 6] = [
        Self::Tools,
        Self::Note,
        Self::Folder,
        Self::Elapsed,
        Self::Agent,
        Self::Age,
    ];

    const fn is_right(self) -> bool {
        matches!(self, Self::Tools | Self::Elapsed | Self::Age)
    }

    fn head(self, lang: Lang) -> String {
        match self {
            Self::Id => t!(lang, "column-id"),
            Self::Status => t!(lang, "column-status"),
            Self::Agent => t!(lang, "column-agent"),
            Self::Label => t!(lang, "column-task"),
            Self::Note => t!(lang, "column-note"),
            Self::Tools => t!(lang, "column-tools"),
            Self::Elapsed => t!(lang, "column-elapsed"),
            Self::Age => t!(lang, "column-age"),
            Self::Folder => t!(lang, "column-folder"),
        }
    }
}

/// One row of the table of tasks.
struct TaskRow {
    cells: [String; Column::ALL.len()],
    status: Style,
}

/// A table of tasks: its header, and its rows.
#[derive(Debug)]
pub(crate) struct TaskTable {
    pub(crate) head: String,
    /// Each row with its task; a remark about tasks that are left out has none.
    pub(crate) rows: Vec<(Option<RunId>, String)>,
}

/// Formats tasks as a table that fits the terminal. Trees in which a task waits for a person come
/// first.
pub(crate) fn tasks(records: &[RunRecord], look: &TableOptions) -> String {
    let table = task_table(records, look);
    let rows = table.rows.into_iter().map(|(_, row)| row);
    let lines: Vec<String> = std::iter::once(table.head).chain(rows).collect();
    lines.join("\n")
}

/// Formats tasks as [`tasks`] does, row by row.
pub(crate) fn task_table(records: &[RunRecord], look: &TableOptions) -> TaskTable {
    let mut rows = Vec::new();
    let mut runs = Vec::new();
    let mut hidden = Vec::new();
    for tree in trees(records, &look.needs_person) {
        let folded = folded(&tree, look);
        let left_out = tree.len() - folded.len();
        runs.extend(folded.iter().map(|(_, record)| record.run_id));
        rows.extend(folded.into_iter().map(|line| task_row(&tree, line, look)));
        if left_out > 0 {
            hidden.push((rows.len(), tree[0].1.handle.clone(), left_out));
        }
    }
    let mut lines = task_lines(&rows, look).into_iter();
    let head = lines.next().unwrap_or_default();
    let mut rows: Vec<(Option<RunId>, String)> = runs.into_iter().map(Some).zip(lines).collect();
    // Inserted from the end, so that the positions stay valid.
    for (after, handle, count) in hidden.into_iter().rev() {
        let words = t!(look.lang, "list-folded", count = count, id = handle);
        rows.insert(
            after,
            (None, Style::new().muted().apply_to(words).to_string()),
        );
    }
    TaskTable { head, rows }
}

fn task_lines(rows: &[TaskRow], look: &TableOptions) -> Vec<String> {
    let head = Column::ALL.map(|column| column.head(look.lang));
    let widths = Column::ALL.map(|column| {
        let cells = rows.iter().map(|row| columns(&row.cells[column as usize]));
        cells
            .chain([columns(&head[column as usize])])
            .max()
            .unwrap_or(0)
    });
    let is_empty = |column: Column| rows.iter().all(|row| row.cells[column as usize].is_empty());
    let mut shown: Vec<Column> = Column::ALL
        .into_iter()
        .filter(|column| *column == Column::Label || !is_empty(*column))
        .collect();
    let wanted = widths[Column::Label as usize].min(MAX_LABEL_COLUMNS);
    let mut room = wanted;
    if let Some(terminal) = look.columns {
        let left = |shown: &[Column]| {
            let others = shown.iter().filter(|column| **column != Column::Label);
            let used: usize = others.map(|column| widths[*column as usize] + GAP).sum();
            usize::from(terminal).saturating_sub(used)
        };
        for column in Column::OPTIONAL {
            if left(&shown) < wanted.min(LABEL_COLUMNS) {
                shown.retain(|kept| *kept != column);
            }
        }
        room = left(&shown).clamp(LEAST_COLUMNS, wanted.max(LEAST_COLUMNS));
    }
    let width = |column: Column| match column == Column::Label {
        true => room,
        false => widths[column as usize],
    };
    let line = |cells: &[String; Column::ALL.len()], paint: &dyn Fn(Column, &str) -> String| {
        let cells: Vec<String> = shown
            .iter()
            .map(|column| {
                let text = &cells[*column as usize];
                let cell = match column.is_right() {
                    true => right(text, width(*column)),
                    false => pad_columns(text, width(*column)),
                };
                paint(*column, &cell)
            })
            .collect();
        end_trimmed(&cells.join(&" ".repeat(GAP)))
    };
    let bold = Style::new().bold();
    let mut lines = vec![line(&head, &|_, cell| bold.apply_to(cell).to_string())];
    lines.extend(rows.iter().map(|row| {
        line(&row.cells, &|column, cell| match column {
            Column::Status => row.status.apply_to(cell).to_string(),
            Column::Age | Column::Folder | Column::Note => {
                Style::new().muted().apply_to(cell).to_string()
            }
            Column::Id | Column::Agent | Column::Label | Column::Tools | Column::Elapsed => {
                cell.to_owned()
            }
        })
    }));
    lines
}

/// Removes the spaces at the end of a line, also before the sequence that ends a colour.
fn end_trimmed(line: &str) -> String {
    if console::strip_ansi_codes(line) == line {
        return line.trim_end().to_owned();
    }
    line.to_owned()
}

fn right(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(columns(text));
    format!("{}{text}", " ".repeat(missing))
}

fn task_row(
    tree: &[(usize, &RunRecord)],
    (depth, record): (usize, &RunRecord),
    look: &TableOptions,
) -> TaskRow {
    let lang = look.lang;
    let needs_person = look.needs_person.contains(&record.run_id);
    let (status, style) = status(record, needs_person, lang);
    let folder = match depth {
        0 => other_folder(record, look.folder.as_deref()),
        _ => String::new(),
    };
    TaskRow {
        cells: [
            record.handle.clone(),
            status,
            truncate_columns(&one_line(&record.agent), AGENT_COLUMNS),
            label(record, depth),
            note(tree, record, lang),
            record.summary.tool_calls.to_string(),
            elapsed(record, look.now),
            age(look.now.ms_since(record.created_at)),
            folder,
        ],
        status: style,
    }
}

/// Returns the rows of a tree that are shown: all, or for a large one the tasks that have not
/// completed, and their ancestors.
fn folded<'a>(tree: &[(usize, &'a RunRecord)], look: &TableOptions) -> Vec<(usize, &'a RunRecord)> {
    if tree.len() <= MAX_TREE_ROWS || look.columns.is_none() {
        return tree.to_vec();
    }
    let mut kept = Vec::new();
    let mut depth_above = 0;
    // From the end: a task stays if a task below it does.
    for (depth, record) in tree.iter().rev() {
        let is_above = *depth < depth_above;
        if is_above || *depth == 0 || record.status != Status::Completed {
            kept.push((*depth, *record));
            depth_above = *depth;
        }
    }
    kept.reverse();
    kept.truncate(MAX_TREE_ROWS);
    kept
}

/// Returns the status of a task for people, and its colour.
pub(crate) fn status(record: &RunRecord, needs_person: bool, lang: Lang) -> (String, Style) {
    let style = Style::new();
    match record.status {
        Status::Pending | Status::Running if needs_person => {
            (t!(lang, "status-needs-person"), style.warning().bold())
        }
        Status::Pending | Status::Running if record.paused => {
            (t!(lang, "status-paused"), style.special())
        }
        Status::Pending => (status_word(record.status, lang), style.muted()),
        Status::Running => (status_word(record.status, lang), style.info()),
        Status::Completed => (status_word(record.status, lang), style.good()),
        Status::Failed | Status::Timeout => (status_word(record.status, lang), style.bad()),
        Status::Cancelled => (status_word(record.status, lang), style.muted()),
    }
}

/// Returns a status in the language of the user.
pub(crate) fn status_word(status: Status, lang: Lang) -> String {
    match status {
        Status::Pending => t!(lang, "status-pending"),
        Status::Running => t!(lang, "status-of-running"),
        Status::Completed => t!(lang, "status-completed"),
        Status::Failed => t!(lang, "status-failed"),
        Status::Timeout => t!(lang, "status-timeout"),
        Status::Cancelled => t!(lang, "status-cancelled"),
    }
}

/// Returns what an active task waits for, in the language of the user.
pub(crate) fn waiting_word(waiting: WaitingOn, lang: Lang) -> String {
    match waiting {
        WaitingOn::Model => t!(lang, "waiting-model"),
        WaitingOn::Tool => t!(lang, "waiting-tool"),
        WaitingOn::Approval => t!(lang, "waiting-approval"),
        WaitingOn::Question => t!(lang, "waiting-question"),
        WaitingOn::Children => t!(lang, "waiting-children"),
        WaitingOn::Slot => t!(lang, "waiting-slot"),
        WaitingOn::RateLimit => t!(lang, "waiting-rate-limit"),
    }
}

/// Returns the folder of a task, unless it is the current one.
fn other_folder(record: &RunRecord, here: Option<&Path>) -> String {
    if here == Some(record.workspace.as_path()) {
        return String::new();
    }
    let name = record.workspace.file_name().map_or_else(
        || record.workspace.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    );
    truncate_columns(&one_line(&name), FOLDER_COLUMNS)
}

/// Formats pairs as two columns without a header.
pub(crate) fn pairs(rows: &[(String, String)]) -> String {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|(name, value)| vec![name.clone(), value.clone()])
        .collect();
    plain_lines(&rows, None).join("\n")
}

/// Formats rows under a header. If there is a terminal, the widest cells are truncated until a row
/// fits its columns.
pub(crate) fn rows(head: Vec<String>, mut rows: Vec<Vec<String>>, terminal: Option<u16>) -> String {
    rows.insert(0, head);
    let mut lines = plain_lines(&rows, terminal);
    if let Some(first) = lines.first_mut() {
        *first = Style::new().bold().apply_to(&*first).to_string();
    }
    lines.join("\n")
}

/// Lays out cells, of which one may have several lines.
fn plain_lines(rows: &[Vec<String>], terminal: Option<u16>) -> Vec<String> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut widths = vec![0_usize; count];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            let widest = cell.lines().map(columns).max().unwrap_or(0);
            *width = (*width).max(widest);
        }
    }
    if let Some(terminal) = terminal {
        let room = usize::from(terminal).saturating_sub(GAP * count.saturating_sub(1));
        fit(&mut widths, room);
    }
    let mut lines = Vec::new();
    for row in rows {
        let height = row.iter().map(|cell| cell.lines().count()).max();
        for line in 0..height.unwrap_or(0).max(1) {
            let cells: Vec<String> = row
                .iter()
                .zip(&widths)
                .map(|(cell, width)| pad_columns(cell.lines().nth(line).unwrap_or(""), *width))
                .collect();
            lines.push(cells.join(&" ".repeat(GAP)).trim_end().to_owned());
        }
    }
    lines
}

/// Narrows the widest columns until all fit.
fn fit(widths: &mut [usize], room: usize) {
    while widths.iter().sum::<usize>() > room {
        let Some(widest) = widths
            .iter_mut()
            .max()
            .filter(|widest| **widest > LEAST_COLUMNS)
        else {
            return;
        };
        *widest -= 1;
    }
}

/// Returns the trees of these records, each with the depth of its tasks: trees in which a task
/// waits for a person first, then the newest first.
fn trees<'a>(
    records: &'a [RunRecord],
    needs_person: &BTreeSet<RunId>,
) -> Vec<Vec<(usize, &'a RunRecord)>> {
    let mut trees: Vec<Vec<(usize, &RunRecord)>> = Vec::new();
    for (depth, record) in tree(records) {
        match trees.last_mut() {
            Some(last) if depth > 0 => last.push((depth, record)),
            Some(_) | None => trees.push(vec![(depth, record)]),
        }
    }
    let waits = |(_, record): &(usize, &RunRecord)| needs_person.contains(&record.run_id);
    trees.sort_by_key(|tree| !tree.iter().any(waits));
    trees
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

/// Formats how long ago something happened, in the largest unit.
pub(crate) fn age(ms: u64) -> String {
    match ms / 1000 {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m", seconds / 60),
        seconds @ 3600..86_400 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// Returns what an active task waits for, or why one has no result.
fn note(tree: &[(usize, &RunRecord)], record: &RunRecord, lang: Lang) -> String {
    match record.status {
        Status::Pending => record.queue_position.map_or_else(String::new, |position| {
            t!(lang, "waiting-queue", position = position)
        }),
        Status::Running => match record.summary.waiting_on {
            Some(WaitingOn::Children) => children_note(tree, record.run_id, lang),
            Some(waiting) => waiting_word(waiting, lang),
            None => String::new(),
        },
        Status::Completed | Status::Failed | Status::Timeout | Status::Cancelled => {
            let blocked = record.delivery == Delivery::Blocked;
            let reason = record.reason().map(|reason| reason.to_string());
            let blocked = blocked.then(|| t!(lang, "waiting-blocked"));
            // Every failure has a reason; this one adds nothing.
            let reason = reason.filter(|reason| reason != "error");
            reason.or(blocked).unwrap_or_default()
        }
    }
}

/// Counts the children of a task that have ended.
fn children_note(tree: &[(usize, &RunRecord)], run: RunId, lang: Lang) -> String {
    let children = || {
        let all = tree.iter().map(|(_, record)| record);
        all.filter(|record| record.parent == Some(run))
    };
    let ended = children()
        .filter(|child| child.status.is_terminal())
        .count();
    match children().count() {
        0 => waiting_word(WaitingOn::Children, lang),
        all => t!(lang, "waiting-children-count", ended = ended, all = all),
    }
}
