//! The clock of a process: reads the wall clock once, the monotonic clock from then on.

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
