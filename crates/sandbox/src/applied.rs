//! What really holds for a command, for the record and for `doctor`.

use serde::Serialize;

use crate::policy::{Access, Limits, Network};

/// Who holds a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// `bwrap` builds the view, our helper narrows what runs in it.
    Bubblewrap,
    /// Our helper does both.
    Namespaces,
    /// Our helper narrows what runs in the real tree.
    Landlock,
    /// No backend: the operator switched the sandbox off.
    None,
}

impl Backend {
    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bubblewrap => "bubblewrap",
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock",
            Self::None => "none",
        }
    }

    /// Whether the command lives among processes, files and networks of its own.
    pub(crate) const fn has_namespaces(self) -> bool {
        match self {
            Self::Bubblewrap | Self::Namespaces => true,
            Self::Landlock | Self::None => false,
        }
    }
}

/// What really applied to one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// Who holds it.
    pub backend: Backend,
    /// What it may do in its workspace.
    pub access: Access,
    /// Whom it may reach.
    pub network: Network,
    /// The version of Landlock beneath, 0 for none.
    pub landlock: u32,
    /// What it may use up.
    pub limits: Limits,
    /// Whether memory and processes are bounded for all of its processes together.
    pub control_group: bool,
    /// What this machine cannot hold, in sentences.
    pub not_held: Vec<&'static str>,
}

/// What is said of a command without a sandbox.
const SWITCHED_OFF: &str = "Nothing is held: the sandbox is switched off.";

/// What a backend does not hold on a machine.
pub(crate) fn not_held(backend: Backend, network: &Network, grouped: bool) -> Vec<&'static str> {
    let mut missing = Vec::new();
    match backend {
        Backend::Bubblewrap | Backend::Namespaces => {}
        Backend::Landlock => missing.extend([
            "The command sees the names and command lines of all processes on this machine.",
            "A process that detaches itself can outlive a supervisor that the command kills.",
            "No new file can be made in the top folder of the workspace, and git cannot commit.",
            "Permissions, owners and times of files can be changed wherever the user may change them.",
            "Whether a file outside the workspace exists, and how large it is, can be asked.",
        ]),
        Backend::None => missing.push(SWITCHED_OFF),
    }
    if !grouped && backend != Backend::None {
        missing.push(
            "Memory is limited for each process, not for all processes of a command together.",
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
