//! The runs that this process executes, and the signals that reach their executors.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use sortie_core::id::{Fence, RunId};
use sortie_core::run::Cancellation;
use tokio::sync::watch;

/// Signals to an executor.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Signals {
    /// Set when the run is to be cancelled.
    pub(crate) cancel: Option<Cancellation>,
    /// The runtime shuts down: release the run.
    pub(crate) release: bool,
    /// The claim is gone: stop without writing.
    pub(crate) lost: bool,
    /// The inbox has messages. Interrupts nothing.
    pub(crate) inbox: bool,
    /// A pause is requested: release the run after the present step.
    pub(crate) pause: bool,
}

impl Signals {
    /// Returns whether the work in progress has to be dropped.
    pub(crate) const fn interrupts(&self) -> bool {
        self.cancel.is_some() || self.release || self.lost
    }
}

/// The runs being executed. The lock guards a map for a few lines at a time, never across an await.
#[derive(Debug, Default)]
pub(crate) struct ActiveRuns {
    runs: Mutex<BTreeMap<RunId, Entry>>,
}

#[derive(Debug)]
struct Entry {
    fence: Fence,
    signals: watch::Sender<Signals>,
}

impl ActiveRuns {
    /// Registers a claim; the receiver gets the signals for its executor.
    pub(crate) fn enter(
        &self,
        fence: Fence,
        cancel: Option<Cancellation>,
    ) -> watch::Receiver<Signals> {
        let (sender, receiver) = watch::channel(Signals {
            cancel,
            ..Signals::default()
        });
        let entry = Entry {
            fence,
            signals: sender,
        };
        if let Some(older) = self.lock().insert(fence.run, entry) {
            older.signals.send_modify(|signals| signals.lost = true);
        }
        receiver
    }

    /// Removes a claim that is over.
    pub(crate) fn leave(&self, fence: Fence) {
        let mut runs = self.lock();
        if runs
            .get(&fence.run)
            .is_some_and(|entry| entry.fence == fence)
        {
            runs.remove(&fence.run);
        }
    }

    /// Changes the signals of one run, if it is executed here.
    pub(crate) fn signal(&self, run: RunId, change: impl FnOnce(&mut Signals)) {
        if let Some(entry) = self.lock().get(&run) {
            entry.signals.send_modify(change);
        }
    }

    /// Signals to the executor of this claim that it is gone. Another claim of the same run, which
    /// may have begun meanwhile, is not affected.
    pub(crate) fn lose(&self, fence: Fence) {
        if let Some(entry) = self.lock().get(&fence.run)
            && entry.fence == fence
        {
            entry.signals.send_modify(|signals| signals.lost = true);
        }
    }

    /// Signals every executor to release its run.
    pub(crate) fn release_all(&self) {
        for entry in self.lock().values() {
            entry.signals.send_modify(|signals| signals.release = true);
        }
    }

    /// Returns all active claims.
    pub(crate) fn fences(&self) -> Vec<Fence> {
        self.lock().values().map(|entry| entry.fence).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<RunId, Entry>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
