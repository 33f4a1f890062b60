//! The runs that this process executes right now, and how they are told to stop.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use sortie_core::{Cancellation, Fence, RunId};
use tokio::sync::watch;

/// Why an executor should look up from what it is doing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Signals {
    /// Somebody wants the run stopped.
    pub(crate) cancel: Option<Cancellation>,
    /// The runtime shuts down: give the run back.
    pub(crate) release: bool,
    /// The claim is gone: stop without writing.
    pub(crate) lost: bool,
    /// Something is in the inbox. Not a reason to interrupt anything.
    pub(crate) inbox: bool,
    /// Somebody wants the run to rest: give it back after the present step.
    pub(crate) pause: bool,
}

impl Signals {
    /// Whether what is under way should be dropped.
    pub(crate) const fn interrupts(&self) -> bool {
        self.cancel.is_some() || self.release || self.lost
    }
}

/// The runs under way. Guards a map for a few lines at a time, never across an await.
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
    /// Notes that a run is under way; the receiver hears what its executor must know.
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

    /// Notes that a claim is over.
    pub(crate) fn leave(&self, fence: Fence) {
        let mut runs = self.lock();
        if runs
            .get(&fence.run)
            .is_some_and(|entry| entry.fence == fence)
        {
            runs.remove(&fence.run);
        }
    }

    /// Tells one run something.
    pub(crate) fn signal(&self, run: RunId, change: impl FnOnce(&mut Signals)) {
        if let Some(entry) = self.lock().get(&run) {
            entry.signals.send_modify(change);
        }
    }

    /// Tells every run to give itself back.
    pub(crate) fn release_all(&self) {
        for entry in self.lock().values() {
            entry.signals.send_modify(|signals| signals.release = true);
        }
    }

    /// How many runs are under way.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// All claims under way.
    pub(crate) fn fences(&self) -> Vec<Fence> {
        self.lock().values().map(|entry| entry.fence).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<RunId, Entry>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
