//! The pace at which a provider was observed to accept requests.
//!
//! Before the first refusal there is none. A refusal shows how many requests the provider accepted
//! in the window it counts in; from then on requests are sent evenly, a little slower than that.
//! The pace grows again: quickly while the estimate is poor, slowly once it is good. For a while it
//! stays just below the last refused pace, because every refusal costs a pause.

use std::time::Duration;

use super::Moment;

/// The fraction of an accepted burst that is sent evenly: the estimate may be a little high.
const OF_A_BURST: f64 = 0.9;
/// The fraction of an accepted even pace that is used.
const OF_A_PACE: f64 = 0.95;
/// How close the pace may come to a refused pace without new evidence.
const BELOW_REFUSED: f64 = 0.97;
/// How long the pace stays below a refused one.
const KEPT_AWAY: Duration = Duration::from_secs(30);
/// The factor for a pace that was doubled once too often: the refused pace is half of it, because
/// it was doubled once more since.
const OF_A_DOUBLED: f64 = 0.3;
/// The factor for a pace that was refused soon after a pause: it is far too fast.
const OF_A_FAILED: f64 = 0.75;
/// The number of requests after which a pace is known not to be far too fast.
const A_FEW: usize = 6;
/// The time without a refusal after which the pace is discarded.
const FORGOTTEN: Duration = Duration::from_secs(300);
/// The pace grows only if requests waited for it within this time.
const RECENTLY: Duration = Duration::from_secs(2);
/// The maximum delay of one departure that the next one may make up for.
const SLACK: Duration = Duration::from_millis(50);
/// The slowest pace, per second: one request per minute still yields information.
const SLOWEST: f64 = 1.0 / 60.0;
/// The pace, per second, above which no limit applies.
const FASTEST: f64 = 2_000.0;
/// The number of accepted requests that make a good estimate.
const ENOUGH: usize = 2;
/// How long an even pace must have been kept to be evidence of the provider's limit.
const LONG_ENOUGH: Duration = Duration::from_secs(2);
/// The longest window whose estimate is good although its end was not observed.
const SHORT_WINDOW: Duration = Duration::from_millis(1500);

#[derive(Debug, Default)]
pub(super) struct Pace {
    known: Option<Known>,
    /// The earliest moment of the next departure.
    next: Moment,
}

#[derive(Debug)]
struct Known {
    per_second: f64,
    growth: Growth,
    refused_at: Moment,
    /// The even pace that was refused.
    refused: Option<f64>,
    grown_at: Moment,
    waited_at: Option<Moment>,
}

/// The requests that a provider accepted before it refused one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accepted {
    /// The number accepted in the window in which the provider counts.
    pub in_window: usize,
    /// The length of that window.
    pub window: Duration,
    /// The `retry-after` of the refusal.
    pub retry_after: Option<Duration>,
    /// The number accepted since the previous pause.
    pub since_pause: usize,
    /// The time since the previous pause.
    pub time: Duration,
}

impl Accepted {
    /// Estimates the accepted requests per second from one burst, and how reliable the estimate is.
    fn first_guess(self) -> (f64, Growth) {
        let seen = self.in_window.max(1) as f64 / self.window.as_secs_f64();
        let retry_after = self
            .retry_after
            .map_or(1.0, |retry_after| retry_after.as_secs_f64());
        if self.window > SHORT_WINDOW {
            (seen, Growth::Quick)
        } else if self.in_window >= ENOUGH {
            (seen, Growth::Slow)
        } else if retry_after > 0.0 && retry_after < 1.0 {
            // Only one request was accepted and the next is due that soon: requests must keep that
            // distance.
            (1.0 / retry_after, Growth::Slow)
        } else {
            (seen, Growth::Doubling)
        }
    }

    /// Returns the accepted requests per second, if observed for long enough.
    fn evenly(self) -> Option<f64> {
        let long = self.time >= LONG_ENOUGH.max(self.window);
        (long && self.since_pause > 0).then(|| self.since_pause as f64 / self.time.as_secs_f64())
    }
}

/// How fast a pace grows: the more reliable the estimate, the slower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    /// No estimate: the pace doubles with every accepted request sent since the last doubling.
    Doubling,
    /// The estimate is poor.
    Quick,
    /// An estimate found by doubling.
    Steady,
    /// The estimate is good.
    Slow,
}

impl Growth {
    /// Returns how long after a refusal the pace stays constant, and its growth per second
    /// afterwards.
    const fn by_time(self) -> Option<(Duration, f64)> {
        match self {
            Self::Doubling => None,
            Self::Quick => Some((Duration::from_secs(1), 1.25)),
            Self::Steady => Some((Duration::from_secs(1), 1.08)),
            Self::Slow => Some((Duration::from_secs(5), 1.02)),
        }
    }
}

impl Pace {
    pub(super) fn per_second(&self) -> Option<f64> {
        self.known.as_ref().map(|known| known.per_second)
    }

    /// Returns when the next request may be sent, if not now.
    pub(super) fn until(&mut self, now: Moment) -> Option<Moment> {
        let known = self.known.as_mut()?;
        if self.next <= now {
            return None;
        }
        known.waited_at = Some(now);
        Some(self.next)
    }

    pub(super) fn departed(&mut self, now: Moment) {
        let Some(known) = &self.known else {
            return;
        };
        let gap = Duration::from_secs_f64(1.0 / known.per_second);
        let slack = SLACK.min(gap);
        self.next = self.next.max(now.saturating_sub(slack)) + gap;
    }

    /// Raises the pace if requests wait for it. The accepted request was sent at `left`.
    pub(super) fn accepted(&mut self, left: Moment, now: Moment) {
        let Some(known) = &mut self.known else {
            return;
        };
        let quiet = now.saturating_sub(known.refused_at);
        if quiet > FORGOTTEN {
            self.known = None;
            return;
        }
        known.grow(quiet, left, now);
    }

    /// Lowers the pace after a refusal.
    pub(super) fn refused(&mut self, taken: Accepted, now: Moment) {
        let before = self.known.as_ref().map(|known| known.per_second);
        let (per_second, growth) = match &self.known {
            Some(known) if known.growth == Growth::Doubling => {
                (OF_A_DOUBLED * known.per_second, Growth::Steady)
            }
            Some(known) if taken.since_pause < A_FEW && taken.time < LONG_ENOUGH => {
                (OF_A_FAILED * known.per_second, known.growth)
            }
            Some(known) => {
                let even = taken.evenly().unwrap_or(known.per_second);
                (OF_A_PACE * even.min(known.per_second), Growth::Slow)
            }
            None => {
                let (seen, growth) = taken.first_guess();
                (OF_A_BURST * seen, growth)
            }
        };
        self.set(per_second, growth, now);
        if let Some(known) = &mut self.known {
            known.refused = before;
        }
    }

    /// Limits the pace to the one that the provider reported.
    pub(super) fn slow_down_to(&mut self, per_second: f64, now: Moment) {
        if self.per_second().is_none_or(|known| known > per_second) {
            self.set(per_second, Growth::Slow, now);
        }
    }

    fn set(&mut self, per_second: f64, growth: Growth, now: Moment) {
        self.known = Some(Known {
            per_second: per_second.clamp(SLOWEST, FASTEST),
            growth,
            refused_at: now,
            refused: None,
            grown_at: now,
            waited_at: None,
        });
        self.next = self.next.max(now);
    }
}

impl Known {
    fn grow(&mut self, quiet: Duration, left: Moment, now: Moment) {
        let Some((quiet_time, each_second)) = self.growth.by_time() else {
            // The present pace must have been accepted before it is doubled again.
            if left >= self.grown_at {
                self.grown_at = now;
                self.per_second = (self.per_second * 2.0).min(FASTEST);
            }
            return;
        };
        let since = self.grown_at.max(self.refused_at + quiet_time);
        let needed = self
            .waited_at
            .is_some_and(|waited| now.saturating_sub(waited) < RECENTLY);
        if now <= since {
            return;
        }
        self.grown_at = now;
        if !needed {
            return;
        }
        let seconds = (now - since).min(RECENTLY).as_secs_f64();
        let grown = self.per_second * each_second.powf(seconds);
        let most = match self.refused {
            Some(refused) if quiet < KEPT_AWAY => (refused * BELOW_REFUSED).max(self.per_second),
            Some(_) | None => FASTEST,
        };
        self.per_second = grown.min(most);
    }
}
