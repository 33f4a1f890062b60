//! The last events, by number.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Frame;

/// What is kept is bounded in bytes too: there may be long events.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// The last events, and the number of the last one.
#[derive(Debug)]
pub(super) struct Ring {
    seq: u64,
    room: usize,
    bytes: usize,
    frames: VecDeque<Arc<Frame>>,
}

impl Ring {
    pub(super) fn new(room: usize) -> Self {
        Self {
            seq: 0,
            room,
            bytes: 0,
            frames: VecDeque::new(),
        }
    }

    pub(super) const fn seq(&self) -> u64 {
        self.seq
    }

    pub(super) fn push(&mut self, frame: Arc<Frame>) {
        self.seq = frame.seq;
        self.bytes += frame.bytes.len();
        self.frames.push_back(frame);
        while self.frames.len() > self.room || self.bytes > MAX_BYTES {
            let Some(oldest) = self.frames.pop_front() else {
                break;
            };
            self.bytes -= oldest.bytes.len();
        }
    }

    /// Forgets everything up to a number.
    pub(super) fn start_over(&mut self, seq: u64) {
        self.seq = seq;
        self.bytes = 0;
        self.frames.clear();
    }

    /// The events after `after` up to `until`; `None` if they are no longer all there.
    pub(super) fn between(&self, after: u64, until: u64) -> Option<Vec<Arc<Frame>>> {
        if after >= until {
            return Some(Vec::new());
        }
        let first = self.frames.front().map_or(self.seq + 1, |frame| frame.seq);
        if after + 1 < first {
            return None;
        }
        Some(
            self.frames
                .iter()
                .filter(|frame| after < frame.seq && frame.seq <= until)
                .cloned()
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(frames: u64) -> Ring {
        let mut ring = Ring::new(3);
        for seq in 1..=frames {
            ring.push(Arc::new(Frame::gap(seq)));
        }
        ring
    }

    fn check(ring: &Ring, after: u64, until: u64, expected: Option<&[u64]>) {
        let found = ring.between(after, until);
        let found: Option<Vec<u64>> =
            found.map(|frames| frames.iter().map(|frame| frame.seq).collect());
        assert_eq!(found.as_deref(), expected, "{after}..{until}");
    }

    #[test]
    fn what_is_no_longer_all_there_is_not_given_out_in_part() {
        let ring = ring(5);
        check(&ring, 5, 5, Some(&[]));
        check(&ring, 3, 5, Some(&[4, 5]));
        check(&ring, 2, 4, Some(&[3, 4]));
        check(&ring, 1, 5, None);
        check(&ring, 0, 5, None);
    }

    #[test]
    fn after_a_new_start_nothing_of_the_past_is_there() {
        let mut ring = ring(3);
        ring.start_over(4);
        check(&ring, 3, 4, None);
        check(&ring, 4, 4, Some(&[]));
        ring.push(Arc::new(Frame::gap(5)));
        check(&ring, 4, 5, Some(&[5]));
        check(&ring, 3, 5, None);
    }
}
