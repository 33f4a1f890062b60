//! The part of the Protocol Buffers encoding that OTLP needs.

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

/// Writes fields in the order of the calls. Empty texts and bytes are written too, so that a value
/// that is empty differs from one that is missing.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn varint(&mut self, field: u32, value: u64) {
        self.tag(field, VARINT);
        self.raw_varint(value);
    }

    pub(crate) fn fixed64(&mut self, field: u32, value: u64) {
        self.tag(field, FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, field: u32, value: &[u8]) {
        self.tag(field, BYTES);
        self.raw_varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    pub(crate) fn text(&mut self, field: u32, value: &str) {
        self.bytes(field, value.as_bytes());
    }

    /// Writes a message inside this one.
    pub(crate) fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn tag(&mut self, field: u32, wire_type: u64) {
        self.raw_varint(u64::from(field) << 3 | wire_type);
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// A field of a message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// A number of fixed length, which no message that we read has.
    Fixed,
}

/// Returns the fields of a message with their numbers; ends at the first that is malformed.
pub(crate) fn fields(mut rest: &[u8]) -> impl Iterator<Item = (u64, Field<'_>)> {
    std::iter::from_fn(move || {
        let tag = read_varint(&mut rest)?;
        let field = match tag & 7 {
            VARINT => Field::Varint(read_varint(&mut rest)?),
            BYTES => {
                let length = usize::try_from(read_varint(&mut rest)?).ok()?;
                Field::Bytes(rest.split_off(..length)?)
            }
            FIXED64 => {
                rest.split_off(..8)?;
                Field::Fixed
            }
            FIXED32 => {
                rest.split_off(..4)?;
                Field::Fixed
            }
            _ => return None,
        };
        Some((tag >> 3, field))
    })
}

fn read_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *rest.split_off_first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use prost::encoding::{decode_varint, encode_varint};

    use super::*;

    #[test]
    fn varints_agree_with_prost() {
        for value in [0, 1, 127, 128, 300, 1 << 32, u64::MAX - 1, u64::MAX] {
            let mut ours = Writer::default();
            ours.raw_varint(value);
            let mut theirs = Vec::new();
            encode_varint(value, &mut theirs);
            assert_eq!(ours.0, theirs, "{value}");
            assert_eq!(decode_varint(&mut ours.0.as_slice()), Ok(value));
            assert_eq!(read_varint(&mut theirs.as_slice()), Some(value));
        }
    }

    #[test]
    fn malformed_messages_end_early() {
        let mut writer = Writer::default();
        writer.varint(1, 7);
        writer.fixed64(2, 9);
        writer.text(3, "abc");
        let whole = writer.into_bytes();
        let expected = [
            (1, Field::Varint(7)),
            (2, Field::Fixed),
            (3, Field::Bytes(b"abc")),
        ];
        assert!(fields(&whole).eq(expected));
        for end in 0..whole.len() {
            let read: Vec<_> = fields(&whole[..end]).collect();
            assert!(read.len() < 3 && expected.starts_with(&read), "{end}");
        }
        assert_eq!(fields(&[0xff; 20]).count(), 0);
    }
}
