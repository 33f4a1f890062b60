//! Worktrees of runs, made by the git of this machine.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use sortie_core::id::{BlobId, RunId};
use sortie_core::ports::workspace::Collected;
use sortie_core::run::{Changes, Worktree};
use sortie_worktree::{Applied, Git, How};

use crate::Options;

/// The folder of worktrees in the home folder.
const WORKTREES_FOLDER: &str = "worktrees";

/// Worktrees of runs, made by the git of this machine.
#[derive(Debug)]
pub struct GitWorktrees {
    folder: PathBuf,
    worktrees: Option<sortie_worktree::Worktrees>,
}

impl GitWorktrees {
    /// Keeps worktrees in the home folder. Every operation fails if there is no git.
    pub fn new(options: &Options) -> Self {
        let folders = options.safe_path();
        let git = folders
            .iter()
            .map(|folder| folder.join("git"))
            .find(|program| program.is_file());
        let path = std::env::join_paths(&folders).unwrap_or_default();
        let folder = options.home.join(WORKTREES_FOLDER);
        Self {
            worktrees: git.map(|program| {
                // Through the helper, git ends with this process.
                let helper = options.helper.as_ref();
                let launcher = helper.map(|helper| sortie_sandbox::death_signal(helper.path()));
                let git = Git::new(program, path).through(launcher.unwrap_or_default());
                // Files that commands must not change are not changed by `apply` either. The names
                // in a `.git` are left out: `apply` changes no path through one.
                let usual = sortie_sandbox::usual();
                let names = usual
                    .iter()
                    .filter(|one| one.path.components().count() == 1);
                let names: Vec<&str> = names.filter_map(|one| one.path.to_str()).collect();
                sortie_worktree::Worktrees::new(&folder, git).with_protected(&names)
            }),
            folder,
        }
    }

    fn get(&self) -> Result<&sortie_worktree::Worktrees, String> {
        self.worktrees.as_ref().ok_or_else(|| {
            "there is no git in PATH; install it, or work without isolation".to_owned()
        })
    }
}

#[async_trait]
impl sortie_core::ports::workspace::Worktrees for GitWorktrees {
    async fn create(&self, run: RunId, workspace: &Path) -> Result<Worktree, String> {
        let made = self.get()?.create(&run.to_string(), workspace).await;
        let made = made.map_err(|error| sortie_core::error::with_causes(&error))?;
        Ok(Worktree {
            repository: made.repository,
            root: made.root,
            workspace: made.workspace,
            branch: made.branch,
            base: made.base,
            git_dirs: made.git_dirs.writable,
            git_reads: made.git_dirs.readable,
        })
    }

    async fn collect(&self, run: RunId) -> Result<Option<Collected>, String> {
        let collected = self.get()?.collect_run(&run.to_string()).await;
        match collected.map_err(|error| sortie_core::error::with_causes(&error))? {
            sortie_worktree::Collected::Untouched => Ok(None),
            sortie_worktree::Collected::Changed(changes) => {
                let diff = changes.diff.into_bytes();
                Ok(Some(Collected {
                    changes: Changes {
                        branch: changes.branch,
                        base: changes.base,
                        commit: changes.commit,
                        files: changes.file_count as u64,
                        insertions: changes.insertions,
                        deletions: changes.deletions,
                        diff: BlobId::of(&diff),
                    },
                    diff,
                }))
            }
        }
    }

    async fn apply(&self, worktree: &Worktree, changes: &Changes) -> Result<Vec<String>, String> {
        let applied = self
            .get()?
            .apply(
                &worktree.repository,
                &changes.branch,
                &changes.base,
                &changes.commit,
                How::Write,
            )
            .await;
        match applied.map_err(|error| sortie_core::error::with_causes(&error))? {
            Applied::Applied { files, .. } => Ok(files),
            Applied::Conflict { files } => Err(format!(
                "nothing was changed: these files have conflicting changes: {}. Merge branch {} by hand, or discard it",
                files.join(", "),
                changes.branch
            )),
            Applied::Refused(why) => Err(why),
        }
    }

    async fn discard(&self, worktree: &Worktree, changes: &Changes) -> Result<(), String> {
        let discarded = self
            .get()?
            .discard(&worktree.repository, &changes.branch)
            .await;
        discarded
            .map(drop)
            .map_err(|error| sortie_core::error::with_causes(&error))
    }

    async fn runs(&self) -> Result<Vec<RunId>, String> {
        if !self.folder.is_dir() {
            return Ok(Vec::new());
        }
        let names = self.get()?.runs();
        let names = names.map_err(|error| sortie_core::error::with_causes(&error))?;
        // Anything else in the folder is not ours.
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    async fn sweep(&self, gone: &[RunId]) -> Result<(), String> {
        if !self.folder.is_dir() {
            return Ok(());
        }
        let gone: Vec<String> = gone.iter().map(ToString::to_string).collect();
        let swept = self.get()?.sweep(&gone).await;
        let swept = swept.map_err(|error| sortie_core::error::with_causes(&error))?;
        tracing::debug!(?swept, "old worktrees");
        Ok(())
    }
}
