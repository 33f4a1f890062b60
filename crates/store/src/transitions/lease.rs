//! Renews and releases leases, and records that a rate limit delays a leased run.

use sortie_core::id::Fence;
use sortie_core::ports::store::{Heartbeat, HeartbeatReport, RunDelay};
use sortie_core::run::WaitingOn;
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
        let Some((cancel, inbox_count, paused)) = renewed else {
            report.lost.push(fence.run);
            continue;
        };
        if let Some(cancellation) = cancel {
            report.cancelled.push((fence.run, cancellation));
        }
        if inbox_count > 0 {
            report.inbox_waiting.push(fence.run);
        }
        if paused {
            report.paused.push(fence.run);
        }
    }
    Ok(report)
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
