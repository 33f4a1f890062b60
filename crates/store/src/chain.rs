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
use crate::packed::{JournalPacker, JournalUnpacker, Packed, PackedEntry};
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
    let Some(End { tail, is_archived }) = end else {
        return Ok(Vec::new());
    };
    if after.0 >= tail.seq {
        return Ok(Vec::new());
    }
    let mut part = Part {
        after,
        max_bytes,
        bytes: 0,
        is_cut: false,
        entries: Vec::new(),
    };
    let mut walk = if is_archived {
        Walk::begin(run, &tail)
    } else {
        Walk {
            seq: after.0.max(0),
            hash: hash_at(connection, run, &tail.run, after)?,
            ..Walk::begin(run, &tail)
        }
    };
    if is_archived {
        walk_archive(connection, &mut walk, |link| part.take(run, link))?;
    }
    let from = walk.seq;
    sql::each(
        connection,
        "SELECT seq, at, epoch, version, body, hash FROM journal
         WHERE run_id = ?1 AND seq > ?2 ORDER BY seq",
        params![tail.run, from],
        |row| {
            walk.step(row, |link| part.take(run, link))?;
            // An archive has no hashes of its own: only the head proves its entries.
            Ok(is_archived || !part.is_cut)
        },
    )?;
    if is_archived || !part.is_cut {
        walk.arrive(&tail)?;
    }
    Ok(part.entries)
}

/// The entries to return.
struct Part {
    after: Seq,
    max_bytes: usize,
    bytes: usize,
    is_cut: bool,
    entries: Vec<JournalEntry>,
}

impl Part {
    fn take(&mut self, run: RunId, link: &Link<'_>) -> Done<()> {
        if link.seq <= self.after.0 || self.is_cut {
            return Ok(());
        }
        self.bytes = self.bytes.saturating_add(link.body.len());
        self.is_cut = self.bytes > self.max_bytes && !self.entries.is_empty();
        if !self.is_cut {
            self.entries.push(link.parse(run)?);
        }
        Ok(())
    }
}

/// Reads the first entry; `None` if the journal was deleted. The check covers what one entry
/// allows: its hash follows the genesis hash, and equals the record's if it is also the last.
pub(crate) fn first(connection: &Connection, run: RunId) -> Done<Option<JournalEntry>> {
    let end = end_of(connection, run)?.ok_or_else(|| Fault::not_found(run))?;
    let Some(End { tail, is_archived }) = end else {
        return Ok(None);
    };
    if is_archived {
        return Ok(read_part(connection, run, Seq::default(), 1)?
            .into_iter()
            .next());
    }
    let mut walk = Walk::begin(run, &tail);
    let mut entry = None;
    sql::first(
        connection,
        "SELECT seq, at, epoch, version, body, hash FROM journal WHERE run_id = ?1 AND seq = 1",
        [&tail.run],
        |row| {
            walk.step(row, |link| {
                entry = Some(link.parse(run)?);
                Ok(())
            })
        },
    )?;
    if walk.seq >= tail.seq || entry.is_none() {
        walk.arrive(&tail)?;
    }
    Ok(entry)
}

/// Compresses a whole journal; `None` if it is damaged or empty.
pub(crate) fn pack(connection: &Connection, run: RunId) -> Done<Option<(Tail, Packed)>> {
    let end = end_of(connection, run)?.flatten();
    let Some(End {
        tail,
        is_archived: false,
    }) = end
    else {
        return Ok(None);
    };
    let mut walk = Walk::begin(run, &tail);
    let mut packer = JournalPacker::new();
    let walked = sql::each(
        connection,
        "SELECT seq, at, epoch, version, body, hash FROM journal WHERE run_id = ?1 ORDER BY seq",
        [&tail.run],
        |row| {
            walk.step(row, |link| {
                packer.push(&PackedEntry {
                    at: link.at,
                    epoch: link.epoch,
                    version: link.version,
                    body: link.body.to_owned(),
                })
            })?;
            Ok(true)
        },
    );
    match walked.and_then(|()| walk.arrive(&tail)) {
        Ok(()) => {}
        Err(Fault::Refused(StoreError::Damaged { .. })) => return Ok(None),
        Err(fault) => return Err(fault),
    }
    Ok(Some((tail, packer.finish()?)))
}

/// Walks over the compressed entries of an archived journal, if they were compressed.
fn walk_archive(
    connection: &Connection,
    walk: &mut Walk<'_>,
    mut visit: impl FnMut(&Link<'_>) -> Done<()>,
) -> Done<()> {
    let found = sql::first(
        connection,
        "SELECT body, unpacked FROM archives WHERE run_id = ?1",
        [walk.key],
        |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, i64>(1)?)),
    )?;
    let Some((bytes, unpacked)) = found else {
        return Ok(());
    };
    let mut unpacker = JournalUnpacker::new(&bytes, unpacked.unsigned_abs());
    loop {
        let next = unpacker.next();
        let next = next.map_err(|what| damaged(walk.run, walk.seq + 1, &what))?;
        let Some(entry) = next else { return Ok(()) };
        let link = Link {
            run: walk.key,
            seq: walk.seq + 1,
            at: entry.at,
            epoch: entry.epoch,
            version: entry.version,
            body: &entry.body,
        };
        walk.accept(&link, None)?;
        visit(&link)?;
    }
}

/// The end of a journal.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) tail: Tail,
    /// Whether its entries may be in the archive.
    is_archived: bool,
}

/// Returns the head in the record: `None` without a record, `Some(None)` if the journal was
/// deleted.
pub(crate) fn end_of(connection: &Connection, run: RunId) -> Done<Option<Option<End>>> {
    sql::first(
        connection,
        "SELECT run_id, head_seq, head_hash, cleaned_at IS NOT NULL, archived_at IS NOT NULL
         FROM runs WHERE run_id = ?1",
        [run.to_string()],
        |row| {
            let is_removed: bool = row.get(3)?;
            let tail = Tail {
                run: row.get(0)?,
                seq: row.get(1)?,
                hash: row.get(2)?,
            };
            let is_archived = row.get(4)?;
            Ok((!is_removed).then_some(End { tail, is_archived }))
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

impl<'a> Walk<'a> {
    /// Starts before the first entry.
    fn begin(run: RunId, tail: &'a Tail) -> Self {
        Self {
            run,
            key: &tail.run,
            seq: 0,
            hash: GENESIS,
        }
    }

    /// Checks the next row and passes it to `visit`.
    fn step(&mut self, row: &Row<'_>, visit: impl FnOnce(&Link<'_>) -> Done<()>) -> Done<()> {
        let seq: i64 = row.get(0)?;
        if seq != self.seq + 1 {
            return Err(damaged(self.run, self.seq + 1, "the entry is missing"));
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
        self.accept(&link, Some(&stored))?;
        visit(&link)
    }

    /// Appends an entry to the chain, and checks its hash if it has one.
    fn accept(&mut self, link: &Link<'_>, stored: Option<&Hash>) -> Done<()> {
        let hash = link.hash(&self.hash);
        if stored.is_some_and(|stored| *stored != hash) {
            return Err(damaged(self.run, link.seq, "it does not fit its hash"));
        }
        self.seq = link.seq;
        self.hash = hash;
        Ok(())
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
