//! Loads the state of a claimed run: its own journal, and those of the runs it continues.

use sortie_agent::{IllegalEvent, MAX_EARLIER_RUNS, PriorHistory, RunState};
use sortie_core::event::{Event, JournalEntry};
use sortie_core::id::{BlobId, RunId, Seq, SessionKey};
use sortie_core::ports::store::{SaveSnapshot, Snapshot, StoreError, StoreResult};
use sortie_core::run::RunSpec;
use sortie_core::tenant::Tenant;

use crate::engine::{Engine, store_failed};

/// Runs behind the last snapshot after which a new one is saved. A turn reads at most so many
/// journals; saving at every turn would write the whole history at every turn.
const RUNS_PER_SNAPSHOT: usize = 8;
/// A longer history is not saved: no model reads so much, so it will be compacted.
const MAX_SNAPSHOT_BYTES: usize = 8 << 20;
/// Changes when histories are encoded or folded in another way.
const SNAPSHOT_VERSION: u32 = 1;

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
    let history = prior_history(engine, &entries).await?;
    Ok(RunState::fold_owned(&history, entries)?)
}

/// Returns a long output of a run, of the run it continues or of the run whose context it has.
pub(crate) async fn blob(
    engine: &Engine,
    run: RunId,
    spec: &RunSpec,
    id: &BlobId,
) -> Option<Vec<u8>> {
    let earlier = earlier_than(spec).map(|earlier| earlier.run);
    let copied = spec.context.as_ref().map(|context| context.run);
    for owner in std::iter::once(run).chain(earlier).chain(copied) {
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

/// Folds the runs that this one continues, oldest first, from the snapshot of the conversation on.
/// If the beginning was deleted or is too long ago, the model reads that it is missing.
async fn prior_history(
    engine: &Engine,
    entries: &[JournalEntry],
) -> Result<PriorHistory, Unreadable> {
    let mut next = entries.first().and_then(earlier);
    if next.is_none() {
        return Ok(PriorHistory::default());
    }
    let conversation = entries.first().and_then(Conversation::of);
    let snapshot = match &conversation {
        Some(conversation) => conversation.snapshot(engine).await?,
        None => None,
    };
    let mut base = None;
    let mut chain = Vec::new();
    let mut of_one_conversation = conversation.is_some();
    while let Some(earlier_run) = next
        && chain.len() < MAX_EARLIER_RUNS
    {
        if let Some(snapshot) = &snapshot
            && snapshot.ends_at(earlier_run)
        {
            base = Some(snapshot);
            next = None;
            break;
        }
        // Only the first entry, so that one journal at a time is in memory.
        let first = match engine.store.first(earlier_run.run).await {
            Ok(first) => first,
            Err(StoreError::NotFound(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let Some(first) = first else { break };
        of_one_conversation &= Conversation::of(&first) == conversation;
        next = earlier(&first);
        chain.push(earlier_run);
    }
    chain.reverse();
    let mut history = match (base, next) {
        (Some(base), _) => base.history.clone(),
        (None, None) => PriorHistory::default(),
        (None, Some(_)) => PriorHistory::missing(),
    };
    let mut head = Seq(0);
    for Earlier { run, up_to } in &chain {
        let mut entries = match engine.store.read(*run, Seq(0)).await {
            Ok(entries) => entries,
            // Removed since the chain was read.
            Err(StoreError::NotFound(_)) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        head = entries.last().map_or(Seq(0), |entry| entry.seq);
        entries.retain(|entry| up_to.is_none_or(|last| entry.seq <= last));
        history = if entries.is_empty() {
            PriorHistory::missing()
        } else {
            RunState::fold_owned(&history, entries)?.into_prior_history()
        };
    }
    if of_one_conversation && chain.len() >= RUNS_PER_SNAPSHOT {
        save(engine, &history, (base, &chain, head)).await;
    }
    Ok(history)
}

/// Saves the history up to the last run of a chain. The next turns begin there.
async fn save(
    engine: &Engine,
    history: &PriorHistory,
    (base, chain, head): (Option<&Folded>, &[Earlier], Seq),
) {
    // A fork point is not the end of its journal.
    let Some(Earlier { run, up_to: None }) = chain.last() else {
        return;
    };
    let body = match serde_json::to_vec(&(SNAPSHOT_VERSION, history)) {
        Ok(body) if body.len() <= MAX_SNAPSHOT_BYTES => body,
        Ok(_) => return,
        Err(error) => {
            tracing::warn!(%error, %run, "cannot encode the history of a session");
            return;
        }
    };
    let save = SaveSnapshot {
        snapshot: Snapshot {
            run: *run,
            head,
            body,
        },
        base: base.map(|base| base.run),
        folded: chain.iter().map(|earlier| earlier.run).collect(),
    };
    // Without the snapshot the next turn folds the journals again.
    if let Err(error) = engine.store.save_snapshot(save).await {
        store_failed("save the history of a session", &error);
    }
}

/// The session of a root run. Its history is kept in one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Conversation {
    session: SessionKey,
    tenant: Option<Tenant>,
}

impl Conversation {
    fn of(first: &JournalEntry) -> Option<Self> {
        let spec = admitted(first)?;
        spec.parent.is_none().then(|| Self {
            session: spec.session.clone(),
            tenant: spec.tenant.clone(),
        })
    }

    /// Reads the snapshot. One that another version of this program wrote is ignored.
    async fn snapshot(&self, engine: &Engine) -> Result<Option<Folded>, Unreadable> {
        let found = engine
            .store
            .snapshot(self.session.clone(), self.tenant.clone())
            .await?;
        let Some(Snapshot { run, head, body }) = found else {
            return Ok(None);
        };
        match serde_json::from_slice::<(u32, PriorHistory)>(&body) {
            Ok((SNAPSHOT_VERSION, history)) => Ok(Some(Folded { run, head, history })),
            Ok(_) | Err(_) => {
                tracing::debug!(%run, "the snapshot has another version; its journals are read");
                Ok(None)
            }
        }
    }
}

/// A decoded snapshot.
struct Folded {
    run: RunId,
    head: Seq,
    history: PriorHistory,
}

impl Folded {
    /// Whether the history of a run up to this point is the one in the snapshot.
    fn ends_at(&self, earlier: Earlier) -> bool {
        self.run == earlier.run && earlier.up_to.is_none_or(|last| last >= self.head)
    }
}

fn earlier(first: &JournalEntry) -> Option<Earlier> {
    admitted(first).and_then(earlier_than)
}

fn admitted(first: &JournalEntry) -> Option<&RunSpec> {
    let Event::Admitted { spec } = &first.event else {
        return None;
    };
    Some(spec)
}

fn earlier_than(spec: &RunSpec) -> Option<Earlier> {
    let forked = spec.fork.map(|point| Earlier {
        run: point.run,
        up_to: Some(point.at),
    });
    forked.or_else(|| spec.continues.map(|run| Earlier { run, up_to: None }))
}
