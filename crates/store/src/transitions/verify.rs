//! Checks the whole store: each journal against its chain, each record against its journal.

use sortie_core::event::{Event, JournalEntry};
use sortie_core::id::{RunId, Seq};
use sortie_core::ports::store::{StoreError, VerifyReport};
use sortie_core::run::RunRecord;

use crate::chain;
use crate::fault::{Done, Fault};
use crate::row::{self, BareRecord, COLUMNS, StoredPhase};
use crate::schema;
use crate::sql::{self, Connection};
use crate::transitions::rebuild::{self, Fold, Rebuilder};
use crate::transitions::{account_check, read};

/// The most problems that are listed.
const MAX_PROBLEMS: usize = 200;

/// Checks the whole store.
pub(crate) fn verify(connection: &Connection, fold: Option<Fold>) -> Done<VerifyReport> {
    let mut report = VerifyReport {
        problems: schema::differences(connection)?,
        ..VerifyReport::default()
    };
    if !report.problems.is_empty() {
        // Data from changed tables means nothing.
        check_database(connection, &mut report)?;
        return Ok(report);
    }
    let checks = Checks {
        rebuilder: Rebuilder::new()?,
        fold,
    };
    let runs: Vec<RunId> = sql::all(
        connection,
        "SELECT run_id FROM runs ORDER BY run_id",
        (),
        |row| sql::word(row, "run_id"),
    )?;
    for run in runs {
        report.runs += 1;
        match checks.run(connection, run) {
            Ok((entries, problems)) => {
                report.entries += entries;
                report.problems.extend(problems);
            }
            Err(Fault::Refused(error @ StoreError::Damaged { .. })) => {
                report.problems.push(error.to_string());
            }
            Err(Fault::Refused(error)) => return Err(error.into()),
            Err(Fault::Broken(error)) => {
                report
                    .problems
                    .push(format!("run {run} cannot be read: {error}"));
            }
        }
        if report.problems.len() > MAX_PROBLEMS {
            report.problems.truncate(MAX_PROBLEMS);
            report.problems.push("there are more problems".to_owned());
            break;
        }
    }
    report.problems.extend(
        read::damaged_blobs(connection)?
            .into_iter()
            .take(MAX_PROBLEMS),
    );
    report.problems.extend(
        account_check::problems(connection)?
            .into_iter()
            .chain(forgotten_requests(connection)?)
            .chain(read::wrong_tallies(connection)?)
            .chain(read::wrong_usage(connection)?)
            .take(MAX_PROBLEMS),
    );
    check_database(connection, &mut report)?;
    Ok(report)
}

/// What runs are checked with.
struct Checks {
    rebuilder: Rebuilder,
    fold: Option<Fold>,
}

impl Checks {
    fn run(&self, connection: &Connection, run: RunId) -> Done<(u64, Vec<String>)> {
        let (record, entries, mut problems) = check_run(connection, run)?;
        if !entries.is_empty() {
            let columns = self.rebuilder.differences(connection, run, &entries)?;
            let fields = match self.fold.map(|fold| fold(&entries)) {
                None => Vec::new(),
                Some(Ok(folded)) => rebuild::summary_differences(&record, &folded),
                Some(Err(illegal)) => {
                    problems.push(format!(
                        "the journal of run {run} cannot be folded: {illegal}"
                    ));
                    Vec::new()
                }
            };
            let fields = fields.into_iter().map(str::to_owned);
            problems.extend(columns.into_iter().chain(fields).map(|name| {
                format!("the record of run {run} has another `{name}` than its journal")
            }));
        }
        Ok((entries.len() as u64, problems))
    }
}

fn check_run(
    connection: &Connection,
    run: RunId,
) -> Done<(RunRecord, Vec<JournalEntry>, Vec<String>)> {
    let found = sql::first(
        connection,
        &format!(
            "SELECT {}, inbox_count FROM runs WHERE run_id = ?1",
            COLUMNS.sql
        ),
        [run.to_string()],
        |row| Ok((row::record(row)?, row.get::<_, i64>("inbox_count")?)),
    )?;
    let (bare, inbox_count) = found.ok_or_else(|| Fault::not_found(run))?;
    let BareRecord { record, phase, .. } = bare;
    let entries = chain::read(connection, run, Seq::default())?;
    let mut problems = if record.cleaned_at.is_some() {
        check_removed(connection, run)?
    } else {
        check_record(&record, phase, &entries)
    };
    problems.extend(check_inbox(connection, run, inbox_count)?);
    Ok((record, entries, problems))
}

fn check_removed(connection: &Connection, run: RunId) -> Done<Vec<String>> {
    let left = sql::count(
        connection,
        "SELECT (SELECT COUNT(*) FROM journal WHERE run_id = ?1)
              + (SELECT COUNT(*) FROM archives WHERE run_id = ?1)",
        [run.to_string()],
    )?;
    let problem = format!("the journal of run {run} was removed, but {left} entries are there");
    Ok(if left > 0 { vec![problem] } else { Vec::new() })
}

fn check_inbox(connection: &Connection, run: RunId, counted: i64) -> Done<Option<String>> {
    let there = sql::count(
        connection,
        "SELECT COUNT(*) FROM inbox WHERE run_id = ?1",
        [run.to_string()],
    )?;
    Ok((sql::whole(there) != counted).then(|| {
        format!("run {run} counts {counted} messages in its inbox, but {there} are there")
    }))
}

/// Returns open requests of runs that have ended.
fn forgotten_requests(connection: &Connection) -> Done<Vec<String>> {
    sql::all(
        connection,
        "SELECT id, requests.run_id FROM requests JOIN runs ON runs.run_id = requests.run_id
         WHERE state = 'open' AND phase = 'ended' ORDER BY id",
        (),
        |row| {
            let (id, run): (String, String) = (row.get(0)?, row.get(1)?);
            Ok(format!("run {run} has ended, but its request {id} is open"))
        },
    )
}

/// Checks that the record ends as its journal does.
fn check_record(record: &RunRecord, phase: StoredPhase, entries: &[JournalEntry]) -> Vec<String> {
    let run = record.run_id;
    let mut problems = Vec::new();
    match entries.first().map(|entry| &entry.event) {
        Some(Event::Admitted { .. }) => {}
        Some(_) | None => problems.push(format!("the journal of run {run} has no beginning")),
    }
    let outcomes = entries.iter().filter_map(|entry| entry.event.outcome());
    let outcomes: Vec<_> = outcomes.collect();
    let ended = phase == StoredPhase::Ended;
    match (outcomes.as_slice(), &record.outcome) {
        ([], None) if !ended && !record.status.is_terminal() => {}
        ([journaled], Some(recorded))
            if ended && *journaled == recorded && journaled.status() == record.status => {}
        _ => problems.push(format!(
            "the record of run {run} says {}, and its journal has {} ends",
            record.status,
            outcomes.len()
        )),
    }
    problems.extend(check_pause(record, phase, entries));
    problems
}

/// Checks that a paused run has a journaled pause, unless it is leased, and that no ended or
/// cancelled run is paused.
fn check_pause(record: &RunRecord, phase: StoredPhase, entries: &[JournalEntry]) -> Option<String> {
    let run = record.run_id;
    let is_over = phase == StoredPhase::Ended || record.cancel_requested;
    if record.paused && is_over {
        return Some(format!(
            "run {run} is paused, but it has ended or is being cancelled"
        ));
    }
    let last = entries
        .iter()
        .rev()
        .find(|entry| matches!(entry.event, Event::Paused | Event::Resumed));
    let journaled = last.is_some_and(|entry| entry.event == Event::Paused);
    let waits = matches!(phase, StoredPhase::Queued | StoredPhase::Parked);
    (waits && journaled != record.paused).then(|| {
        format!(
            "the record of run {run} says paused = {}, and its journal does not",
            record.paused
        )
    })
}

/// Runs the database's own check of pages and indexes.
fn check_database(connection: &Connection, report: &mut VerifyReport) -> Done<()> {
    let damage = schema::damaged_pages(connection)?;
    report.problems.extend(
        damage
            .into_iter()
            .map(|line| format!("the database is damaged: {line}")),
    );
    Ok(())
}
