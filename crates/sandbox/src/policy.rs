//! The policy of a command.

use std::path::PathBuf;

use serde::Serialize;

use crate::protected::{Protected, usual};

/// The restrictions on one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The workspace, named without links; the command starts in it or beneath it.
    pub workspace: PathBuf,
    /// The access to the workspace.
    pub access: Access,
    /// Further writable folders, such as the shared part of a linked worktree; named without links.
    pub extra_write: Vec<PathBuf>,
    /// Further readable folders; named without links. One that contains a link is left out.
    pub extra_read: Vec<PathBuf>,
    pub network: Network,
    pub limits: Limits,
    /// Paths in the workspace that the command must not change.
    pub protected: Vec<Protected>,
    /// Absolute paths that the command must not see.
    pub hidden: Vec<PathBuf>,
}

impl Policy {
    /// Returns the default policy of a command that may change its workspace and has no network.
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

/// The access of a command to its workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

/// The network access of a command. No variant permits sockets of other programs on this machine
/// (`AF_UNIX`): key agents, display servers and container daemons all listen there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// No network; the command cannot create sockets.
    Off,
    /// Only a private loopback on which no other process listens. Requires namespaces.
    Loopback,
    /// These TCP ports of any host, and DNS over UDP. Requires Landlock version 4 or later.
    Ports(Vec<u16>),
    /// Every host that this machine reaches, including the runtime's own port.
    On,
}

/// The resource limits of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// The most processes and threads at the same time.
    pub processes: u64,
    /// The most memory: of all processes together where a control group can be created, otherwise
    /// of each process.
    pub memory_bytes: u64,
    /// The CPU time of each process.
    pub cpu_seconds: u64,
    /// The largest size of a file.
    pub file_bytes: u64,
    /// The most open files of each process.
    pub open_files: u64,
    /// The size of its private `/tmp` and of its empty home, each.
    pub scratch_bytes: u64,
}

impl Default for Limits {
    /// Enough for the build of a large project, while a runaway command still ends.
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
