//! What runs changed in their worktrees.

use sortie_core::id::RunId;

use super::{Runtime, RuntimeError};
use crate::changes;

impl Runtime {
    /// Returns the diff of what a run changed in its worktree.
    pub async fn diff(&self, run: RunId) -> Result<String, RuntimeError> {
        Ok(changes::changed(&self.engine, run).await?.diff)
    }

    /// Applies the changes of a run to the checkout it came from; returns the files.
    pub async fn apply(&self, run: RunId) -> Result<Vec<String>, RuntimeError> {
        changes::apply(&self.engine, run).await
    }

    /// Discards the changes of a run.
    pub async fn discard(&self, run: RunId) -> Result<(), RuntimeError> {
        changes::discard(&self.engine, run).await
    }
}
