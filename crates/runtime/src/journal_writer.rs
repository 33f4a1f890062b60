//! Writes one run's journal: the fold moves at once, durability follows in order.
//!
//! Appends are handed to the store without waiting, because the store keeps their order: whatever
//! is durable later has everything before it. Only an effect that must not be repeated waits, by
//! [`JournalWriter::flush`]. A crash therefore loses at most a tail of facts that nothing depended on yet.
//! So does a failed write: each append names the entry it follows, so the store refuses those behind
//! one that was lost. The fold is then ahead of the journal, and the journal has to be loaded again.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::future::BoxFuture;
use sortie_agent::{IllegalEvent, RunState};
use sortie_core::{
    Amount, Append, Appended, AuditEntry, Blob, Cancellation, Clock, Event, Fence, JournalEntry,
    Store, StoreError, StoreResult,
};

/// Appends under way at once before the writer waits for the first.
const MAX_UNDER_WAY: usize = 8;

/// Why a journal cannot be written on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalWriteError {
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The machine made an event that its own fold refuses: a bug.
    #[error("the machine contradicts itself: {0}")]
    Illegal(#[from] IllegalEvent),
}

/// What is written at once.
#[derive(Debug, Default)]
pub(crate) struct NewEntries {
    pub(crate) events: Vec<Event>,
    /// Long outputs that the events refer to.
    pub(crate) blobs: Vec<Blob>,
    /// What happened to calls.
    pub(crate) audit: Vec<AuditEntry>,
    /// What the question under way really cost.
    pub(crate) spent: Option<Amount>,
}

impl From<crate::dispatch::CallRecord> for NewEntries {
    fn from(finished: crate::dispatch::CallRecord) -> Self {
        Self {
            events: vec![finished.event],
            blobs: finished.blobs,
            audit: finished.audit,
            spent: None,
        }
    }
}

impl From<Event> for NewEntries {
    fn from(event: Event) -> Self {
        Self {
            events: vec![event],
            ..Self::default()
        }
    }
}

/// Whether reading the inbox added an entry to the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InboxRead {
    /// There was nothing to read.
    Empty,
    /// The messages are now part of the journal.
    Journaled,
}

/// Writes one run's journal.
pub(crate) struct JournalWriter {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    fence: Fence,
    state: RunState,
    in_flight: VecDeque<BoxFuture<'static, StoreResult<Appended>>>,
    inbox_waiting: bool,
    cancel: Option<Cancellation>,
    paused: bool,
    /// What happened to calls and is written with the next facts.
    pending_audit: Vec<AuditEntry>,
}

impl JournalWriter {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        fence: Fence,
        state: RunState,
    ) -> Self {
        Self {
            store,
            clock,
            fence,
            state,
            in_flight: VecDeque::new(),
            inbox_waiting: false,
            cancel: None,
            paused: false,
            pending_audit: Vec::new(),
        }
    }

    pub(crate) const fn state(&self) -> &RunState {
        &self.state
    }

    /// What the store said about a cancel, in the answer to an append.
    pub(crate) const fn cancel(&self) -> Option<&Cancellation> {
        self.cancel.as_ref()
    }

    /// Whether somebody wants the run to rest, by the answer to the last append.
    pub(crate) const fn pause_requested(&self) -> bool {
        self.paused
    }

    /// Takes facts into the fold and hands them to the store.
    pub(crate) async fn write(
        &mut self,
        facts: impl Into<NewEntries>,
    ) -> Result<(), JournalWriteError> {
        let mut facts = facts.into();
        facts.audit.splice(0..0, self.take_pending_audit());
        let at = self.clock.now();
        let follows = self.state.head();
        // Only entries have a place in the journal by which a later append could miss them.
        let is_bare = facts.events.is_empty();
        for event in &facts.events {
            let entry = JournalEntry {
                run: self.fence.run,
                seq: self.state.head().next(),
                at,
                epoch: self.fence.epoch,
                event: event.clone(),
            };
            self.state.apply(&entry)?;
        }
        let append = Append {
            fence: self.fence,
            follows,
            at,
            events: facts.events,
            summary: self.state.summary(),
            blobs: facts.blobs,
            audit: facts.audit,
            spent: facts.spent,
        };
        let store = Arc::clone(&self.store);
        let mut appending: BoxFuture<'static, _> =
            Box::pin(async move { store.append(append).await });
        // The first poll gives the append its place in the store's order.
        match futures::poll!(appending.as_mut()) {
            std::task::Poll::Ready(appended) => self.apply_report(appended?),
            std::task::Poll::Pending => self.in_flight.push_back(appending),
        }
        if is_bare {
            return self.flush().await;
        }
        while self.in_flight.len() > MAX_UNDER_WAY {
            self.flush_one().await?;
        }
        Ok(())
    }

    /// Waits until everything written is durable.
    pub(crate) async fn flush(&mut self) -> Result<(), JournalWriteError> {
        while !self.in_flight.is_empty() {
            self.flush_one().await?;
        }
        Ok(())
    }

    /// Writes these with the next facts: they tell of calls that others have answered.
    pub(crate) fn audit_later(&mut self, audit: Vec<AuditEntry>) {
        self.pending_audit.extend(audit);
    }

    /// What was to be written with the next facts.
    pub(crate) fn take_pending_audit(&mut self) -> Vec<AuditEntry> {
        std::mem::take(&mut self.pending_audit)
    }

    /// Takes the inbox into the journal, if there may be something in it. `audit` makes the audit entries of the state
    /// before and of the new entry.
    pub(crate) async fn take_inbox(
        &mut self,
        hinted: bool,
        audit: impl FnOnce(&RunState, &JournalEntry) -> Vec<AuditEntry>,
    ) -> Result<InboxRead, JournalWriteError> {
        if !hinted && !self.inbox_waiting {
            return Ok(InboxRead::Empty);
        }
        self.flush().await?;
        self.inbox_waiting = false;
        let (follows, at) = (self.state.head(), self.clock.now());
        let Some(entry) = self.store.take_inbox(self.fence, follows, at).await? else {
            return Ok(InboxRead::Empty);
        };
        let audit = audit(&self.state, &entry);
        self.state.apply(&entry)?;
        self.audit_later(audit);
        Ok(InboxRead::Journaled)
    }

    async fn flush_one(&mut self) -> Result<(), JournalWriteError> {
        if let Some(appending) = self.in_flight.pop_front() {
            let appended = appending.await?;
            self.apply_report(appended);
        }
        Ok(())
    }

    fn apply_report(&mut self, appended: Appended) {
        self.inbox_waiting |= appended.inbox_waiting;
        self.paused = appended.paused;
        if appended.cancel.is_some() {
            self.cancel = appended.cancel;
        }
    }
}
