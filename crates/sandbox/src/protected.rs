//! What a child must not change, as data: files that change what *other* programs do, outside the
//! sandbox and without anybody asking for it (P15).
//!
//! Left out on purpose: what only acts when somebody builds or installs the project (`package.json`,
//! `.npmrc`, `Makefile`, `build.rs`, `.cargo/config.toml`, workflows of a forge). To write those is
//! the work of a coding agent, and its reviewer reads them like any other code.

use std::path::PathBuf;

/// Something that a command must not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protected {
    /// Where, seen from the workspace.
    pub path: PathBuf,
    /// What is done as long as it is not there.
    pub absent: WhileAbsent,
}

/// How something is kept from being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhileAbsent {
    /// An empty folder stands in its place while commands run. Git does not see empty folders, and
    /// removing one can lose nothing.
    StandIn,
    /// What appears is taken away when the command has ended: a folder of this name would disturb
    /// programs outside the sandbox.
    Watch,
}

/// Folders and files of the workspace, with the reason for each.
const IN_WORKSPACE: &[(&str, WhileAbsent)] = &[
    // Agents and tools that we or others start next, and what they may do.
    (".sortie", WhileAbsent::StandIn),
    ("sortie.toml", WhileAbsent::StandIn),
    (".claude", WhileAbsent::StandIn),
    (".agents", WhileAbsent::StandIn),
    (".codex", WhileAbsent::StandIn),
    (".gemini", WhileAbsent::StandIn),
    (".opencode", WhileAbsent::StandIn),
    (".mcp.json", WhileAbsent::StandIn),
    // Editors run tasks and start servers from these when a folder is opened.
    (".cursor", WhileAbsent::StandIn),
    (".vscode", WhileAbsent::StandIn),
    (".idea", WhileAbsent::StandIn),
    (".zed", WhileAbsent::StandIn),
    // Runs when somebody's shell enters the folder.
    (".envrc", WhileAbsent::StandIn),
    // Hooks of git by another name.
    (".husky", WhileAbsent::StandIn),
    // A hook, a filter or a monitor in here runs at the next `git status` of a person.
    (".git/hooks", WhileAbsent::StandIn),
    (".git/config", WhileAbsent::StandIn),
    // Repositories with hooks and settings of their own, of submodules and of linked worktrees. All of
    // it, as what lies in a folder that commands change cannot be listed while they change it.
    (".git/modules", WhileAbsent::StandIn),
    (".git/worktrees", WhileAbsent::StandIn),
    // Only read where the setting for it is on, and then git gives up at a folder too.
    (".git/config.worktree", WhileAbsent::Watch),
    // Names another folder as the one with the hooks; git gives up where it finds a folder instead.
    (".git/commondir", WhileAbsent::Watch),
];

/// Names inside a folder of git that lies elsewhere than in `.git` of the workspace: of the
/// repository that a worktree is linked to.
pub(crate) const IN_GIT_FOLDER: &[(&str, WhileAbsent)] = &[
    ("hooks", WhileAbsent::StandIn),
    ("config", WhileAbsent::StandIn),
    ("modules", WhileAbsent::StandIn),
    ("worktrees", WhileAbsent::StandIn),
    ("config.worktree", WhileAbsent::Watch),
    ("commondir", WhileAbsent::Watch),
];
/// Names inside the small folder of a linked worktree, which has neither hooks nor settings.
pub(crate) const IN_LINKED_FOLDER: &[(&str, WhileAbsent)] = &[
    ("modules", WhileAbsent::StandIn),
    ("config.worktree", WhileAbsent::Watch),
    ("commondir", WhileAbsent::Watch),
    ("gitdir", WhileAbsent::Watch),
];

/// Files of a home folder that run when somebody logs in or opens a shell. A stand-in could lock a
/// person out, so these are watched.
pub(crate) const IN_HOME: &[&str] = &[
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".config/autostart",
    ".config/environment.d",
    ".config/fish",
    ".config/git",
    ".config/systemd",
    ".gitconfig",
    ".inputrc",
    ".kshrc",
    ".local/bin",
    ".pam_environment",
    ".profile",
    ".ssh",
    ".tcshrc",
    ".vimrc",
    ".xprofile",
    ".xsessionrc",
    ".zlogin",
    ".zprofile",
    ".zshenv",
    ".zshrc",
];

/// The list that every policy starts from.
pub fn usual() -> Vec<Protected> {
    IN_WORKSPACE
        .iter()
        .map(|(path, absent)| Protected {
            path: PathBuf::from(path),
            absent: *absent,
        })
        .collect()
}
