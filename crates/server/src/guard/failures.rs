//! Limits failed authentication. Each address and claimed id has a bucket of attempts; while it is
//! empty, failed attempts get no other answer than to wait. Valid credentials are never refused here.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sortie_base::token_bucket::TokenBucket;

use crate::problem::{Kind, Problem};

/// The attempts of a full bucket.
const FULL: f64 = 10.0;
/// How long it takes to regain one attempt.
const REFILL: Duration = Duration::from_secs(6);
/// The number of buckets. Beyond this the fullest are dropped, because they are the last to refuse an
/// attempt.
const MAX_BUCKETS: usize = 4_096;

/// The identity that a request claims.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClaimedIdentity {
    Key(String),
    Browser(String),
    Code,
    /// Credentials that cannot be ours.
    Malformed,
}

impl ClaimedIdentity {
    pub(crate) fn key(id: &str) -> Self {
        Self::Key(id.to_owned())
    }

    pub(crate) fn browser(id: &str) -> Self {
        Self::Browser(id.to_owned())
    }
}

impl fmt::Display for ClaimedIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(id) => write!(f, "key {id}"),
            Self::Browser(id) => write!(f, "browser {id}"),
            Self::Code => f.write_str("login code"),
            Self::Malformed => f.write_str("malformed"),
        }
    }
}

/// Token buckets for failed authentications.
#[derive(Debug)]
pub(crate) struct Failures {
    start: Instant,
    buckets: Mutex<Buckets>,
}

type Buckets = HashMap<(IpAddr, ClaimedIdentity), TokenBucket>;

impl Default for Failures {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            buckets: Mutex::default(),
        }
    }
}

impl Failures {
    /// Records a failed attempt. Returns an error if there were too many before.
    pub(crate) fn note(&self, address: IpAddr, claimed: ClaimedIdentity) -> Result<(), Problem> {
        self.note_at(address, claimed, self.start.elapsed())
    }

    fn note_at(
        &self,
        address: IpAddr,
        claimed: ClaimedIdentity,
        now: Duration,
    ) -> Result<(), Problem> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_BUCKETS {
            evict(&mut buckets, now);
        }
        let full = || TokenBucket::new(1.0 / REFILL.as_secs_f64(), FULL);
        let bucket = buckets.entry((address, claimed)).or_insert_with(full);
        if let Some(until) = bucket.until(1.0, now) {
            let wait = until.saturating_sub(now);
            return Err(Problem::new(
                Kind::TooManyRequests,
                "too many invalid tokens from this address; wait, and check the token",
            )
            .retry_after(wait.as_secs() + 1));
        }
        bucket.take(1.0, now);
        Ok(())
    }
}

/// Drops full buckets, and then the fuller half.
fn evict(buckets: &mut Buckets, now: Duration) {
    buckets.retain(|_, bucket| bucket.level(now) < FULL);
    if buckets.len() < MAX_BUCKETS {
        return;
    }
    let mut levels: Vec<f64> = buckets.values().map(|bucket| bucket.level(now)).collect();
    levels.sort_by(f64::total_cmp);
    let middle = levels[levels.len() / 2];
    let mut quota = MAX_BUCKETS / 2;
    buckets.retain(|_, bucket| {
        let evicted = quota > 0 && bucket.level(now) >= middle;
        quota -= usize::from(evicted);
        !evicted
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn ten_attempts_and_then_one_every_six_seconds() {
        let failures = Failures::default();
        let start = Duration::ZERO;
        let claimed = ClaimedIdentity::key("abcdefgh");
        let guess =
            |claimed: &ClaimedIdentity, at| failures.note_at(HERE, claimed.clone(), at).is_ok();
        for _ in 0..10 {
            assert!(guess(&claimed, start));
        }
        assert!(!guess(&claimed, start));
        assert!(guess(&ClaimedIdentity::key("other"), start));
        assert!(!guess(&claimed, start + REFILL / 2));
        let later = start + REFILL;
        assert!(guess(&claimed, later));
        assert!(!guess(&claimed, later));
    }

    #[test]
    fn many_claims_are_bounded_and_do_not_reset_an_empty_bucket() {
        let failures = Failures::default();
        let now = Duration::ZERO;
        let guesser = ClaimedIdentity::key("guesser1");
        for _ in 0..10 {
            assert!(failures.note_at(HERE, guesser.clone(), now).is_ok());
        }
        for number in 0..3 * MAX_BUCKETS {
            let other = ClaimedIdentity::key(&number.to_string());
            assert!(failures.note_at(HERE, other, now).is_ok());
        }
        let kept = failures.buckets.lock().unwrap().len();
        assert!(kept <= MAX_BUCKETS, "{kept}");
        assert!(failures.note_at(HERE, guesser, now).is_err());
    }
}
