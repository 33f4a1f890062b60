//! Runs file operations off the async threads, which must stay free for other runs.

use crate::{Result, WorktreeError};

/// Runs blocking work on a separate thread. One call of [`crate::Worktrees`] runs at most one such
/// operation at a time, and none opens a file in a way that can block.
pub(crate) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(WorktreeError::Stopped),
    }
}
