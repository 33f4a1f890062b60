//! Stops asking a provider that does not answer anybody.

use std::time::Duration;

use super::Moment;

/// How many failures in a row, over all models of the provider, are one too many.
const TOO_MANY: u32 = 5;
/// How long nobody asks at first; each failed try doubles it.
const FIRST_REST: Duration = Duration::from_secs(5);
/// The longest rest.
const LONGEST_REST: Duration = Duration::from_secs(120);
/// How long a try may take before another one may be made: whoever made it may be gone.
const TRY_TAKES: Duration = Duration::from_secs(60);

/// Whether a provider is asked.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    state: State,
    failures: u32,
    rests: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum State {
    #[default]
    Closed,
    Open {
        until: Moment,
    },
    /// One question finds out.
    Trying {
        since: Moment,
        again: Moment,
    },
}

/// Whether a question may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// It may.
    Open,
    /// It may, as the one that finds out.
    Try,
    /// Not before this.
    Closed(Moment),
}

impl Breaker {
    /// Whether a question may pass now. Changes nothing.
    pub(crate) fn passage(&self, now: Moment) -> Passage {
        match self.state {
            State::Closed => Passage::Open,
            State::Open { until } if now < until => Passage::Closed(until),
            State::Trying { again, .. } if now < again => Passage::Closed(again),
            State::Open { .. } | State::Trying { .. } => Passage::Try,
        }
    }

    /// Notes that a question passes.
    pub(crate) fn pass(&mut self, now: Moment) {
        if self.passage(now) == Passage::Try {
            self.state = State::Trying {
                since: now,
                again: now + TRY_TAKES,
            };
        }
    }

    /// Notes that the provider answered, in whatever words.
    pub(crate) fn answered(&mut self) {
        *self = Self::default();
    }

    /// Notes that a question which left at `left` was not answered.
    pub(crate) fn failed(&mut self, left: Moment, now: Moment) {
        match self.state {
            State::Closed => {
                self.failures += 1;
                if self.failures >= TOO_MANY {
                    self.rest(now);
                }
            }
            // It left before the rest began: that the provider was down is no news.
            State::Open { .. } => {}
            State::Trying { since, .. } if left < since => {}
            State::Trying { .. } => self.rest(now),
        }
    }

    /// Notes that the question that was to find out came back without news.
    pub(crate) fn dropped(&mut self, left: Moment, now: Moment) {
        if let State::Trying { since, .. } = self.state
            && left >= since
        {
            self.state = State::Open { until: now };
        }
    }

    /// One word for people.
    pub(crate) fn word(&self) -> &'static str {
        match self.state {
            State::Closed => "closed",
            State::Open { .. } => "open",
            State::Trying { .. } => "trying",
        }
    }

    fn rest(&mut self, now: Moment) {
        let rest = FIRST_REST.saturating_mul(1 << self.rests.min(8));
        self.rests += 1;
        self.state = State::Open {
            until: now + rest.min(LONGEST_REST),
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
    fn a_silent_provider_rests_longer_each_time_until_it_answers() {
        let mut breaker = Breaker::default();
        for _ in 0..4 {
            breaker.failed(at(0), at(1));
        }
        assert_eq!(breaker.passage(at(1)), Passage::Open);
        breaker.failed(at(0), at(1));
        assert_eq!(breaker.passage(at(1)), Passage::Closed(at(6)));
        // Those that left before are no news.
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
