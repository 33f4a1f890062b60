//! The report on delegation, for people: as text, as Markdown and as a page of its own.

mod document;

use std::collections::BTreeMap;

use sortie_core::id::{RunId, Seq};
use sortie_core::ports::store::ListFilter;
use sortie_core::report::{DelegationReport, Duplicate, DuplicateKind, Payoff, ReportTask};
use sortie_core::run::RunRecord;
use sortie_core::time::Clock as _;
use sortie_core::words::Lang;
use sortie_runtime::{
    MAX_REPORT_TASKS, ProcessClock, TaskFacts, delegation_report, report_subtree,
};
use sortie_store::ReadStore;
use sortie_text::{one_line, t, truncate_columns};

use crate::problem::Problem;
use crate::table;
pub(crate) use document::Document;
use document::{Bar, Part};

/// Rows of the tree in a report for people; `--json` has all.
const MAX_ROWS: usize = 60;
/// Steps of the critical path in a report for people.
const MAX_STEPS: usize = 20;
/// Duplicates in a report for people.
const MAX_DUPLICATES: usize = 15;
/// Columns of a label with its indentation.
const LABEL_COLUMNS: usize = 40;
/// Columns of a path or a query.
const WHAT_COLUMNS: usize = 60;
/// Siblings of a duplicate that are named.
const MAX_NAMED: usize = 4;
/// Waits that are shorter are not shown.
const LEAST_WAIT_MS: u64 = 100;
/// Bytes of a token, for the estimate.
const TOKEN_BYTES: u64 = 4;

/// Computes the report on the tree below a task, from the store.
pub(crate) async fn load(
    store: &ReadStore,
    record: &RunRecord,
) -> Result<DelegationReport, Problem> {
    let filter = ListFilter {
        root: Some(record.root),
        archived: true,
        limit: MAX_REPORT_TASKS,
        ..ListFilter::default()
    };
    let all = store.stats(filter.clone()).await?.total;
    let listed = store.list(filter).await?;
    let left_out = all.saturating_sub(listed.len() as u64);
    let now = ProcessClock::start().now();
    let mut facts = Vec::new();
    for record in report_subtree(record, listed) {
        // One journal at a time: together they may be larger than memory.
        let entries = store.read(record.run_id, Seq(0)).await?;
        facts.push(TaskFacts::of(record, &entries, now));
    }
    delegation_report(&facts, left_out, now)
        .ok_or_else(|| Problem::Nothing(record.run_id.to_string()))
}

/// Writes a report for people.
pub(crate) fn document(lang: Lang, report: &DelegationReport) -> Document {
    let Some(root) = report.tasks.first() else {
        return Document::default();
    };
    let mut document = Document::new(
        lang,
        t!(lang, "report-title", label = one_line(&root.label)),
    );
    document.line(summary(lang, report, root));
    if !report.ended {
        document.line(t!(lang, "report-so-far"));
    }
    document.section(t!(lang, "report-estimate"));
    document.parts.extend(estimate(lang, report));
    document.section(t!(lang, "report-tasks"));
    document.parts.extend(tasks(lang, report));
    document.section(t!(lang, "report-critical"));
    document.parts.extend(critical(lang, report));
    document.section(t!(lang, "report-duplicates"));
    document.parts.extend(duplicates(lang, report));
    document.section(t!(lang, "report-context"));
    document.parts.extend(context(lang, report));
    document
}

fn summary(lang: Lang, report: &DelegationReport, root: &ReportTask) -> String {
    t!(
        lang,
        "report-summary",
        id = &root.handle,
        status = table::status_word(root.status, lang),
        time = table::span(report.elapsed_ms),
        count = report.tasks.len(),
        tokens = number(report.tokens),
        cost = cost(report.cost_usd)
    )
}

fn estimate(lang: Lang, report: &DelegationReport) -> Vec<Part> {
    let estimate = &report.estimate;
    let conclusion = match estimate.payoff {
        Payoff::NoChildren => return vec![Part::Line(t!(lang, "report-no-children"))],
        Payoff::PaidOff => t!(lang, "report-paid-off"),
        Payoff::Mixed => t!(lang, "report-mixed"),
        Payoff::Even => t!(lang, "report-even"),
        Payoff::CostMore => t!(lang, "report-cost-more"),
        Payoff::Unknown => t!(lang, "report-unknown"),
    };
    let (sent, alone) = (estimate.delegated_prompt_bytes, estimate.alone_prompt_bytes);
    let difference = grouped(sent.abs_diff(alone) / TOKEN_BYTES);
    let tokens = match sent <= alone {
        true => t!(lang, "report-tokens-less", count = difference),
        false => t!(lang, "report-tokens-more", count = difference),
    };
    vec![
        Part::Strong(conclusion),
        Part::Line(t!(
            lang,
            "report-estimate-time",
            delegated = table::span(estimate.delegated_ms),
            alone = table::span(estimate.alone_ms)
        )),
        Part::Line(t!(
            lang,
            "report-estimate-text",
            delegated = bytes(sent),
            alone = bytes(alone),
            tokens = tokens
        )),
        Part::Line(t!(lang, "report-estimate-basis")),
    ]
}

fn tasks(lang: Lang, report: &DelegationReport) -> Vec<Part> {
    let head = [
        "column-id",
        "report-column-task",
        "column-status",
        "column-elapsed",
        "report-column-critical",
        "report-column-waits",
        "column-tools",
        "report-column-tokens",
        "report-column-cost",
        "report-column-context",
        "report-column-announced",
    ];
    let shown = report.tasks.iter().take(MAX_ROWS);
    let rows = shown.clone().map(|task| task_row(lang, task)).collect();
    let mut parts = vec![Part::Table {
        head: head
            .iter()
            .map(|key| sortie_text::text(lang, key, &[]))
            .collect(),
        rows,
    }];
    let hidden = report.tasks.len().saturating_sub(MAX_ROWS) as u64 + report.left_out;
    if hidden > 0 {
        parts.push(Part::Line(t!(lang, "report-more-tasks", count = hidden)));
    }
    let whole = report.elapsed_ms.max(1) as f64;
    let bars = shown.map(|task| Bar {
        label: indented(task),
        from: task.from_ms as f64 / whole,
        length: task.elapsed_ms as f64 / whole,
        critical: task.critical_ms > 0,
        note: table::span(task.elapsed_ms),
    });
    parts.push(Part::Bars(bars.collect()));
    parts
}

fn task_row(lang: Lang, task: &ReportTask) -> Vec<String> {
    let is_child = task.parent_id.is_some() && !task.journal_removed;
    let of_child = |count: u64| match is_child {
        true => bytes(count),
        false => "-".to_owned(),
    };
    vec![
        task.handle.clone(),
        truncate_columns(&indented(task), LABEL_COLUMNS),
        table::status_word(task.status, lang),
        table::span(task.elapsed_ms),
        table::span(task.critical_ms),
        waits(lang, task),
        task.tool_calls.to_string(),
        number(task.tokens),
        cost(task.cost_usd),
        of_child(task.context_bytes),
        of_child(task.announced_bytes),
    ]
}

fn indented(task: &ReportTask) -> String {
    let indent = "  ".repeat(task.depth as usize);
    let (agent, label) = (one_line(&task.agent), one_line(&task.label));
    format!("{indent}[{agent}] {label}")
}

/// Returns the waits of a task that its own work does not explain.
fn waits(lang: Lang, task: &ReportTask) -> String {
    let time = &task.time;
    let waits = [
        ("slot", time.slot_ms),
        ("rate_limit", time.rate_limit_ms),
        ("approval", time.approval_ms),
        ("question", time.question_ms),
        ("children", time.children_ms),
        ("paused", time.paused_ms),
    ];
    let shown: Vec<String> = waits
        .iter()
        .filter(|(_, ms)| *ms >= LEAST_WAIT_MS)
        .map(|(kind, ms)| format!("{} {}", activity(lang, kind), table::span(*ms)))
        .collect();
    match shown.is_empty() {
        true => "-".to_owned(),
        false => shown.join(", "),
    }
}

/// Returns the name of an activity of the timeline.
fn activity(lang: Lang, kind: &str) -> String {
    match kind {
        "slot" => t!(lang, "activity-slot"),
        "model" => t!(lang, "activity-model"),
        "rate_limit" => t!(lang, "activity-rate-limit"),
        "tool" => t!(lang, "activity-tool"),
        "approval" => t!(lang, "activity-approval"),
        "question" => t!(lang, "activity-question"),
        "children" => t!(lang, "activity-children"),
        "paused" => t!(lang, "activity-paused"),
        _ => t!(lang, "activity-other"),
    }
}

fn critical(lang: Lang, report: &DelegationReport) -> Vec<Part> {
    let tasks = by_id(report);
    // The longest steps, in the order in which they happened.
    let mut lengths: Vec<u64> = report.critical_path.iter().map(|step| step.ms).collect();
    lengths.sort_unstable_by(|one, other| other.cmp(one));
    let least = lengths.get(MAX_STEPS).map_or(0, |length| length + 1);
    let whole = report.elapsed_ms.max(1);
    let steps: Vec<_> = report
        .critical_path
        .iter()
        .filter(|step| step.ms >= least)
        .collect();
    let rows = steps.iter().map(|step| {
        let task = tasks.get(&step.task_id);
        vec![
            task.map_or_else(String::new, |task| task.handle.clone()),
            task.map_or_else(String::new, |task| {
                truncate_columns(&one_line(&task.label), LABEL_COLUMNS)
            }),
            activity(lang, &step.kind),
            table::span(step.ms),
            format!("{}%", step.ms.saturating_mul(100) / whole),
        ]
    });
    let head = vec![
        t!(lang, "column-id"),
        t!(lang, "report-column-task"),
        t!(lang, "report-column-waited"),
        t!(lang, "column-elapsed"),
        t!(lang, "report-column-share"),
    ];
    let mut parts = vec![Part::Table {
        head,
        rows: rows.collect(),
    }];
    let hidden = (report.critical_path.len() - steps.len()) as u64 + report.steps_left_out;
    if hidden > 0 {
        parts.push(Part::Line(t!(lang, "report-more-steps", count = hidden)));
    }
    parts
}

fn duplicates(lang: Lang, report: &DelegationReport) -> Vec<Part> {
    if report.duplicates.is_empty() {
        return vec![Part::Line(t!(lang, "report-no-duplicates"))];
    }
    let tasks = by_id(report);
    let rows = report.duplicates.iter().take(MAX_DUPLICATES);
    let rows = rows.map(|duplicate| {
        vec![
            kind(lang, duplicate.kind),
            truncate_columns(&one_line(&duplicate.what), WHAT_COLUMNS),
            duplicate.calls.to_string(),
            bytes(duplicate.repeated_bytes),
            named(duplicate, &tasks),
        ]
    });
    let head = vec![
        t!(lang, "report-column-kind"),
        t!(lang, "report-column-what"),
        t!(lang, "report-column-calls"),
        t!(lang, "report-column-repeated"),
        t!(lang, "report-column-by"),
    ];
    let mut parts = vec![Part::Table {
        head,
        rows: rows.collect(),
    }];
    let hidden = report.duplicates.len().saturating_sub(MAX_DUPLICATES) as u64;
    let hidden = hidden + report.duplicates_left_out;
    if hidden > 0 {
        parts.push(Part::Line(t!(
            lang,
            "report-more-duplicates",
            count = hidden
        )));
    }
    parts
}

fn kind(lang: Lang, kind: DuplicateKind) -> String {
    match kind {
        DuplicateKind::File => t!(lang, "report-kind-file"),
        DuplicateKind::Folder => t!(lang, "report-kind-folder"),
        DuplicateKind::Search => t!(lang, "report-kind-search"),
        DuplicateKind::Page => t!(lang, "report-kind-page"),
    }
}

fn named(duplicate: &Duplicate, tasks: &BTreeMap<RunId, &ReportTask>) -> String {
    let handles: Vec<&str> = duplicate
        .tasks
        .iter()
        .filter_map(|run| tasks.get(run))
        .map(|task| task.handle.as_str())
        .collect();
    let (shown, more) = handles.split_at(handles.len().min(MAX_NAMED));
    match more.len() {
        0 => shown.join(", "),
        more => format!("{} +{more}", shown.join(", ")),
    }
}

fn context(lang: Lang, report: &DelegationReport) -> Vec<Part> {
    let context = &report.context;
    let saved = context.saved_bytes;
    let words = match saved >= 0 {
        true => t!(
            lang,
            "report-context-saved",
            children = bytes(context.children_bytes),
            parents = bytes(context.parents_bytes),
            saved = bytes(saved.unsigned_abs())
        ),
        false => t!(
            lang,
            "report-context-lost",
            children = bytes(context.children_bytes),
            parents = bytes(context.parents_bytes),
            lost = bytes(saved.unsigned_abs())
        ),
    };
    vec![Part::Line(words)]
}

fn by_id(report: &DelegationReport) -> BTreeMap<RunId, &ReportTask> {
    let tasks = report.tasks.iter();
    tasks.map(|task| (task.task_id, task)).collect()
}

fn number(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), grouped)
}

/// Formats a number with a comma between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn cost(usd: Option<f64>) -> String {
    usd.map_or_else(|| "-".to_owned(), |usd| format!("${usd:.4}"))
}

/// Formats a number of bytes for people.
fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(12_345), "12.3 kB");
    }
}
