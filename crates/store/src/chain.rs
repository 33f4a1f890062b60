//! The hash chain of a journal: each entry's hash covers the entry and the previous hash.
//!
//! The record keeps the last position and hash, so a truncated tail is noticed too. A journal that
//! does not match its chain is never returned; appending still works from the record, so that its
//! run can be ended.

use sha2::{Digest, Sha256};
use sortie_core::event::{JOURNAL_VERSION, JournalEntry};
use sortie_core::id::{Epoch, RunId, Seq};
use sortie_core::ports::store::StoreError;
use sortie_core::time::Timestamp;

use crate::fault::{Done, Fault};
use crate::sql::{self, Connection, Row, params};

/// SHA-256.
pub(crate) type Hash = [u8; 32];

/// The hash before the first entry.
pub(crate) const GENESIS: Hash = [0; 32];

/// The time and the epoch under which entries are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) at: Timestamp,
    pub(crate) epoch: Epoch,
}

/// The head of a journal, to append to.
#[derive(Clone, Debug)]
pub(crate) struct Tail {
    /// The run id, as the database spells it.
    pub(crate) run: String,
    pub(crate) seq: i64,
    pub(crate) hash: Hash,
}

impl Tail {
    /// Returns the head of an empty journal.
    pub(crate) fn new(run: RunId) -> Self {
        Self {
            run: run.to_string(),
            seq: 0,
            hash: GENESIS,
        }
    }

    /// Writes one more entry. The caller stores the new head in the record.
    pub(crate) fn push(&mut self, connection: &Connection, stamp: Stamp, body: &str) -> Done<()> {
        let link = Link {
            run: &self.run,
            seq: self.seq + 1,
            at: stamp.at.0,
            epoch: stamp.epoch.0,
            version: JOURNAL_VERSION,
            body,
        };
        let hash = link.hash(&self.hash);
        sql::run(
            connection,
            "INSERT INTO journal (run_id, seq, at, epoch, version, body, hash)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                link.run,
                link.seq,
                link.at,
                link.epoch,
                link.version,
                link.body,
                hash
            ],
        )?;
        self.seq = link.seq;
        self.hash = hash;
        Ok(())
    }

    pub(crate) fn head(&self) -> Seq {
        Seq(self.seq)
    }
}

/// Reads the entries after `after` and checks that they lead to the head in the record.
pub(crate) fn read(connection: &Connection, run: RunId, after: Seq) -> Done<Vec<JournalEntry>> {
    read_part(connection, run, after, usize::MAX)
}

/// Reads at most `max_bytes` of the entries after `after`, but at least one. Each entry is checked;
/// the head only if it was reached.
pub(crate) fn read_part(
    connection: &Connection,
    run: RunId,
    after: Seq,
    max_bytes: usize,
) -> Done<Vec<JournalEntry>> {
    let end = end_of(connection, run)?.ok_or_else(|| Fault::not_found(run))?;
    let Some(tail) = end else {
        return Ok(Vec::new());
    };
    if after.0 >= tail.seq {
        return Ok(Vec::new());
    }
    let mut walk = Walk {
        run,
        key: &tail.run,
        seq: after.0.max(0),
        hash: hash_at(connection, run, &tail.run, after)?,
    };
    let mut entries = Vec::new();
    let mut bytes = 0_usize;
    let mut is_cut = false;
    sql::each(
        connection,
        "SELECT seq, at, epoch, version, body, hash FROM journal
         WHERE run_id = ?1 AND seq > ?2 ORDER BY seq",
        params![tail.run, after.0.max(0)],
        |row| {
            let length = sql::optional_text(row, 4).map_or(0, |body| body.map_or(0, str::len));
            bytes = bytes.saturating_add(length);
            is_cut = bytes > max_bytes && !entries.is_empty();
            if !is_cut {
                entries.push(walk.step(row)?);
            }
            Ok(!is_cut)
        },
    )?;
    if !is_cut {
        walk.arrive(&tail)?;
    }
    Ok(entries)
}

/// Reads the first entry; `None` if the journal was deleted. The check covers what one entry
/// allows: its hash follows the genesis hash, and equals the record's if it is also the last.
pub(crate) fn first(connection: &Connection, run: RunId) -> Done<Option<JournalEntry>> {
    let end = end_of(connection, run)?.ok_or_else(|| Fault::not_found(run))?;
    let Some(tail) = end else {
        return Ok(None);
    };
    let mut walk = Walk {
        run,
        key: &tail.run,
        seq: 0,
        hash: GENESIS,
    };
    let entry = sql::first(
        connection,
        "SELECT seq, at, epoch, version, body, hash FROM journal WHERE run_id = ?1 AND seq = 1",
        [&tail.run],
        |row| walk.step(row),
    )?;
    if walk.seq >= tail.seq || entry.is_none() {
        walk.arrive(&tail)?;
    }
    Ok(entry)
}

/// Returns the head in the record: `None` without a record, `Some(None)` if the journal was
/// deleted.
pub(crate) fn end_of(connection: &Connection, run: RunId) -> Done<Option<Option<Tail>>> {
    sql::first(
        connection,
        "SELECT run_id, head_seq, head_hash, cleaned_at IS NOT NULL OR archived_at IS NOT NULL
         FROM runs WHERE run_id = ?1",
        [run.to_string()],
        |row| {
            let removed: bool = row.get(3)?;
            let tail = Tail {
                run: row.get(0)?,
                seq: row.get(1)?,
                hash: row.get(2)?,
            };
            Ok((!removed).then_some(tail))
        },
    )
}

/// Returns the hash that the entry after `after` builds on.
fn hash_at(connection: &Connection, run: RunId, key: &str, after: Seq) -> Done<Hash> {
    if after.0 <= 0 {
        return Ok(GENESIS);
    }
    let found = sql::first(
        connection,
        "SELECT hash FROM journal WHERE run_id = ?1 AND seq = ?2",
        params![key, after.0],
        |row| Ok(row.get(0).ok()),
    )?;
    found
        .flatten()
        .ok_or_else(|| damaged(run, after.0, "the entry is missing or has no hash"))
}

/// Reads a journal in order and checks each hash.
#[derive(Debug)]
struct Walk<'a> {
    run: RunId,
    key: &'a str,
    seq: i64,
    hash: Hash,
}

impl Walk<'_> {
    /// Checks and reads the next row.
    fn step(&mut self, row: &Row<'_>) -> Done<JournalEntry> {
        let wanted = self.seq + 1;
        let seq: i64 = row.get(0)?;
        if seq != wanted {
            return Err(damaged(self.run, wanted, "the entry is missing"));
        }
        let unreadable = |_| damaged(self.run, seq, "the entry cannot be read");
        let link = Link {
            run: self.key,
            seq,
            at: row.get(1).map_err(unreadable)?,
            epoch: row.get(2).map_err(unreadable)?,
            version: row.get(3).map_err(unreadable)?,
            body: sql::text(row, 4).map_err(|_| damaged(self.run, seq, "the entry is not text"))?,
        };
        let stored: Hash = row.get(5).map_err(unreadable)?;
        let hash = link.hash(&self.hash);
        if hash != stored {
            return Err(damaged(self.run, seq, "it does not fit its hash"));
        }
        let entry = link.parse(self.run)?;
        self.seq = seq;
        self.hash = hash;
        Ok(entry)
    }

    /// Checks that the last entry is the head in the record.
    fn arrive(&self, tail: &Tail) -> Done<()> {
        if self.seq < tail.seq {
            return Err(damaged(self.run, self.seq + 1, "the end was cut off"));
        }
        if self.seq > tail.seq || self.hash != tail.hash {
            return Err(damaged(self.run, tail.seq, "the record names another end"));
        }
        Ok(())
    }
}

/// The hashed fields of an entry.
#[derive(Debug)]
struct Link<'a> {
    run: &'a str,
    seq: i64,
    at: i64,
    epoch: i64,
    version: i64,
    body: &'a str,
}

impl Link<'_> {
    /// Returns SHA-256 over the previous hash and all fields. All fields but the body have a fixed
    /// length, so no two entries give the same bytes.
    fn hash(&self, previous: &Hash) -> Hash {
        let mut hasher = Sha256::new();
        hasher.update(previous);
        hasher.update(self.run.as_bytes());
        for number in [self.seq, self.at, self.epoch, self.version] {
            hasher.update(number.to_be_bytes());
        }
        hasher.update(self.body.as_bytes());
        hasher.finalize().into()
    }

    fn parse(&self, run: RunId) -> Done<JournalEntry> {
        if self.version > JOURNAL_VERSION {
            return Err(damaged(run, self.seq, "a newer program wrote it"));
        }
        let event = serde_json::from_str(self.body)
            .map_err(|error| damaged(run, self.seq, &format!("it is not an event: {error}")))?;
        Ok(JournalEntry {
            run,
            seq: Seq(self.seq),
            at: Timestamp(self.at),
            epoch: Epoch(self.epoch),
            event,
        })
    }
}

fn damaged(run: RunId, seq: i64, what: &str) -> Fault {
    Fault::Refused(StoreError::Damaged {
        run,
        seq: Seq(seq),
        what: what.to_owned(),
    })
}
