//! Removes the worktrees of runs that no longer exist.

use std::fs;
use std::path::{Path, PathBuf};

use crate::apply::{APPLYING_FOLDER, Applying, take, unlock};
use crate::error::At as _;
use crate::install;
use crate::record::{Collected, Record, RunFolder, State, remove_folder};
use crate::repository::Repository;
use crate::worktrees::SCRATCH_FOLDER;
use crate::{Result, WorktreeError, Worktrees, refs};

/// The result of a sweep.
#[derive(Debug, Default)]
pub struct Swept {
    /// Runs whose worktrees were removed.
    pub removed: Vec<String>,
    /// Branches with work of these runs that stay, each for a person to apply or discard.
    pub kept_branches: Vec<String>,
    /// Worktrees that stay, because they contain files that a branch cannot; a person may remove
    /// them.
    pub kept_folders: Vec<PathBuf>,
    /// The number of main checkouts that a dead process was changing and that were restored.
    pub restored: usize,
    /// Failed operations; the next sweep retries them.
    pub failures: Vec<(String, WorktreeError)>,
}

impl Worktrees {
    /// Returns the names of the folders beside the worktrees. A folder that was not made for a run
    /// may be among them.
    pub fn runs(&self) -> Result<Vec<String>> {
        names_in(&self.folder)
    }

    /// Removes the worktrees of these runs, and nothing that it did not create. Commits uncollected
    /// work to its branch first.
    pub async fn sweep(&self, gone: &[String]) -> Result<Swept> {
        let mut swept = Swept::default();
        self.sweep_scratch()?;
        self.restore_all(&mut swept)?;
        for name in gone.iter().cloned() {
            // A folder without the name or the record of a run is not ours.
            let Ok(folder) = self.run_folder(&name) else {
                continue;
            };
            let record = match folder.read() {
                Ok(Some(record)) if record.run == name => record,
                Ok(Some(_) | None) => continue,
                Err(error) => {
                    swept.failures.push((name, error));
                    continue;
                }
            };
            match self.collect_leftover(&folder, record).await {
                Ok(collected) => swept.clear(&folder, name, collected)?,
                Err(error) => swept.failures.push((name, error)),
            }
        }
        Ok(swept)
    }

    /// Returns the collected work of a run, and commits it to its branch first if that has not
    /// happened.
    async fn collect_leftover(&self, folder: &RunFolder, record: Record) -> Result<Collected> {
        match &record.state {
            State::Open(opened) => self.collect(&record.worktree(folder, opened)).await,
            State::Collected(_, collected) => Ok(collected.clone()),
            State::Creating => {
                self.forget_branch(&record).await?;
                Ok(Collected::Untouched)
            }
        }
    }

    /// Removes the branch of a worktree that was never opened and so has no work.
    async fn forget_branch(&self, record: &Record) -> Result<()> {
        let repository = match Repository::find(&self.git, &record.repository).await {
            Ok(repository) => repository,
            // The branch was removed together with its repository.
            Err(WorktreeError::NotARepository { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        match refs::commit_of(&self.git, &repository, &record.branch).await? {
            Some(commit) => refs::remove(&self.git, &repository, &record.branch, &commit).await,
            None => Ok(()),
        }
    }

    /// Removes temporary folders that calls of earlier processes left.
    fn sweep_scratch(&self) -> Result<()> {
        let folder = self.folder.join(SCRATCH_FOLDER);
        let own = format!("{}-", std::process::id());
        for name in names_in(&folder)? {
            if !name.starts_with(&own) {
                remove_folder(&folder.join(name))?;
            }
        }
        Ok(())
    }

    fn restore_all(&self, swept: &mut Swept) -> Result<()> {
        let folder = self.folder.join(APPLYING_FOLDER);
        for name in names_in(&folder)? {
            match self.restore(&folder.join(&name)) {
                Ok(is_restored) => swept.restored += usize::from(is_restored),
                Err(error) => swept.failures.push((name, error)),
            }
        }
        Ok(())
    }

    /// Restores a main checkout if a process died while it changed it.
    fn restore(&self, path: &Path) -> Result<bool> {
        let Some(lock) = take(path)? else {
            return Ok(false);
        };
        let bytes = fs::read(path).at("read", path)?;
        if bytes.is_empty() {
            return Ok(false);
        }
        let applying: Applying =
            serde_json::from_slice(&bytes).map_err(|source| WorktreeError::Damaged {
                path: path.to_owned(),
                source,
            })?;
        if path != self.applying_file(&applying.root) || !applying.root.is_dir() {
            // This is not the lock of this checkout, or its disk is not mounted now.
            return Ok(false);
        }
        let is_restored = install::recover(&self.place(&applying.root))?;
        unlock(&lock, path)?;
        Ok(is_restored)
    }
}

impl Swept {
    fn clear(&mut self, folder: &RunFolder, run: String, collected: Collected) -> Result<()> {
        if let Collected::Changed(changes) = collected {
            self.kept_branches.push(changes.branch);
            if let Some(kept) = changes.kept.filter(|kept| kept.exists()) {
                self.kept_folders.push(kept);
                return Ok(());
            }
        }
        self.removed.push(run);
        remove_folder(&folder.0)
    }
}

/// Returns the names in a folder that are valid UTF-8; empty if there is no folder.
fn names_in(folder: &Path) -> Result<Vec<String>> {
    let found = match fs::read_dir(folder) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).at("list", folder),
    };
    let mut names = Vec::new();
    for entry in found {
        let entry = entry.at("list", folder)?;
        names.extend(entry.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}
