//! Delivers results: to parents and sessions inside the store exactly once, to sinks outside at least
//! once.

use sortie_core::hook::HookEvent;
use sortie_core::id::{RunId, Seq, SessionKey};
use sortie_core::inbox::{Announcement, InboxItem, OutboxEntry};
use sortie_core::ports::store::{
    Delivered, DeliveryAttempt, Receipt, StoreError, Unblock, Undelivered, WaitingSession,
};
use sortie_core::run::{Cleanup, Delivery};
use sortie_core::tenant::Tenant;
use sortie_core::time::Timestamp;

use crate::fault::Done;
use crate::row;
use crate::sql::{self, Connection, Row, params};
use crate::transitions::inbox::{self, Put};
use crate::transitions::letters;
use crate::transitions::sessions;

/// Deliveries to parents in one transaction; the rest stays due.
const MAX_DELIVERIES: i64 = 1_000;

/// Sessions with waiting results returned at once; the rest comes after them.
const MAX_WAITING_SESSIONS: i64 = 100;

/// Deliveries to sinks returned at once; the rest stays due.
const MAX_OUTSIDE: i64 = 256;

/// Counts the deliveries that are due, or will be retried.
pub(crate) const COUNT_PENDING: &str = "SELECT COUNT(*) FROM outbox WHERE state = 'pending'";

/// Counts the runs with a delivery that is not retried.
const COUNT_BLOCKED: &str = "SELECT COUNT(DISTINCT outbox.run_id) FROM outbox
     JOIN runs ON runs.run_id = outbox.run_id
     WHERE outbox.state = 'blocked' AND archived_at IS NULL";

/// Moves due announcements into the inboxes of parents and of the turns of sessions.
pub(crate) fn deliver(connection: &Connection, now: Timestamp) -> Done<Vec<Delivered>> {
    let mut delivered = Vec::new();
    for target in ["parent", "session"] {
        let due = sql::all(
            connection,
            DUE,
            params![now.0, MAX_DELIVERIES, target],
            DueAnnouncement::read,
        )?;
        for announcement in due {
            delivered.extend(announcement.deliver(connection, now)?);
        }
    }
    Ok(delivered)
}

/// One target at a time, so that the index returns the entries in order. The folder is that of the
/// turn: a child of a turn with its own worktree works in that worktree.
const DUE: &str =
    "SELECT outbox.id, outbox.run_id, announcement, session, root_id, parent_id, tenant,
            head_seq, target,
            COALESCE((SELECT turn.workspace FROM runs AS turn WHERE turn.run_id = runs.root_id), runs.workspace),
            cleanup, hooks IS NOT NULL
     FROM outbox JOIN runs ON runs.run_id = outbox.run_id
     WHERE outbox.state = 'pending' AND target = ?3 AND next_at <= ?1
     ORDER BY next_at, outbox.id LIMIT ?2";

/// A due announcement for a parent or a session.
#[derive(Debug)]
struct DueAnnouncement {
    id: i64,
    child: RunId,
    announcement: Result<Announcement, String>,
    session: SessionKey,
    root: RunId,
    parent: Option<RunId>,
    tenant: Option<Tenant>,
    head: Seq,
    for_session: bool,
    workspace: String,
    cleanup: Cleanup,
    /// Whether hooks observe the child.
    has_hooks: bool,
}

impl DueAnnouncement {
    /// Reads a row of [`DUE`], by the order of its columns.
    fn read(row: &Row<'_>) -> Done<Self> {
        let text = sql::text(row, 2)?;
        Ok(Self {
            id: row.get(0)?,
            child: sql::word(row, 1)?,
            announcement: serde_json::from_str(text).map_err(|error| error.to_string()),
            session: sql::word(row, 3)?,
            root: sql::word(row, 4)?,
            parent: sql::optional_word(row, 5)?,
            tenant: sql::optional_word(row, 6)?,
            head: Seq(row.get(7)?),
            for_session: sql::text(row, 8)? == "session",
            workspace: row.get(9)?,
            cleanup: sql::word(row, 10)?,
            has_hooks: row.get(11)?,
        })
    }

    /// Delivers the announcement. An unreadable one is blocked, and does not delay the others.
    fn deliver(self, connection: &Connection, now: Timestamp) -> Done<Option<Delivered>> {
        let announcement = match &self.announcement {
            Ok(announcement) => announcement.clone(),
            Err(error) => {
                let why = format!("the announcement cannot be read: {error}");
                close(connection, self.id, self.child, Close::Blocked(&why))?;
                return Ok(None);
            }
        };
        let item = InboxItem::Announcement(Box::new(announcement.clone()));
        let receipt = match self.parent.filter(|_| !self.for_session) {
            Some(parent) => self.to_parent(connection, parent, &item, now)?,
            None => self.to_session(connection, &item, now)?,
        };
        if self.has_hooks && matches!(receipt, Receipt::Accepted { .. }) {
            let row = row::must_load(connection, self.child)?;
            let outcome = Some(&announcement.outcome);
            letters::of_run(connection, &row, HookEvent::Announce, outcome, now)?;
        }
        Ok(Some(Delivered {
            announcement,
            session: self.session,
            root: self.root,
            tenant: self.tenant,
            head: self.head,
            parent: self.parent,
            cleanup: self.cleanup,
            receipt,
        }))
    }

    fn to_parent(
        &self,
        connection: &Connection,
        parent: RunId,
        item: &InboxItem,
        now: Timestamp,
    ) -> Done<Receipt> {
        let key = self.child.to_string();
        let why = match inbox::put(connection, parent, Some(&key), item, now)? {
            Put::Accepted => {
                close(connection, self.id, self.child, Close::Delivered)?;
                return Ok(Receipt::Accepted { by: parent });
            }
            // The turn ended between the child's end and this delivery.
            Put::Ended if is_turn(connection, parent)? => {
                return self.to_session(connection, item, now);
            }
            Put::Ended => "its parent had already ended",
            Put::Missing => "its parent was deleted",
        };
        close(connection, self.id, self.child, Close::Blocked(why))?;
        Ok(Receipt::Blocked)
    }

    /// Delivers to the active turn of the session, or lets the announcement wait for the next one.
    fn to_session(
        &self,
        connection: &Connection,
        item: &InboxItem,
        now: Timestamp,
    ) -> Done<Receipt> {
        // Unrelated turns can share a session, for example those of `sortie run`. A result that the
        // session did not ask for by name reaches a turn in the same folder.
        let workspace = self.parent.is_some().then_some(self.workspace.as_str());
        let tenant = self.tenant.as_ref();
        let newest = sessions::newest_turn(connection, &self.session, tenant, workspace)?;
        let key = self.child.to_string();
        if let Some(turn) = newest
            && let Put::Accepted = inbox::put(connection, turn, Some(&key), item, now)?
        {
            close(connection, self.id, self.child, Close::Delivered)?;
            return Ok(Receipt::Accepted { by: turn });
        }
        sql::run(
            connection,
            "UPDATE outbox SET state = 'waiting', target = 'session', sink = ?2 WHERE id = ?1",
            params![self.id, self.session.as_str()],
        )?;
        Ok(Receipt::Waiting)
    }
}

fn is_turn(connection: &Connection, run: RunId) -> Done<bool> {
    Ok(row::must_load(connection, run)?.is_turn())
}

/// Makes the results that wait for a turn of this session due again: one has begun.
pub(crate) fn turn_begins(
    connection: &Connection,
    session: &SessionKey,
    at: Timestamp,
) -> Done<()> {
    sql::run(
        connection,
        "UPDATE outbox SET state = 'pending', next_at = ?2 WHERE state = 'waiting' AND sink = ?1",
        params![session.as_str(), at.0],
    )?;
    Ok(())
}

/// Returns sessions with results that wait for a turn.
pub(crate) fn waiting_sessions(connection: &Connection) -> Done<Vec<WaitingSession>> {
    sql::all(
        connection,
        "SELECT DISTINCT session, tenant, parent_id IS NULL AS anywhere,
                COALESCE((SELECT turn.workspace FROM runs AS turn WHERE turn.run_id = runs.root_id), runs.workspace) AS workspace
         FROM outbox JOIN runs ON runs.run_id = outbox.run_id
         WHERE outbox.state = 'waiting' LIMIT ?1",
        [MAX_WAITING_SESSIONS],
        |row| {
            let anywhere: bool = row.get("anywhere")?;
            let workspace: String = row.get("workspace")?;
            Ok(WaitingSession {
                session: sql::word(row, "session")?,
                tenant: sql::optional_word(row, "tenant")?,
                workspace: (!anywhere).then(|| workspace.into()),
            })
        },
    )
}

/// How an outbox entry is closed.
#[derive(Clone, Copy, Debug)]
enum Close<'a> {
    Delivered,
    Blocked(&'a str),
}

fn close(connection: &Connection, id: i64, child: RunId, how: Close<'_>) -> Done<()> {
    let (state, error) = match how {
        Close::Delivered => ("delivered", None),
        Close::Blocked(why) => ("blocked", Some(why)),
    };
    let child = child.to_string();
    sql::run(
        connection,
        "UPDATE outbox SET state = ?2, error = ?3, attempts = attempts + 1 WHERE id = ?1",
        params![id, state, error],
    )?;
    refresh(connection, &child)
}

/// Updates the record's delivery from its outbox entries: delivered when all are, blocked if any
/// is.
fn refresh(connection: &Connection, run: &str) -> Done<()> {
    let entries = sql::all(
        connection,
        "SELECT state, error FROM outbox WHERE run_id = ?1 ORDER BY id",
        [run],
        |row| Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?)),
    )?;
    let any = |wanted: &str| entries.iter().find(|(state, _)| state == wanted);
    let (delivery, error) = if let Some((_, error)) = any("blocked") {
        (Delivery::Blocked, error.as_deref())
    } else if any("pending").or_else(|| any("waiting")).is_some() {
        (Delivery::Pending, None)
    } else if any("delivered").is_some() {
        (Delivery::Delivered, None)
    } else {
        (Delivery::NotRequired, None)
    };
    sql::run(
        connection,
        "UPDATE runs SET delivery = ?2, delivery_error = ?3 WHERE run_id = ?1",
        params![run, delivery.as_str(), error],
    )?;
    Ok(())
}

/// Counts the results that were not delivered.
pub(crate) fn undelivered(connection: &Connection) -> Done<Undelivered> {
    Ok(Undelivered {
        pending: sql::count(connection, COUNT_PENDING, ())?,
        blocked: sql::count(connection, COUNT_BLOCKED, ())?,
    })
}

/// Returns due deliveries to sinks.
pub(crate) fn due_outside(connection: &Connection, now: Timestamp) -> Done<Vec<OutboxEntry>> {
    sql::all(
        connection,
        "SELECT id, sink, announcement, attempts FROM outbox
         WHERE state = 'pending' AND target = 'sink' AND next_at <= ?1
         ORDER BY next_at, id LIMIT ?2",
        params![now.0, MAX_OUTSIDE],
        |row| {
            Ok(OutboxEntry {
                id: row.get("id")?,
                sink: sql::json(row, "sink")?,
                announcement: sql::json(row, "announcement")?,
                attempts: row.get("attempts")?,
            })
        },
    )
}

/// Records an attempt to deliver to a sink. A closed entry stays as it is.
pub(crate) fn record_attempt(
    connection: &Connection,
    id: i64,
    attempt: &DeliveryAttempt,
) -> Done<()> {
    let (state, next_at, error) = match attempt {
        DeliveryAttempt::Delivered => ("delivered", None, None),
        DeliveryAttempt::Retry { at, error } => ("pending", Some(at.0), Some(error)),
        DeliveryAttempt::Blocked { error } => ("blocked", None, Some(error)),
    };
    let run = sql::first(
        connection,
        "UPDATE outbox SET state = ?2, next_at = COALESCE(?3, next_at), error = ?4,
             attempts = attempts + 1
         WHERE id = ?1 AND state = 'pending' RETURNING run_id",
        params![id, state, next_at, error],
        |row| row.get::<_, String>(0),
    )?;
    run.map_or(Ok(()), |run| refresh(connection, &run))
}

/// Retries the blocked deliveries of a run, or drops them.
pub(crate) fn unblock(
    connection: &Connection,
    run: RunId,
    choice: Unblock,
    at: Timestamp,
) -> Done<()> {
    let row = row::must_load(connection, run)?;
    let state = match choice {
        Unblock::Retry => "pending",
        Unblock::Dismiss => "dismissed",
    };
    let unblocked = sql::run(
        connection,
        "UPDATE outbox SET state = ?2, next_at = ?3, error = NULL
         WHERE run_id = ?1 AND state = 'blocked'",
        params![row.tail.run, state, at.0],
    )?;
    if unblocked == 0 {
        return Err(StoreError::WrongState {
            run,
            status: row.record.status,
            what: "none of its deliveries is blocked",
        }
        .into());
    }
    refresh(connection, &row.tail.run)
}
