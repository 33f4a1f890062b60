//! Circuit breaker: stops sending requests to a provider that does not respond.

use std::time::Duration;

use super::Moment;

/// The number of consecutive failures, over all models of the provider, that opens the breaker.
const TOO_MANY: u32 = 5;
/// How long the breaker stays open at first; each failed probe doubles it.
const FIRST_OPEN_TIME: Duration = Duration::from_secs(5);
/// The longest time for which the breaker stays open.
const LONGEST_OPEN_TIME: Duration = Duration::from_secs(120);
/// How long a probe may take before another one is allowed: the run that sent it may have ended.
const TRY_TAKES: Duration = Duration::from_secs(60);

/// The circuit breaker of a provider.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    state: State,
    failures: u32,
    times_opened: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum State {
    #[default]
    Closed,
    Open {
        until: Moment,
    },
    /// One request probes the provider.
    Trying {
        since: Moment,
        again: Moment,
    },
}

/// Whether a request may pass the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// The request may pass.
    Open,
    /// The request may pass as the probe.
    Try,
    /// The request may not pass before this moment.
    Closed(Moment),
}

impl Breaker {
    /// Returns whether a request may pass now. Does not change the state.
    pub(crate) fn passage(&self, now: Moment) -> Passage {
        match self.state {
            State::Closed => Passage::Open,
            State::Open { until } if now < until => Passage::Closed(until),
            State::Trying { again, .. } if now < again => Passage::Closed(again),
            State::Open { .. } | State::Trying { .. } => Passage::Try,
        }
    }

    /// Records that a request passes.
    pub(crate) fn pass(&mut self, now: Moment) {
        if self.passage(now) == Passage::Try {
            self.state = State::Trying {
                since: now,
                again: now + TRY_TAKES,
            };
        }
    }

    /// Records that the provider responded, even if with an error.
    pub(crate) fn answered(&mut self) {
        *self = Self::default();
    }

    /// Records that a request sent at `left` got no response.
    pub(crate) fn failed(&mut self, left: Moment, now: Moment) {
        match self.state {
            State::Closed => {
                self.failures += 1;
                if self.failures >= TOO_MANY {
                    self.open(now);
                }
            }
            // The request was sent before the breaker opened: its failure is not new information.
            State::Open { .. } => {}
            State::Trying { since, .. } if left < since => {}
            State::Trying { .. } => self.open(now),
        }
    }

    /// Records that the probe ended without an outcome.
    pub(crate) fn dropped(&mut self, left: Moment, now: Moment) {
        if let State::Trying { since, .. } = self.state
            && left >= since
        {
            self.state = State::Open { until: now };
        }
    }

    /// Returns the name of the state for display.
    pub(crate) fn state_name(&self) -> &'static str {
        match self.state {
            State::Closed => "closed",
            State::Open { .. } => "open",
            State::Trying { .. } => "trying",
        }
    }

    fn open(&mut self, now: Moment) {
        let open_time = FIRST_OPEN_TIME.saturating_mul(1 << self.times_opened.min(8));
        self.times_opened += 1;
        self.state = State::Open {
            until: now + open_time.min(LONGEST_OPEN_TIME),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_breaker_stays_open_longer_after_each_failed_probe() {
        let mut breaker = Breaker::default();
        for _ in 0..4 {
            breaker.failed(at(0), at(1));
        }
        assert_eq!(breaker.passage(at(1)), Passage::Open);
        breaker.failed(at(0), at(1));
        assert_eq!(breaker.passage(at(1)), Passage::Closed(at(6)));
        // Failures of requests sent before the breaker opened are ignored.
        breaker.failed(at(0), at(5));
        assert_eq!(breaker.passage(at(5)), Passage::Closed(at(6)));

        assert_eq!(breaker.passage(at(6)), Passage::Try);
        breaker.pass(at(6));
        assert_eq!(breaker.passage(at(6)), Passage::Closed(at(66)), "one try");
        breaker.failed(at(6), at(7));
        assert_eq!(
            breaker.passage(at(7)),
            Passage::Closed(at(17)),
            "twice as long"
        );

        breaker.pass(at(17));
        breaker.dropped(at(17), at(18));
        assert_eq!(breaker.passage(at(18)), Passage::Try, "another may try");
        breaker.pass(at(18));
        breaker.answered();
        assert_eq!(breaker.passage(at(18)), Passage::Open);
    }

    #[test]
    fn an_answer_between_failures_begins_anew() {
        let mut breaker = Breaker::default();
        for round in 0..20 {
            breaker.failed(at(round), at(round));
            if round % 4 == 3 {
                breaker.answered();
            }
        }
        assert_eq!(breaker.passage(at(20)), Passage::Open);
    }
}
