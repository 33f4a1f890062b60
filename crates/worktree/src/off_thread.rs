//! Work on files off the async threads, which have to stay free for other runs.

use crate::{Result, WorktreeError};

/// Does blocking work on a thread of its own. One call of [`crate::Worktrees`] has at most one such
/// piece of work at a time, and no piece opens a file in a way that can block.
pub(crate) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(WorktreeError::Stopped),
    }
}
