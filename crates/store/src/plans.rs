//! Checks the query plans of all statements in the sources of this crate: the cost of a transition
//! or a query must not depend on how many runs have ended.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sql::plan;

/// Indexes that contain only active rows, so that reading all of one is cheap.
const BOUNDED: [&str; 17] = [
    "runs_active",
    "runs_queued",
    "runs_queued_by_tree",
    "runs_requiring",
    "runs_paused",
    "runs_leased",
    "runs_by_lease",
    "runs_parked",
    "runs_suspected",
    "outbox_due",
    "letters_due",
    "letters_by_receiver",
    "outbox_blocked",
    "outbox_waiting",
    "requests_open",
    "requests_open_by_time",
    "requests_to_escalate",
];

/// Tables and other sources of rows that stay small.
const SMALL: [&str; 12] = [
    "tallies",
    "mailbox",
    "json_each",
    "CONSTANT",
    "tenants",
    "queued",
    "known",
    "subtree",
    "below",
    "ahead",
    "before",
    "after",
];

/// Files and statements that read everything on purpose, as the checks of `doctor` do, or that
/// SQLite never runs.
const CHECKS: [&str; 10] = [
    "copy.rs",
    "postgres_schema.rs",
    "schema.rs",
    "sql/postgres.rs",
    "writer.rs",
    "transitions/feed.rs",
    "transitions/workers.rs",
    "transitions/verify.rs",
    "transitions/rebuild.rs",
    "transitions/account_check.rs",
];
/// Constants that are parts of several statements.
const PARTS: [&str; 3] = [
    "JOIN subtree ON parent_id = subtree.run_id)",
    "LEFT JOIN runs AS root ON root.run_id = runs.root_id",
    "SELECT status, COUNT(*) FROM runs",
];
const CHECKING: [&str; 4] = [
    "FROM blobs",
    "SUM(counted)",
    "FROM audit ORDER BY seq",
    "WHERE cleaned_at IS NULL ORDER BY run_id",
];

#[test]
fn no_statement_reads_a_whole_table() {
    let mut checked = 0;
    let mut bad = Vec::new();
    for (file, statement) in statements() {
        if CHECKS.contains(&file.as_str())
            || CHECKING.iter().any(|part| statement.contains(part))
            || PARTS.iter().any(|part| statement.ends_with(part))
        {
            continue;
        }
        checked += 1;
        let scans = plan(&statement).into_iter().filter(|line| !is_cheap(line));
        bad.extend(scans.map(|line| format!("{file}: {line}\n    {statement}")));
    }
    assert!(checked > 100, "only {checked} statements were found");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// Whether a line of a plan does not read a table or an index that grows with ended runs.
fn is_cheap(line: &str) -> bool {
    let Some(scan) = line.trim_start().strip_prefix("SCAN ") else {
        return true;
    };
    let mut words = scan.split(' ');
    let source = words.next().unwrap_or_default();
    let index = scan.split_once("INDEX ").map(|(_, index)| index);
    SMALL.contains(&source)
        || source.starts_with('(')
        || index.is_some_and(|index| BOUNDED.contains(&index))
}

/// Returns the statements in string literals without placeholders of `format!`, with their files.
fn statements() -> Vec<(String, String)> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    for path in sources(&top) {
        let source = fs::read_to_string(&path).unwrap();
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        let name = path.strip_prefix(&top).unwrap().display().to_string();
        let starts = [
            "\"SELECT ",
            "\"UPDATE ",
            "\"DELETE ",
            "\"INSERT ",
            "\"WITH ",
        ];
        for (at, _) in code.match_indices('"') {
            let rest = &code[at..];
            if !starts.iter().any(|start| rest.starts_with(start)) {
                continue;
            }
            let literal = rest[1..].split('"').next().unwrap_or_default();
            // A line that ends with a backslash continues without the break.
            let statement = literal.replace("\\\n", " ");
            // The only placeholder that stands for the columns of a record.
            let statement = statement.replace("SELECT {} FROM runs", "SELECT run_id FROM runs");
            if !statement.contains('{') {
                found.push((name.clone(), statement));
            }
        }
    }
    found
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}
