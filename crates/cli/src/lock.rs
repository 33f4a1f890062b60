//! Who holds the store, for commands that only look.
//!
//! The lock of the operating system alone says whether somebody does. The process that is named in the
//! file is a word for people: its id may mean another process by now, or somewhere else.

use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::path::Path;

use sortie_base::regular_file;
use sortie_store::Owner;

/// The store's lock, in its folder.
const FILE: &str = "lock";
/// Longer descriptions are not the store's.
const MAX_OWNER_BYTES: u64 = 64 * 1024;

/// Who holds the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Nobody: whatever has not ended waits for a process.
    Nobody,
    /// A living process, which may not have said its name yet.
    Somebody(Option<Owner>),
}

/// Looks who holds the store in this folder. The lock is shared for an instant with others who look,
/// and whoever wants to take it meanwhile tries again.
pub(crate) fn holder(home: &Path) -> io::Result<Holder> {
    // A FIFO in its place is an error, and not waited for.
    let mut file = match regular_file::open(&home.join(FILE)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Holder::Nobody),
        Err(error) => return Err(error),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(Holder::Nobody),
        Err(TryLockError::WouldBlock) => Ok(Holder::Somebody(owner(&mut file))),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether nobody runs what has not ended. Where that cannot be found out, somebody may.
pub(crate) fn is_free(home: &Path) -> bool {
    matches!(holder(home), Ok(Holder::Nobody))
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
    fn a_process_that_is_only_named_holds_nothing() {
        let home = tempfile::tempdir().unwrap();
        assert!(is_free(home.path()));
        let named = format!(
            r#"{{"pid": {}, "command": "sortie serve", "since": 1}}"#,
            std::process::id()
        );
        std::fs::write(home.path().join(FILE), named).unwrap();
        assert!(is_free(home.path()));
        let held = File::open(home.path().join(FILE)).unwrap();
        held.lock().unwrap();
        assert!(!is_free(home.path()));
        let holder = holder(home.path()).unwrap();
        assert!(
            matches!(&holder, Holder::Somebody(Some(owner)) if owner.pid == std::process::id()),
            "{holder:?}"
        );
    }
}
