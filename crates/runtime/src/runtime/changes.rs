//! What runs changed in their worktrees.

use sortie_core::RunId;

use super::{Runtime, RuntimeError};
use crate::changes;

impl Runtime {
    /// What a run changed in its worktree, as a diff.
    pub async fn diff(&self, run: RunId) -> Result<String, RuntimeError> {
        Ok(changes::changed(&self.engine, run).await?.diff)
    }

    /// Brings what a run changed into the checkout it came from; returns the files.
    pub async fn apply(&self, run: RunId) -> Result<Vec<String>, RuntimeError> {
        changes::apply(&self.engine, run).await
    }

    /// Throws away what a run changed.
    pub async fn discard(&self, run: RunId) -> Result<(), RuntimeError> {
        changes::discard(&self.engine, run).await
    }
}
