//! The restrictions that really apply to a command, for the record and for `doctor`.

use serde::Serialize;

use crate::policy::{Access, Limits, Network};

/// The mechanism that confines a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// `bwrap` builds the file view; our helper restricts the process that runs in it.
    Bubblewrap,
    /// Our helper builds the file view and restricts the process.
    Namespaces,
    /// Our helper restricts the process, which runs in the real file tree.
    Landlock,
    /// No backend: the operator disabled the sandbox.
    None,
}

impl Backend {
    /// Returns the display name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bubblewrap => "bubblewrap",
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock",
            Self::None => "none",
        }
    }

    /// Returns whether the command has its own PID, mount and network namespaces.
    pub(crate) const fn has_namespaces(self) -> bool {
        match self {
            Self::Bubblewrap | Self::Namespaces => true,
            Self::Landlock | Self::None => false,
        }
    }
}

/// The restrictions that really applied to one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Applied {
    pub backend: Backend,
    /// The access of the command to its workspace.
    pub access: Access,
    /// The network access of the command.
    pub network: Network,
    /// The Landlock ABI version of the kernel; 0 if Landlock is unavailable.
    pub landlock: u32,
    pub limits: Limits,
    /// Whether a control group limits memory and processes for all processes of the command
    /// together.
    pub control_group: bool,
    /// The restrictions that this machine cannot enforce, as sentences.
    pub not_held: Vec<&'static str>,
}

/// The sentence for a command without a sandbox.
const SWITCHED_OFF: &str = "Nothing is confined: the sandbox is switched off.";

/// Returns the restrictions that a backend does not enforce on this machine.
pub(crate) fn not_held(backend: Backend, network: &Network, grouped: bool) -> Vec<&'static str> {
    let mut missing = Vec::new();
    match backend {
        Backend::Bubblewrap | Backend::Namespaces => {}
        Backend::Landlock => missing.extend([
            "The command sees the names and command lines of all processes on this machine.",
            "A process that detaches itself can outlive a supervisor that the command kills.",
            "No new file can be created in the top folder of the workspace, and git cannot commit.",
            "Permissions, owners and times of files can be changed wherever the user may change them.",
            "The command can learn whether a file outside the workspace exists, and its size.",
        ]),
        Backend::None => missing.push(SWITCHED_OFF),
    }
    if !grouped && backend != Backend::None {
        missing.push(
            "The memory limit applies to each process, not to all processes of a command together.",
        );
        if rustix::process::geteuid().is_root() || !backend.has_namespaces() {
            missing.push("The number of processes is not limited.");
        }
    }
    if *network == Network::On && backend != Backend::None {
        missing
            .push("The network is on: the command also reaches every port of this machine itself.");
    }
    missing
}
