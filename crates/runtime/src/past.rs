//! What a run knows when it is claimed: its own journal, and those of the runs it goes on from.

use sortie_agent::{MAX_EARLIER_RUNS, Past, RunState};
use sortie_core::{BlobId, Event, JournalEntry, RunId, RunSpec, Seq, StoreError};

use crate::runtime::Shared;

/// A journal that cannot be gone on with.
pub(crate) struct Unreadable(pub(crate) String);

/// Folds the journal of a claimed run.
///
/// Takes the journal away: a run that waits for a model would keep it until it ends.
pub(crate) async fn load(
    shared: &Shared,
    entries: Result<Vec<JournalEntry>, String>,
) -> Result<RunState, Unreadable> {
    let entries = entries.map_err(Unreadable)?;
    let past = past_of(shared, &entries).await?;
    RunState::fold_owned(&past, entries).map_err(|error| Unreadable(error.to_string()))
}

/// A long output of a run, or of the run that it goes on from.
pub(crate) async fn blob(
    shared: &Shared,
    run: RunId,
    spec: &RunSpec,
    id: &BlobId,
) -> Option<Vec<u8>> {
    let earlier = earlier_than(spec).map(|earlier| earlier.run);
    for owner in std::iter::once(run).chain(earlier) {
        match shared.store.blob(owner, id).await {
            Ok(Some(bytes)) => return Some(bytes),
            Ok(None) => {}
            Err(error) => shared.store_failed("reading an output", &error),
        }
    }
    None
}

/// The run that another goes on from.
#[derive(Clone, Copy, Debug)]
struct Earlier {
    run: RunId,
    /// The last of its entries that counts; `None` is all of them.
    up_to: Option<Seq>,
}

/// What happened in the runs that this one goes on from, oldest first. A conversation that is longer
/// than its bound, or whose beginning was archived or deleted, begins where it is still known.
async fn past_of(shared: &Shared, entries: &[JournalEntry]) -> Result<Past, Unreadable> {
    let mut chain = Vec::new();
    let mut next = earlier(entries);
    while let Some(Earlier { run, up_to }) = next {
        if chain.len() == MAX_EARLIER_RUNS {
            break;
        }
        let mut entries = match shared.store.read(run, Seq(0)).await {
            Ok(entries) => entries,
            Err(StoreError::NotFound(_)) => Vec::new(),
            Err(error) => return Err(Unreadable(error.to_string())),
        };
        if entries.is_empty() {
            break;
        }
        entries.retain(|entry| up_to.is_none_or(|last| entry.seq <= last));
        next = earlier(&entries);
        chain.push(entries);
    }
    let mut past = Past::default();
    for entries in chain.iter().rev() {
        let state =
            RunState::fold(&past, entries).map_err(|error| Unreadable(error.to_string()))?;
        past = state.into_past();
    }
    Ok(past)
}

fn earlier(entries: &[JournalEntry]) -> Option<Earlier> {
    match &entries.first()?.event {
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
