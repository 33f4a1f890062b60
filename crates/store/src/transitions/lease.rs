//! Renews and releases leases, and records that a rate limit delays a leased run.

use std::collections::HashMap;

use sortie_core::id::{Epoch, Fence, RunId};
use sortie_core::ports::store::{Heartbeat, HeartbeatReport, RunDelay};
use sortie_core::run::{Cancellation, WaitingOn};
use sortie_core::time::Timestamp;

use crate::fault::Done;
use crate::row;
use crate::sql::{self, Connection, params};
use crate::transitions::pause;

/// Releases a claimed run to its place in the queue, where it stays while it is paused.
pub(crate) fn release(connection: &Connection, fence: Fence, at: Timestamp) -> Done<()> {
    let mut leased = row::fenced(connection, fence)?;
    sql::run(
        connection,
        "UPDATE runs SET phase = 'queued', waiting_on = CASE WHEN paused = 1 THEN NULL ELSE 'slot' END,
             wait_position = NULL, lease_owner = NULL, lease_until = NULL,
             deaths_since_progress = CASE WHEN head_seq > head_at_claim THEN 0
                                         ELSE deaths_since_progress END
         WHERE run_id = ?1",
        [&leased.tail.run],
    )?;
    // Afterwards, because the entry about the pause does not count as progress.
    if leased.paused {
        pause::journal_pause(connection, &mut leased.tail, at, fence.epoch)?;
    }
    Ok(())
}

/// Renews leases and reports lost ones, cancellations, pauses and waiting items.
pub(crate) fn heartbeat(connection: &Connection, beat: &Heartbeat) -> Done<HeartbeatReport> {
    let mut report = HeartbeatReport::default();
    for fence in &beat.fences {
        let renewed = sql::first(
            connection,
            "UPDATE runs SET lease_until = ?3 WHERE run_id = ?1 AND phase = 'leased' AND epoch = ?2
             RETURNING cancel, inbox_count, paused",
            params![fence.run.to_string(), fence.epoch.0, beat.lease_until.0],
            |row| {
                let inbox_count: i64 = row.get(1)?;
                Ok((sql::optional_json(row, "cancel")?, inbox_count, row.get(2)?))
            },
        )?;
        note(&mut report, fence.run, renewed);
    }
    Ok(report)
}

/// Reports what a heartbeat reports, and renews nothing.
pub(crate) fn signals(connection: &Connection, fences: &[Fence]) -> Done<HeartbeatReport> {
    let mut report = HeartbeatReport::default();
    let runs: Vec<String> = fences.iter().map(|fence| fence.run.to_string()).collect();
    let mut found: HashMap<Fence, Marks> = sql::all(
        connection,
        "SELECT run_id, epoch, cancel, inbox_count, paused FROM runs
         WHERE run_id IN (SELECT value FROM json_each(?1)) AND phase = 'leased'",
        [serde_json::to_string(&runs)?],
        |row| {
            let fence = Fence {
                run: sql::word(row, "run_id")?,
                epoch: Epoch(row.get(1)?),
            };
            Ok((
                fence,
                (sql::optional_json(row, "cancel")?, row.get(3)?, row.get(4)?),
            ))
        },
    )?
    .into_iter()
    .collect();
    for fence in fences {
        note(&mut report, fence.run, found.remove(fence));
    }
    Ok(report)
}

/// What others have left for the executor of a run: a cancellation, the number of items in its inbox,
/// and whether it is to pause.
type Marks = (Option<Cancellation>, i64, bool);

fn note(report: &mut HeartbeatReport, run: RunId, marks: Option<Marks>) {
    let Some((cancel, inbox_count, paused)) = marks else {
        report.lost.push(run);
        return;
    };
    if let Some(cancellation) = cancel {
        report.cancelled.push((run, cancellation));
    }
    if inbox_count > 0 {
        report.inbox_waiting.push(run);
    }
    if paused {
        report.paused.push(run);
    }
}

/// Records whether a rate limit delays the run.
pub(crate) fn record_delay(connection: &Connection, wait: &RunDelay) -> Done<()> {
    let leased = row::fenced(connection, wait.fence)?;
    let waiting_on = match wait.position {
        Some(_) => WaitingOn::RateLimit,
        None => WaitingOn::Model,
    };
    sql::run(
        connection,
        "UPDATE runs SET waiting_on = ?2, wait_position = ?3 WHERE run_id = ?1",
        params![leased.tail.run, waiting_on.as_str(), wait.position],
    )?;
    Ok(())
}
