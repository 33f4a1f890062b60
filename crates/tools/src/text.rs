//! Recognizes binary content, and truncates bytes at character boundaries.

/// The number of bytes that are checked to distinguish text from binary content.
const BINARY_PROBE_BYTES: usize = 8 * 1024;

/// Returns whether the bytes are binary: they have a NUL near the beginning.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    bytes[..bytes.len().min(BINARY_PROBE_BYTES)].contains(&0)
}

/// Returns the longest prefix of `bytes` that does not end inside a character.
pub(crate) fn whole_head(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(&bytes[bytes.len().saturating_sub(3)..]) {
        Ok(_) => bytes,
        Err(_) => {
            let last_start = bytes.iter().rposition(|byte| !is_continuation(*byte));
            match last_start {
                Some(start) if std::str::from_utf8(&bytes[start..]).is_err() => &bytes[..start],
                Some(_) | None => bytes,
            }
        }
    }
}

/// Returns the longest suffix of `bytes` that does not begin inside a character.
pub(crate) fn whole_tail(bytes: &[u8]) -> &[u8] {
    // A character has at most three continuation bytes.
    let skipped = bytes
        .iter()
        .take(3)
        .take_while(|byte| is_continuation(**byte))
        .count();
    &bytes[skipped..]
}

const fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_half_characters_at_a_cut() {
        let check = |bytes: &[u8], head: &[u8], tail: &[u8]| {
            assert_eq!(whole_head(bytes), head);
            assert_eq!(whole_tail(bytes), tail);
        };
        let word = "分析".as_bytes();
        check(word, word, word);
        check(&word[..5], &word[..3], &word[..5]);
        check(&word[1..], &word[1..], &word[3..]);
        check(b"ascii", b"ascii", b"ascii");
        check(b"", b"", b"");
    }
}
