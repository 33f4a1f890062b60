//! Request rate limit of each API key.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sortie_base::token_bucket::TokenBucket;

use crate::config::Rate;
use crate::problem::{Kind, Problem};

/// From this number of keys on, keys whose bucket is full again are dropped.
const MANY_KEYS: usize = 1_024;

/// The token buckets of all keys.
#[derive(Debug)]
pub(crate) struct Rates {
    rate: Rate,
    start: Instant,
    buckets: Mutex<HashMap<String, TokenBucket>>,
}

impl Rates {
    pub(crate) fn new(rate: Rate) -> Self {
        Self {
            rate,
            start: Instant::now(),
            buckets: Mutex::default(),
        }
    }

    /// Charges one request to a key, or refuses it with the time to wait.
    pub(crate) fn take(&self, key: &str) -> Result<(), Problem> {
        self.take_at(key, self.start.elapsed()).map_err(|wait| {
            Problem::new(
                Kind::TooManyRequests,
                "this API key sends too many requests; retry later, or raise `rate` under [server]",
            )
            .retry_after(wait.as_secs() + 1)
        })
    }

    fn take_at(&self, key: &str, now: Duration) -> Result<(), Duration> {
        let burst = f64::from(self.rate.burst.get());
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() > MANY_KEYS {
            buckets.retain(|_, bucket| bucket.until(burst, now).is_some());
        }
        let full = || TokenBucket::new(f64::from(self.rate.per_second.get()), burst);
        let bucket = buckets.entry(key.to_owned()).or_insert_with(full);
        if let Some(until) = bucket.until(1.0, now) {
            return Err(until.saturating_sub(now));
        }
        bucket.take(1.0, now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    #[test]
    fn each_key_has_its_own_burst_and_rate() {
        let number = |number| NonZeroU32::new(number).unwrap();
        let rates = Rates::new(Rate {
            per_second: number(2),
            burst: number(3),
        });
        let now = Duration::from_secs(1);
        for _ in 0..3 {
            assert_eq!(rates.take_at("a", now), Ok(()));
        }
        assert_eq!(rates.take_at("a", now), Err(Duration::from_millis(500)));
        assert_eq!(rates.take_at("b", now), Ok(()));
        let later = now + Duration::from_millis(500);
        assert_eq!(rates.take_at("a", later), Ok(()));
        rates.take_at("a", later).unwrap_err();
    }

    #[test]
    fn keys_that_may_send_a_full_burst_are_dropped() {
        let number = |number| NonZeroU32::new(number).unwrap();
        let rates = Rates::new(Rate {
            per_second: number(1),
            burst: number(1),
        });
        for index in 0..=MANY_KEYS {
            rates.take_at(&index.to_string(), Duration::ZERO).unwrap();
        }
        rates.take_at("late", Duration::from_secs(9)).unwrap();
        assert_eq!(rates.buckets.lock().unwrap().len(), 1);
    }
}
