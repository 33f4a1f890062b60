//! Who holds the store, for commands that only look.

use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::path::Path;

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

/// Looks who holds the store in this folder. The lock is touched only for an instant.
pub(crate) fn holder(home: &Path) -> io::Result<Holder> {
    let mut file = match File::open(home.join(FILE)) {
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
///
/// The lock itself is tried only if no living process is named in it, so that a command that looks
/// several times a second does not get into the way of one that wants to work.
pub(crate) fn is_free(home: &Path) -> bool {
    let named = File::open(home.join(FILE))
        .ok()
        .and_then(|mut file| owner(&mut file));
    !named.is_some_and(|owner| is_alive(&owner)) && matches!(holder(home), Ok(Holder::Nobody))
}

/// Whether this process holds the store. Like [`is_free`], it touches the lock only if what is written
/// in it does not tell.
pub(crate) fn is_held_by(home: &Path, pid: u32) -> io::Result<bool> {
    let named = File::open(home.join(FILE))
        .ok()
        .and_then(|mut file| owner(&mut file));
    let said = named.filter(is_alive).map(|owner| owner.pid);
    if said.is_some() {
        return Ok(said == Some(pid));
    }
    Ok(match holder(home)? {
        Holder::Nobody => false,
        Holder::Somebody(owner) => owner.is_none_or(|owner| owner.pid == pid),
    })
}

#[cfg(unix)]
fn is_alive(owner: &Owner) -> bool {
    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process};
    let pid = i32::try_from(owner.pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

#[cfg(not(unix))]
fn is_alive(_owner: &Owner) -> bool {
    false
}

fn owner(file: &mut File) -> Option<Owner> {
    let mut text = String::new();
    file.take(MAX_OWNER_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}
