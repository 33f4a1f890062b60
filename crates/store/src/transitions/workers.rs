//! The list of the processes that execute runs. It exists only where several can share the store: on
//! PostgreSQL.

use sortie_core::ports::store::Join;
use sortie_core::run::Lane;
use sortie_core::time::Timestamp;
use sortie_core::worker::{Worker, WorkerId, WorkerRecord, WorkerState};

use crate::fault::Done;
use crate::sql::{self, Connection, Row, params};

/// How long a worker stays in the list after its lease has expired.
const LOST_KEPT_MS: i64 = 60 * 60 * 1_000;

/// Adds a worker, or renews its entry. Removes those that were lost long ago.
pub(crate) fn join(connection: &Connection, join: &Join) -> Done<()> {
    if !connection.is_shared() {
        return Ok(());
    }
    let worker = &join.worker;
    sql::run(
        connection,
        "INSERT INTO workers (id, command, is_front, host, pid, labels, lanes, draining,
             joined_at, heartbeat_at, lease_until)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10)
         ON CONFLICT (id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at,
             lease_until = excluded.lease_until, draining = excluded.draining",
        params![
            worker.id.as_str(),
            worker.command,
            worker.is_front,
            worker.host,
            worker.pid,
            serde_json::to_string(&worker.labels)?,
            serde_json::to_string(&worker.lanes)?,
            join.draining,
            join.at.0,
            join.lease_until.0
        ],
    )?;
    sql::run(
        connection,
        "DELETE FROM workers WHERE lease_until < ?1
           AND id NOT IN (SELECT lease_owner FROM runs WHERE phase = 'leased')",
        [join.at.0 - LOST_KEPT_MS],
    )?;
    Ok(())
}

/// Removes a worker.
pub(crate) fn leave(connection: &Connection, worker: &WorkerId) -> Done<()> {
    if connection.is_shared() {
        sql::run(
            connection,
            "DELETE FROM workers WHERE id = ?1",
            [worker.as_str()],
        )?;
    }
    Ok(())
}

/// Returns the present time of the database.
pub(crate) fn clock(connection: &Connection) -> Done<Timestamp> {
    let millis = sql::first(
        connection,
        "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
        (),
        |row| row.get(0),
    )?;
    millis.map(Timestamp).ok_or_else(sql::no_row)
}

/// Returns the workers, the oldest first.
pub(crate) fn list(connection: &Connection, at: Timestamp) -> Done<Vec<WorkerRecord>> {
    if !connection.is_shared() {
        return Ok(Vec::new());
    }
    sql::all(
        connection,
        "SELECT id, command, is_front, host, pid, labels, lanes, draining, joined_at, heartbeat_at,
                lease_until,
                (SELECT COUNT(*) FROM runs WHERE phase = 'leased' AND lease_owner = workers.id)
         FROM workers ORDER BY joined_at, id",
        (),
        |row| record(row, at),
    )
}

fn record(row: &Row<'_>, at: Timestamp) -> Done<WorkerRecord> {
    let lanes: Vec<(Lane, u32)> = sql::json(row, "lanes")?;
    let is_draining: bool = row.get(7)?;
    let lease_until: i64 = row.get(10)?;
    let state = if lease_until < at.0 {
        WorkerState::Lost
    } else if is_draining {
        WorkerState::Draining
    } else {
        WorkerState::Active
    };
    Ok(WorkerRecord {
        worker: Worker {
            id: WorkerId::from_stored(row.get(0)?),
            command: row.get(1)?,
            is_front: row.get(2)?,
            host: row.get(3)?,
            pid: row.get(4)?,
            labels: sql::json(row, "labels")?,
            lanes,
        },
        state,
        joined_at: Timestamp(row.get(8)?),
        heartbeat_at: Timestamp(row.get(9)?),
        runs: row.get::<_, i64>(11)?.unsigned_abs(),
    })
}

/// Removes the front processes before this one, and returns their ids.
pub(crate) fn remove_fronts(connection: &Connection, own: &WorkerId) -> Done<Vec<String>> {
    if !connection.is_shared() {
        return Ok(Vec::new());
    }
    sql::all(
        connection,
        "DELETE FROM workers WHERE is_front = 1 AND id <> ?1 RETURNING id",
        [own.as_str()],
        |row| row.get(0),
    )
}

/// Removes all workers: none of them runs any more.
pub(crate) fn remove_all(connection: &Connection) -> Done<()> {
    if connection.is_shared() {
        sql::run(connection, "DELETE FROM workers", ())?;
    }
    Ok(())
}
