//! The letters of hooks: counting, listing, retrying and dismissing them.

use sortie_core::hook::{Hook, Letter, LetterState};
use sortie_core::ports::store::{LetterCount, Unblock};

use super::{Runtime, RuntimeError};

impl Runtime {
    /// Returns the hooks of this process.
    pub fn hooks(&self) -> &[Hook] {
        &self.engine.settings().hooks
    }

    /// Returns letters in this state, the oldest first.
    pub async fn letters(
        &self,
        state: LetterState,
        limit: u32,
    ) -> Result<Vec<Letter>, RuntimeError> {
        Ok(self.engine.store.letters(state, limit).await?)
    }

    /// Counts the letters of each receiver.
    pub async fn letter_counts(&self) -> Result<Vec<LetterCount>, RuntimeError> {
        Ok(self.engine.store.letter_counts().await?)
    }

    /// Retries dead letters or drops them: one, or all; returns how many.
    pub async fn unblock_letters(
        &self,
        id: Option<i64>,
        choice: Unblock,
    ) -> Result<u64, RuntimeError> {
        let now = self.engine.clock.now();
        let changed = self.engine.store.unblock_letters(id, choice, now).await?;
        self.engine.wakeups.letters.notify_one();
        Ok(changed)
    }
}
