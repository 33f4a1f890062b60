//! Removes what runs left that no longer exist.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::apply::{APPLYING_FOLDER, Applying, take, unlock};
use crate::error::At as _;
use crate::install;
use crate::record::{Collected, Record, RunFolder, State, remove_folder};
use crate::repository::Repository;
use crate::worktrees::SCRATCH_FOLDER;
use crate::{Result, WorktreeError, Worktrees, refs};

/// What a sweep found.
#[derive(Debug, Default)]
pub struct Swept {
    /// Runs whose worktrees are gone.
    pub removed: Vec<String>,
    /// Branches with work of theirs that stay, each for a person to apply or discard.
    pub kept_branches: Vec<String>,
    /// Worktrees that stay, as they hold what a branch cannot; a person may remove them.
    pub kept_folders: Vec<PathBuf>,
    /// Main checkouts that were being changed when a process died, and that are as before again.
    pub restored: usize,
    /// What could not be done; the next sweep tries again.
    pub failures: Vec<(String, WorktreeError)>,
}

impl Worktrees {
    /// Removes the worktrees of runs that are not among those known, and nothing that it did not
    /// make. Work that was never collected is put on its branch first.
    pub async fn sweep(&self, known: &HashSet<String>) -> Result<Swept> {
        let mut swept = Swept::default();
        self.sweep_scratch()?;
        self.restore_all(&mut swept)?;
        for name in names_in(&self.folder)? {
            if known.contains(&name) {
                continue;
            }
            // Whatever is not named like a run, or says nothing of one, is not ours.
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

    /// Removes the branch of a worktree that was never opened and so holds no work.
    async fn forget_branch(&self, record: &Record) -> Result<()> {
        let repository = match Repository::find(&self.git, &record.repository).await {
            Ok(repository) => repository,
            // The branch went with its repository.
            Err(WorktreeError::NotARepository { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        match refs::commit_of(&self.git, &repository, &record.branch).await? {
            Some(commit) => refs::remove(&self.git, &repository, &record.branch, &commit).await,
            None => Ok(()),
        }
    }

    /// Removes what calls of earlier processes left.
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

    /// Makes a main checkout as it was, if a process died while it changed it.
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
            // Not the lock of this checkout; or its disk may come back.
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

/// The names in a folder that can be written down; none if there is no folder.
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
