//! Compressed journals and outputs of archived runs.
//!
//! A packed journal is a deflate stream. Each entry is a line with its time, epoch, version and the
//! length of its body, then the body and a line feed. Positions are counted from 1. Hashes are left
//! out: the chain computes them again and compares the last one with the record.

use std::io::{self, BufRead, BufReader, Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use crate::fault::{Done, Fault};
use crate::sql::Row;

/// Compressed bytes, and their length before.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) unpacked: u64,
}

/// The fields of an entry without its position and hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PackedEntry {
    pub(crate) at: i64,
    pub(crate) epoch: i64,
    pub(crate) version: i64,
    pub(crate) body: String,
}

/// Compresses a journal entry by entry.
pub(crate) struct JournalPacker {
    encoder: DeflateEncoder<Vec<u8>>,
}

impl JournalPacker {
    pub(crate) fn new() -> Self {
        Self {
            encoder: DeflateEncoder::new(Vec::new(), Compression::default()),
        }
    }

    pub(crate) fn push(&mut self, entry: &PackedEntry) -> Done<()> {
        let PackedEntry {
            at,
            epoch,
            version,
            body,
        } = entry;
        let length = body.len();
        writeln!(self.encoder, "{at} {epoch} {version} {length}\n{body}").map_err(broken)
    }

    pub(crate) fn finish(self) -> Done<Packed> {
        let unpacked = self.encoder.total_in();
        let bytes = self.encoder.finish().map_err(broken)?;
        Ok(Packed { bytes, unpacked })
    }
}

/// Reads the entries of a packed journal in order.
pub(crate) struct JournalUnpacker<'a> {
    reader: BufReader<io::Take<DeflateDecoder<&'a [u8]>>>,
}

impl<'a> JournalUnpacker<'a> {
    /// Reads at most `unpacked` bytes, however much the stream would expand to.
    pub(crate) fn new(bytes: &'a [u8], unpacked: u64) -> Self {
        Self {
            reader: BufReader::new(DeflateDecoder::new(bytes).take(unpacked)),
        }
    }

    /// Returns the next entry; `None` after the last one. The error says what is damaged.
    pub(crate) fn next(&mut self) -> Result<Option<PackedEntry>, String> {
        let unreadable = |error: io::Error| format!("the archive cannot be decompressed: {error}");
        let mut head = String::new();
        if self.reader.read_line(&mut head).map_err(unreadable)? == 0 {
            return Ok(None);
        }
        let mut numbers = head.split_ascii_whitespace().map(str::parse::<i64>);
        let (Some(Ok(at)), Some(Ok(epoch)), Some(Ok(version)), Some(Ok(length)), None) = (
            numbers.next(),
            numbers.next(),
            numbers.next(),
            numbers.next(),
            numbers.next(),
        ) else {
            return Err("an entry of the archive has no beginning".to_owned());
        };
        let length = length.unsigned_abs();
        let mut body = String::new();
        let read = (&mut self.reader).take(length).read_to_string(&mut body);
        read.map_err(unreadable)?;
        let mut end = [0];
        let ends = self.reader.read_exact(&mut end).is_ok() && end == *b"\n";
        if body.len() as u64 != length || !ends {
            return Err("the archive was cut off".to_owned());
        }
        Ok(Some(PackedEntry {
            at,
            epoch,
            version,
            body,
        }))
    }
}

/// Compresses an output; `None` if that does not make it shorter.
pub(crate) fn pack(content: &[u8]) -> Done<Option<Packed>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).map_err(broken)?;
    let bytes = encoder.finish().map_err(broken)?;
    Ok((bytes.len() < content.len()).then_some(Packed {
        bytes,
        unpacked: content.len() as u64,
    }))
}

/// Reads an output from the columns `bytes` and `unpacked`. What cannot be decompressed is returned as
/// it is: it does not fit its name, and the caller reports that.
pub(crate) fn content(row: &Row<'_>, first: usize) -> Done<Vec<u8>> {
    let bytes: Vec<u8> = row.get(first)?;
    let unpacked: Option<i64> = row.get(first + 1)?;
    let Some(unpacked) = unpacked else {
        return Ok(bytes);
    };
    let mut content = Vec::new();
    let read = DeflateDecoder::new(bytes.as_slice())
        .take(unpacked.unsigned_abs())
        .read_to_end(&mut content);
    Ok(match read {
        Ok(_) => content,
        Err(_) => bytes,
    })
}

fn broken(error: io::Error) -> Fault {
    Fault::Broken(Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(body: &str) -> PackedEntry {
        PackedEntry {
            at: -1,
            epoch: 2,
            version: 3,
            body: body.to_owned(),
        }
    }

    fn unpack(bytes: &[u8], unpacked: u64) -> Result<Vec<PackedEntry>, String> {
        let mut unpacker = JournalUnpacker::new(bytes, unpacked);
        let mut entries = Vec::new();
        while let Some(entry) = unpacker.next()? {
            entries.push(entry);
        }
        Ok(entries)
    }

    #[test]
    fn a_packed_journal_has_the_same_entries() {
        let entries = [entry("{}"), entry(""), entry("{\"text\":\"两行\n\"}\n")];
        let mut packer = JournalPacker::new();
        for entry in &entries {
            packer.push(entry).unwrap();
        }
        let packed = packer.finish().unwrap();
        assert_eq!(unpack(&packed.bytes, packed.unpacked).unwrap(), entries);
    }

    #[test]
    fn a_damaged_archive_is_an_error_and_never_a_shorter_journal() {
        let mut packer = JournalPacker::new();
        for number in 0..100 {
            packer
                .push(&entry(&format!("{{\"number\":{number}}}")))
                .unwrap();
        }
        let packed = packer.finish().unwrap();
        let half = &packed.bytes[..packed.bytes.len() / 2];
        unpack(half, packed.unpacked).unwrap_err();
        assert_eq!(
            unpack(&packed.bytes, packed.unpacked - 3).unwrap_err(),
            "the archive was cut off"
        );
    }

    #[test]
    fn short_outputs_stay_as_they_are() {
        assert!(pack(b"short").unwrap().is_none());
        assert!(pack(&[b'a'; 500]).unwrap().is_some());
    }
}
