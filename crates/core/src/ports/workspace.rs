//! What a run finds around it on disk: worktrees of its own, and skills.

use std::fmt;
use std::path::Path;

use async_trait::async_trait;

use crate::id::RunId;
use crate::run::{Changes, Worktree};
use crate::skill::SkillRef;

/// Makes worktrees for runs and brings back what was changed in them.
///
/// Implementers guarantee that nothing reaches the main checkout but by [`Worktrees::apply`], that
/// nothing a run has written is executed, and that every step can be repeated after a crash.
#[async_trait]
pub trait Worktrees: Send + Sync + fmt::Debug {
    /// Makes the worktree of a run, or finds the one that it has; the sentence says why not.
    async fn create(&self, run: RunId, workspace: &Path) -> Result<Worktree, String>;
    /// Keeps what was changed in the worktree of a run and removes it; `None` if nothing was changed.
    /// The same again if it was collected before.
    async fn collect(&self, run: RunId) -> Result<Option<Collected>, String>;
    /// Brings changes into the main checkout, all of them or none; says which files.
    async fn apply(&self, worktree: &Worktree, changes: &Changes) -> Result<Vec<String>, String>;
    /// Throws changes away, with their branch.
    async fn discard(&self, worktree: &Worktree, changes: &Changes) -> Result<(), String>;
    /// Removes what runs have left that no longer exist, and mends what a crash interrupted. Work
    /// that was never collected goes to its branch first.
    async fn sweep(&self, known: &[RunId]) -> Result<(), String>;
}

/// What was changed in a worktree, with the diff.
#[derive(Clone, Debug)]
pub struct Collected {
    /// What.
    pub changes: Changes,
    /// The text behind `changes.diff`.
    pub diff: Vec<u8>,
}

/// Finds skills.
pub trait Skills: Send + Sync + fmt::Debug {
    /// Those that an agent in this workspace may load, the nearest first.
    fn in_workspace(&self, workspace: &Path) -> Vec<SkillRef>;
    /// Those of a folder that an operator named, wherever it is.
    fn in_operators_folder(&self, workspace: &Path, folder: &str) -> Result<Vec<SkillRef>, String>;
    /// Those of a folder that a run named: beneath the workspace, or none.
    fn in_folder(&self, workspace: &Path, folder: &str) -> Result<Vec<SkillRef>, String>;
}

/// There are no skills.
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

/// There are no worktrees: whoever wants one is told so.
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

    async fn sweep(&self, _known: &[RunId]) -> Result<(), String> {
        Ok(())
    }
}
