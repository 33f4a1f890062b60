//! Implements the port of letters.

use async_trait::async_trait;
use sortie_core::hook::{Letter, LetterState, NewLetter};
use sortie_core::ports::store::{DeliveryAttempt, LetterCount, Letters, StoreResult, Unblock};
use sortie_core::time::Timestamp;

use crate::SqlStore;
use crate::execute::Execute;
use crate::transitions::letters;

#[async_trait]
impl<E: Execute> Letters for SqlStore<E> {
    async fn post(&self, new: Vec<NewLetter>, at: Timestamp) -> StoreResult<()> {
        self.execute
            .write("write letters", move |connection| {
                letters::post(connection, &new, at)
            })
            .await
    }

    async fn due_letters(
        &self,
        receivers: Vec<String>,
        now: Timestamp,
    ) -> StoreResult<Vec<Letter>> {
        self.execute
            .read("find letters to deliver", move |connection| {
                letters::due(connection, &receivers, now)
            })
            .await
    }

    async fn record_letter(&self, id: i64, attempt: DeliveryAttempt) -> StoreResult<()> {
        self.execute
            .write("record the delivery of a letter", move |connection| {
                letters::record(connection, id, &attempt)
            })
            .await
    }

    async fn letters(&self, state: LetterState, limit: u32) -> StoreResult<Vec<Letter>> {
        self.letters(state, limit).await
    }

    async fn letter_counts(&self) -> StoreResult<Vec<LetterCount>> {
        self.letter_counts().await
    }

    async fn unblock_letters(
        &self,
        id: Option<i64>,
        choice: Unblock,
        at: Timestamp,
    ) -> StoreResult<u64> {
        self.execute
            .write("unblock letters", move |connection| {
                letters::unblock(connection, id, choice, at)
            })
            .await
    }

    async fn tidy_letters(&self, known: Vec<String>, at: Timestamp) -> StoreResult<()> {
        self.execute
            .write("remove old letters", move |connection| {
                letters::tidy(connection, &known, at)
            })
            .await
    }
}
