//! The holder of a run writes its journal, takes its inbox, or gives it up until the inbox fills.

use rusqlite::{Connection, named_params, params};
use sortie_core::{
    Amount, Append, Appended, Blob, CallId, Changes, Event, Fence, Hold, InboxItem, JournalEntry,
    Park, Request, RunId, Seq, Summary, Timestamp, WaitingOn,
};

use crate::chain::{Stamp, Tail};
use crate::fault::Done;
use crate::row::{self, Held};
use crate::sql::{self, whole};
use crate::transitions::requests::Ask;
use crate::transitions::{accounts, audit, pause, requests};

/// Messages that enter a journal in one event; the rest comes with the next.
const MAX_INBOX_ITEMS: i64 = 256;
/// The bytes of them after which no other enters the same event.
const MAX_INBOX_BYTES: i64 = 1 << 20;

/// Events that are already text, so that the writer's thread does not have to make it.
#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) fence: Fence,
    pub(crate) follows: Seq,
    pub(crate) at: Timestamp,
    pub(crate) bodies: Vec<String>,
    pub(crate) summary: Summary,
    pub(crate) blobs: Vec<Blob>,
    pub(crate) consequences: Consequences,
    pub(crate) audit: Vec<audit::Body>,
    pub(crate) spent: Option<Amount>,
}

impl Entries {
    /// Turns the events of an append into text.
    pub(crate) fn of(append: Append) -> Done<Self> {
        Ok(Self {
            fence: append.fence,
            follows: append.follows,
            at: append.at,
            bodies: to_bodies(&append.events)?,
            summary: append.summary,
            blobs: append.blobs,
            consequences: Consequences::of(&append.events),
            audit: audit::to_bodies(&append.audit)?,
            spent: append.spent,
        })
    }
}

/// What events change beside the journal.
#[derive(Debug, Default)]
pub(crate) struct Consequences {
    asks: Vec<Ask>,
    answered: Vec<CallId>,
    /// What the worktree left behind, if it was collected.
    collected: Option<Option<Changes>>,
}

impl Consequences {
    pub(crate) fn of(events: &[Event]) -> Self {
        let mut consequences = Self::default();
        for event in events {
            consequences.add(event);
        }
        consequences
    }

    fn add(&mut self, event: &Event) {
        match event {
            Event::Asked { call, request } => self.asks.push(Ask {
                call: call.clone(),
                request: Request::clone(request),
            }),
            Event::ToolFinished { result, .. } => self.answered.push(result.call.clone()),
            Event::Collected { changes } => self.collected = Some(changes.clone()),
            Event::Admitted { .. }
            | Event::Updated { .. }
            | Event::Paused
            | Event::Resumed
            | Event::Claimed { .. }
            | Event::InboxTaken { .. }
            | Event::Answered { .. }
            | Event::ModelFailed { .. }
            | Event::Compacted { .. }
            | Event::Intended { .. }
            | Event::Delegated { .. }
            | Event::BudgetLow { .. }
            | Event::BudgetSpent { .. }
            | Event::Isolated { .. }
            | Event::Finished { .. } => {}
        }
    }

    fn happen(&self, connection: &Connection, run: RunId, name: &str, at: Timestamp) -> Done<()> {
        for ask in &self.asks {
            requests::ask(connection, run, ask, at)?;
        }
        for call in &self.answered {
            requests::close_call(connection, name, call)?;
        }
        if let Some(changes) = &self.collected {
            let changes = changes.as_ref().map(serde_json::to_string).transpose()?;
            sql::run(
                connection,
                "UPDATE runs SET changes = ?2 WHERE run_id = ?1",
                params![name, changes],
            )?;
        }
        Ok(())
    }
}

/// Each event as the journal keeps it.
pub(crate) fn to_bodies(events: &[Event]) -> Done<Vec<String>> {
    let bodies = events.iter().map(serde_json::to_string);
    Ok(bodies.collect::<Result<_, _>>()?)
}

/// Adds events and what they add up to.
pub(crate) fn append(connection: &Connection, entries: &Entries) -> Done<Appended> {
    let Held {
        rowid,
        mut tail,
        inbox_count,
        cancel,
        account,
        paused,
    } = row::hold_at(connection, entries.fence, entries.follows)?;
    let stamp = Stamp {
        at: entries.at,
        epoch: entries.fence.epoch,
    };
    for body in &entries.bodies {
        tail.push(connection, stamp, body)?;
    }
    for blob in &entries.blobs {
        insert_blob(connection, &tail.run, blob)?;
    }
    let run = entries.fence.run;
    entries
        .consequences
        .happen(connection, run, &tail.run, entries.at)?;
    audit::append(connection, &entries.audit, entries.at)?;
    if let Some(cost) = entries.spent {
        accounts::settle(connection, &tail.run, account.as_deref(), cost)?;
    }
    save(connection, rowid, &tail, &entries.summary)?;
    Ok(Appended {
        head: tail.head(),
        inbox_waiting: inbox_count > 0,
        cancel,
        paused,
    })
}

fn insert_blob(connection: &Connection, run: &str, blob: &Blob) -> Done<()> {
    // Named by its content: the same bytes twice are the same blob.
    sql::run(
        connection,
        "INSERT INTO blobs (run_id, id, bytes) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
        params![run, blob.id.as_str(), blob.bytes],
    )?;
    Ok(())
}

fn save(connection: &Connection, rowid: i64, tail: &Tail, summary: &Summary) -> Done<()> {
    let usage = summary.usage;
    sql::run(
        connection,
        "UPDATE runs SET head_seq = :head_seq, head_hash = :head_hash, waiting_on = :waiting_on,
             wait_position = NULL, progress = MAX(progress, :progress), tool_calls = :tool_calls, model = :model,
             last_text = :last_text, input_tokens = :input_tokens, output_tokens = :output_tokens,
             cache_read_tokens = :cache_read_tokens, cache_write_tokens = :cache_write_tokens,
             cost_usd = :cost_usd, unpriced = :unpriced
         WHERE rowid = :rowid",
        named_params! {
            ":rowid": rowid,
            ":head_seq": tail.seq,
            ":head_hash": tail.hash,
            ":waiting_on": summary.waiting_on.map(WaitingOn::as_str),
            ":progress": summary.progress,
            ":tool_calls": summary.tool_calls,
            ":model": summary.model,
            ":last_text": summary.last_text,
            ":input_tokens": usage.input_tokens.map(whole),
            ":output_tokens": usage.output_tokens.map(whole),
            ":cache_read_tokens": usage.cache_read_tokens.map(whole),
            ":cache_write_tokens": usage.cache_write_tokens.map(whole),
            ":cost_usd": usage.cost_usd,
            ":unpriced": summary.unpriced,
        },
    )?;
    Ok(())
}

/// Moves the inbox into the journal.
pub(crate) fn take_inbox(
    connection: &Connection,
    fence: Fence,
    follows: Seq,
    at: Timestamp,
) -> Done<Option<JournalEntry>> {
    let mut held = row::hold_at(connection, fence, follows)?;
    let stamp = Stamp {
        at,
        epoch: fence.epoch,
    };
    let Some(event) = move_items(connection, &mut held.tail, stamp)? else {
        return Ok(None);
    };
    row::save_tail(connection, &held.tail)?;
    Ok(Some(JournalEntry {
        run: fence.run,
        seq: held.tail.head(),
        at,
        epoch: fence.epoch,
        event,
    }))
}

/// Moves as much of an inbox to the end of a journal as one event holds.
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

/// Moves what was said to a run that ends, and that it has not read, to the end of its journal. What
/// cannot be read is dropped: it must not keep the run from ending.
pub(crate) fn leave_unread(connection: &Connection, tail: &mut Tail, stamp: Stamp) -> Done<()> {
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

/// The beginning of an inbox, as much as one event holds.
struct Oldest {
    items: Vec<Done<InboxItem>>,
    /// The place of the last one.
    last: i64,
}

/// Nothing if the inbox is empty.
fn oldest_items(connection: &Connection, run: &str) -> Done<Option<Oldest>> {
    let mut statement = connection.prepare_cached(
        "SELECT id, item, octet_length(item) FROM inbox WHERE run_id = ?1 ORDER BY id LIMIT ?2",
    )?;
    let mut rows = statement.query(params![run, MAX_INBOX_ITEMS])?;
    let mut oldest: Option<Oldest> = None;
    let mut bytes = 0;
    while bytes < MAX_INBOX_BYTES
        && let Some(row) = rows.next()?
    {
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
    }
    Ok(oldest)
}

fn remove_items(connection: &Connection, run: &str, last: i64) -> Done<usize> {
    sql::run(
        connection,
        "DELETE FROM inbox WHERE run_id = ?1 AND id <= ?2",
        params![run, last],
    )
}

/// Shows in the record whether the run waits for its provider.
pub(crate) fn hold(connection: &Connection, hold: &Hold) -> Done<()> {
    let held = row::hold(connection, hold.fence)?;
    let waiting_on = match hold.position {
        Some(_) => WaitingOn::RateLimit,
        None => WaitingOn::Model,
    };
    sql::run(
        connection,
        "UPDATE runs SET waiting_on = ?2, wait_position = ?3 WHERE rowid = ?1",
        params![held.rowid, waiting_on.as_str(), hold.position],
    )?;
    Ok(())
}

/// Gives the run up until its inbox fills; refused if there is already a reason to go on.
pub(crate) fn park(connection: &Connection, park: &Park) -> Done<bool> {
    let mut held = row::hold_at(connection, park.fence, park.follows)?;
    if held.inbox_count > 0 || held.cancel.is_some() {
        return Ok(false);
    }
    sql::run(
        connection,
        "UPDATE runs SET phase = 'parked', waiting_on = ?2, lease_owner = NULL, lease_until = NULL,
             deaths_since_progress = IIF(head_seq > head_at_claim, 0, deaths_since_progress)
         WHERE rowid = ?1",
        params![held.rowid, park.waiting_on.as_str()],
    )?;
    // Afterwards: the entry about the pause is no progress.
    if held.paused {
        pause::note_rest(connection, &mut held.tail, park.at, park.fence.epoch)?;
    }
    Ok(true)
}
