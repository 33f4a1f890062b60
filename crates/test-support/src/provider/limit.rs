//! The provider's rate limit.

use std::time::Duration;

/// A token bucket of requests.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The sustained rate of requests.
    pub per_second: f64,
    /// The burst after a pause.
    pub burst: f64,
    /// Whether a rejection includes `Retry-After`.
    pub retry_after: bool,
}

#[derive(Debug)]
pub(super) struct Bucket {
    limit: Limit,
    left: f64,
    at: Duration,
}

impl Bucket {
    pub(super) fn new(limit: Limit) -> Self {
        Self {
            limit,
            left: limit.burst,
            at: Duration::ZERO,
        }
    }

    /// Takes one request; otherwise returns the seconds to wait, if they are reported.
    pub(super) fn take(&mut self, now: Duration) -> Result<(), Option<u64>> {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.at = now;
        self.left = (self.left + passed * self.limit.per_second).min(self.limit.burst);
        if self.left >= 1.0 {
            self.left -= 1.0;
            return Ok(());
        }
        let wait = Duration::from_secs_f64((1.0 - self.left) / self.limit.per_second);
        // The header counts whole seconds.
        Err(self.limit.retry_after.then(|| wait.as_secs() + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_takes_a_burst_and_then_its_pace() {
        let mut bucket = Bucket::new(Limit {
            per_second: 2.0,
            burst: 3.0,
            retry_after: true,
        });
        let at = Duration::from_millis;
        for (time, expected) in [
            (0, Ok(())),
            (0, Ok(())),
            (0, Ok(())),
            (0, Err(Some(1))),
            (400, Err(Some(1))),
            (500, Ok(())),
            (900, Err(Some(1))),
            (1000, Ok(())),
        ] {
            assert_eq!(bucket.take(at(time)), expected, "at {time} ms");
        }
    }
}
