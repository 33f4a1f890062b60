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
    /// Nobody: the operator switched it off.
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

/// What a backend does not hold on a machine.
pub(crate) fn not_held(backend: Backend, network: &Network, grouped: bool) -> Vec<&'static str> {
    let mut missing = Vec::new();
    match backend {
        Backend::Bubblewrap | Backend::Namespaces => {}
        Backend::Landlock => missing.extend([
            "The command sees the names and command lines of other processes.",
            "Processes that leave the process group can outlive a killed helper.",
            "Nothing new can be made in the top folder of the workspace, and git cannot commit.",
            "Modes, owners and times of files can be changed wherever the user may.",
            "The names and sizes of files outside can be asked for.",
        ]),
        Backend::None => missing.push("Nothing is held: the sandbox is switched off."),
    }
    if !grouped && backend != Backend::None {
        missing.push("Memory is bounded for each process, not for all together.");
        if rustix::process::geteuid().is_root() || !backend.has_namespaces() {
            missing.push("The number of processes is not bounded.");
        }
    }
    if *network == Network::On && backend != Backend::None {
        missing.push("The network is on: it reaches every port of this machine too.");
    }
    missing
}
