//! The last events, by sequence number.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Frame;

/// The bytes of all events in the ring, because events may be long.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// The last events, and the sequence number of the last one.
#[derive(Debug)]
pub(super) struct Ring {
    seq: u64,
    capacity: usize,
    bytes: usize,
    frames: VecDeque<Arc<Frame>>,
}

impl Ring {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            seq: 0,
            capacity,
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
        while self.frames.len() > self.capacity || self.bytes > MAX_BYTES {
            let Some(oldest) = self.frames.pop_front() else {
                break;
            };
            self.bytes -= oldest.bytes.len();
        }
    }

    /// Drops all events up to a sequence number.
    pub(super) fn reset(&mut self, seq: u64) {
        self.seq = seq;
        self.bytes = 0;
        self.frames.clear();
    }

    /// Returns whether all events after a sequence number are in the ring.
    pub(super) fn can_resume_from(&self, after: u64) -> bool {
        after <= self.seq && after + 1 >= self.first()
    }

    /// Returns the event after a sequence number.
    pub(super) fn after(&self, after: u64) -> After<'_> {
        if after >= self.seq {
            return After::Nothing;
        }
        // The sequence has no gaps.
        let index = (after + 1)
            .checked_sub(self.first())
            .and_then(|index| usize::try_from(index).ok());
        match index.and_then(|index| self.frames.get(index)) {
            Some(frame) => After::Frame(frame),
            None => After::Gone,
        }
    }

    /// Returns the sequence number of the first event that is, or will be, in the ring.
    fn first(&self) -> u64 {
        self.frames.front().map_or(self.seq + 1, |frame| frame.seq)
    }
}

/// The event after a sequence number.
#[derive(Debug)]
pub(super) enum After<'a> {
    Frame(&'a Arc<Frame>),
    /// There is no event yet.
    Nothing,
    /// The event is no longer in the ring.
    Gone,
}

#[cfg(test)]
mod tests {
    use super::super::frame::Source;
    use super::*;

    fn frame(seq: u64) -> Arc<Frame> {
        let source = Source {
            session: "web:ring".parse().unwrap(),
            root: "0199c3f1-ab12-7000-8000-000000000001".parse().unwrap(),
            tenant: None,
        };
        Arc::new(Frame::records(seq, source, Vec::new()))
    }

    fn ring(frames: u64) -> Ring {
        let mut ring = Ring::new(3);
        for seq in 1..=frames {
            ring.push(frame(seq));
        }
        ring
    }

    /// `None` stands for an evicted event, 0 for no event.
    fn check(ring: &Ring, after: u64, expected: Option<u64>) {
        let found = match ring.after(after) {
            After::Frame(frame) => Some(frame.seq),
            After::Nothing => Some(0),
            After::Gone => None,
        };
        assert_eq!(found, expected, "after {after}");
        let is_there = expected.is_some() && after <= ring.seq();
        assert_eq!(ring.can_resume_from(after), is_there, "after {after}");
    }

    #[test]
    fn evicted_events_are_reported_as_a_gap() {
        let ring = ring(5);
        check(&ring, 6, Some(0));
        check(&ring, 5, Some(0));
        check(&ring, 4, Some(5));
        check(&ring, 2, Some(3));
        check(&ring, 1, None);
        check(&ring, 0, None);
    }

    #[test]
    fn reset_evicts_all_events() {
        let mut ring = ring(3);
        ring.reset(4);
        check(&ring, 3, None);
        check(&ring, 4, Some(0));
        ring.push(frame(5));
        check(&ring, 4, Some(5));
        check(&ring, 3, None);
    }
}
