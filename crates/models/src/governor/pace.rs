//! The pace at which a provider was seen to accept questions.
//!
//! Before the first refusal there is none. A refusal tells how many questions the provider took in
//! the window it counts in; from then on questions leave evenly, a little slower than that. The
//! pace grows again: quickly while the guess is poor, slowly once it is good, and it stays just
//! below the last pace that was refused for a while, because every refusal costs a pause.

use std::time::Duration;

use super::Moment;

/// How much of what was accepted in a burst is asked for evenly: a guess may be a little high.
const OF_A_BURST: f64 = 0.9;
/// How much of what was accepted at an even pace is asked for.
const OF_A_PACE: f64 = 0.95;
/// How close to a refused pace one goes without a new reason.
const BELOW_REFUSED: f64 = 0.97;
/// How long a refused pace is kept away from.
const KEPT_AWAY: Duration = Duration::from_secs(30);
/// How much of a pace that was doubled once too often is asked for: what was refused is half of it,
/// because it was doubled once more since.
const OF_A_DOUBLED: f64 = 0.3;
/// How much of a pace that was refused soon after a pause is asked for: it is far too fast.
const OF_A_FAILED: f64 = 0.75;
/// How many questions at a pace say that it is not far too fast.
const A_FEW: usize = 6;
/// After how long without a refusal the pace is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(300);
/// How long ago questions must have waited for the pace, for it to have a reason to grow.
const RECENTLY: Duration = Duration::from_secs(2);
/// How much of a late departure the next one may make up for.
const SLACK: Duration = Duration::from_millis(50);
/// The slowest pace, per second: one question in a minute still finds out more.
const SLOWEST: f64 = 1.0 / 60.0;
/// Past this pace nobody counts.
const FASTEST: f64 = 2_000.0;
/// How many accepted questions make a good guess.
const ENOUGH: usize = 2;
/// How long an even pace must have been kept to say something about the provider's.
const LONG_ENOUGH: Duration = Duration::from_secs(2);
/// The longest window whose guess is good though it was not seen to its end.
const SHORT_WINDOW: Duration = Duration::from_millis(1500);

#[derive(Debug, Default)]
pub(super) struct Pace {
    known: Option<Known>,
    /// The earliest moment for the next departure.
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

/// What a provider accepted before it refused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// How many in the window it counts in.
    pub in_window: usize,
    /// That window.
    pub window: Duration,
    /// How long it said to wait.
    pub told: Option<Duration>,
    /// How many since the pause before.
    pub since_pause: usize,
    /// The time since then.
    pub time: Duration,
}

impl Taken {
    /// How many it takes each second, going by one burst, and how well that is known.
    fn first_guess(self) -> (f64, Growth) {
        let seen = self.in_window.max(1) as f64 / self.window.as_secs_f64();
        let told = self.told.map_or(1.0, |told| told.as_secs_f64());
        if self.window > SHORT_WINDOW {
            (seen, Growth::Quick)
        } else if self.in_window >= ENOUGH {
            (seen, Growth::Slow)
        } else if told > 0.0 && told < 1.0 {
            // Only one was taken, and the next would be so soon: they have to keep that distance.
            (1.0 / told, Growth::Slow)
        } else {
            (seen, Growth::Doubling)
        }
    }

    /// How many it took each second, if it was seen for long enough.
    fn evenly(self) -> Option<f64> {
        let long = self.time >= LONG_ENOUGH.max(self.window);
        (long && self.since_pause > 0).then(|| self.since_pause as f64 / self.time.as_secs_f64())
    }
}

/// How fast a pace grows: the better it is known, the slower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    /// Nothing is known: twice as fast with every question that was accepted since the last time.
    Doubling,
    /// Little is known.
    Quick,
    /// It was found by doubling.
    Steady,
    /// It is known well.
    Slow,
}

impl Growth {
    /// How long after a refusal it does not grow, and how fast it grows then, each second.
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

    /// When the next question may leave, if not now.
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

    /// Lets the pace grow, if that is what questions wait for. The accepted one left at `left`.
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

    /// Learns from a refusal.
    pub(super) fn refused(&mut self, taken: Taken, now: Moment) {
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

    /// Goes no faster than the provider said.
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
        let Some((hold, each_second)) = self.growth.by_time() else {
            // Its own pace must have been accepted before it is doubled again.
            if left >= self.grown_at {
                self.grown_at = now;
                self.per_second = (self.per_second * 2.0).min(FASTEST);
            }
            return;
        };
        let since = self.grown_at.max(self.refused_at + hold);
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
