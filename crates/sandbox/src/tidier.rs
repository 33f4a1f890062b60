//! Removes folders in the background: removing one can take a disk as long as a whole command.

use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::Duration;

use crate::cgroup::Cage;
use crate::guard::Unswept;
use crate::stand_in::StandIn;

/// The most attempts to remove a group whose last process is still exiting, and the delay between
/// them.
const MAX_TRIES: usize = 200;
const PAUSE: Duration = Duration::from_millis(5);
/// The most queued chores; beyond this limit the caller does the chore itself.
const MAX_WAITING: usize = 64;

/// A cleanup task that a command left.
#[derive(Debug)]
pub(crate) enum Chore {
    /// Released stand-ins; the last holder removes them.
    StandIns(Vec<Arc<StandIn>>),
    /// A private scratch folder.
    Scratch(PathBuf),
    /// A control group whose last process is still exiting.
    Cage(Cage),
    /// A workspace that must be swept after a command whose caller is gone.
    Sweep(Box<Unswept>),
}

impl Chore {
    #[expect(
        clippy::disallowed_methods,
        reason = "not every kernel tells when a group is empty, and this thread has nothing else to do"
    )]
    fn done(self) {
        match self {
            Self::StandIns(stand_ins) => drop(stand_ins),
            Self::Sweep(unswept) => unswept.sweep_unasked(),
            // What cannot be removed stays in a folder for temporary files.
            Self::Scratch(folder) => drop(std::fs::remove_dir_all(folder)),
            Self::Cage(mut cage) => {
                let mut tries = 0;
                while !cage.remove() && tries < MAX_TRIES {
                    tries += 1;
                    sleep(PAUSE);
                }
            }
        }
    }
}

/// Runs chores one by one, in its own thread that starts with the first chore. Dropping it waits
/// until all chores are done.
#[derive(Debug, Default)]
pub(crate) struct Tidier {
    worker: Mutex<Option<Worker>>,
}

#[derive(Debug)]
struct Worker {
    waiting: SyncSender<Chore>,
    thread: JoinHandle<()>,
}

impl Worker {
    fn start() -> Option<Self> {
        let (waiting, chores) = sync_channel::<Chore>(MAX_WAITING);
        let work = move || chores.into_iter().for_each(Chore::done);
        let thread = Builder::new().name("sandbox tidier".to_owned()).spawn(work);
        // Without a thread, the caller removes the folder itself.
        thread.ok().map(|thread| Self { waiting, thread })
    }
}

impl Tidier {
    /// Queues a chore, or runs it in the caller if the queue is full.
    pub(crate) fn take(&self, chore: Chore) {
        use std::sync::mpsc::TrySendError::{Disconnected, Full};
        let refused = {
            let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
            if worker.is_none() {
                *worker = Worker::start();
            }
            match worker.as_ref().map(|worker| worker.waiting.clone()) {
                Some(waiting) => match waiting.try_send(chore) {
                    Ok(()) => None,
                    Err(Full(chore) | Disconnected(chore)) => Some(chore),
                },
                None => Some(chore),
            }
        };
        if let Some(chore) = refused {
            chore.done();
        }
    }
}

impl Drop for Tidier {
    fn drop(&mut self) {
        let worker = self
            .worker
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(Worker { waiting, thread }) = worker.take() {
            drop(waiting);
            // A thread that panicked has reported the panic itself, and the next command finds what
            // it left undone.
            thread.join().ok();
        }
    }
}
