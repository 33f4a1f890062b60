//! Where a run works: in its parent's folder, or in a worktree that no other run writes to.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::id::BlobId;

words! {
    /// Where a run works.
    Isolation {
        /// In its parent's workspace.
        None = "none",
        /// In its own git worktree.
        Worktree = "worktree",
    }
}

words! {
    /// What confines the shell commands of a run.
    SandboxMode {
        /// A sandbox of the operating system. Without one, no command runs.
        Required = "required",
        /// Nothing, by an operator's explicit setting.
        Off = "off",
    }
}

words! {
    /// What a person did with the changes in a worktree.
    ChangesFate {
        /// They are in the main checkout.
        Applied = "applied",
        /// They were discarded with their branch.
        Discarded = "discarded",
    }
}

/// The worktree of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worktree {
    /// The main checkout of its repository.
    pub repository: PathBuf,
    pub root: PathBuf,
    /// The folder in it that corresponds to the parent's workspace.
    pub workspace: PathBuf,
    pub branch: String,
    /// The commit that it was created from.
    pub base: String,
    /// Folders that its git writes to.
    pub git_dirs: Vec<PathBuf>,
    /// Folders outside of it that its git reads objects from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub git_reads: Vec<PathBuf>,
}

/// The changes of a run in its worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Changes {
    /// The branch that contains the changes.
    pub branch: String,
    /// The commit that the worktree was created from.
    pub base: String,
    /// The commit that contains all changes.
    pub commit: String,
    /// Changed files.
    pub files: u64,
    /// Lines added.
    pub insertions: u64,
    /// Lines removed.
    pub deletions: u64,
    /// Blob of the diff, which may be truncated.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub diff: BlobId,
}
