//! What a command may do.

use std::path::PathBuf;

use serde::Serialize;

use crate::protected::{Protected, usual};

/// What one command may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The folder it works on, named without links; it starts in it or beneath it.
    pub workspace: PathBuf,
    /// What it may do there.
    pub access: Access,
    /// Further folders it may change, such as the shared part of a linked worktree; named without
    /// links.
    pub extra_write: Vec<PathBuf>,
    /// Further folders it may read; named without links, and left out if there is one.
    pub extra_read: Vec<PathBuf>,
    /// Whom it may reach.
    pub network: Network,
    /// What it may use up.
    pub limits: Limits,
    /// What it must not change, although it lies in the workspace.
    pub protected: Vec<Protected>,
    /// What it must not see, wherever it lies; absolute.
    pub hidden: Vec<PathBuf>,
}

impl Policy {
    /// The usual policy of a command that may change its workspace and has no network.
    pub fn of(workspace: PathBuf) -> Self {
        Self {
            workspace,
            access: Access::ReadWrite,
            extra_write: Vec::new(),
            extra_read: Vec::new(),
            network: Network::Off,
            limits: Limits::default(),
            protected: usual(),
            hidden: Vec::new(),
        }
    }
}

/// What a command may do in its workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Look.
    ReadOnly,
    /// Look and change.
    ReadWrite,
}

/// Whom a command may reach. Sockets of other programs on this machine (`AF_UNIX`) are beyond every
/// one of these: agents of keys, display servers and container daemons all listen there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// No peer; the command has no sockets.
    Off,
    /// Only itself: a private loopback on which no other process listens. Needs namespaces.
    Loopback,
    /// These TCP ports of any host, and DNS by UDP. Needs Landlock of version 4 or later.
    Ports(Vec<u16>),
    /// Every host that this machine reaches, the runtime's own port included.
    On,
}

/// What a command may use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Processes and threads at the same time.
    pub processes: u64,
    /// Memory: of all together where a control group can be made, else of each process.
    pub memory_bytes: u64,
    /// Time on a processor, of each process.
    pub cpu_seconds: u64,
    /// The longest file.
    pub file_bytes: u64,
    /// Files open at the same time, of each process.
    pub open_files: u64,
    /// Its own `/tmp` and its own empty home, each.
    pub scratch_bytes: u64,
}

impl Default for Limits {
    /// Room for a build of a large project, and an end for what has none.
    fn default() -> Self {
        const GIB: u64 = 1 << 30;
        Self {
            processes: 1024,
            memory_bytes: 8 * GIB,
            cpu_seconds: 3600,
            file_bytes: 4 * GIB,
            open_files: 4096,
            scratch_bytes: GIB,
        }
    }
}
