//! The provider's rate limit.

use std::time::Duration;

use sortie_base::token_bucket::TokenBucket;

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
pub(super) struct Limiter {
    bucket: TokenBucket,
    retry_after: bool,
}

impl Limiter {
    pub(super) fn new(limit: Limit) -> Self {
        Self {
            bucket: TokenBucket::new(limit.per_second, limit.burst),
            retry_after: limit.retry_after,
        }
    }

    /// Takes one request; otherwise returns the seconds to wait, if they are reported.
    pub(super) fn take(&mut self, now: Duration) -> Result<(), Option<u64>> {
        if let Some(until) = self.bucket.until(1.0, now) {
            let wait = until.saturating_sub(now);
            // The header counts whole seconds.
            return Err(self.retry_after.then(|| wait.as_secs() + 1));
        }
        self.bucket.take(1.0, now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_takes_a_burst_and_then_its_pace() {
        let mut limiter = Limiter::new(Limit {
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
            assert_eq!(limiter.take(at(time)), expected, "at {time} ms");
        }
    }
}
