//! Cancels a run and its descendants.

use std::collections::VecDeque;

use sortie_core::id::RunId;
use sortie_core::ports::store::{CancelReport, EndReport};
use sortie_core::run::{Announce, Cancellation, CancelledBy, EdgeMode, Outcome};
use sortie_core::time::Timestamp;

use crate::fault::Done;
use crate::row::{self, ModeWord, RunRow, StoredPhase};
use crate::sql::{self, Connection, params};
use crate::transitions::finish::{self, Ending};

pub(crate) fn cancel(
    connection: &Connection,
    run: RunId,
    cancellation: &Cancellation,
    at: Timestamp,
) -> Done<CancelReport> {
    let row = row::must_load(connection, run)?;
    let mut report = EndReport::default();
    // Descendants can be active although the run has ended: background children outlive a turn.
    let already_ended = (row.phase == StoredPhase::Ended).then_some(row.record.status);
    stop(connection, &row, cancellation, at, &mut report)?;
    let cascade = Cascade {
        cancellation: Cancellation {
            by: CancelledBy::ParentEnded,
            reason: cancellation.reason.clone(),
        },
        at,
        survivors: Survivors::None,
    };
    descendants(connection, run, &cascade, &mut report)?;
    let stopped = !report.ended.is_empty() || !report.signalled.is_empty();
    Ok(CancelReport {
        ended: report.ended,
        signalled: report.signalled,
        already_ended: already_ended.filter(|_| !stopped),
    })
}

/// How descendants are cancelled.
#[derive(Debug)]
pub(crate) struct Cascade {
    pub(crate) cancellation: Cancellation,
    pub(crate) at: Timestamp,
    pub(crate) survivors: Survivors,
}

/// Which children continue after their parent has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Survivors {
    /// None: the tree is cancelled, or a subagent failed.
    None,
    /// Those that owe the parent nothing: a subagent completed.
    Silent,
    /// All in the background: a turn of a session ended, and the session receives their results.
    Background,
}

impl Survivors {
    fn include(self, child: &Child) -> bool {
        match self {
            Self::None => false,
            Self::Silent => child.announce.outlives_parent(),
            Self::Background => match child.mode {
                EdgeMode::Background => true,
                EdgeMode::Blocking => false,
            },
        }
    }
}

/// Cancels all descendants of a run, level by level.
pub(crate) fn descendants(
    connection: &Connection,
    run: RunId,
    cascade: &Cascade,
    report: &mut EndReport,
) -> Done<()> {
    let mut parents = VecDeque::from([(run, cascade.survivors)]);
    while let Some((parent, survivors)) = parents.pop_front() {
        for child in children(connection, parent)? {
            if child.phase == StoredPhase::Ended {
                parents.push_back((child.run, survivors));
                continue;
            }
            if survivors.include(&child) {
                continue;
            }
            let row = row::must_load(connection, child.run)?;
            stop(connection, &row, &cascade.cancellation, cascade.at, report)?;
            parents.push_back((child.run, Survivors::None));
        }
    }
    Ok(())
}

#[derive(Debug)]
struct Child {
    run: RunId,
    phase: StoredPhase,
    announce: Announce,
    mode: EdgeMode,
}

fn children(connection: &Connection, parent: RunId) -> Done<Vec<Child>> {
    sql::all(
        connection,
        "SELECT run_id, phase, announce, mode FROM runs WHERE parent_id = ?1 ORDER BY run_id",
        [parent.to_string()],
        |row| {
            Ok(Child {
                run: sql::word(row, "run_id")?,
                phase: sql::word(row, "phase")?,
                announce: sql::word(row, "announce")?,
                mode: sql::word::<ModeWord>(row, "mode")?.0,
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
