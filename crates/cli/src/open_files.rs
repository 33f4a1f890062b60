//! The limit of open files and connections of this process.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit that a server requests: enough for ten thousand subscribers and the store. Programs
/// that it starts outside a sandbox inherit the limit, and some of them close that many descriptors
/// at startup; the sandbox sets its own limit for commands.
const WANTED: u64 = 65_536;

/// With a lower limit, clients that only connect could use up the descriptors that the store needs.
const ENOUGH: u64 = 4096;

/// The limits of open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenFiles {
    /// The hard limit, up to which the process may raise its own.
    pub(crate) most: u64,
}

impl OpenFiles {
    /// Reads the limits of this process.
    pub(crate) fn of_process() -> Self {
        let limit = getrlimit(Resource::Nofile);
        Self {
            most: limit.maximum.unwrap_or(u64::MAX),
        }
    }

    /// Whether a server could run out of descriptors.
    pub(crate) const fn are_few(self) -> bool {
        self.most < ENOUGH
    }
}

/// Raises the limit to what a server needs, as far as the system allows.
pub(crate) fn raise() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(WANTED).min(WANTED);
    if limit.current.is_none_or(|now| now >= wanted) {
        return Ok(());
    }
    let current = Some(wanted);
    Ok(setrlimit(Resource::Nofile, Rlimit { current, ..limit })?)
}
