//! A database that does not answer: why, and how long transitions wait for it.
//!
//! A fail-over to another host takes from seconds to a minute. Transitions wait meanwhile, so that
//! what a run has done is written afterwards; an error would throw it away.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::execute::wait;
use crate::fault::Fault;

/// How long transitions wait for a database that does not answer, before they fail.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Between two attempts to reach it.
const PAUSE: Duration = Duration::from_millis(500);

/// The state of the connection of the writer, which writes it; the store reads it.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    current: Mutex<Option<Current>>,
    is_closing: AtomicBool,
}

#[derive(Debug)]
struct Current {
    since: Instant,
    reason: String,
}

impl Outage {
    /// Returns why the database does not answer; `None` if it did the last time.
    pub(crate) fn reason(&self) -> Option<String> {
        self.lock().as_ref().map(|current| current.reason.clone())
    }

    /// Stops waiting: the store is closed.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    /// Records a failure, if it is one that may pass.
    pub(crate) fn record(&self, fault: &Fault) {
        let Fault::Broken(source) = fault else {
            return;
        };
        if !fault.is_outage() {
            return;
        }
        let reason = sortie_core::error::with_causes(source.as_ref());
        let mut current = self.lock();
        if current.is_none() {
            tracing::error!(
                reason,
                "the database does not answer; the store waits for it"
            );
        }
        let since = current
            .as_ref()
            .map_or_else(Instant::now, |current| current.since);
        *current = Some(Current { since, reason });
    }

    /// Waits for a moment; returns whether to try again.
    pub(crate) fn wait(&self) -> bool {
        let since = self.lock().as_ref().map(|current| current.since);
        let is_over = since.is_some_and(|since| since.elapsed() >= PATIENCE);
        if is_over || self.is_closing.load(Ordering::Relaxed) {
            return false;
        }
        wait(PAUSE);
        true
    }

    /// Records that no transition waits: the database answered, or the transitions have failed.
    pub(crate) fn end(&self) {
        if let Some(current) = self.lock().take() {
            let seconds = current.since.elapsed().as_secs();
            tracing::info!(seconds, "the store no longer waits for the database");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Current>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
