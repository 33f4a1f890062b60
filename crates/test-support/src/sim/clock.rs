//! Simulated time and ordered ids.

use std::sync::atomic::{AtomicU64, Ordering};

use sortie_core::id::RunId;
use sortie_core::time::{Clock, Timestamp};
use tokio::time::Instant;
use uuid::Uuid;

/// Time that passes only while all tasks wait.
#[derive(Debug)]
pub(crate) struct SimClock {
    started: Instant,
    ids: AtomicU64,
}

impl SimClock {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            ids: AtomicU64::new(1),
        }
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let elapsed = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        Timestamp(1_800_000_000_000 + elapsed)
    }

    fn new_run_id(&self) -> RunId {
        let number = self.ids.fetch_add(1, Ordering::SeqCst);
        RunId::from_uuid(Uuid::from_u128(u128::from(number) << 64))
    }
}
