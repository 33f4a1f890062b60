//! The holder of the store, for commands that only read.
//!
//! Only the lock of the operating system decides whether a process holds the store. The process that the
//! file names is for people: its id may mean another process by now, or in another namespace.

use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::path::Path;

use sortie_base::regular_file;
use sortie_store::Owner;

/// The lock file in the home folder.
const FILE: &str = "lock";
/// The store writes no longer file.
const MAX_OWNER_BYTES: u64 = 64 * 1024;

/// The holder of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// No process: runs that have not ended wait for one.
    Unlocked,
    /// A process, which may not have written its name yet.
    Locked(Option<Owner>),
}

/// Returns the holder of the store in this folder. This takes a shared lock for an instant; a process
/// that wants the exclusive lock meanwhile retries.
pub(crate) fn holder(home: &Path) -> io::Result<Holder> {
    // A FIFO in its place is an error; opening it does not block.
    let mut file = match regular_file::open(&home.join(FILE)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Holder::Unlocked),
        Err(error) => return Err(error),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(Holder::Unlocked),
        Err(TryLockError::WouldBlock) => Ok(Holder::Locked(owner(&mut file))),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether no process holds the store. If that cannot be determined, one may.
pub(crate) fn is_free(home: &Path) -> bool {
    matches!(holder(home), Ok(Holder::Unlocked))
}

fn owner(file: &mut File) -> Option<Owner> {
    let mut text = String::new();
    file.take(MAX_OWNER_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_named_in_an_unlocked_file_does_not_hold_the_store() {
        let home = tempfile::tempdir().unwrap();
        assert!(is_free(home.path()));
        let named = format!(
            r#"{{"pid": {}, "command": "sortie serve", "since": "2026-01-01T00:00:00Z"}}"#,
            std::process::id()
        );
        std::fs::write(home.path().join(FILE), named).unwrap();
        assert!(is_free(home.path()));
        let locked = File::open(home.path().join(FILE)).unwrap();
        locked.lock().unwrap();
        assert!(!is_free(home.path()));
        let holder = holder(home.path()).unwrap();
        assert!(
            matches!(&holder, Holder::Locked(Some(owner)) if owner.pid == std::process::id()),
            "{holder:?}"
        );
    }
}
