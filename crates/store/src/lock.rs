//! One process writes the store. The operating system frees the lock when the process dies.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sortie_base::process;
use sortie_core::{StoreError, StoreResult, Timestamp};

use crate::files;

const DOING: &str = "take its lock";
/// Longer descriptions are not ours.
const MAX_OWNER_BYTES: u64 = 64 * 1024;
/// How long a lock is waited for whose owner is dead.
const PATIENCE_WITH_THE_DEAD: Duration = Duration::from_secs(10);
/// Between two looks at such a lock.
const PAUSE: Duration = Duration::from_millis(10);
/// How long a lock is tried that others only look at, which lasts an instant for each of them.
const PATIENCE_WITH_LOOKERS: Duration = Duration::from_secs(10);
/// Between two tries then.
const LOOKERS_PAUSE: Duration = Duration::from_millis(1);

/// Who holds a store, for the message that the next one gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The process.
    pub pid: u32,
    /// The command, as the person typed it.
    pub command: String,
    /// Since when.
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
    /// Takes the lock, or tells who has it.
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

/// Whether nobody has a lock that could not be taken: whoever looks who has it shares it with others
/// who look, and with nobody who works.
fn is_only_looked_at(file: &File) -> io::Result<bool> {
    match file.try_lock_shared() {
        Ok(()) => file.unlock().map(|()| true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Who a lock file says holds it.
#[derive(Debug)]
enum Holder {
    Named(Owner),
    /// It may have taken the lock a moment ago and not written its name yet.
    Unnamed,
}

impl Holder {
    /// A process that was killed keeps its lock until the kernel has closed its files. If it was starting
    /// another, the unborn one keeps the lock for a moment too, until it closes what it inherited.
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
        // Only a courtesy: a description that stays behind names nobody once the lock is free.
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
    fn those_who_only_look_are_not_in_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        // A living process is named, as a killed one whose id was used again leaves it.
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
    fn a_lock_that_is_held_is_not_waited_for() {
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
