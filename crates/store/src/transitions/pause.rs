//! Pauses and resumes a run and its descendants.
//!
//! The mark is set at once, so that no paused run is claimed. The event is journaled while no
//! executor holds the run: by this transition, or by the one in which the executor releases it.

use sortie_core::event::Event;
use sortie_core::id::{Epoch, RunId, Seq};
use sortie_core::ports::store::{PauseReport, StoreError};
use sortie_core::time::Timestamp;

use crate::chain::{Stamp, Tail};
use crate::fault::Done;
use crate::row::{self, RunRow, StoredPhase};
use crate::sql::{self, Connection, params};

/// Pauses a run and its descendants.
pub(crate) fn pause(connection: &Connection, run: RunId, at: Timestamp) -> Done<PauseReport> {
    apply(connection, run, Change::Pause, at)
}

/// Resumes a run and its descendants.
pub(crate) fn resume(connection: &Connection, run: RunId, at: Timestamp) -> Done<PauseReport> {
    apply(connection, run, Change::Resume, at)
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Pause,
    Resume,
}

impl Change {
    fn is_pause(self) -> bool {
        matches!(self, Self::Pause)
    }

    fn event(self) -> Event {
        match self {
            Self::Pause => Event::Paused,
            Self::Resume => Event::Resumed,
        }
    }

    fn too_late(self) -> &'static str {
        match self {
            Self::Pause => "it has ended, so it cannot be paused",
            Self::Resume => "it has ended, so it cannot be resumed; retry it instead",
        }
    }
}

/// Fails if the run cannot be paused or resumed.
pub(crate) fn check(row: &RunRow, change: Change) -> Done<()> {
    let what = if row.phase == StoredPhase::Ended {
        change.too_late()
    } else if change.is_pause() && row.cancel.is_some() {
        "it is being cancelled, so it cannot be paused"
    } else {
        return Ok(());
    };
    Err(StoreError::WrongState {
        run: row.record.run_id,
        status: row.record.status,
        what,
    }
    .into())
}

fn apply(connection: &Connection, run: RunId, change: Change, at: Timestamp) -> Done<PauseReport> {
    check(&row::must_load(connection, run)?, change)?;
    let mut report = PauseReport::default();
    for member in subtree(connection, run)? {
        let row = row::must_load(connection, member)?;
        if row.phase != StoredPhase::Ended
            && row.cancel.is_none()
            && row.record.paused != change.is_pause()
        {
            apply_one(connection, &row, change, at, &mut report)?;
        }
    }
    Ok(report)
}

/// Returns a run and its active descendants, parents first. An ended run may have children that
/// continue.
pub(crate) fn subtree(connection: &Connection, run: RunId) -> Done<Vec<RunId>> {
    sql::all(
        connection,
        "WITH RECURSIVE subtree (run_id) AS (
             SELECT run_id FROM runs WHERE run_id = ?1
             UNION SELECT runs.run_id FROM runs JOIN subtree ON parent_id = subtree.run_id)
         SELECT runs.run_id FROM runs JOIN subtree ON subtree.run_id = runs.run_id
         WHERE phase <> 'ended' ORDER BY depth, runs.run_id",
        [run.to_string()],
        |row| sql::word(row, "run_id"),
    )
}

fn apply_one(
    connection: &Connection,
    row: &RunRow,
    change: Change,
    at: Timestamp,
    report: &mut PauseReport,
) -> Done<()> {
    let mut tail = row.tail.clone();
    match row.phase {
        StoredPhase::Queued | StoredPhase::Parked => {
            let stamp = Stamp {
                at,
                epoch: row.epoch,
            };
            journal(connection, &mut tail, stamp, &change.event())?;
        }
        StoredPhase::Leased => report.leased.push(row.record.run_id),
        StoredPhase::Ended => return Ok(()),
    }
    sql::run(
        connection,
        "UPDATE runs SET paused = ?2,
             waiting_on = CASE WHEN phase <> 'queued' THEN waiting_on
                               WHEN ?2 = 1 THEN NULL ELSE 'slot' END
         WHERE run_id = ?1",
        params![tail.run, change.is_pause()],
    )?;
    report.changed.push(row.about(Seq(tail.seq)));
    Ok(())
}

/// Journals a pause, when the executor releases the run.
pub(crate) fn journal_pause(
    connection: &Connection,
    tail: &mut Tail,
    at: Timestamp,
    epoch: Epoch,
) -> Done<()> {
    journal(connection, tail, Stamp { at, epoch }, &Event::Paused)
}

/// Journals a pause or a resume.
fn journal(connection: &Connection, tail: &mut Tail, stamp: Stamp, event: &Event) -> Done<()> {
    tail.push(connection, stamp, &serde_json::to_string(event)?)?;
    row::save_tail(connection, tail)
}
