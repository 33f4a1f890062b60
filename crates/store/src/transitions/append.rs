//! Appends to the journal of a leased run.

use sortie_core::budget::Amount;
use sortie_core::event::Event;
use sortie_core::hook::NewLetter;
use sortie_core::id::{CallId, Fence, RunId, Seq};
use sortie_core::ports::store::{Append, Appended, Blob};
use sortie_core::request::Request;
use sortie_core::run::{Changes, Summary, WaitingOn};
use sortie_core::time::Timestamp;

use crate::chain::{Stamp, Tail};
use crate::fault::Done;
use crate::row::{self, FencedRow};
use crate::sql::{self, Connection, params, whole};
use crate::transitions::requests::CallRequest;
use crate::transitions::tenants::{self, Spent};
use crate::transitions::{accounts, audit, letters, requests};

/// Serialized events, so that the writer thread does not have to serialize them.
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
    pub(crate) letters: Vec<NewLetter>,
}

impl Entries {
    /// Serializes the events of an append.
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
            letters: append.letters,
        })
    }
}

/// What events change besides the journal.
#[derive(Debug, Default)]
pub(crate) struct Consequences {
    asks: Vec<CallRequest>,
    answered: Vec<CallId>,
    /// The collected changes of the worktree; the outer `None` if it was not collected.
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
        if let Event::Asked { call, request } = event {
            self.asks.push(CallRequest {
                call: call.clone(),
                request: Request::clone(request),
            });
        } else if let Some(result) = event.tool_result() {
            self.answered.push(result.call.clone());
        } else if let Event::Collected { changes } = event {
            self.collected = Some(changes.clone());
        }
    }

    fn apply(&self, connection: &Connection, run: RunId, name: &str, at: Timestamp) -> Done<()> {
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

/// Serializes events for the journal.
pub(crate) fn to_bodies(events: &[Event]) -> Done<Vec<String>> {
    let bodies = events.iter().map(serde_json::to_string);
    Ok(bodies.collect::<Result<_, _>>()?)
}

/// Appends events and updates the summary.
pub(crate) fn append(connection: &Connection, entries: &Entries) -> Done<Appended> {
    let FencedRow {
        mut tail,
        inbox_count,
        cancel,
        account,
        paused,
        tenant,
        usage: before,
    } = row::fenced_at(connection, entries.fence, entries.follows)?;
    let stamp = Stamp {
        at: entries.at,
        epoch: entries.fence.epoch,
    };
    for body in &entries.bodies {
        tail.push(connection, stamp, body)?;
    }
    letters::post(connection, &entries.letters, entries.at)?;
    for blob in &entries.blobs {
        insert_blob(connection, &tail.run, blob)?;
    }
    let run = entries.fence.run;
    entries
        .consequences
        .apply(connection, run, &tail.run, entries.at)?;
    audit::append(connection, &entries.audit, entries.at)?;
    if let Some(cost) = entries.spent {
        accounts::charge_reserved(connection, &tail.run, account.as_deref(), cost)?;
    }
    save(connection, &tail, entries)?;
    let over_quota = match tenant {
        None => false,
        Some(tenant) => {
            let spent = Spent::between(before, entries.summary.usage);
            tenants::charge(connection, (&tenant, &tail.run), spent, entries.at)?
        }
    };
    Ok(Appended {
        head: tail.head(),
        inbox_waiting: inbox_count > 0,
        cancel,
        paused,
        over_quota,
    })
}

fn insert_blob(connection: &Connection, run: &str, blob: &Blob) -> Done<()> {
    // Named by its content: the same bytes twice are one blob.
    sql::run(
        connection,
        "INSERT INTO blobs (run_id, id, bytes) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
        params![run, blob.id.as_str(), blob.bytes],
    )?;
    Ok(())
}

fn save(connection: &Connection, tail: &Tail, entries: &Entries) -> Done<()> {
    let summary = &entries.summary;
    let usage = summary.usage;
    let bodies = entries.bodies.iter().map(String::len);
    let blobs = entries.blobs.iter().map(|blob| blob.bytes.len());
    let stored: usize = bodies.chain(blobs).sum();
    sql::run(
        connection,
        "UPDATE runs SET head_seq = ?2, head_hash = ?3, waiting_on = ?4, wait_position = NULL,
             progress = CASE WHEN progress < ?5 THEN ?5 ELSE progress END, tool_calls = ?6,
             model = ?7, last_text = ?8, input_tokens = ?9, output_tokens = ?10,
             cache_read_tokens = ?11, cache_write_tokens = ?12, cost_usd = ?13, unpriced = ?14,
             stored_bytes = stored_bytes + ?15
         WHERE run_id = ?1",
        params![
            tail.run,
            tail.seq,
            tail.hash,
            summary.waiting_on.map(WaitingOn::as_str),
            summary.progress,
            summary.tool_calls,
            summary.model,
            summary.last_text,
            usage.input_tokens.map(whole),
            usage.output_tokens.map(whole),
            usage.cache_read_tokens.map(whole),
            usage.cache_write_tokens.map(whole),
            usage.cost_usd,
            summary.unpriced,
            whole(stored as u64),
        ],
    )?;
    Ok(())
}
