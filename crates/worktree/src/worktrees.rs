//! The public interface: where worktrees are stored, and the operations on them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::At as _;
use crate::git::Git;
use crate::own_git::OwnGit;
use crate::paths::PROTECTED_NAMES;
use crate::record::{RunFolder, State, remove_folder};
use crate::repository::Repository;
use crate::snapshot::SnapshotBounds;
use crate::summary::Between;
use crate::{Result, Worktree, WorktreeError, refs};

/// The folder for data that lives no longer than a call.
pub(crate) const SCRATCH_FOLDER: &str = ".scratch";

static SCRATCH_COUNT: AtomicU64 = AtomicU64::new(0);

/// All worktrees of one Sortie.
///
/// Only one caller at a time may work on one run; different runs are independent.
#[derive(Clone, Debug)]
pub struct Worktrees {
    pub(crate) folder: PathBuf,
    pub(crate) git: Git,
    pub(crate) bounds: SnapshotBounds,
    pub(crate) protected: Vec<String>,
}

impl Worktrees {
    /// Stores worktrees in this folder, which no child may write to as a whole.
    pub fn new(folder: impl Into<PathBuf>, git: Git) -> Self {
        Self {
            folder: folder.into(),
            git,
            bounds: SnapshotBounds::default(),
            protected: PROTECTED_NAMES.iter().map(ToString::to_string).collect(),
        }
    }

    /// Sets the names that changes must not touch, in place of [`PROTECTED_NAMES`].
    #[must_use]
    pub fn with_protected(self, names: &[&str]) -> Self {
        let protected = names.iter().map(ToString::to_string).collect();
        Self { protected, ..self }
    }

    /// Sets the limits of snapshots.
    #[must_use]
    pub fn with_bounds(self, bounds: SnapshotBounds) -> Self {
        Self { bounds, ..self }
    }

    /// Returns the worktree of a run, if it has one that was not collected yet.
    pub fn open(&self, run: &str) -> Result<Option<Worktree>> {
        let folder = self.run_folder(run)?;
        let Some(record) = folder.read()? else {
            return Ok(None);
        };
        match &record.state {
            State::Open(opened) => Ok(Some(record.worktree(&folder, opened))),
            State::Creating | State::Collected(..) => Ok(None),
        }
    }

    /// Returns the diff of a commit against its base, as long as its branch exists: the beginning
    /// as text, and whether there is more.
    pub async fn diff(
        &self,
        repository: &Path,
        branch: &str,
        base: &str,
        commit: &str,
    ) -> Result<(String, bool)> {
        refs::check_commit(base)?;
        let repository = Repository::find(&self.git, repository).await?;
        refs::check_at(&self.git, &repository, branch, commit).await?;
        let scratch = self.scratch(&repository)?;
        let sealed = self.seal(&scratch.own, &repository, (base, commit), None);
        let sealed = sealed.await?;
        let between = Between {
            git: &self.git,
            own: sealed.own(),
            base,
            commit,
        };
        between.text().await
    }

    /// Removes a branch of Sortie with its changes; `false` if it did not exist.
    pub async fn discard(&self, repository: &Path, branch: &str) -> Result<bool> {
        let repository = Repository::find(&self.git, repository).await?;
        let Some(commit) = refs::commit_of(&self.git, &repository, branch).await? else {
            return Ok(false);
        };
        refs::remove(&self.git, &repository, branch, &commit).await?;
        Ok(true)
    }

    pub(crate) fn run_folder(&self, run: &str) -> Result<RunFolder> {
        refs::check_run_id(run)?;
        // Children work in this folder, and the path of a workspace must have no links.
        let folder = fs::canonicalize(&self.folder).unwrap_or_else(|_| self.folder.clone());
        Ok(RunFolder(folder.join(run)))
    }

    /// Checks that our folder is not part of a repository, and returns its canonical path.
    pub(crate) fn check_outside(&self, repository: &Repository) -> Result<PathBuf> {
        fs::create_dir_all(&self.folder).at("make", &self.folder)?;
        let home = fs::canonicalize(&self.folder).at("find", &self.folder)?;
        if home.starts_with(&repository.root) {
            return Err(WorktreeError::FolderInside {
                folder: home,
                root: repository.root.clone(),
            });
        }
        Ok(home)
    }

    /// Creates a git folder for the duration of one call.
    pub(crate) fn scratch(&self, repository: &Repository) -> Result<Scratch> {
        let own = OwnGit::write(&self.scratch_dir()?, repository);
        own.map(|own| Scratch { own })
    }

    /// Creates a git folder for one call that borrows no objects.
    pub(crate) fn scratch_without_objects(&self, repository: &Repository) -> Result<Scratch> {
        let own = OwnGit::write_alone(&self.scratch_dir()?, repository);
        own.map(|own| Scratch { own })
    }

    fn scratch_dir(&self) -> Result<PathBuf> {
        let number = SCRATCH_COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}", std::process::id());
        let dir = self.folder.join(SCRATCH_FOLDER).join(name);
        // A process with the same id may have died here earlier.
        remove_folder(&dir)?;
        fs::create_dir_all(&dir).at("make", &dir)?;
        Ok(dir)
    }
}

/// A git folder that is removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) own: OwnGit,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is swept at the next start.
        remove_folder(&self.own.dir).ok();
    }
}
