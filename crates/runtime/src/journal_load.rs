//! Loads the state of a claimed run: its own journal, and those of the runs it continues.

use sortie_agent::{IllegalEvent, MAX_EARLIER_RUNS, PriorHistory, RunState};
use sortie_core::event::{Event, JournalEntry};
use sortie_core::id::{BlobId, RunId, Seq};
use sortie_core::ports::store::{StoreError, StoreResult};
use sortie_core::run::RunSpec;

use crate::engine::{Engine, store_failed};

/// Why a run cannot be loaded.
pub(crate) enum Unreadable {
    /// A journal is damaged or contradicts itself: the run ends.
    Damaged(String),
    /// The store failed: the run is loaded again later.
    Failed(StoreError),
}

impl From<StoreError> for Unreadable {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Damaged { .. } => Self::Damaged(error.to_string()),
            StoreError::Fenced { .. }
            | StoreError::NotNext { .. }
            | StoreError::NotFound(_)
            | StoreError::Ambiguous { .. }
            | StoreError::Locked { .. }
            | StoreError::WrongState { .. }
            | StoreError::Failed { .. } => Self::Failed(error),
        }
    }
}

impl From<IllegalEvent> for Unreadable {
    fn from(illegal: IllegalEvent) -> Self {
        Self::Damaged(illegal.to_string())
    }
}

/// Folds the journal of a claimed run.
///
/// Consumes the journal: a run that waits for a model would keep it in memory until it ends.
pub(crate) async fn load(
    engine: &Engine,
    entries: StoreResult<Vec<JournalEntry>>,
) -> Result<RunState, Unreadable> {
    let entries = entries?;
    let past = prior_history(engine, &entries).await?;
    Ok(RunState::fold_owned(&past, entries)?)
}

/// Returns a long output of a run, or of the run it continues.
pub(crate) async fn blob(
    engine: &Engine,
    run: RunId,
    spec: &RunSpec,
    id: &BlobId,
) -> Option<Vec<u8>> {
    let earlier = earlier_than(spec).map(|earlier| earlier.run);
    for owner in std::iter::once(run).chain(earlier) {
        match engine.store.blob(owner, id).await {
            Ok(Some(bytes)) => return Some(bytes),
            Ok(None) => {}
            Err(error) => store_failed("read a long output", &error),
        }
    }
    None
}

/// The run that another one continues or is forked from.
#[derive(Clone, Copy, Debug)]
struct Earlier {
    run: RunId,
    /// The last entry that is part of the history; `None` is all of them.
    up_to: Option<Seq>,
}

/// Folds the runs that this one continues, oldest first. If the beginning was archived or deleted,
/// or is too long ago, the model reads that it is missing.
async fn prior_history(
    engine: &Engine,
    entries: &[JournalEntry],
) -> Result<PriorHistory, Unreadable> {
    let mut chain = Vec::new();
    let mut next = entries.first().and_then(earlier);
    while let Some(earlier_run) = next
        && chain.len() < MAX_EARLIER_RUNS
    {
        // Only the first entry, so that one journal at a time is in memory.
        let first = match engine.store.first(earlier_run.run).await {
            Ok(first) => first,
            Err(StoreError::NotFound(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let Some(first) = first else { break };
        next = earlier(&first);
        chain.push(earlier_run);
    }
    let mut past = match next {
        None => PriorHistory::default(),
        Some(_) => PriorHistory::missing(),
    };
    for Earlier { run, up_to } in chain.into_iter().rev() {
        let mut entries = match engine.store.read(run, Seq(0)).await {
            Ok(entries) => entries,
            // Removed since the chain was read.
            Err(StoreError::NotFound(_)) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        entries.retain(|entry| up_to.is_none_or(|last| entry.seq <= last));
        past = if entries.is_empty() {
            PriorHistory::missing()
        } else {
            RunState::fold_owned(&past, entries)?.into_prior_history()
        };
    }
    Ok(past)
}

fn earlier(first: &JournalEntry) -> Option<Earlier> {
    match &first.event {
        Event::Admitted { spec } => earlier_than(spec),
        Event::Updated { .. }
        | Event::Paused
        | Event::Resumed
        | Event::Claimed { .. }
        | Event::InboxTaken { .. }
        | Event::Answered { .. }
        | Event::ModelFailed { .. }
        | Event::Compacted { .. }
        | Event::Intended { .. }
        | Event::Asked { .. }
        | Event::Delegated { .. }
        | Event::ToolFinished { .. }
        | Event::BudgetLow { .. }
        | Event::BudgetSpent { .. }
        | Event::Isolated { .. }
        | Event::Collected { .. }
        | Event::Finished { .. } => None,
    }
}

fn earlier_than(spec: &RunSpec) -> Option<Earlier> {
    let forked = spec.fork.map(|point| Earlier {
        run: point.run,
        up_to: Some(point.at),
    });
    forked.or_else(|| spec.continues.map(|run| Earlier { run, up_to: None }))
}
