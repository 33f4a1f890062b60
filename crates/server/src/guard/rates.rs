//! The rate limit of each key.

use std::fmt;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::config::Rate;
use crate::problem::{Kind, Problem};

/// Beyond this many keys, idle ones are dropped.
const MANY_KEYS: usize = 1_024;

/// The rate limits of all keys.
pub(crate) struct Rates {
    limiter: DefaultKeyedRateLimiter<String>,
    clock: DefaultClock,
}

impl fmt::Debug for Rates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rates")
            .field("keys", &self.limiter.len())
            .finish_non_exhaustive()
    }
}

impl Rates {
    pub(crate) fn new(rate: Rate) -> Self {
        let quota = Quota::per_second(rate.per_second).allow_burst(rate.burst);
        Self {
            limiter: RateLimiter::keyed(quota),
            clock: DefaultClock::default(),
        }
    }

    /// Counts one request of a key.
    pub(crate) fn take(&self, key: &str) -> Result<(), Problem> {
        if self.limiter.len() > MANY_KEYS {
            self.limiter.retain_recent();
        }
        self.limiter
            .check_key(&key.to_owned())
            .map_err(|not_until| {
                let wait = not_until.wait_time_from(self.clock.now());
                Problem::new(
                    Kind::TooManyRequests,
                    "this key sends too many requests; wait, or raise [server] rate",
                )
                .retry_after(wait.as_secs() + 1)
            })
    }
}
