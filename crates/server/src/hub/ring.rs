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

    /// Whether everything after a number is still there.
    pub(super) fn goes_on_from(&self, after: u64) -> bool {
        after <= self.seq && after + 1 >= self.first()
    }

    /// The event after a number.
    pub(super) fn after(&self, after: u64) -> After<'_> {
        if after >= self.seq {
            return After::Nothing;
        }
        // Their numbers have no gaps.
        let index = (after + 1)
            .checked_sub(self.first())
            .and_then(|index| usize::try_from(index).ok());
        match index.and_then(|index| self.frames.get(index)) {
            Some(frame) => After::Frame(frame),
            None => After::Gone,
        }
    }

    /// The number of the first that is there, or will be.
    fn first(&self) -> u64 {
        self.frames.front().map_or(self.seq + 1, |frame| frame.seq)
    }
}

/// What comes after a number.
#[derive(Debug)]
pub(super) enum After<'a> {
    /// An event.
    Frame(&'a Arc<Frame>),
    /// Nothing so far.
    Nothing,
    /// Something that is no longer there.
    Gone,
}

#[cfg(test)]
mod tests {
    use super::super::frame::Place;
    use super::*;

    fn frame(seq: u64) -> Arc<Frame> {
        let place = Place {
            session: "web:ring".parse().unwrap(),
            root: "0199c3f1-ab12-7000-8000-000000000001".parse().unwrap(),
            tenant: None,
        };
        Arc::new(Frame::records(seq, place, Vec::new()))
    }

    fn ring(frames: u64) -> Ring {
        let mut ring = Ring::new(3);
        for seq in 1..=frames {
            ring.push(frame(seq));
        }
        ring
    }

    /// `None` for what is gone, 0 for nothing.
    fn check(ring: &Ring, after: u64, expected: Option<u64>) {
        let found = match ring.after(after) {
            After::Frame(frame) => Some(frame.seq),
            After::Nothing => Some(0),
            After::Gone => None,
        };
        assert_eq!(found, expected, "after {after}");
        let is_there = expected.is_some() && after <= ring.seq();
        assert_eq!(ring.goes_on_from(after), is_there, "after {after}");
    }

    #[test]
    fn what_is_no_longer_there_is_said_to_be_gone() {
        let ring = ring(5);
        check(&ring, 6, Some(0));
        check(&ring, 5, Some(0));
        check(&ring, 4, Some(5));
        check(&ring, 2, Some(3));
        check(&ring, 1, None);
        check(&ring, 0, None);
    }

    #[test]
    fn after_a_new_start_nothing_of_the_past_is_there() {
        let mut ring = ring(3);
        ring.start_over(4);
        check(&ring, 3, None);
        check(&ring, 4, Some(0));
        ring.push(frame(5));
        check(&ring, 4, Some(5));
        check(&ring, 3, None);
    }
}
