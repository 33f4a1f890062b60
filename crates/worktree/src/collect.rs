//! Collects a child's changes into the repository, on a separate branch.

use std::fs::{self, File};

use crate::error::At as _;
use crate::off_thread::off_thread;
use crate::record::{Changes, Collected, Opened, Record, RunFolder, State};
use crate::repository::Repository;
use crate::sealed::Sealed;
use crate::snapshot::{LeftOut, Snapshot, View, copy_with_time};
use crate::summary::Between;
use crate::{Result, Worktree, WorktreeError, Worktrees, refs};

impl Worktrees {
    /// Ends a worktree: commits the child's changes to its branch, or removes an unchanged
    /// worktree.
    ///
    /// Repeated calls return the same result.
    pub async fn collect(&self, worktree: &Worktree) -> Result<Collected> {
        let folder = RunFolder(worktree.folder.clone());
        let record = folder.read()?;
        let record = record.ok_or_else(|| WorktreeError::Unknown(worktree.run.clone()))?;
        match &record.state {
            State::Open(opened) => {
                let collected = self.gather(&folder, &record, opened).await?;
                finish(&folder, &record, opened, collected).await
            }
            State::Collected(_, collected) => {
                // The process may have died before its cleanup was complete.
                clean_up(&folder, collected).await?;
                Ok(collected.clone())
            }
            State::Creating => Err(WorktreeError::Unknown(worktree.run.clone())),
        }
    }

    /// Ends the worktree of a run; returns the same result if it was ended before.
    pub async fn collect_run(&self, run: &str) -> Result<Collected> {
        let folder = self.run_folder(run)?;
        let record = folder.read()?;
        let record = record.ok_or_else(|| WorktreeError::Unknown(run.to_owned()))?;
        match &record.state {
            State::Open(opened) | State::Collected(opened, _) => {
                self.collect(&record.worktree(&folder, opened)).await
            }
            State::Creating => Err(WorktreeError::Unknown(run.to_owned())),
        }
    }

    async fn gather(
        &self,
        folder: &RunFolder,
        record: &Record,
        opened: &Opened,
    ) -> Result<Collected> {
        let repository = Repository::find(&self.git, &record.repository).await?;
        let own = folder.own_git();
        let snapshot = self.look(folder, &repository).await?;
        let is_same = snapshot.tree == self.tree_of(&own, &opened.base).await?;
        if is_same && snapshot.left_out.is_empty() {
            self.remove_branch(&repository, record, opened).await?;
            return Ok(Collected::Untouched);
        }
        let commit = self.land(folder, record, opened, &snapshot.tree, &repository);
        let commit = commit.await?;
        let sealed = self.seal(&own, &repository, (&opened.base, &commit), None);
        let sealed = sealed.await?;
        let described = self.describe(folder, record, opened, commit, &sealed);
        let changes = Changes {
            kept: (!snapshot.left_out.is_empty()).then(|| folder.tree()),
            left_out: snapshot.left_out,
            ..described.await?
        };
        Ok(Collected::Changed(Box::new(changes)))
    }

    /// Reads the child's files with a copy of our index, which stays unchanged in case of a retry.
    async fn look(&self, folder: &RunFolder, repository: &Repository) -> Result<Snapshot> {
        let (own, tree) = (folder.own_git(), folder.tree());
        let is_folder = fs::symlink_metadata(&tree).at("open", &tree)?.is_dir();
        if !is_folder {
            return Err(std::io::Error::from(std::io::ErrorKind::NotADirectory)).at("open", &tree);
        }
        let index = own.dir.join("collect-index");
        let (from, to) = (own.index(), index.clone());
        off_thread(move || copy_with_time(&from, &to)).await?;
        let view = View {
            git: &self.git,
            own: &own,
            index: &index,
            files: &tree,
            no_object: &repository.no_commit(),
        };
        view.snapshot(self.bounds).await
    }

    async fn remove_branch(
        &self,
        repository: &Repository,
        record: &Record,
        opened: &Opened,
    ) -> Result<()> {
        let now = refs::commit_of(&self.git, repository, &record.branch).await?;
        match (now, &opened.branch_at) {
            (Some(now), Some(ours)) if now == *ours => {
                refs::remove(&self.git, repository, &record.branch, ours).await
            }
            // Already gone, or moved by another process.
            (Some(_) | None, _) => Ok(()),
        }
    }

    /// Commits the child's files, and puts the commit on the branch in the repository.
    async fn land(
        &self,
        folder: &RunFolder,
        record: &Record,
        opened: &Opened,
        tree: &str,
        repository: &Repository,
    ) -> Result<String> {
        let own = folder.own_git();
        let branch = &record.branch;
        let now = refs::commit_of(&self.git, repository, branch).await?;
        if let Some(now) = &now
            && self.is_ours(folder, now, tree, &opened.base).await?
        {
            return Ok(now.clone());
        }
        if now != opened.branch_at {
            return Err(WorktreeError::BranchMoved {
                branch: branch.clone(),
                kept: folder.tree(),
            });
        }
        let message = format!("Changes of the subagent {}\n", record.run);
        let commit = self.commit(&own, tree, &[&opened.base], &message).await?;
        self.hand_over(folder, repository, &commit).await?;
        let none = repository.no_commit();
        let expected = now.as_deref().unwrap_or(&none);
        refs::set(&self.git, repository, branch, &commit, Some(expected)).await?;
        Ok(commit)
    }

    /// Returns whether a commit on the branch is the one that we would put there: an earlier
    /// process died after it had done so.
    async fn is_ours(
        &self,
        folder: &RunFolder,
        commit: &str,
        tree: &str,
        base: &str,
    ) -> Result<bool> {
        let own = folder.own_git();
        let name = format!("{commit}^@");
        let call = self.git.on(&own.dir).args(["rev-parse", &name]);
        let parents = call.output().await?;
        let is_child = String::from_utf8_lossy(&parents).trim() == base;
        Ok(is_child && self.tree_of(&own, commit).await? == tree)
    }

    /// Copies the objects of a commit that the repository lacks into it, as one pack.
    async fn hand_over(
        &self,
        folder: &RunFolder,
        repository: &Repository,
        commit: &str,
    ) -> Result<()> {
        let own = folder.own_git();
        let path = own.dir.join("hand-over.pack");
        let file = File::create(&path).at("write", &path)?;
        let mut wanted = format!("{commit}\n");
        if let Some(head) = &repository.head {
            wanted.push_str(&format!("^{head}\n"));
        }
        let call = self.git.on(&own.dir);
        call.args(["pack-objects", "--revs", "--local", "--stdout", "-q"])
            .input(wanted.into_bytes())
            .output_to(file)
            .await?;
        let file = File::open(&path).at("read", &path)?;
        let call = self.git.on(&own.dir).objects(&repository.objects());
        call.args(["index-pack", "--stdin"])
            .input_file(file)
            .output()
            .await?;
        fs::remove_file(&path).at("remove", &path)
    }

    async fn describe(
        &self,
        folder: &RunFolder,
        record: &Record,
        opened: &Opened,
        commit: String,
        sealed: &Sealed,
    ) -> Result<Changes> {
        let between = Between {
            git: &self.git,
            own: sealed.own(),
            base: &opened.base,
            commit: &commit,
        };
        between.patch(&folder.patch()).await?;
        let summary = between.summary().await?;
        Ok(Changes {
            branch: record.branch.clone(),
            base: opened.base.clone(),
            file_count: summary.file_count,
            files: summary.files,
            insertions: summary.insertions,
            deletions: summary.deletions,
            diff: summary.diff,
            is_diff_cut: summary.is_diff_cut,
            patch: folder.patch(),
            kept: None,
            left_out: LeftOut::default(),
            commit,
        })
    }
}

/// Writes the record first, and removes the files afterwards.
async fn finish(
    folder: &RunFolder,
    record: &Record,
    opened: &Opened,
    collected: Collected,
) -> Result<Collected> {
    let record = Record {
        state: State::Collected(opened.clone(), collected.clone()),
        ..record.clone()
    };
    folder.write(&record)?;
    clean_up(folder, &collected).await?;
    Ok(collected)
}

async fn clean_up(folder: &RunFolder, collected: &Collected) -> Result<()> {
    match collected {
        Collected::Changed(changes) if changes.kept.is_some() => Ok(()),
        Collected::Untouched | Collected::Changed(_) => {
            let folder = folder.clone();
            let removing = tokio::task::spawn_blocking(move || folder.remove_files());
            match removing.await {
                Ok(removed) => removed,
                // The runtime is shutting down: the next call continues the removal.
                Err(_) => Ok(()),
            }
        }
    }
}
