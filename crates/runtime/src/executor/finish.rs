//! The end of a run, as its executor writes it.

use sortie_core::event::Event;
use sortie_core::id::Fence;
use sortie_core::ports::store::{Blob, Finish, Finishing, StoreResult, Unread};
use sortie_core::run::{Outcome, Reason, Summary};
use sortie_text::text;

use super::{Executor, ExecutorExit};
use crate::crash::{self, Point};
use crate::engine::Engine;
use crate::journal_writer::{InboxRead, JournalWriteError};
use crate::leftovers::{stop_calls, stop_leftovers};

/// Whether the end of a run was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FinishResult {
    /// The outcome is durable; the run has ended.
    Written,
    /// The run has unread messages and must answer them before it ends.
    InboxFirst,
}

impl Executor {
    /// Ends the run, unless it completed and has messages to answer first.
    pub(super) async fn finish(
        &mut self,
        outcome: Outcome,
    ) -> Result<FinishResult, JournalWriteError> {
        let unread = match outcome {
            Outcome::Completed { .. } if self.journal.state().worktree().is_none() => Unread::First,
            // A run cannot work in a worktree that was collected, so the inbox is read before.
            Outcome::Completed { .. } if self.take_inbox(true).await? == InboxRead::Journaled => {
                return Ok(FinishResult::InboxFirst);
            }
            Outcome::Completed { .. }
            | Outcome::Failed { .. }
            | Outcome::Timeout { .. }
            | Outcome::Cancelled { .. } => Unread::Kept,
        };
        self.end(outcome, unread).await
    }

    /// Returns the outcome of a run whose worktree an earlier claim may have collected already: the
    /// run cannot continue there, whatever its inbox contains.
    pub(super) fn decided_outcome(&self) -> Option<Outcome> {
        let state = self.journal.state();
        state.worktree()?;
        state.conclusion().cloned()
    }

    /// Collects the worktree and writes the end.
    pub(super) async fn end(
        &mut self,
        outcome: Outcome,
        unread: Unread,
    ) -> Result<FinishResult, JournalWriteError> {
        // Before the worktree is collected: leftover processes could still change it.
        let interrupted = self.journal.state().interrupted_calls();
        stop_calls(&self.engine, self.fence.run, interrupted).await;
        let (events, blobs) = self.collect().await;
        let audit = self.journal.take_pending_audit();
        let finishing = self.engine.store.finish(Finish {
            fence: self.fence,
            follows: self.journal.state().head(),
            at: self.engine.clock.now(),
            events,
            blobs,
            summary: self.journal.state().summary(),
            outcome,
            audit: audit.clone(),
            unread,
        });
        // The store keeps the order of writes and refuses the end if an earlier one was lost, so
        // the end need not wait until the earlier ones are durable.
        let (finished, flushed) = futures::join!(finishing, self.journal.flush());
        flushed?;
        match finished? {
            Finishing::Ended(report) => {
                crash::point(Point::AfterFinish);
                // Descendants that a crash interrupted end with the run, and no process executes
                // them.
                let ended = report.ended.iter().map(|ended| ended.run);
                let others = ended.filter(|run| *run != self.fence.run);
                stop_leftovers(&self.engine, others.collect()).await;
                self.engine.publish_end(report);
                Ok(FinishResult::Written)
            }
            Finishing::Unread => {
                self.journal.audit_later(audit);
                Ok(FinishResult::InboxFirst)
            }
        }
    }

    /// Collects the changes in the run's worktree. A worktree that cannot be collected stays where
    /// it is; `sortie tasks diff` shows it.
    async fn collect(&mut self) -> (Vec<Event>, Vec<Blob>) {
        if self.journal.state().worktree().is_none() {
            return (Vec::new(), Vec::new());
        }
        match self.engine.worktrees.collect(self.fence.run).await {
            Ok(None) => (vec![Event::Collected { changes: None }], Vec::new()),
            Ok(Some(collected)) => {
                let blob = Blob {
                    id: collected.changes.diff.clone(),
                    bytes: collected.diff,
                };
                let event = Event::Collected {
                    changes: Some(collected.changes),
                };
                (vec![event], vec![blob])
            }
            Err(message) => {
                tracing::error!(run = %self.fence.run, message, "cannot collect the worktree");
                (Vec::new(), Vec::new())
            }
        }
    }
}

/// Ends a run whose journal cannot be read, with the summary of its record.
pub(super) async fn give_up(
    engine: &Engine,
    fence: Fence,
    what: &str,
) -> Result<ExecutorExit, JournalWriteError> {
    tracing::error!(run = %fence.run, what, "cannot read the journal");
    let message = text(engine.lang(), "fail-damaged", &[("what", what.into())]);
    fail(engine, fence, Reason::Error, message).await?;
    Ok(ExecutorExit::Ended)
}

/// Ends a run whose executor fails again and again, because the store refuses its writes.
pub(crate) async fn end_failing(engine: &Engine, fence: Fence, what: &str) -> StoreResult<()> {
    let message = text(engine.lang(), "fail-stuck", &[("what", what.into())]);
    fail(engine, fence, Reason::Interrupted, message).await
}

/// Ends a run without its fold, with the summary of its record.
async fn fail(engine: &Engine, fence: Fence, reason: Reason, message: String) -> StoreResult<()> {
    let record = engine.store.get(fence.run).await?;
    let partial = record.summary.last_text.clone();
    let finished = engine
        .store
        .finish(Finish {
            fence,
            follows: record.head,
            at: engine.clock.now(),
            events: Vec::new(),
            blobs: Vec::new(),
            summary: Summary {
                waiting_on: None,
                ..record.summary
            },
            audit: Vec::new(),
            unread: Unread::Kept,
            outcome: Outcome::Failed {
                reason,
                message,
                partial,
            },
        })
        .await?;
    if let Finishing::Ended(report) = finished {
        let ended = report.ended.iter().map(|ended| ended.run);
        stop_leftovers(engine, ended.collect()).await;
        engine.publish_end(report);
    }
    Ok(())
}
