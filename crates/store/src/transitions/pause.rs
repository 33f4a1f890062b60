//! A run and its descendants rest, until somebody lets them go on.
//!
//! The mark is set at once, so that nobody claims them. That they rest is journaled when nobody
//! executes them: by this transition, or by the one in which an executor gives its run back.

use rusqlite::{Connection, params};
use sortie_core::{Epoch, Event, PauseReport, RunId, Seq, StoreError, Timestamp};

use crate::chain::{Stamp, Tail};
use crate::fault::Done;
use crate::row::{self, Phase, RunRow};
use crate::sql;

/// Wants a run and everything below it to rest.
pub(crate) fn pause(connection: &Connection, run: RunId, at: Timestamp) -> Done<PauseReport> {
    change(connection, run, Wish::Rest, at)
}

/// Lets a run and everything below it go on.
pub(crate) fn resume(connection: &Connection, run: RunId, at: Timestamp) -> Done<PauseReport> {
    change(connection, run, Wish::GoOn, at)
}

#[derive(Clone, Copy, Debug)]
enum Wish {
    Rest,
    GoOn,
}

impl Wish {
    fn rests(self) -> bool {
        matches!(self, Self::Rest)
    }

    fn event(self) -> Event {
        match self {
            Self::Rest => Event::Paused,
            Self::GoOn => Event::Resumed,
        }
    }

    fn too_late(self) -> &'static str {
        match self {
            Self::Rest => "it has ended, so it cannot be paused",
            Self::GoOn => "it has ended, so it cannot go on; retry it instead",
        }
    }
}

fn change(connection: &Connection, run: RunId, wish: Wish, at: Timestamp) -> Done<PauseReport> {
    let first = row::must_load(connection, run)?;
    if first.phase == Phase::Ended {
        return Err(StoreError::WrongState {
            run,
            status: first.record.status,
            what: wish.too_late(),
        }
        .into());
    }
    if wish.rests() && first.cancel.is_some() {
        return Err(StoreError::WrongState {
            run,
            status: first.record.status,
            what: "it is being cancelled, so it cannot be paused",
        }
        .into());
    }
    let mut report = PauseReport::default();
    for member in subtree(connection, run)? {
        let row = row::must_load(connection, member)?;
        if row.phase != Phase::Ended && row.cancel.is_none() && row.record.paused != wish.rests() {
            change_one(connection, &row, wish, at, &mut report)?;
        }
    }
    Ok(report)
}

/// Everything below and including a run, parents first. An ended run may have children that go on.
fn subtree(connection: &Connection, run: RunId) -> Done<Vec<RunId>> {
    sql::all(
        connection,
        "WITH RECURSIVE subtree (run_id) AS (
             SELECT ?1
             UNION SELECT runs.run_id FROM runs JOIN subtree ON parent_id = subtree.run_id)
         SELECT runs.run_id FROM runs JOIN subtree ON subtree.run_id = runs.run_id
         WHERE phase <> 'ended' ORDER BY depth, runs.run_id",
        [run.to_string()],
        |row| sql::word(row, "run_id"),
    )
}

fn change_one(
    connection: &Connection,
    row: &RunRow,
    wish: Wish,
    at: Timestamp,
    report: &mut PauseReport,
) -> Done<()> {
    let mut tail = row.tail.clone();
    match row.phase {
        Phase::Queued | Phase::Parked => {
            let stamp = Stamp {
                at,
                epoch: row.epoch,
            };
            note(connection, &mut tail, stamp, &wish.event())?;
        }
        Phase::Leased => report.held.push(row.record.run_id),
        Phase::Ended => return Ok(()),
    }
    sql::run(
        connection,
        "UPDATE runs SET paused = ?2,
             waiting_on = CASE WHEN phase <> 'queued' THEN waiting_on
                               WHEN ?2 THEN NULL ELSE 'slot' END
         WHERE run_id = ?1",
        params![tail.run, wish.rests()],
    )?;
    report.changed.push(row.about(Seq(tail.seq)));
    Ok(())
}

/// Journals that a run rests, now that whoever held it gives it back.
pub(crate) fn note_rest(
    connection: &Connection,
    tail: &mut Tail,
    at: Timestamp,
    epoch: Epoch,
) -> Done<()> {
    note(connection, tail, Stamp { at, epoch }, &Event::Paused)
}

/// Journals that a run rests, or that it may go on.
fn note(connection: &Connection, tail: &mut Tail, stamp: Stamp, event: &Event) -> Done<()> {
    tail.push(connection, stamp, &serde_json::to_string(event)?)?;
    row::save_tail(connection, tail)
}
