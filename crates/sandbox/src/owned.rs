//! Folders that belong to one process, which holds a lock on each as long as it lives.
//!
//! The lock, not a process id in the name, shows whether the owner is alive: processes of different
//! PID namespaces share control groups and folders for temporary files, and the id of one means
//! nothing to the other. The kernel releases the lock when the owner dies.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open, stat};

/// The most names that are tried: a process with the same id in another namespace can have taken
/// each.
const MAX_NAMES: usize = 100;

/// A folder that this process owns.
#[derive(Debug)]
pub(crate) struct Owned {
    path: PathBuf,
    /// Held until the folder is dropped.
    _lock: OwnedFd,
}

impl Owned {
    /// Creates a folder whose name begins with this prefix, and locks it.
    pub(crate) fn make(parent: &Path, prefix: &str, mode: u32) -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..MAX_NAMES {
            let name = format!("{prefix}{}-{}", std::process::id(), unique());
            let path = parent.join(name);
            match fs::DirBuilder::new().mode(mode).create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    last = error;
                    continue;
                }
                Err(error) => return Err(error),
            }
            match lock(&path) {
                Ok(lock) => return Ok(Self { path, _lock: lock }),
                // A process that removes abandoned folders removed it first, because it was not
                // locked yet.
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes the folders with this prefix whose owner is dead, by calling `remove`. Folders whose
/// lock is held, and folders that this process may not open, stay.
pub(crate) fn remove_abandoned(parent: &Path, prefix: &str, remove: impl Fn(&Path)) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        if has_prefix(&entry.file_name(), prefix)
            && let Ok(_lock) = lock(&path)
        {
            remove(&path);
        }
    }
}

fn has_prefix(name: &OsStr, prefix: &str) -> bool {
    name.to_str().is_some_and(|name| name.starts_with(prefix))
}

/// Locks a folder, unless another process holds the lock or the folder was removed meanwhile.
fn lock(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = open(path, flags, Mode::empty())?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    let (opened, named) = (fstat(&folder)?, stat(path)?);
    if (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino) {
        Ok(folder)
    } else {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Returns a number that this process has not used before.
pub(crate) fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(parent: &Path) -> usize {
        let before = fs::read_dir(parent).unwrap().count();
        remove_abandoned(parent, "sortie-", |path| fs::remove_dir(path).unwrap());
        before - fs::read_dir(parent).unwrap().count()
    }

    #[test]
    fn only_folders_without_a_living_owner_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path();
        let owned = Owned::make(parent, "sortie-", 0o700).unwrap();
        fs::create_dir(parent.join("other-1-1")).unwrap();
        assert_eq!(sweep(parent), 0, "the owner is alive");
        // The process id in a name has no meaning, whether or not such a process exists.
        fs::create_dir(parent.join(format!("sortie-{}-1", u32::MAX))).unwrap();
        fs::create_dir(parent.join(format!("sortie-{}-x", std::process::id()))).unwrap();
        assert_eq!(sweep(parent), 2, "no process holds them");
        assert!(owned.path().is_dir());
        drop(owned);
        assert_eq!(sweep(parent), 1, "its owner has let go of it");
    }

    #[test]
    fn names_taken_by_others_are_passed_over() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path();
        let first = Owned::make(parent, "sortie-", 0o700).unwrap();
        let number: u64 = first
            .path()
            .to_str()
            .unwrap()
            .rsplit('-')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        for next in 1..20 {
            let name = format!("sortie-{}-{}", std::process::id(), number + next);
            fs::create_dir(parent.join(name)).unwrap();
        }
        let second = Owned::make(parent, "sortie-", 0o700).unwrap();
        assert_ne!(first.path(), second.path());
    }
}
