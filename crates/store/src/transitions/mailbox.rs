//! Replies that other processes left, and requests that expire.

use sortie_core::id::RunId;
use sortie_core::ports::store::{Replied, ReplyTo};
use sortie_core::request::{Reply, RequestId};
use sortie_core::time::Timestamp;

use crate::fault::{Done, Fault};
use crate::sql::{self, Connection, Row, params};
use crate::transitions::request_views::find;
use crate::transitions::requests::{escalate, must_load, reply};

/// Requests handled in one transaction; the rest stays due.
const MAX_RECONCILED: i64 = 1_000;

/// Whether there is anything to reconcile.
pub(crate) fn any_due(connection: &Connection, now: Timestamp) -> Done<bool> {
    let due = sql::count(
        connection,
        "SELECT EXISTS (SELECT 1 FROM mailbox)
             OR EXISTS (SELECT 1 FROM requests WHERE state = 'open' AND expires_at <= ?1)
             OR EXISTS (SELECT 1 FROM requests WHERE state = 'open'
                        AND escalate_at IS NOT NULL AND escalate_at <= ?1)",
        [now.0],
    )?;
    Ok(due > 0)
}

/// Takes in the replies of other processes, then expires requests without a reply, then hands
/// questions that parents have not answered to persons.
pub(crate) fn reconcile(connection: &Connection, now: Timestamp) -> Done<Vec<(RunId, RequestId)>> {
    let mut replied = Vec::new();
    for left in take_mailbox(connection)? {
        replied.extend(apply_reply(connection, &left)?);
    }
    for request in due(
        connection,
        "SELECT id FROM requests WHERE state = 'open' AND expires_at <= ?1
         ORDER BY expires_at, id LIMIT ?2",
        now,
    )? {
        let expired = ReplyTo {
            request,
            reply: Reply::Expired,
            at: now,
        };
        replied.extend(apply_reply(connection, &expired)?);
    }
    for request in due(
        connection,
        "SELECT id FROM requests WHERE state = 'open' AND escalate_at IS NOT NULL
             AND escalate_at <= ?1 ORDER BY escalate_at, id LIMIT ?2",
        now,
    )? {
        escalate(connection, &request)?;
    }
    Ok(replied)
}

fn apply_reply(connection: &Connection, left: &ReplyTo) -> Done<Option<(RunId, RequestId)>> {
    match reply(connection, left) {
        Ok(Replied::Accepted { run }) => Ok(Some((run, left.request.clone()))),
        Ok(Replied::TooLate { .. }) => Ok(None),
        // Its run may have been deleted meanwhile; one bad reply does not delay the others.
        Err(Fault::Refused(error)) => {
            tracing::warn!(%error, request = %left.request, "a reply was not taken");
            Ok(None)
        }
        Err(fault @ Fault::Broken(_)) => Err(fault),
    }
}

/// Empties the mailbox. Unreadable content is dropped: only this program writes there.
fn take_mailbox(connection: &Connection) -> Done<Vec<ReplyTo>> {
    let replies = sql::all(
        connection,
        "SELECT id, request_id, reply, at FROM mailbox ORDER BY id LIMIT ?1",
        [MAX_RECONCILED],
        |row| Ok((row.get::<_, i64>("id")?, read_reply(row))),
    )?;
    let mut readable = Vec::with_capacity(replies.len());
    for (id, left) in replies {
        sql::run(connection, "DELETE FROM mailbox WHERE id = ?1", [id])?;
        match left {
            Ok(left) => readable.push(left),
            Err(fault) => {
                let error = fault.while_doing("read a reply");
                tracing::warn!(%error, "a reply was dropped");
            }
        }
    }
    Ok(readable)
}

fn read_reply(row: &Row<'_>) -> Done<ReplyTo> {
    Ok(ReplyTo {
        request: RequestId::from_text(sql::text(row, "request_id")?),
        reply: sql::json(row, "reply")?,
        at: Timestamp(row.get("at")?),
    })
}

fn due(connection: &Connection, query: &str, now: Timestamp) -> Done<Vec<RequestId>> {
    sql::all(connection, query, params![now.0, MAX_RECONCILED], |row| {
        Ok(RequestId::from_text(sql::text(row, 0)?))
    })
}

/// Puts a reply into the mailbox, unless it is already known to be too late.
pub(crate) fn leave_reply(connection: &Connection, left: &ReplyTo) -> Done<Replied> {
    let request = find(connection, left.request.as_str())?.request.id;
    let stored = must_load(connection, &request)?;
    if let Some(too_late) = stored.too_late(&left.reply, left.at)? {
        return Ok(too_late);
    }
    let inserted = sql::run(
        connection,
        "INSERT INTO mailbox (request_id, reply, at) VALUES (?1, ?2, ?3)
         ON CONFLICT (request_id) DO NOTHING",
        params![
            request.as_str(),
            serde_json::to_string(&left.reply)?,
            left.at.0
        ],
    )?;
    if inserted > 0 {
        return Ok(Replied::Accepted { run: stored.run });
    }
    let earlier = reply_in_mailbox(connection, &request)?;
    Ok(Replied::TooLate { earlier })
}

/// Returns the reply in the mailbox that was not taken in yet.
pub(crate) fn reply_in_mailbox(
    connection: &Connection,
    request: &RequestId,
) -> Done<Option<Reply>> {
    sql::first(
        connection,
        "SELECT reply FROM mailbox WHERE request_id = ?1",
        [request.as_str()],
        |row| sql::json(row, "reply"),
    )
}
