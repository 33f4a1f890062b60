//! Changes the label or the priority of a run that waits in the queue.

use sortie_core::event::Event;
use sortie_core::ports::store::{StoreError, Update};
use sortie_core::run::Priority;

use crate::chain::Stamp;
use crate::fault::Done;
use crate::row::{self, StoredPhase};
use crate::sql::{self, Connection, params};

/// Changes the label or the priority of a queued run.
pub(crate) fn update(connection: &Connection, update: &Update) -> Done<()> {
    let row = row::must_load(connection, update.run)?;
    if row.phase != StoredPhase::Queued {
        return Err(StoreError::WrongState {
            run: update.run,
            status: row.record.status,
            what: "only a task that waits in the queue can be changed",
        }
        .into());
    }
    let event = Event::Updated {
        label: update.label.clone(),
        priority: update.priority,
    };
    let stamp = Stamp {
        at: update.at,
        epoch: row.epoch,
    };
    let mut tail = row.tail.clone();
    tail.push(connection, stamp, &serde_json::to_string(&event)?)?;
    let moved = update
        .priority
        .map(|priority| row::queue_key(row.record.created_at, priority));
    sql::run(
        connection,
        "UPDATE runs SET label = COALESCE(?2, label), priority = COALESCE(?3, priority),
             queue_key = COALESCE(?4, queue_key), head_seq = ?5, head_hash = ?6
         WHERE run_id = ?1",
        params![
            tail.run,
            update.label,
            update.priority.map(Priority::as_str),
            moved,
            tail.seq,
            tail.hash
        ],
    )?;
    Ok(())
}
