//! Snapshots of folded conversations. Each is a copy that can be rebuilt from the journals.

use sha2::{Digest, Sha256};
use sortie_core::id::{RunId, Seq, SessionKey};
use sortie_core::ports::store::{SaveSnapshot, Snapshot};
use sortie_core::tenant::Tenant;

use crate::chain::{self, Hash, Tail};
use crate::fault::Done;
use crate::sql::{self, Connection, params};

/// Returns the snapshot of a conversation, unless the journal of its last run has changed since.
pub(crate) fn load(
    connection: &Connection,
    session: &SessionKey,
    tenant: Option<&Tenant>,
) -> Done<Option<Snapshot>> {
    let found = sql::first(
        connection,
        "SELECT snapshots.run_id, head_seq, snapshots.head_hash, hash, body
         FROM snapshots JOIN runs ON runs.run_id = snapshots.run_id
         WHERE snapshots.session = ?1 AND snapshots.tenant = ?2
           AND runs.head_hash = snapshots.head_hash",
        params![session.as_str(), tenant.map_or("", Tenant::as_str)],
        |row| {
            let snapshot = Snapshot {
                run: sql::word(row, 0)?,
                head: Seq(row.get(1)?),
                body: row.get(4)?,
            };
            let (head, hash): (Hash, Hash) = (row.get(2)?, row.get(3)?);
            Ok((hash == hash_of(&head, &snapshot.body)).then_some(snapshot))
        },
    )?;
    if let Some(None) = found {
        tracing::warn!(%session, "the snapshot of a session is damaged; its journals are read");
    }
    Ok(found.flatten())
}

/// Replaces the snapshot of a conversation; returns `false` if something that it was folded from is
/// gone.
pub(crate) fn save(connection: &Connection, save: &SaveSnapshot) -> Done<bool> {
    let SaveSnapshot {
        snapshot,
        base,
        folded,
    } = save;
    for run in folded {
        if journal_end(connection, *run)?.is_none() {
            return Ok(false);
        }
    }
    let end = journal_end(connection, snapshot.run)?;
    let Some(tail) = end.filter(|tail| tail.head() == snapshot.head) else {
        return Ok(false);
    };
    let conversation = sql::first(
        connection,
        "SELECT runs.session, COALESCE(runs.tenant, ''), snapshots.run_id
         FROM runs LEFT JOIN snapshots ON snapshots.session = runs.session
             AND snapshots.tenant = COALESCE(runs.tenant, '')
         WHERE runs.run_id = ?1 AND parent_id IS NULL",
        [&tail.run],
        |row| {
            let (session, tenant): (String, String) = (row.get(0)?, row.get(1)?);
            Ok((session, tenant, sql::optional_word::<RunId>(row, 2)?))
        },
    )?;
    let Some((session, tenant, current)) = conversation else {
        return Ok(false);
    };
    if base.is_some() && current != *base {
        return Ok(false);
    }
    sql::run(
        connection,
        "INSERT INTO snapshots (session, tenant, run_id, head_hash, hash, body)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (session, tenant) DO UPDATE SET run_id = excluded.run_id,
             head_hash = excluded.head_hash, hash = excluded.hash, body = excluded.body",
        params![
            session,
            tenant,
            tail.run,
            tail.hash,
            hash_of(&tail.hash, &snapshot.body),
            snapshot.body
        ],
    )?;
    Ok(true)
}

/// Returns the end of a journal; `None` if it was deleted.
fn journal_end(connection: &Connection, run: RunId) -> Done<Option<Tail>> {
    Ok(chain::end_of(connection, run)?
        .flatten()
        .map(|end| end.tail))
}

fn hash_of(head: &Hash, body: &[u8]) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(head);
    hasher.update(body);
    hasher.finalize().into()
}
