//! The clock of a process: reads the wall clock once, the monotonic clock from then on. Processes that
//! share a store follow the clock of its database instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use sortie_core::id::RunId;
use sortie_core::time::{Clock, Timestamp};
use tokio::time::Instant;
use uuid::Uuid;

/// A clock that is immune to jumps of the wall clock.
#[derive(Clone, Copy, Debug)]
pub struct ProcessClock {
    wall_at_start: Timestamp,
    started: Instant,
}

impl ProcessClock {
    /// Reads the wall clock, for the only time.
    pub fn start() -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place that asks the wall clock"
        )]
        let wall = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| {
                i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
            });
        Self {
            wall_at_start: Timestamp(wall),
            started: Instant::now(),
        }
    }
}

impl Clock for ProcessClock {
    fn now(&self) -> Timestamp {
        let elapsed = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.wall_at_start.plus_ms(elapsed)
    }

    fn new_run_id(&self) -> RunId {
        RunId::from_uuid(Uuid::now_v7())
    }
}

/// The clock of a store, as a process that shares it knows it: its own clock, corrected by readings of
/// the database's. So a process whose clock is wrong neither ends runs of others too early nor too
/// late. Without readings it is the clock of the process.
#[derive(Debug)]
pub(crate) struct StoreClock {
    process: Arc<dyn Clock>,
    /// What the database is ahead of this process.
    offset_ms: AtomicI64,
    /// The latest moment that was returned: the clock of the database may be set back, this one is not.
    latest_ms: AtomicI64,
}

impl StoreClock {
    pub(crate) const fn new(process: Arc<dyn Clock>) -> Self {
        Self {
            process,
            offset_ms: AtomicI64::new(0),
            latest_ms: AtomicI64::new(i64::MIN),
        }
    }

    /// Returns the time of this process.
    pub(crate) fn own(&self) -> Timestamp {
        self.process.now()
    }

    /// Follows a reading of the database. One that arrives late makes this process believe that it is
    /// earlier, which only shortens its leases.
    pub(crate) fn follow(&self, reading: Timestamp) {
        let offset = reading.0.saturating_sub(self.process.now().0);
        self.offset_ms.store(offset, Ordering::Relaxed);
    }

    /// Returns the present time of the database, which may have been set back: the clock of leases.
    pub(crate) fn of_leases(&self) -> Timestamp {
        let offset = self.offset_ms.load(Ordering::Relaxed);
        self.process.now().plus_ms(offset)
    }
}

impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        let now = self.of_leases().0;
        let before = self.latest_ms.fetch_max(now, Ordering::Relaxed);
        Timestamp(now.max(before))
    }

    fn new_run_id(&self) -> RunId {
        self.process.new_run_id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wrong_clock_follows_the_database_and_never_goes_back() {
        let process = ProcessClock::start();
        let clock = StoreClock::new(Arc::new(process));
        assert_eq!(clock.now(), process.now());
        // This process is an hour ahead of the database: deadlines of others have not passed.
        let hour = 3_600_000_i64;
        let database = |ms| process.now().plus_ms(ms - hour);
        let fresh = StoreClock::new(Arc::new(process));
        fresh.follow(database(0));
        assert_eq!(fresh.now(), database(0));
        assert_eq!(fresh.of_leases(), database(0));
        // One that has shown a later time stays there until the database has reached it.
        let shown = clock.now();
        clock.follow(database(0));
        assert_eq!(clock.now(), shown);
        assert_eq!(clock.of_leases(), database(0), "leases follow at once");
        tokio::time::advance(std::time::Duration::from_millis(3_600_500)).await;
        assert_eq!(clock.now(), database(0));
        assert_eq!(clock.now(), shown.plus_ms(500));
    }
}
