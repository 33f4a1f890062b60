//! Limits how often a server is started. Pure: the caller passes the time.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Limit of starts within [`WINDOW`]: a server that dies at each call must not keep the machine busy.
const MAX_STARTS: usize = 5;
/// The window in which starts are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// Wait after the first failure; it doubles with each further one.
const FIRST_DELAY: Duration = Duration::from_millis(250);
/// Upper limit of the wait between two starts.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// The starts and failures of one server.
#[derive(Debug, Default)]
pub(crate) struct Restarts {
    starts: VecDeque<Instant>,
    failures: u32,
    last_failure: Option<Instant>,
}

impl Restarts {
    /// Returns the wait before the next start; zero if it may start now.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        let after_failure = self.last_failure.map(|last| last + self.delay());
        let after_window = match self.starts.len() {
            MAX_STARTS.. => self.starts.front().map(|first| *first + WINDOW),
            0..MAX_STARTS => None,
        };
        let next = after_failure.max(after_window).unwrap_or(now);
        next.saturating_duration_since(now)
    }

    /// Records a start of the server.
    pub(crate) fn started(&mut self, now: Instant) {
        self.starts.push_back(now);
        while self.starts.len() > MAX_STARTS {
            self.starts.pop_front();
        }
    }

    /// Records that the server did not start, or stopped by itself.
    pub(crate) fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.last_failure = Some(now);
    }

    /// Records that the server answered: the next failure counts as the first.
    pub(crate) fn worked(&mut self) {
        self.failures = 0;
        self.last_failure = None;
    }

    fn delay(&self) -> Duration {
        let doublings = self.failures.saturating_sub(1).min(16);
        (FIRST_DELAY * 2_u32.pow(doublings)).min(MAX_DELAY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts as early as allowed, fails `failures` times, and returns the waits in milliseconds.
    fn waits(failures: usize, works_between: bool) -> Vec<u128> {
        let mut now = Instant::now();
        let mut restarts = Restarts::default();
        let mut waits = Vec::new();
        for _ in 0..failures {
            let wait = restarts.wait(now);
            waits.push(wait.as_millis());
            now += wait;
            restarts.started(now);
            if works_between {
                restarts.worked();
            }
            restarts.failed(now);
        }
        waits
    }

    #[test]
    fn backs_off_and_is_bounded() {
        assert_eq!(waits(5, false), [0, 250, 500, 1000, 2000]);
        // The sixth start waits for the first to be a minute ago, however well the server works between.
        assert_eq!(waits(7, false)[5..], [56_250, 8000]);
        assert_eq!(waits(7, true), [0, 250, 250, 250, 250, 59_000, 250]);
        let total: u128 = waits(40, false).iter().sum();
        assert!(total >= 35 * 12_000, "at most five a minute: {total}");
        assert!(waits(40, false).iter().all(|wait| *wait <= 60_000));
    }
}
