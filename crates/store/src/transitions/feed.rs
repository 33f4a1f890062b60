//! The feed: journal entries that other processes wrote, in the order of their transactions. It exists
//! only on PostgreSQL.
//!
//! A transaction gets its number before it commits, so a reader that only remembers the last number
//! would miss transactions that commit later. Here a reader takes only transactions before the oldest
//! one that is still under way: no entry can appear among them afterwards.

use sortie_core::event::JournalEntry;
use sortie_core::id::{Epoch, Seq};
use sortie_core::ports::store::{Feed, FeedEntry, FeedPlace, RunRef};
use sortie_core::time::Timestamp;

use crate::fault::Done;
use crate::sql::{self, Connection, Row, params};

/// The most entries that are read at once.
const MAX_ENTRIES: i64 = 2_000;

/// Returns what other processes than `origin` have journaled since a position.
pub(crate) fn read(connection: &Connection, after: FeedPlace, origin: i64) -> Done<Feed> {
    let end: Option<i64> = sql::first(
        connection,
        "SELECT CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT)",
        (),
        |row| row.get(0),
    )?;
    let end = end.ok_or_else(sql::no_row)?;
    let place = |number: i64| FeedPlace(number.unsigned_abs());
    let begin = sql::whole(after.0);
    if after == FeedPlace::default() || begin >= end {
        return Ok(Feed {
            next: place(end),
            ..Feed::default()
        });
    }
    let mut found = entries(connection, (begin, end), origin, MAX_ENTRIES)?;
    let mut next = end;
    if found.len() as i64 == MAX_ENTRIES
        && let Some((last, _)) = found.last()
    {
        // The last transaction may be incomplete: the next read begins with it.
        let last = *last;
        found.retain(|(number, _)| *number < last);
        next = last;
        if found.is_empty() {
            // One transaction, whose size is bounded by the batches of a writer.
            next = last + 1;
            found = entries(connection, (last, next), origin, sql::UNLIMITED)?;
        }
    }
    Ok(Feed {
        entries: found.into_iter().filter_map(|(_, entry)| entry).collect(),
        next: place(next),
    })
}

/// Returns the entries of transactions from `begin` up to before `end`, with their transactions.
fn entries(
    connection: &Connection,
    (begin, end): (i64, i64),
    origin: i64,
    limit: i64,
) -> Done<Vec<(i64, Option<FeedEntry>)>> {
    sql::all(
        connection,
        "SELECT journal.run_id AS run_id, journal.seq AS seq, journal.at AS at,
                journal.epoch AS epoch, journal.body AS body, runs.session AS session,
                runs.root_id AS root_id, runs.parent_id AS parent_id, runs.tenant AS tenant,
                runs.agent AS agent, runs.label AS label, runs.depth AS depth,
                runs.progress AS progress, runs.tool_calls AS tool_calls,
                CAST(CAST(journal.transaction AS TEXT) AS BIGINT) AS number
         FROM journal JOIN runs ON runs.run_id = journal.run_id
         WHERE journal.transaction >= CAST(CAST(?1 AS TEXT) AS xid8)
           AND journal.transaction < CAST(CAST(?2 AS TEXT) AS xid8)
           AND journal.origin IS DISTINCT FROM ?3
         ORDER BY journal.transaction, journal.run_id, journal.seq LIMIT ?4",
        params![begin, end, origin, limit],
        |row| Ok((row.get::<_, i64>("number")?, readable(row))),
    )
}

/// Reads an entry. One that cannot be read is left out: what follows it must not wait for a repair, and
/// the executor that loads the journal reports the damage.
fn readable(row: &Row<'_>) -> Option<FeedEntry> {
    match entry(row) {
        Ok(entry) => Some(entry),
        Err(fault) => {
            let run = sql::text(row, "run_id").unwrap_or_default();
            let seq: i64 = row.get("seq").unwrap_or_default();
            let error = sortie_core::error::with_causes(&fault.while_doing("read an entry"));
            tracing::error!(run, seq, error, "an entry of the feed cannot be read");
            None
        }
    }
}

fn entry(row: &Row<'_>) -> Done<FeedEntry> {
    let entry = JournalEntry {
        run: sql::word(row, "run_id")?,
        seq: Seq(row.get("seq")?),
        at: Timestamp(row.get("at")?),
        epoch: Epoch(row.get("epoch")?),
        event: sql::json(row, "body")?,
    };
    Ok(FeedEntry {
        about: RunRef {
            run: entry.run,
            session: sql::word(row, "session")?,
            root: sql::word(row, "root_id")?,
            parent: sql::optional_word(row, "parent_id")?,
            tenant: sql::optional_word(row, "tenant")?,
            head: entry.seq,
        },
        entry,
        agent: row.get("agent")?,
        label: row.get("label")?,
        depth: row.get("depth")?,
        progress: row.get("progress")?,
        tool_calls: row.get("tool_calls")?,
    })
}
