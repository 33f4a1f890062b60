//! One process writes the store. The operating system frees the lock when the process dies.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sortie_core::{StoreError, StoreResult, Timestamp};

use crate::files;

const DOING: &str = "take its lock";
/// Longer descriptions are not ours.
const MAX_OWNER_BYTES: u64 = 64 * 1024;

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
        match file.try_lock() {
            Ok(()) => {
                describe(&mut file, owner).map_err(failed)?;
                Ok(Self { file })
            }
            Err(TryLockError::WouldBlock) => Err(StoreError::Locked {
                owner: read_owner(&mut file),
            }),
            Err(TryLockError::Error(error)) => Err(failed(error)),
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

/// The owner's own words; it may have taken the lock a moment ago and not written them yet.
fn read_owner(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.take(MAX_OWNER_BYTES).read_to_string(&mut text);
    match read.map(|_| serde_json::from_str::<Owner>(&text)) {
        Ok(Ok(owner)) => owner.to_string(),
        Ok(Err(_)) | Err(_) => "another process".to_owned(),
    }
}

fn failed(error: io::Error) -> StoreError {
    StoreError::Failed {
        doing: DOING,
        source: Box::new(error),
    }
}
