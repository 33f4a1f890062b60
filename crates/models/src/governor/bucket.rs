//! A bucket that fills at a steady rate.

use super::Moment;
use std::time::Duration;

/// Holds what may be spent; may go into debt, because what a question costs is known afterwards.
#[derive(Debug)]
pub(super) struct Bucket {
    per_second: f64,
    capacity: f64,
    level: f64,
    at: Moment,
}

impl Bucket {
    /// A full bucket.
    pub(super) fn new(per_second: f64, capacity: f64) -> Self {
        Self {
            per_second,
            capacity,
            level: capacity,
            at: Moment::ZERO,
        }
    }

    /// Takes an amount out, or puts it back if it is negative.
    pub(super) fn take(&mut self, amount: f64, now: Moment) {
        self.level = (self.level_at(now) - amount).min(self.capacity);
        self.at = self.at.max(now);
    }

    /// When so much is in it, if not now. More than it can hold is given when it is full.
    pub(super) fn until(&self, amount: f64, now: Moment) -> Option<Moment> {
        let missing = amount.min(self.capacity) - self.level_at(now);
        // A rounding error is no reason to wait.
        (missing > 1e-6).then(|| now + Duration::from_secs_f64(missing / self.per_second))
    }

    fn level_at(&self, now: Moment) -> f64 {
        let gained = now.saturating_sub(self.at).as_secs_f64() * self.per_second;
        (self.level + gained).min(self.capacity)
    }
}
