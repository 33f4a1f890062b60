//! Frees the leases of dead executors. Their runs are queued again, a bounded number of times.

use std::collections::BTreeMap;

use sortie_core::id::{Epoch, Fence, RunId};
use sortie_core::ports::store::{EndReport, Recover, RecoverReport, RecoverScope, StoreError};
use sortie_core::run::{Outcome, Reason};
use sortie_core::time::Timestamp;

use crate::fault::Done;
use crate::quarantine::Deaths;
use crate::row::{self, RunRow, StoredPhase};
use crate::sql::{self, Connection, params};
use crate::transitions::cancel;
use crate::transitions::deliver;
use crate::transitions::finish::{self, Ending};
use crate::transitions::pause;
use crate::transitions::workers;

/// Frees leases.
pub(crate) fn recover(connection: &Connection, recover: &Recover) -> Done<RecoverReport> {
    if recover.scope == RecoverScope::All && !connection.become_sole()? {
        return Err(StoreError::Locked {
            owner: "other processes that share it".to_owned(),
        }
        .into());
    }
    let mut report = RecoverReport::default();
    if recover.scope == RecoverScope::All {
        workers::remove_all(connection)?;
    }
    let leased = leased_by_owner(connection)?;
    for (run, owner) in abandoned(connection, recover)? {
        let row = row::must_load(connection, run)?;
        if row.phase != StoredPhase::Leased {
            continue;
        }
        let was_alone = leased.get(&owner).is_none_or(|runs| *runs == 1);
        match verdict(&row, recover, was_alone) {
            Verdict::GoesOn(deaths) => {
                count_deaths(connection, &row, deaths)?;
                requeue(connection, &row, recover.at)?;
                report.resumed.push(run);
            }
            Verdict::Ends(deaths, ending) => {
                count_deaths(connection, &row, deaths)?;
                finish::end_with_descendants(connection, &row, *ending, &mut report.given_up)?;
            }
        }
    }
    let EndReport { ended, signalled } = &mut report.given_up;
    signalled.retain(|run| !ended.iter().any(|end| end.run == *run));
    if matches!(
        recover.scope,
        RecoverScope::All | RecoverScope::Predecessors { .. }
    ) {
        count_waiting(connection, &mut report)?;
    }
    Ok(report)
}

/// Returns the leases to free, parents before children: a run that ends with its parent is not
/// queued again first.
fn abandoned(connection: &Connection, recover: &Recover) -> Done<Vec<(RunId, String)>> {
    let before = match recover.scope {
        RecoverScope::Expired => recover.at.0,
        RecoverScope::All | RecoverScope::Predecessors { .. } | RecoverScope::Orphans { .. } => {
            i64::MAX
        }
    };
    let leased = sql::all(
        connection,
        "SELECT run_id, epoch, lease_owner FROM runs WHERE phase = 'leased' AND lease_until < ?1
         ORDER BY depth, run_id",
        [before],
        |row| {
            let fence = Fence {
                run: sql::word(row, "run_id")?,
                epoch: Epoch(row.get(1)?),
            };
            Ok((fence, row.get::<_, String>(2)?))
        },
    )?;
    let predecessors = match &recover.scope {
        RecoverScope::Predecessors { owner } => workers::remove_fronts(connection, owner)?,
        RecoverScope::All | RecoverScope::Expired | RecoverScope::Orphans { .. } => Vec::new(),
    };
    let is_abandoned = |(fence, holder): &(Fence, String)| match &recover.scope {
        RecoverScope::All | RecoverScope::Expired => true,
        RecoverScope::Predecessors { .. } => predecessors.contains(holder),
        RecoverScope::Orphans { owner, executed } => {
            owner.as_str() == holder && !executed.contains(fence)
        }
    };
    let abandoned = leased.into_iter().filter(is_abandoned);
    Ok(abandoned
        .map(|(fence, holder)| (fence.run, holder))
        .collect())
}

/// Counts the leases of each process: a run that was its only one has killed it alone.
fn leased_by_owner(connection: &Connection) -> Done<BTreeMap<String, u64>> {
    let leased: Vec<String> = sql::all(
        connection,
        "SELECT lease_owner FROM runs WHERE phase = 'leased'",
        (),
        |row| row.get(0),
    )?;
    let mut counts = BTreeMap::new();
    for owner in leased {
        *counts.entry(owner).or_default() += 1;
    }
    Ok(counts)
}

#[derive(Debug)]
enum Verdict {
    GoesOn(Deaths),
    Ends(Deaths, Box<Ending>),
}

fn verdict(row: &RunRow, recover: &Recover, was_alone: bool) -> Verdict {
    let before = Deaths {
        total: row.record.crashes,
        since_progress: row.deaths_since_progress,
    };
    let deaths = match recover.scope {
        RecoverScope::All | RecoverScope::Predecessors { .. } | RecoverScope::Expired => {
            let progressed = row.tail.seq > row.head_at_claim;
            if was_alone {
                before.and_one(progressed)
            } else {
                before.and_one_beside_others(progressed, recover.deaths)
            }
        }
        RecoverScope::Orphans { .. } => return Verdict::GoesOn(before),
    };
    if let Some(cancellation) = &row.cancel {
        let ending = cancel::cancelled(row, cancellation.clone(), recover.at);
        return Verdict::Ends(deaths, Box::new(ending));
    }
    if deaths.is_hopeless(recover.deaths) {
        Verdict::Ends(deaths, Box::new(interrupted(row, deaths, recover)))
    } else {
        Verdict::GoesOn(deaths)
    }
}

fn interrupted(row: &RunRow, deaths: Deaths, recover: &Recover) -> Ending {
    let Deaths {
        total,
        since_progress,
    } = deaths;
    Ending {
        outcome: Outcome::Failed {
            reason: Reason::Interrupted,
            message: format!(
                "the process died {total} times while it ran, the last {since_progress} times \
                 without progress in between; it is not tried again"
            ),
            partial: row.record.summary.last_text.clone(),
        },
        epoch: row.next_epoch(),
        at: recover.at,
    }
}

/// Returns a run to its place in the queue.
fn requeue(connection: &Connection, row: &RunRow, at: Timestamp) -> Done<()> {
    if row.record.paused {
        pause::journal_pause(connection, &mut row.tail.clone(), at, row.epoch)?;
    }
    sql::run(
        connection,
        "UPDATE runs SET phase = 'queued', waiting_on = CASE WHEN paused = 1 THEN NULL ELSE 'slot' END,
             wait_position = NULL, recovered = 1,
             lease_owner = NULL, lease_until = NULL
         WHERE run_id = ?1",
        [&row.tail.run],
    )?;
    Ok(())
}

fn count_deaths(connection: &Connection, row: &RunRow, deaths: Deaths) -> Done<()> {
    sql::run(
        connection,
        "UPDATE runs SET deaths = ?2, deaths_since_progress = ?3 WHERE run_id = ?1",
        params![row.tail.run, deaths.total, deaths.since_progress],
    )?;
    Ok(())
}

fn count_waiting(connection: &Connection, report: &mut RecoverReport) -> Done<()> {
    let waiting = sql::count(
        connection,
        "SELECT (SELECT COUNT(*) FROM runs WHERE phase = 'queued' AND paused = 0)
              + (SELECT COUNT(*) FROM runs WHERE phase = 'queued' AND paused = 1)",
        (),
    )?;
    report.queued = waiting.saturating_sub(report.resumed.len() as u64);
    report.undelivered = sql::count(connection, deliver::COUNT_PENDING, ())?;
    Ok(())
}
