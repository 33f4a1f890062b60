//! The lock file: one process writes the store. The operating system frees the lock when the
//! process dies.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sortie_base::process;
use sortie_core::ports::store::{StoreError, StoreResult};
use sortie_core::time::Timestamp;

use crate::files;

const DOING: &str = "take its lock";
/// A longer content was not written by this program.
const MAX_OWNER_BYTES: u64 = 64 * 1024;
/// How long to wait for a lock whose owner is dead.
const PATIENCE_WITH_THE_DEAD: Duration = Duration::from_secs(10);
/// Between two attempts at such a lock.
const PAUSE: Duration = Duration::from_millis(10);
/// How long to wait while other processes probe the lock; each probe holds it for an instant.
const PATIENCE_WITH_LOOKERS: Duration = Duration::from_secs(10);
/// Between two attempts at a probed lock.
const LOOKERS_PAUSE: Duration = Duration::from_millis(1);

/// The process that owns a store, for the error of the next one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub pid: u32,
    /// The command as the user typed it.
    pub command: String,
    pub since: Timestamp,
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            pid,
            command,
            since,
        } = self;
        write!(f, "`{command}` (pid {pid}, since {since})")
    }
}

/// The held lock; dropping it frees the store.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock; the error names its owner.
    pub(crate) fn take(path: &Path, owner: &Owner) -> StoreResult<Self> {
        let mut file = files::open_private_file(path).map_err(failed)?;
        let started = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => {
                    describe(&mut file, owner).map_err(failed)?;
                    return Ok(Self { file });
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            let holder = read_owner(&mut file);
            let (patience, pause) = if is_only_looked_at(&file).map_err(failed)? {
                (PATIENCE_WITH_LOOKERS, LOOKERS_PAUSE)
            } else if holder.is_dead() {
                (PATIENCE_WITH_THE_DEAD, PAUSE)
            } else {
                (Duration::ZERO, PAUSE)
            };
            if started.elapsed() >= patience {
                return Err(StoreError::Locked {
                    owner: holder.to_string(),
                });
            }
            #[expect(
                clippy::disallowed_methods,
                reason = "opening is synchronous, and this lasts a moment"
            )]
            std::thread::sleep(pause);
        }
    }
}

/// Whether the lock is only probed: processes that look for the owner take it shared, an owner
/// takes it exclusively.
fn is_only_looked_at(file: &File) -> io::Result<bool> {
    match file.try_lock_shared() {
        Ok(()) => file.unlock().map(|()| true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The owner that a lock file names.
#[derive(Debug)]
enum Holder {
    Named(Owner),
    /// The owner may have taken the lock a moment ago and not written its name yet.
    Unnamed,
}

impl Holder {
    /// A killed process keeps its lock until the kernel has closed its files. A process that it was
    /// forking keeps the lock too, until it closes the inherited descriptors.
    fn is_dead(&self) -> bool {
        match self {
            Self::Named(owner) => process::is_over(owner.pid),
            Self::Unnamed => false,
        }
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Named(owner) => owner.fmt(f),
            Self::Unnamed => f.write_str("another process"),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Best effort: a stale content means nothing once the lock is free.
        self.file.set_len(0).ok();
    }
}

fn describe(file: &mut File, owner: &Owner) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(&serde_json::to_vec(owner)?)?;
    file.flush()
}

fn read_owner(file: &mut File) -> Holder {
    let mut text = String::new();
    let read = file
        .rewind()
        .and_then(|()| file.take(MAX_OWNER_BYTES).read_to_string(&mut text));
    match read.map(|_| serde_json::from_str(&text)) {
        Ok(Ok(owner)) => Holder::Named(owner),
        Ok(Err(_)) | Err(_) => Holder::Unnamed,
    }
}

fn failed(error: io::Error) -> StoreError {
    StoreError::Failed {
        doing: DOING,
        source: Box::new(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn owner() -> Owner {
        Owner {
            pid: std::process::id(),
            command: "sortie serve".to_owned(),
            since: Timestamp(1),
        }
    }

    #[test]
    fn shared_probes_do_not_block_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        // The file names a living process, as a killed one does whose id was reused.
        std::fs::write(&path, serde_json::to_vec(&owner()).unwrap()).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let looks = File::open(&path).unwrap();
                while !done.load(Ordering::Relaxed) {
                    if looks.try_lock_shared().is_ok() {
                        looks.unlock().unwrap();
                    }
                }
            });
            let taken = (0..200).map(|_| Lock::take(&path, &owner()).map(drop));
            let taken: Vec<_> = taken.filter_map(Result::err).collect();
            done.store(true, Ordering::Relaxed);
            assert!(taken.is_empty(), "{taken:?}");
        });
    }

    #[test]
    fn a_held_lock_fails_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = Lock::take(&path, &owner()).unwrap();
        let refused = Lock::take(&path, &owner());
        assert!(
            matches!(&refused, Err(StoreError::Locked { owner }) if owner.contains("sortie serve")),
            "{refused:?}"
        );
        drop(held);
        Lock::take(&path, &owner()).unwrap();
    }
}
