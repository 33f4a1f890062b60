//! Replies and operations that other processes left, and requests that expire.

use sortie_core::id::RunId;
use sortie_core::inbox::{InboxItem, Sender};
use sortie_core::ports::store::{
    Control, Controlled, LeaveControl, LeftControl, Reconciled, Replied, ReplyTo, StoreError,
};
use sortie_core::request::{Reply, RequestId};
use sortie_core::run::{Cancellation, CancelledBy};
use sortie_core::time::Timestamp;

use crate::fault::{Done, Fault};
use crate::row::{self, StoredPhase};
use crate::sql::{self, Connection, Row, params};
use crate::transitions::request_views::find;
use crate::transitions::requests::{escalate, must_load, reply};
use crate::transitions::{cancel, inbox, pause};

/// Requests handled in one transaction; the rest stays due.
const MAX_RECONCILED: i64 = 1_000;
/// Operations that may wait at once. An owner takes them in within seconds, so more mean that it hangs.
const MAX_CONTROLS: u64 = 1_000;

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

/// Takes in what other processes left, then expires requests without a reply, then hands questions
/// that parents have not answered to persons.
pub(crate) fn reconcile(connection: &Connection, now: Timestamp) -> Done<Reconciled> {
    let mut done = Reconciled::default();
    for mail in take_mailbox(connection)? {
        match mail {
            Mail::Reply(left) => done.replied.extend(apply_reply(connection, &left)?),
            Mail::Control { run, control } => {
                done.controlled
                    .extend(apply_control(connection, run, control, now)?);
            }
        }
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
        done.replied.extend(apply_reply(connection, &expired)?);
    }
    for request in due(
        connection,
        "SELECT id FROM requests WHERE state = 'open' AND escalate_at IS NOT NULL
             AND escalate_at <= ?1 ORDER BY escalate_at, id LIMIT ?2",
        now,
    )? {
        escalate(connection, &request)?;
    }
    Ok(done)
}

/// Applies an operation. One that the run refuses by now is dropped, so that it does not delay others.
fn apply_control(
    connection: &Connection,
    run: RunId,
    control: Control,
    now: Timestamp,
) -> Done<Option<(RunId, Controlled)>> {
    let applied = match control {
        Control::Cancel { reason } => {
            let cancellation = Cancellation {
                by: CancelledBy::Person,
                reason,
            };
            cancel::cancel(connection, run, &cancellation, now).map(|report| {
                Controlled::Cancelled {
                    cancellation,
                    report,
                }
            })
        }
        Control::Pause => pause::pause(connection, run, now).map(Controlled::Paused),
        Control::Resume => pause::resume(connection, run, now).map(Controlled::Resumed),
        Control::Steer { text } => {
            inbox::send(connection, run, &steer(text), now).map(|()| Controlled::Steered)
        }
    };
    match applied {
        Ok(controlled) => Ok(Some((run, controlled))),
        Err(Fault::Refused(error)) => {
            tracing::warn!(%error, %run, "an operation of another process was not applied");
            Ok(None)
        }
        Err(fault @ Fault::Broken(_)) => Err(fault),
    }
}

fn steer(text: String) -> InboxItem {
    InboxItem::Steer {
        from: Sender::Person,
        text,
    }
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

/// An entry of the mailbox.
enum Mail {
    Reply(ReplyTo),
    Control { run: RunId, control: Control },
}

/// Empties the mailbox. Unreadable content is dropped: only this program writes there.
fn take_mailbox(connection: &Connection) -> Done<Vec<Mail>> {
    let found = sql::all(
        connection,
        "SELECT id, request_id, reply, run_id, control, at FROM mailbox ORDER BY id LIMIT ?1",
        [MAX_RECONCILED],
        |row| Ok((row.get::<_, i64>("id")?, read_mail(row))),
    )?;
    let mut readable = Vec::with_capacity(found.len());
    for (id, mail) in found {
        sql::run(connection, "DELETE FROM mailbox WHERE id = ?1", [id])?;
        match mail {
            Ok(mail) => readable.push(mail),
            Err(fault) => {
                let error = fault.while_doing("read the mailbox");
                tracing::warn!(%error, "an entry of the mailbox was dropped");
            }
        }
    }
    Ok(readable)
}

fn read_mail(row: &Row<'_>) -> Done<Mail> {
    let Some(run) = sql::optional_word(row, "run_id")? else {
        return Ok(Mail::Reply(ReplyTo {
            request: RequestId::from_text(sql::text(row, "request_id")?),
            reply: sql::json(row, "reply")?,
            at: Timestamp(row.get("at")?),
        }));
    };
    let control = sql::json(row, "control")?;
    Ok(Mail::Control { run, control })
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

/// Puts an operation on a run into the mailbox, if the run would accept it now.
pub(crate) fn leave_control(connection: &Connection, left: &LeaveControl) -> Done<LeftControl> {
    let row = row::must_load(connection, left.run)?;
    let active = pause::subtree(connection, left.run)?;
    let already_ended = (row.phase == StoredPhase::Ended).then_some(row.record.status);
    match &left.control {
        Control::Cancel { .. } if active.is_empty() => {
            return Ok(LeftControl {
                already_ended,
                ..LeftControl::default()
            });
        }
        Control::Cancel { .. } => {}
        Control::Pause => pause::check(&row, pause::Change::Pause)?,
        Control::Resume => pause::check(&row, pause::Change::Resume)?,
        Control::Steer { text } => inbox::check(connection, &row, &steer(text.clone()))?,
    }
    let waiting = sql::count(
        connection,
        "SELECT COUNT(*) FROM mailbox WHERE control IS NOT NULL",
        (),
    )?;
    if waiting >= MAX_CONTROLS {
        return Err(StoreError::WrongState {
            run: left.run,
            status: row.record.status,
            what: "the process that executes it has not taken in earlier operations; \
                   check whether it hangs",
        }
        .into());
    }
    let mail = sql::first(
        connection,
        "INSERT INTO mailbox (run_id, control, at) VALUES (?1, ?2, ?3) RETURNING id",
        params![
            row.tail.run,
            serde_json::to_string(&left.control)?,
            left.at.0
        ],
        |row| row.get(0),
    )?;
    Ok(LeftControl {
        mail,
        active,
        already_ended,
    })
}

/// Whether an entry has not been taken in yet.
pub(crate) fn is_waiting(connection: &Connection, mail: i64) -> Done<bool> {
    let found = sql::count(
        connection,
        "SELECT COUNT(*) FROM mailbox WHERE id = ?1",
        [mail],
    )?;
    Ok(found > 0)
}

/// Moves messages for a run that ends into its inbox: their senders know them as accepted, so they
/// belong into its journal.
pub(crate) fn take_messages(connection: &Connection, run: RunId, at: Timestamp) -> Done<()> {
    let found = sql::all(
        connection,
        "SELECT id, control FROM mailbox WHERE run_id = ?1 ORDER BY id",
        [run.to_string()],
        |row| {
            Ok((
                row.get::<_, i64>("id")?,
                sql::json::<Control>(row, "control"),
            ))
        },
    )?;
    for (id, control) in found {
        if let Ok(Control::Steer { text }) = control {
            sql::run(connection, "DELETE FROM mailbox WHERE id = ?1", [id])?;
            inbox::put(connection, run, None, &steer(text), at)?;
        }
    }
    Ok(())
}
