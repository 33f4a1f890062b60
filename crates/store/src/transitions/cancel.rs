//! Cancels a run and its descendants.

use std::collections::VecDeque;

use sortie_core::id::RunId;
use sortie_core::ports::store::{CancelReport, EndReport};
use sortie_core::run::{Announce, Cancellation, CancelledBy, Outcome};
use sortie_core::time::Timestamp;

use crate::fault::Done;
use crate::row::{self, RunRow, StoredPhase};
use crate::sql::{self, Connection, params};
use crate::transitions::finish::{self, Ending};

pub(crate) fn cancel(
    connection: &Connection,
    run: RunId,
    cancellation: &Cancellation,
    at: Timestamp,
) -> Done<CancelReport> {
    let row = row::must_load(connection, run)?;
    if row.phase == StoredPhase::Ended {
        return Ok(CancelReport {
            already_ended: Some(row.record.status),
            ..CancelReport::default()
        });
    }
    let mut report = EndReport::default();
    stop(connection, &row, cancellation, at, &mut report)?;
    let cascade = Cascade {
        cancellation: Cancellation {
            by: CancelledBy::ParentEnded,
            reason: cancellation.reason.clone(),
        },
        at,
        parent_completed: false,
    };
    descendants(connection, run, &cascade, &mut report)?;
    Ok(CancelReport {
        ended: report.ended,
        signalled: report.signalled,
        already_ended: None,
    })
}

/// How descendants are cancelled.
#[derive(Debug)]
pub(crate) struct Cascade {
    pub(crate) cancellation: Cancellation,
    pub(crate) at: Timestamp,
    /// Whether the parent completed. Children whose mode outlives the parent then continue.
    pub(crate) parent_completed: bool,
}

/// Cancels all descendants of a run, level by level.
pub(crate) fn descendants(
    connection: &Connection,
    run: RunId,
    cascade: &Cascade,
    report: &mut EndReport,
) -> Done<()> {
    let mut parents = VecDeque::from([(run, cascade.parent_completed)]);
    while let Some((parent, parent_completed)) = parents.pop_front() {
        for child in children(connection, parent)? {
            if parent_completed && child.announce.outlives_parent() {
                continue;
            }
            if child.phase == StoredPhase::Ended {
                parents.push_back((child.run, parent_completed));
                continue;
            }
            let row = row::must_load(connection, child.run)?;
            stop(connection, &row, &cascade.cancellation, cascade.at, report)?;
            parents.push_back((child.run, false));
        }
    }
    Ok(())
}

#[derive(Debug)]
struct Child {
    run: RunId,
    phase: StoredPhase,
    announce: Announce,
}

fn children(connection: &Connection, parent: RunId) -> Done<Vec<Child>> {
    sql::all(
        connection,
        "SELECT run_id, phase, announce FROM runs WHERE parent_id = ?1 ORDER BY run_id",
        [parent.to_string()],
        |row| {
            Ok(Child {
                run: sql::word(row, "run_id")?,
                phase: sql::word(row, "phase")?,
                announce: sql::word(row, "announce")?,
            })
        },
    )
}

/// Ends a run without a lease; records the cancellation for the executor of a leased one.
fn stop(
    connection: &Connection,
    row: &RunRow,
    cancellation: &Cancellation,
    at: Timestamp,
    report: &mut EndReport,
) -> Done<()> {
    match row.phase {
        StoredPhase::Queued | StoredPhase::Parked => {
            let ending = cancelled(row, cancellation.clone(), at);
            report.ended.push(finish::end(connection, row, ending)?);
        }
        StoredPhase::Leased => {
            record_cancellation(connection, row, cancellation)?;
            report.signalled.push(row.record.run_id);
        }
        StoredPhase::Ended => {}
    }
    Ok(())
}

/// Returns the end of a cancelled run without a lease.
pub(crate) fn cancelled(row: &RunRow, cancellation: Cancellation, at: Timestamp) -> Ending {
    Ending {
        outcome: Outcome::Cancelled {
            cancellation,
            partial: row.record.summary.last_text.clone(),
        },
        epoch: row.next_epoch(),
        at,
    }
}

/// Records a cancellation. The first one stays, except that the end of the parent replaces it: then
/// no run receives the result.
fn record_cancellation(
    connection: &Connection,
    row: &RunRow,
    cancellation: &Cancellation,
) -> Done<()> {
    let replaces = match (&row.cancel, cancellation.by) {
        (None, _) | (Some(_), CancelledBy::ParentEnded) => true,
        (Some(_), CancelledBy::Person | CancelledBy::Parent) => false,
    };
    if replaces {
        sql::run(
            connection,
            // A cancelled run is not paused any more.
            "UPDATE runs SET cancel = ?2, paused = 0 WHERE run_id = ?1",
            params![row.tail.run, serde_json::to_string(cancellation)?],
        )?;
    }
    Ok(())
}
