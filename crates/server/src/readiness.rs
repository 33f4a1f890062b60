//! Tests by a write whether the store accepts writes.

use std::time::{Duration, Instant};

use sortie_runtime::Runtime;
use tokio::sync::Mutex;

/// How long a result is reused. Several health checkers cost one flush of the disk in this time.
const KEPT: Duration = Duration::from_secs(1);
/// The time limit of the write. A slower disk cannot serve runs either.
const LIMIT: Duration = Duration::from_secs(2);

/// The last test of the store.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    last: Mutex<Option<LastCheck>>,
}

#[derive(Debug)]
struct LastCheck {
    at: Instant,
    found: Result<(), String>,
}

impl Readiness {
    /// Writes to the store, or returns the recent result. The error says why nothing can be written.
    pub(crate) async fn check(&self, runtime: &Runtime) -> Result<(), String> {
        // Concurrent checks wait for the same write.
        let mut last = self.last.lock().await;
        if let Some(look) = &*last
            && look.at.elapsed() < KEPT
        {
            return look.found.clone();
        }
        let found = match tokio::time::timeout(LIMIT, runtime.probe()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(sortie_core::error::with_causes(&error)),
            Err(_) => Err(format!(
                "the store did not complete a small write within {} s",
                LIMIT.as_secs()
            )),
        };
        if let Err(reason) = &found {
            tracing::error!(reason, "the store accepts no writes");
        }
        *last = Some(LastCheck {
            at: Instant::now(),
            found: found.clone(),
        });
        found
    }
}
