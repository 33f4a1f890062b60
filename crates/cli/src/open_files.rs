//! How many files and connections this process may have open.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// As many as a server takes: enough for ten thousand listeners and the store. Programs that it starts
/// outside a sandbox inherit the number, and some of them close so many files at their start; the
/// sandbox gives commands a limit of its own.
const WANTED: u64 = 65_536;

/// With fewer, strangers who only connect could take what the store needs.
const ENOUGH: u64 = 4096;

/// How many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenFiles {
    /// If it asks for them.
    pub(crate) most: u64,
}

impl OpenFiles {
    /// What holds for this process.
    pub(crate) fn of_process() -> Self {
        let limit = getrlimit(Resource::Nofile);
        Self {
            most: limit.maximum.unwrap_or(u64::MAX),
        }
    }

    /// Whether a server could run out of them.
    pub(crate) const fn are_few(self) -> bool {
        self.most < ENOUGH
    }
}

/// Takes as many as a server needs, as far as the system lets it.
pub(crate) fn raise() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(WANTED).min(WANTED);
    if limit.current.is_none_or(|now| now >= wanted) {
        return Ok(());
    }
    let current = Some(wanted);
    Ok(setrlimit(Resource::Nofile, Rlimit { current, ..limit })?)
}
