//! Limits failed authentication. Each address and claimed id has a bucket of attempts; while it is
//! empty, failed attempts get no other answer than to wait. Valid credentials are never refused here.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

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
pub(crate) enum Claimed {
    /// A key.
    Key(String),
    /// A browser session.
    Browser(String),
    /// A login code.
    Code,
    /// Credentials that cannot be ours.
    Malformed,
}

impl Claimed {
    pub(crate) fn key(id: &str) -> Self {
        Self::Key(id.to_owned())
    }

    pub(crate) fn browser(id: &str) -> Self {
        Self::Browser(id.to_owned())
    }
}

impl fmt::Display for Claimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(id) => write!(f, "key {id}"),
            Self::Browser(id) => write!(f, "browser {id}"),
            Self::Code => f.write_str("login code"),
            Self::Malformed => f.write_str("malformed"),
        }
    }
}

/// The buckets.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    buckets: Mutex<HashMap<(IpAddr, Claimed), Bucket>>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    /// Returns the attempts that are left.
    fn left(self, now: Instant) -> f64 {
        let back = now.saturating_duration_since(self.at).as_secs_f64() / REFILL.as_secs_f64();
        (self.left + back).min(FULL)
    }
}

impl Failures {
    /// Records a failed attempt. Returns an error if there were too many before.
    pub(crate) fn note(&self, address: IpAddr, claimed: Claimed) -> Result<(), Problem> {
        self.note_at(address, claimed, Instant::now())
    }

    fn note_at(&self, address: IpAddr, claimed: Claimed, now: Instant) -> Result<(), Problem> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_BUCKETS {
            evict(&mut buckets, now);
        }
        let bucket = buckets.entry((address, claimed)).or_insert(Bucket {
            left: FULL,
            at: now,
        });
        let left = bucket.left(now);
        if left < 1.0 {
            let wait = REFILL.mul_f64(1.0 - left);
            return Err(Problem::new(
                Kind::TooManyRequests,
                "too many invalid tokens from this address; wait, and check the token",
            )
            .retry_after(wait.as_secs() + 1));
        }
        bucket.left = left - 1.0;
        bucket.at = now;
        Ok(())
    }
}

/// Drops full buckets, and then the fuller half.
fn evict(buckets: &mut HashMap<(IpAddr, Claimed), Bucket>, now: Instant) {
    buckets.retain(|_, bucket| bucket.left(now) < FULL);
    if buckets.len() < MAX_BUCKETS {
        return;
    }
    let mut levels: Vec<f64> = buckets.values().map(|bucket| bucket.left(now)).collect();
    levels.sort_by(f64::total_cmp);
    let middle = levels[levels.len() / 2];
    let mut quota = MAX_BUCKETS / 2;
    buckets.retain(|_, bucket| {
        let evicted = quota > 0 && bucket.left(now) >= middle;
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
        let start = Instant::now();
        let claimed = Claimed::key("abcdefgh");
        let guess = |claimed: &Claimed, at| failures.note_at(HERE, claimed.clone(), at).is_ok();
        for _ in 0..10 {
            assert!(guess(&claimed, start));
        }
        assert!(!guess(&claimed, start));
        assert!(guess(&Claimed::key("other"), start));
        assert!(!guess(&claimed, start + REFILL / 2));
        let later = start + REFILL;
        assert!(guess(&claimed, later));
        assert!(!guess(&claimed, later));
    }

    #[test]
    fn many_claims_are_bounded_and_do_not_reset_an_empty_bucket() {
        let failures = Failures::default();
        let now = Instant::now();
        let guesser = Claimed::key("guesser1");
        for _ in 0..10 {
            assert!(failures.note_at(HERE, guesser.clone(), now).is_ok());
        }
        for number in 0..3 * MAX_BUCKETS {
            let other = Claimed::key(&number.to_string());
            assert!(failures.note_at(HERE, other, now).is_ok());
        }
        let kept = failures.buckets.lock().unwrap().len();
        assert!(kept <= MAX_BUCKETS, "{kept}");
        assert!(failures.note_at(HERE, guesser, now).is_err());
    }
}
