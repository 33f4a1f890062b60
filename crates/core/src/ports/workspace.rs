//! Ports to a run's surroundings on disk: worktrees and skills.

use std::fmt;
use std::path::Path;

use async_trait::async_trait;

use crate::id::RunId;
use crate::run::{Changes, Worktree};
use crate::skill::SkillRef;

/// Creates worktrees for runs and collects the changes in them.
///
/// Implementers guarantee that only [`Worktrees::apply`] changes the main checkout, that no file
/// which a run wrote is executed, and that every step can be repeated after a crash.
#[async_trait]
pub trait Worktrees: Send + Sync + fmt::Debug {
    /// Creates the worktree of a run, or returns the existing one. The error is a sentence.
    async fn create(&self, run: RunId, workspace: &Path) -> Result<Worktree, String>;
    /// Commits the changes of a run and removes its worktree; `None` if nothing changed. A repeated
    /// call returns the same.
    async fn collect(&self, run: RunId) -> Result<Option<Collected>, String>;
    /// Applies changes to the main checkout, all or none; returns the changed files.
    async fn apply(&self, worktree: &Worktree, changes: &Changes) -> Result<Vec<String>, String>;
    /// Discards changes with their branch.
    async fn discard(&self, worktree: &Worktree, changes: &Changes) -> Result<(), String>;
    /// Returns the runs that have a worktree, or had one and were not swept.
    async fn runs(&self) -> Result<Vec<RunId>, String>;
    /// Removes the worktrees of runs that no longer exist and repairs what a crash interrupted.
    /// Changes that were never collected are committed to their branch first.
    async fn sweep(&self, gone: &[RunId]) -> Result<(), String>;
}

/// The changes of a worktree with their diff.
#[derive(Clone, Debug)]
pub struct Collected {
    pub changes: Changes,
    /// The content of `changes.diff`.
    pub diff: Vec<u8>,
}

/// Finds the skills of a workspace.
pub trait Skills: Send + Sync + fmt::Debug {
    /// Returns the skills that an agent in this workspace may load, the nearest first.
    fn in_workspace(&self, workspace: &Path) -> Vec<SkillRef>;
    /// Returns the skills in a folder that an operator named, wherever it is.
    fn in_operators_folder(&self, workspace: &Path, folder: &str) -> Result<Vec<SkillRef>, String>;
    /// Returns the skills in a folder that a run named, which must be inside the workspace.
    fn in_folder(&self, workspace: &Path, folder: &str) -> Result<Vec<SkillRef>, String>;
}

/// A source without skills.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSkills;

impl Skills for NoSkills {
    fn in_workspace(&self, _workspace: &Path) -> Vec<SkillRef> {
        Vec::new()
    }

    fn in_operators_folder(
        &self,
        _workspace: &Path,
        _folder: &str,
    ) -> Result<Vec<SkillRef>, String> {
        Ok(Vec::new())
    }

    fn in_folder(&self, _workspace: &Path, _folder: &str) -> Result<Vec<SkillRef>, String> {
        Ok(Vec::new())
    }
}

/// Worktrees that are not available: every request fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWorktrees;

#[async_trait]
impl Worktrees for NoWorktrees {
    async fn create(&self, _run: RunId, _workspace: &Path) -> Result<Worktree, String> {
        Err("worktrees are not available here".to_owned())
    }

    async fn collect(&self, _run: RunId) -> Result<Option<Collected>, String> {
        Err("worktrees are not available here".to_owned())
    }

    async fn apply(&self, _worktree: &Worktree, _changes: &Changes) -> Result<Vec<String>, String> {
        Err("worktrees are not available here".to_owned())
    }

    async fn discard(&self, _worktree: &Worktree, _changes: &Changes) -> Result<(), String> {
        Err("worktrees are not available here".to_owned())
    }

    async fn runs(&self) -> Result<Vec<RunId>, String> {
        Ok(Vec::new())
    }

    async fn sweep(&self, _gone: &[RunId]) -> Result<(), String> {
        Ok(())
    }
}
