//! Where a run works: in its parent's folder, or in a copy that nobody else writes to.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::id::BlobId;

words! {
    /// Where a run works.
    Isolation {
        /// In the folder of whoever asked.
        None = "none",
        /// In a git worktree of its own.
        Worktree = "worktree",
    }
}

words! {
    /// What shell commands of a run are started in.
    SandboxMode {
        /// A sandbox of the operating system; without one, no command runs.
        Required = "required",
        /// Nothing: an operator's explicit choice.
        Off = "off",
    }
}

words! {
    /// What became of the changes in a worktree.
    ChangesFate {
        /// They are in the checkout that they were made for.
        Applied = "applied",
        /// They were thrown away.
        Discarded = "discarded",
    }
}

/// The worktree that was made for a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worktree {
    /// The repository it belongs to: its main checkout.
    pub repository: PathBuf,
    /// The folder of the worktree.
    pub root: PathBuf,
    /// The folder in it that stands for the requester's workspace.
    pub workspace: PathBuf,
    /// The branch that its changes are on.
    pub branch: String,
    /// The commit that it began with.
    pub base: String,
    /// Folders that its git writes to.
    pub git_dirs: Vec<PathBuf>,
    /// Folders outside that its git reads objects from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub git_reads: Vec<PathBuf>,
}

/// What a run changed in its worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// The branch that holds them.
    pub branch: String,
    /// The commit that the run began with.
    pub base: String,
    /// The commit with everything.
    pub commit: String,
    /// How many files.
    pub files: u64,
    /// Lines added.
    pub insertions: u64,
    /// Lines removed.
    pub deletions: u64,
    /// The diff, bounded.
    pub diff: BlobId,
}
