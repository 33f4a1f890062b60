//! Checks the final answer of the run.

use std::sync::Arc;

use sortie_core::event::Event;

use super::{Executor, Raced};
use crate::dispatch::{Answer, Dispatch};
use crate::journal_writer::{JournalWriteError, NewEntries};

impl Executor {
    /// Runs the checks and journals what they found. A cancel, the deadline or a shutdown stops them;
    /// the next step is decided again.
    pub(super) async fn check(&mut self) -> Result<(), JournalWriteError> {
        let engine = Arc::clone(&self.engine);
        let spec = Arc::clone(&self.spec);
        let authority = Arc::clone(&self.authority);
        let worktree = self.journal.state().worktree().cloned();
        let dispatch = Dispatch {
            engine: &engine,
            spec: &spec,
            fence: self.fence,
            authority: &authority,
            worktree: worktree.as_ref(),
            not_after: self.journal.state().tree_deadline(),
            head: self.journal.state().head(),
            // Checks start no runs.
            messages: &[],
            model: &spec.model,
        };
        let state = self.journal.state();
        let answer = Answer {
            text: state.last_text().unwrap_or_default(),
            was_sent_back: state.was_sent_back(),
        };
        let checked = self
            .interruptions(engine.settings().shutdown_grace)
            .race(dispatch.check_result(&answer))
            .await;
        if let Raced::Done((results, audit)) = checked {
            let entries = NewEntries {
                events: vec![Event::Checked { results }],
                audit,
                ..NewEntries::default()
            };
            self.journal.write(entries).await?;
        }
        Ok(())
    }
}
