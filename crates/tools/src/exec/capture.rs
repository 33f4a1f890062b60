//! Captures the output of a program within a limit while it streams: the beginning and the end are
//! kept.

use std::collections::VecDeque;

use crate::text::{whole_head, whole_tail};

/// The most bytes of the beginning that are kept.
pub(crate) const HEAD_BYTES: usize = 128 * 1024;
/// The most bytes of the end that are kept: errors are usually there.
pub(crate) const TAIL_BYTES: usize = 384 * 1024;

/// The output captured so far.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: u64,
}

impl Capture {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let room = HEAD_BYTES - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        let skipped = rest.len().saturating_sub(TAIL_BYTES);
        self.tail.extend(&rest[skipped..]);
        let over = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..over);
        self.dropped += (skipped + over) as u64;
    }

    /// Returns the output as text, with a note where the middle was dropped.
    pub(crate) fn into_text(mut self) -> String {
        let tail = self.tail.make_contiguous();
        if self.dropped == 0 {
            self.head.extend_from_slice(tail);
            return String::from_utf8_lossy(&self.head).into_owned();
        }
        let (head, tail) = (whole_head(&self.head), whole_tail(tail));
        format!(
            "{}\n[{} bytes left out]\n{}",
            String::from_utf8_lossy(head),
            self.dropped,
            String::from_utf8_lossy(tail)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(text: &str, chunk: usize) -> String {
        let mut capture = Capture::default();
        for bytes in text.as_bytes().chunks(chunk) {
            capture.push(bytes);
        }
        capture.into_text()
    }

    #[test]
    fn keeps_what_fits() {
        let whole = "分".repeat((HEAD_BYTES + TAIL_BYTES) / 3);
        for chunk in [1, 7, 4096, usize::MAX] {
            assert_eq!(capture("", chunk), "");
            assert_eq!(capture("分析", chunk), "分析");
            assert_eq!(capture(&whole, chunk), whole);
        }
    }

    #[test]
    fn drops_the_middle_between_characters() {
        let long = format!("<{}>", "分".repeat(1_000_000));
        for chunk in [7, 4096, usize::MAX] {
            let text = capture(&long, chunk);
            let dropped = long.len() - HEAD_BYTES - TAIL_BYTES;
            assert!(text.starts_with("<分"));
            assert!(text.ends_with("分>"));
            assert!(text.contains(&format!("\n[{dropped} bytes left out]\n")));
            assert!(!text.contains('\u{fffd}'), "no half characters");
            assert!(text.len() <= HEAD_BYTES + TAIL_BYTES + 64);
        }
    }
}
