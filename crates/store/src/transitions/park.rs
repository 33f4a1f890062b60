//! Parks a run until its inbox fills, and ends parked runs whose deadline has passed.

use sortie_core::ports::store::{EndReport, Park};
use sortie_core::run::Outcome;
use sortie_core::time::Timestamp;

use crate::fault::Done;
use crate::row::{self, StoredPhase};
use crate::sql::{self, Connection, params};
use crate::transitions::finish::{self, Ending};
use crate::transitions::pause;

/// Parks a run until its inbox fills; returns `false` if it has items or a cancellation.
pub(crate) fn park(connection: &Connection, park: &Park) -> Done<bool> {
    let mut leased = row::fenced_at(connection, park.fence, park.follows)?;
    if leased.inbox_count > 0 || leased.cancel.is_some() {
        return Ok(false);
    }
    sql::run(
        connection,
        "UPDATE runs SET phase = 'parked', waiting_on = ?2, lease_owner = NULL, lease_until = NULL,
             deaths_since_progress = CASE WHEN head_seq > head_at_claim THEN 0
                                         ELSE deaths_since_progress END
         WHERE run_id = ?1",
        params![leased.tail.run, park.waiting_on.as_str()],
    )?;
    // Afterwards, because the entry about the pause does not count as progress.
    if leased.paused {
        pause::journal_pause(connection, &mut leased.tail, park.at, park.fence.epoch)?;
    }
    Ok(true)
}

/// Ends runs whose deadline has passed while they were parked or paused.
pub(crate) fn expire_parked(connection: &Connection, now: Timestamp) -> Done<EndReport> {
    let due = sql::all(
        connection,
        "SELECT run_id, depth FROM runs WHERE phase = 'parked' AND deadline_at <= ?1
         UNION ALL
         SELECT run_id, depth FROM runs
             WHERE phase = 'queued' AND paused = 1 AND deadline_at <= ?1
         ORDER BY depth, run_id",
        [now.0],
        |row| sql::word(row, "run_id"),
    )?;
    let mut report = EndReport::default();
    for run in due {
        let row = row::must_load(connection, run)?;
        // The end of one run may have ended others of the list.
        if row.phase == StoredPhase::Parked
            || (row.phase == StoredPhase::Queued && row.record.paused)
        {
            let ending = Ending {
                outcome: Outcome::Timeout {
                    limit_ms: row.given_ms(),
                    partial: row.record.summary.last_text.clone(),
                },
                epoch: row.next_epoch(),
                at: now,
            };
            finish::end_with_descendants(connection, &row, ending, &mut report)?;
        }
    }
    Ok(report)
}
