//! Writes the journal of one run: the fold advances at once, durability follows in order.
//!
//! Appends are handed to the store without waiting, because the store keeps their order: when an
//! entry is durable, so is everything before it. Only an effect that must not be repeated waits, by
//! [`JournalWriter::flush`]. A crash therefore loses at most a tail of entries that nothing
//! depended on yet. So does a failed write: each append names the entry it follows, so the store
//! refuses the appends behind a lost one. The fold is then ahead of the journal, and the journal
//! has to be loaded again.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::future::BoxFuture;
use sortie_agent::{IllegalEvent, RunState};
use sortie_core::audit::AuditEntry;
use sortie_core::budget::Amount;
use sortie_core::event::{Event, JournalEntry};
use sortie_core::hook::NewLetter;
use sortie_core::id::Fence;
use sortie_core::ports::store::{Append, Appended, Blob, Store, StoreError, StoreResult};
use sortie_core::run::Cancellation;
use sortie_core::time::Clock;

/// Appends in flight before the writer waits for the first of them.
const MAX_IN_FLIGHT: usize = 8;

/// Why the journal of a run cannot be continued.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalWriteError {
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The machine made an event that its own fold refuses: a bug.
    #[error("internal error: illegal event: {0}")]
    Illegal(#[from] IllegalEvent),
}

/// What one append writes.
#[derive(Debug, Default)]
pub(crate) struct NewEntries {
    pub(crate) events: Vec<Event>,
    /// Long outputs that the events refer to.
    pub(crate) blobs: Vec<Blob>,
    pub(crate) audit: Vec<AuditEntry>,
    /// What the model call in progress really cost.
    pub(crate) spent: Option<Amount>,
    /// Messages for hooks about the events.
    pub(crate) letters: Vec<NewLetter>,
}

impl From<crate::dispatch::CallRecord> for NewEntries {
    fn from(finished: crate::dispatch::CallRecord) -> Self {
        Self {
            events: vec![finished.event],
            blobs: finished.blobs,
            audit: finished.audit,
            spent: None,
            letters: finished.letters,
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
    /// Set for good: the run is released, and claimed again when the quota allows it.
    over_quota: bool,
    /// Audit entries that the next append writes.
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
            over_quota: false,
            pending_audit: Vec::new(),
        }
    }

    pub(crate) const fn state(&self) -> &RunState {
        &self.state
    }

    /// Returns the cancellation that the store reported with an append.
    pub(crate) const fn cancel(&self) -> Option<&Cancellation> {
        self.cancel.as_ref()
    }

    /// Returns whether the last append reported that a pause is requested.
    pub(crate) const fn pause_requested(&self) -> bool {
        self.paused
    }

    /// Returns whether the tenant has used up a quota: the run starts nothing new then.
    pub(crate) const fn is_over_quota(&self) -> bool {
        self.over_quota
    }

    /// Applies new entries to the fold and hands them to the store.
    pub(crate) async fn write(
        &mut self,
        entries: impl Into<NewEntries>,
    ) -> Result<(), JournalWriteError> {
        let mut entries = entries.into();
        entries.audit.splice(0..0, self.take_pending_audit());
        let at = self.clock.now();
        let follows = self.state.head();
        // A later append detects a lost one by its entries. This one has none, so it is awaited.
        let is_bare = entries.events.is_empty();
        for event in &entries.events {
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
            events: entries.events,
            summary: self.state.summary(),
            blobs: entries.blobs,
            audit: entries.audit,
            spent: entries.spent,
            letters: entries.letters,
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
        while self.in_flight.len() > MAX_IN_FLIGHT {
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

    /// Adds audit entries to the next append: other runs or people have answered these calls.
    pub(crate) fn audit_later(&mut self, audit: Vec<AuditEntry>) {
        self.pending_audit.extend(audit);
    }

    /// Removes and returns the audit entries that the next append would write.
    pub(crate) fn take_pending_audit(&mut self) -> Vec<AuditEntry> {
        std::mem::take(&mut self.pending_audit)
    }

    /// Reads the inbox into the journal, if it may have messages. `audit` makes the audit entries
    /// from the state before and the new entry.
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
        self.over_quota |= appended.over_quota;
        if appended.cancel.is_some() {
            self.cancel = appended.cancel;
        }
    }
}
