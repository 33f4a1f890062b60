//! A token bucket: limits a rate and allows bursts.

use std::time::Duration;

/// Fills at a steady rate up to a capacity. The level may become negative, for callers that learn the
/// cost of a request only afterwards.
///
/// Times are durations since any fixed moment, so that tests need no clock.
#[derive(Debug)]
pub struct TokenBucket {
    per_second: f64,
    capacity: f64,
    level: f64,
    at: Duration,
}

impl TokenBucket {
    /// Creates a full bucket.
    pub fn new(per_second: f64, capacity: f64) -> Self {
        Self {
            per_second,
            capacity,
            level: capacity,
            at: Duration::ZERO,
        }
    }

    /// Takes an amount out; a negative amount is put back.
    pub fn take(&mut self, amount: f64, now: Duration) {
        self.level = (self.level(now) - amount).min(self.capacity);
        self.at = self.at.max(now);
    }

    /// Returns when the bucket will contain the amount, or `None` if it does now. An amount above the
    /// capacity is available when the bucket is full.
    pub fn until(&self, amount: f64, now: Duration) -> Option<Duration> {
        let missing = amount.min(self.capacity) - self.level(now);
        // A rounding error is no reason to wait.
        (missing > 1e-6).then(|| now + Duration::from_secs_f64(missing / self.per_second))
    }

    /// Returns the level; negative if more was taken than the bucket contained.
    pub fn level(&self, now: Duration) -> f64 {
        let gained = now.saturating_sub(self.at).as_secs_f64() * self.per_second;
        (self.level + gained).min(self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_bucket_allows_a_burst_and_then_its_rate() {
        let mut bucket = TokenBucket::new(2.0, 3.0);
        for _ in 0..3 {
            assert_eq!(bucket.until(1.0, at(0)), None);
            bucket.take(1.0, at(0));
        }
        assert_eq!(bucket.until(1.0, at(0)), Some(at(500)));
        assert_eq!(bucket.until(1.0, at(500)), None);
        assert_eq!(bucket.until(9.0, at(0)), Some(at(1_500)));
        bucket.take(2.0, at(500));
        assert_eq!(bucket.until(1.0, at(500)), Some(at(1_500)));
        bucket.take(-9.0, at(500));
        assert_eq!(bucket.until(3.0, at(500)), None);
    }
}
