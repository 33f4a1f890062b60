//! Idempotency keys of requests.

use sortie_core::id::RunId;
use sortie_core::ports::store::{Begun, ONCE_KEPT_MS};
use sortie_core::time::Timestamp;

use crate::fault::{Done, Fault};
use crate::sql::{self, Connection, params};

/// Expired keys deleted each time a new one is recorded: more than one, so that their number falls.
const FORGOTTEN_AT_ONCE: i64 = 64;

/// A request that begins.
#[derive(Debug)]
pub(crate) struct Beginning {
    pub(crate) key: String,
    pub(crate) fingerprint: String,
    pub(crate) run: RunId,
    pub(crate) at: Timestamp,
}

/// Records a new request; returns what is known of an old one.
pub(crate) fn begin(connection: &Connection, beginning: &Beginning) -> Done<Begun> {
    forget_old(connection, beginning)?;
    let known = sql::first(
        connection,
        "SELECT fingerprint, run_id, at, status, body FROM once WHERE key = ?1",
        [&beginning.key],
        |row| {
            if sql::text(row, "fingerprint")? != beginning.fingerprint {
                return Ok(Begun::Mismatch);
            }
            let run = sql::word(row, "run_id")?;
            let status: Option<i64> = row.get("status")?;
            Ok(match status {
                None => Begun::Running {
                    run,
                    at: Timestamp(row.get("at")?),
                },
                Some(status) => Begun::Done {
                    status: u16::try_from(status)
                        .map_err(|error| Fault::Broken(Box::new(error)))?,
                    body: row.get::<_, Option<Vec<u8>>>("body")?.unwrap_or_default(),
                    run,
                },
            })
        },
    )?;
    if let Some(known) = known {
        return Ok(known);
    }
    sql::run(
        connection,
        "INSERT INTO once (key, fingerprint, run_id, at) VALUES (?1, ?2, ?3, ?4)",
        params![
            beginning.key,
            beginning.fingerprint,
            beginning.run.to_string(),
            beginning.at.0
        ],
    )?;
    Ok(Begun::Fresh)
}

/// Deletes expired keys, the one that begins first.
fn forget_old(connection: &Connection, beginning: &Beginning) -> Done<()> {
    let before = beginning.at.plus_ms(-ONCE_KEPT_MS).0;
    sql::run(
        connection,
        "DELETE FROM once WHERE key = ?1 AND at < ?2",
        params![beginning.key, before],
    )?;
    sql::run(
        connection,
        "DELETE FROM once WHERE key IN (
             SELECT key FROM once WHERE at < ?1 ORDER BY at LIMIT ?2)",
        params![before, FORGOTTEN_AT_ONCE],
    )?;
    Ok(())
}

/// Records the response of a request.
pub(crate) fn complete(connection: &Connection, key: &str, status: u16, body: &[u8]) -> Done<()> {
    sql::run(
        connection,
        "UPDATE once SET status = ?2, body = ?3 WHERE key = ?1 AND status IS NULL",
        params![key, status, body],
    )?;
    Ok(())
}

/// Removes a request without a response.
pub(crate) fn forget(connection: &Connection, key: &str) -> Done<()> {
    sql::run(
        connection,
        "DELETE FROM once WHERE key = ?1 AND status IS NULL",
        [key],
    )?;
    Ok(())
}
