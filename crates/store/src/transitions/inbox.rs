//! The inbox of a run: items enter it, wake the run, and move into its journal.

use sortie_core::event::{Event, JournalEntry};
use sortie_core::id::{Fence, RunId, Seq};
use sortie_core::inbox::InboxItem;
use sortie_core::ports::store::StoreError;
use sortie_core::time::Timestamp;

use crate::chain::{Stamp, Tail};
use crate::fault::Done;
use crate::row::{self, RunRow, StoredPhase};
use crate::sql::{self, Connection, params, whole};

/// Items that enter a journal in one event; the rest comes with the next.
const MAX_INBOX_ITEMS: i64 = 256;
/// The size, in bytes, after which no further item enters the same event.
const MAX_INBOX_BYTES: i64 = 1 << 20;
/// Unread messages of one run. Announcements come on top: they are few, and must arrive.
const MAX_WAITING: i64 = 1_000;
/// The stored size of the unread messages.
const MAX_WAITING_BYTES: i64 = 4 << 20;

/// The result of putting an item into an inbox.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Put {
    Accepted,
    Ended,
    Missing,
}

/// Puts an item into an inbox, once for each key, and wakes a parked run.
pub(crate) fn put(
    connection: &Connection,
    run: RunId,
    key: Option<&str>,
    item: &InboxItem,
    at: Timestamp,
) -> Done<Put> {
    let name = run.to_string();
    let phase = sql::first(
        connection,
        "SELECT phase FROM runs WHERE run_id = ?1",
        [&name],
        |row| sql::word::<StoredPhase>(row, 0),
    )?;
    match phase {
        None => return Ok(Put::Missing),
        Some(StoredPhase::Ended) => return Ok(Put::Ended),
        Some(StoredPhase::Queued | StoredPhase::Leased | StoredPhase::Parked) => {}
    }
    let inserted = sql::run(
        connection,
        "INSERT INTO inbox (run_id, key, item, at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (run_id, key) DO NOTHING",
        params![name, key, serde_json::to_string(item)?, at.0],
    )?;
    if inserted > 0 {
        count_and_wake(connection, &name)?;
    }
    Ok(Put::Accepted)
}

/// Counts the item and wakes the run. A woken run keeps its place in the queue, so it precedes
/// newer runs.
fn count_and_wake(connection: &Connection, run: &str) -> Done<()> {
    sql::run(
        connection,
        "UPDATE runs SET inbox_count = inbox_count + 1,
             waiting_on = CASE WHEN phase <> 'parked' THEN waiting_on
                               WHEN paused = 1 THEN NULL ELSE 'slot' END,
             phase = CASE phase WHEN 'parked' THEN 'queued' ELSE phase END
         WHERE run_id = ?1",
        [run],
    )?;
    Ok(())
}

/// Puts a message from a parent or a person into a run's inbox.
pub(crate) fn send(
    connection: &Connection,
    run: RunId,
    item: &InboxItem,
    at: Timestamp,
) -> Done<()> {
    check(connection, &row::must_load(connection, run)?, item)?;
    put(connection, run, None, item, at).map(drop)
}

/// Fails if the run takes no message now.
pub(crate) fn check(connection: &Connection, row: &RunRow, item: &InboxItem) -> Done<()> {
    let (count, bytes) = waiting(connection, &row.tail.run)?;
    let size = whole(serde_json::to_string(item)?.len() as u64);
    let what = if row.phase == StoredPhase::Ended {
        "it has ended and takes no more messages"
    } else if count >= MAX_WAITING || bytes + size > MAX_WAITING_BYTES {
        "it has too many unread messages; retry after it has read them"
    } else {
        return Ok(());
    };
    Err(StoreError::WrongState {
        run: row.record.run_id,
        status: row.record.status,
        what,
    }
    .into())
}

/// Returns the number of unread items of a run and their bytes.
fn waiting(connection: &Connection, run: &str) -> Done<(i64, i64)> {
    let waiting = sql::first(
        connection,
        "SELECT COUNT(*), COALESCE(SUM(octet_length(item)), 0) FROM inbox WHERE run_id = ?1",
        [run],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(waiting.unwrap_or_default())
}

/// Moves the inbox into the journal.
pub(crate) fn take_inbox(
    connection: &Connection,
    fence: Fence,
    follows: Seq,
    at: Timestamp,
) -> Done<Option<JournalEntry>> {
    let mut leased = row::fenced_at(connection, fence, follows)?;
    let stamp = Stamp {
        at,
        epoch: fence.epoch,
    };
    let Some(event) = move_items(connection, &mut leased.tail, stamp)? else {
        return Ok(None);
    };
    row::save_tail(connection, &leased.tail)?;
    Ok(Some(JournalEntry {
        run: fence.run,
        seq: leased.tail.head(),
        at,
        epoch: fence.epoch,
        event,
    }))
}

/// Moves as many items into the journal as one event may hold.
fn move_items(connection: &Connection, tail: &mut Tail, stamp: Stamp) -> Done<Option<Event>> {
    let Some(oldest) = oldest_items(connection, &tail.run)? else {
        return Ok(None);
    };
    let event = Event::InboxTaken {
        items: oldest.items.into_iter().collect::<Done<_>>()?,
        unread: false,
    };
    tail.push(connection, stamp, &serde_json::to_string(&event)?)?;
    let removed = remove_items(connection, &tail.run, oldest.last)?;
    sql::run(
        connection,
        "UPDATE runs SET inbox_count = inbox_count - ?2 WHERE run_id = ?1",
        params![tail.run, whole(removed as u64)],
    )?;
    Ok(Some(event))
}

/// Moves the unread items of an ending run into its journal. An unreadable item is dropped: it must
/// not keep the run from ending.
pub(crate) fn move_unread(connection: &Connection, tail: &mut Tail, stamp: Stamp) -> Done<()> {
    while let Some(oldest) = oldest_items(connection, &tail.run)? {
        let mut items = Vec::with_capacity(oldest.items.len());
        for item in oldest.items {
            match item {
                Ok(item) => items.push(item),
                Err(fault) => {
                    let error = fault.while_doing("read a message");
                    tracing::error!(%error, run = tail.run, "a message of a run that ends was dropped");
                }
            }
        }
        if !items.is_empty() {
            let event = Event::InboxTaken {
                items,
                unread: true,
            };
            tail.push(connection, stamp, &serde_json::to_string(&event)?)?;
        }
        remove_items(connection, &tail.run, oldest.last)?;
    }
    Ok(())
}

/// The oldest items of an inbox, as many as one event may hold.
struct Oldest {
    items: Vec<Done<InboxItem>>,
    /// The id of the last item.
    last: i64,
}

/// Returns `None` if the inbox is empty.
fn oldest_items(connection: &Connection, run: &str) -> Done<Option<Oldest>> {
    let mut oldest: Option<Oldest> = None;
    let mut bytes = 0;
    sql::each(
        connection,
        "SELECT id, item, octet_length(item) FROM inbox WHERE run_id = ?1 ORDER BY id LIMIT ?2",
        params![run, MAX_INBOX_ITEMS],
        |row| {
            bytes += row.get::<_, i64>(2)?;
            let (last, item) = (row.get(0)?, sql::json(row, 1));
            match &mut oldest {
                Some(oldest) => {
                    oldest.items.push(item);
                    oldest.last = last;
                }
                None => {
                    oldest = Some(Oldest {
                        items: vec![item],
                        last,
                    });
                }
            }
            Ok(bytes < MAX_INBOX_BYTES)
        },
    )?;
    Ok(oldest)
}

fn remove_items(connection: &Connection, run: &str, last: i64) -> Done<usize> {
    sql::run(
        connection,
        "DELETE FROM inbox WHERE run_id = ?1 AND id <= ?2",
        params![run, last],
    )
}
