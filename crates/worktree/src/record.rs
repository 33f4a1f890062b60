//! What we keep about a worktree, in a folder of the run's that the child cannot write to.

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
    /// The run it belongs to.
    pub run: String,
    /// Its top.
    pub root: PathBuf,
    /// Where the child works: the same folder in it as the workspace was in the main checkout.
    pub workspace: PathBuf,
    /// The branch that its changes will be on.
    pub branch: String,
    /// The commit it starts from.
    pub base: String,
    /// The main checkout it was made from.
    pub repository: PathBuf,
    /// What git needs in it.
    pub git_dirs: GitDirs,
    /// What was done about uncommitted changes of the main checkout.
    pub uncommitted: Uncommitted,
    pub(crate) folder: PathBuf,
}

/// What a sandbox has to let git do in a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitDirs {
    /// Folders that the child's git writes to.
    pub writable: Vec<PathBuf>,
    /// Folders outside the worktree that it reads objects from. They must not be writable.
    pub readable: Vec<PathBuf>,
    /// Places in the writable folders that make programs run, to be kept from writing. Our own
    /// calls do not look at them; a person who starts git in the worktree does.
    pub protected: Vec<PathBuf>,
}

/// The outcome of a worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Collected {
    /// The child changed nothing; the worktree and its branch are gone.
    Untouched,
    /// The child changed something; the worktree is gone, the branch has it.
    Changed(Box<Changes>),
}

/// What a child changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// The branch that has it.
    pub branch: String,
    /// The commit on the branch.
    pub commit: String,
    /// The commit it is to be compared with.
    pub base: String,
    /// How many files changed.
    pub file_count: usize,
    /// The first of them.
    pub files: Vec<ChangedFile>,
    /// Lines that came.
    pub insertions: u64,
    /// Lines that went.
    pub deletions: u64,
    /// The beginning of the changes, as text.
    pub diff: String,
    /// Whether there is more than that.
    pub is_diff_cut: bool,
    /// All of them, as a file that `git apply` understands.
    pub patch: PathBuf,
    /// What the child made that is not part of them.
    pub left_out: LeftOut,
    /// The worktree, which is kept if something was left out.
    pub kept: Option<PathBuf>,
}

/// How far a worktree is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// Not all of it is there yet.
    Creating,
    /// The child may work.
    Open(Opened),
    /// The child's work is on its branch, or there was none.
    Collected(Opened, Collected),
}

/// What is known once a worktree is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Opened {
    /// Where it starts.
    pub(crate) base: String,
    /// Where its branch is until its changes are on it; none if there is no branch yet.
    pub(crate) branch_at: Option<String>,
    /// What was done about uncommitted changes.
    pub(crate) uncommitted: Uncommitted,
    /// Where the repository keeps its objects.
    pub(crate) objects: Vec<PathBuf>,
}

/// All that we keep about a worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) run: String,
    pub(crate) branch: String,
    /// The top of the main checkout.
    pub(crate) repository: PathBuf,
    /// The place of the workspace in it.
    pub(crate) prefix: PathBuf,
    pub(crate) state: State,
}

/// The folder of one run.
#[derive(Clone, Debug)]
pub(crate) struct RunFolder(pub(crate) PathBuf);

impl RunFolder {
    /// The child's files.
    pub(crate) fn tree(&self) -> PathBuf {
        self.0.join(TREE_FOLDER)
    }

    /// Our git folder.
    pub(crate) fn own_git(&self) -> OwnGit {
        OwnGit::at(self.0.join(GIT_FOLDER))
    }

    /// All that the child changed.
    pub(crate) fn patch(&self) -> PathBuf {
        self.0.join(PATCH_FILE)
    }

    /// What we know, if the folder is one of ours.
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

    /// Remembers, in one step and for good.
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
    /// The worktree as others know it.
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

/// Removes a folder with all that is in it, if it is there.
pub(crate) fn remove_folder(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).at("remove", path),
    }
}
