//! The stored state of a worktree, in a folder of the run that the child cannot write to.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sortie_base::atomic_file;

use crate::error::At as _;
use crate::own_git::OwnGit;
use crate::snapshot::{LeftOut, Uncommitted};
use crate::summary::ChangedFile;
use crate::{Result, WorktreeError};

const RECORD_FILE: &str = "record.json";
const TREE_FOLDER: &str = "tree";
const GIT_FOLDER: &str = "git";
const PATCH_FILE: &str = "changes.patch";

/// A child's own working tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worktree {
    /// The run that owns it.
    pub run: String,
    /// The top of the working tree.
    pub root: PathBuf,
    /// The folder in which the child works: at the same relative path as the workspace in the main
    /// checkout.
    pub workspace: PathBuf,
    /// The branch for its changes.
    pub branch: String,
    /// The commit that it starts from.
    pub base: String,
    /// The main checkout that it was created from.
    pub repository: PathBuf,
    /// The git folders that a sandbox must expose.
    pub git_dirs: GitDirs,
    /// How uncommitted changes of the main checkout were treated.
    pub uncommitted: Uncommitted,
    pub(crate) folder: PathBuf,
}

/// The folders that a sandbox must expose so that git works in a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitDirs {
    /// Folders that the child's git writes to.
    pub writable: Vec<PathBuf>,
    /// Folders outside the worktree that git reads objects from. They must not be writable.
    pub readable: Vec<PathBuf>,
    /// Places in the writable folders that make programs run, to be protected from writes. Our own
    /// calls do not read them; git does when a person starts it in the worktree.
    pub protected: Vec<PathBuf>,
}

/// The outcome of a worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Collected {
    /// The child changed nothing; the worktree and its branch are removed.
    Untouched,
    /// The child made changes; the worktree is removed, and the branch has the changes.
    Changed(Box<Changes>),
}

/// The changes of a child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// The branch with the changes.
    pub branch: String,
    /// The commit on the branch.
    pub commit: String,
    /// The commit to compare it with.
    pub base: String,
    /// The number of changed files.
    pub file_count: usize,
    /// The first of the changed files.
    pub files: Vec<ChangedFile>,
    /// The number of added lines.
    pub insertions: u64,
    /// The number of removed lines.
    pub deletions: u64,
    /// The beginning of the diff, as text.
    pub diff: String,
    /// Whether the diff is truncated.
    pub is_diff_cut: bool,
    /// The complete diff, as a file for `git apply`.
    pub patch: PathBuf,
    /// Files of the child that the changes do not include.
    pub left_out: LeftOut,
    /// The worktree, which is kept if something was left out.
    pub kept: Option<PathBuf>,
}

/// The state of a worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// Creation is not complete yet.
    Creating,
    /// The child may work.
    Open(Opened),
    /// The child's work is on its branch, or there was none.
    Collected(Opened, Collected),
}

/// The properties of a worktree once it is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Opened {
    /// The commit that it starts from.
    pub(crate) base: String,
    /// The commit of its branch until its changes are on it; `None` if the branch does not exist
    /// yet.
    pub(crate) branch_at: Option<String>,
    /// How uncommitted changes were treated.
    pub(crate) uncommitted: Uncommitted,
    /// The object folders of the repository.
    pub(crate) objects: Vec<PathBuf>,
}

/// The stored state of a worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) run: String,
    pub(crate) branch: String,
    /// The top of the main checkout.
    pub(crate) repository: PathBuf,
    /// The path of the workspace relative to it.
    pub(crate) prefix: PathBuf,
    pub(crate) state: State,
}

/// The folder of one run.
#[derive(Clone, Debug)]
pub(crate) struct RunFolder(pub(crate) PathBuf);

impl RunFolder {
    /// Returns the folder with the child's files.
    pub(crate) fn tree(&self) -> PathBuf {
        self.0.join(TREE_FOLDER)
    }

    /// Returns our own git folder.
    pub(crate) fn own_git(&self) -> OwnGit {
        OwnGit::at(self.0.join(GIT_FOLDER))
    }

    /// Returns the path of the complete patch.
    pub(crate) fn patch(&self) -> PathBuf {
        self.0.join(PATCH_FILE)
    }

    /// Reads the record; `None` if the folder was not created by us.
    pub(crate) fn read(&self) -> Result<Option<Record>> {
        let path = self.0.join(RECORD_FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).at("read", &path),
        };
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|source| WorktreeError::Damaged { path, source })
    }

    /// Writes the record atomically and durably.
    pub(crate) fn write(&self, record: &Record) -> Result<()> {
        let path = self.0.join(RECORD_FILE);
        let bytes = serde_json::to_vec_pretty(record);
        let bytes = bytes.map_err(|source| WorktreeError::Damaged {
            path: path.clone(),
            source,
        })?;
        atomic_file::replace(&path, &bytes).at("write", &path)
    }

    /// Removes the child's files and our git folder; the record stays.
    pub(crate) fn remove_files(&self) -> Result<()> {
        remove_folder(&self.tree())?;
        remove_folder(&self.own_git().dir)
    }
}

impl Record {
    /// Returns the public description of the worktree.
    pub(crate) fn worktree(&self, folder: &RunFolder, opened: &Opened) -> Worktree {
        let root = folder.tree();
        let git_dir = root.join(".git");
        let mut readable = vec![folder.own_git().objects()];
        readable.extend(opened.objects.iter().cloned());
        let protected = ["config", "config.worktree", "hooks", "info", "commondir"];
        Worktree {
            run: self.run.clone(),
            workspace: root.join(&self.prefix),
            branch: self.branch.clone(),
            base: opened.base.clone(),
            repository: self.repository.clone(),
            git_dirs: GitDirs {
                protected: protected.map(|name| git_dir.join(name)).into(),
                readable,
                writable: vec![git_dir],
            },
            uncommitted: opened.uncommitted.clone(),
            folder: folder.0.clone(),
            root,
        }
    }
}

/// Removes a folder with its content, if it exists.
pub(crate) fn remove_folder(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).at("remove", path),
    }
}
