//! Retention: deletes old transcripts first, records later, and never a run with a pending
//! delivery.

use sortie_core::id::{RunId, Seq};
use sortie_core::ports::store::{RunRef, StoreError};
use sortie_core::run::Status;
use sortie_core::time::Timestamp;

use crate::fault::Done;
use crate::row::{self, StoredPhase};
use crate::sql::{self, Connection, params};

/// Transcripts or trees deleted in one transaction, so that appends do not wait long behind it.
pub(crate) const MAX_REMOVALS: u64 = 200;

/// A run and its descendants.
const SUBTREE: &str = "WITH RECURSIVE subtree (run_id) AS (
         SELECT run_id FROM runs WHERE run_id = ?1
         UNION SELECT runs.run_id FROM runs JOIN subtree ON parent_id = subtree.run_id)";

/// Deletes an ended run and its descendants, all or none.
pub(crate) fn delete(connection: &Connection, run: RunId) -> Done<Vec<RunRef>> {
    let row = row::must_load(connection, run)?;
    let subtree = sql::all(
        connection,
        &format!(
            "{SUBTREE} SELECT runs.run_id, status, phase,
                 EXISTS (SELECT 1 FROM outbox
                         WHERE outbox.run_id = runs.run_id AND state = 'pending') AS owes
             FROM runs JOIN subtree ON subtree.run_id = runs.run_id ORDER BY depth, runs.run_id"
        ),
        [&row.tail.run],
        |row| {
            Ok(Removable {
                run: sql::word(row, "run_id")?,
                status: sql::word(row, "status")?,
                phase: sql::word(row, "phase")?,
                owes: row.get("owes")?,
            })
        },
    )?;
    for member in &subtree {
        member.check()?;
    }
    remove_records(connection, &row.tail.run)
}

#[derive(Debug)]
struct Removable {
    run: RunId,
    status: Status,
    phase: StoredPhase,
    /// Whether its result is being delivered. One that waits for a turn of its session does not keep
    /// the run from being deleted.
    owes: bool,
}

impl Removable {
    fn check(&self) -> Done<()> {
        let what = if self.phase != StoredPhase::Ended {
            "cancel it first, then delete it"
        } else if self.owes {
            "its result is not delivered yet; delete it once that is delivered or dismissed"
        } else {
            return Ok(());
        };
        Err(StoreError::WrongState {
            run: self.run,
            status: self.status,
            what,
        }
        .into())
    }
}

/// Journal, blobs, inbox, outbox, requests and accounts are deleted with their record; the audit is
/// kept.
fn remove_records(connection: &Connection, run: &str) -> Done<Vec<RunRef>> {
    let mut removed = sql::all(
        connection,
        &format!(
            "{SUBTREE} DELETE FROM runs WHERE run_id IN (SELECT run_id FROM subtree)
             RETURNING run_id, session, root_id, parent_id, tenant, head_seq"
        ),
        [run],
        |row| {
            Ok(RunRef {
                run: sql::word(row, "run_id")?,
                session: sql::word(row, "session")?,
                root: sql::word(row, "root_id")?,
                parent: sql::optional_word(row, "parent_id")?,
                tenant: sql::optional_word(row, "tenant")?,
                head: Seq(row.get("head_seq")?),
            })
        },
    )?;
    // Parents before children: a database returns deleted rows in any order.
    removed.sort_by_key(|run: &RunRef| run.run);
    Ok(removed)
}

/// Deletes a batch of transcripts that their runs do not keep, once the results are delivered; fewer
/// than [`MAX_REMOVALS`] if no more are due.
pub(crate) fn clean(connection: &Connection, at: Timestamp) -> Done<u64> {
    let to_clean = due(
        connection,
        "SELECT run_id FROM runs
         WHERE phase = 'ended' AND cleanup = 'delete' AND cleaned_at IS NULL
           AND archived_at IS NULL AND delivery IN ('delivered', 'not_required')
           AND ended_at <= ?1 ORDER BY ended_at LIMIT ?2",
        at,
        MAX_REMOVALS,
    )?;
    for run in &to_clean {
        let stamp = "UPDATE runs SET cleaned_at = ?2 WHERE run_id = ?1";
        remove_transcript(connection, run, stamp, at)?;
    }
    Ok(to_clean.len() as u64)
}

/// Archives a batch of old runs; fewer than [`MAX_REMOVALS`] if no more are due.
pub(crate) fn archive(connection: &Connection, before: Timestamp, at: Timestamp) -> Done<u64> {
    let to_archive = due(
        connection,
        "SELECT run_id FROM runs
         WHERE phase = 'ended' AND archived_at IS NULL AND delivery <> 'pending'
           AND ended_at < ?1 ORDER BY ended_at LIMIT ?2",
        before,
        MAX_REMOVALS,
    )?;
    for run in &to_archive {
        let stamp = "UPDATE runs SET archived_at = ?2 WHERE run_id = ?1";
        remove_transcript(connection, run, stamp, at)?;
    }
    Ok(to_archive.len() as u64)
}

fn due(connection: &Connection, query: &str, moment: Timestamp, limit: u64) -> Done<Vec<String>> {
    sql::all(
        connection,
        query,
        params![moment.0, sql::whole(limit)],
        |row| row.get(0),
    )
}

/// Deletes a transcript. The record keeps the head of the chain, and the time since which there is
/// nothing to check it against.
fn remove_transcript(connection: &Connection, run: &str, stamp: &str, at: Timestamp) -> Done<()> {
    sql::run(connection, "DELETE FROM journal WHERE run_id = ?1", [run])?;
    sql::run(connection, "DELETE FROM blobs WHERE run_id = ?1", [run])?;
    sql::run(connection, "DELETE FROM requests WHERE run_id = ?1", [run])?;
    sql::run(connection, stamp, params![run, at.0])?;
    Ok(())
}

/// The result of one pass over old trees.
#[derive(Clone, Debug)]
pub(crate) struct Deleted {
    pub(crate) trees: u64,
    pub(crate) records: Vec<RunRef>,
}

/// Deletes a batch of fully ended trees; fewer than [`MAX_REMOVALS`] if no more are due.
pub(crate) fn delete_before(connection: &Connection, before: Timestamp) -> Done<Deleted> {
    let roots: Vec<String> = sql::all(
        connection,
        "SELECT run_id FROM runs AS root
         WHERE phase = 'ended' AND parent_id IS NULL AND ended_at < ?1
           AND NOT EXISTS (
               SELECT 1 FROM runs AS member WHERE member.root_id = root.run_id
                 AND (phase <> 'ended' OR ended_at >= ?1 OR delivery = 'pending'))
         ORDER BY ended_at LIMIT ?2",
        params![before.0, sql::whole(MAX_REMOVALS)],
        |row| row.get(0),
    )?;
    let mut records = Vec::new();
    for root in &roots {
        records.extend(remove_records(connection, root)?);
    }
    Ok(Deleted {
        trees: roots.len() as u64,
        records,
    })
}
