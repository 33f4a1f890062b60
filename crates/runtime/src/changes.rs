//! Reads, applies and discards what runs changed in their worktrees.

use sortie_core::event::Event;
use sortie_core::id::{RunId, Seq};
use sortie_core::ports::store::StoreResult;
use sortie_core::run::{Changes, ChangesFate, Worktree};

use crate::engine::Engine;
use crate::refusal::{Refusal, RefusalReason};
use crate::runtime::RuntimeError;

/// What a run changed in its worktree.
#[derive(Debug)]
pub(crate) struct WorktreeChanges {
    pub(crate) worktree: Worktree,
    pub(crate) changes: Changes,
    pub(crate) diff: String,
}

/// Applies the changes of a run to the checkout it came from; returns the files.
pub(crate) async fn apply(engine: &Engine, run: RunId) -> Result<Vec<String>, RuntimeError> {
    let WorktreeChanges {
        worktree, changes, ..
    } = changed(engine, run).await?;
    let applied = engine.worktrees.apply(&worktree, &changes).await;
    let files = applied.map_err(|problem| Refusal::new(RefusalReason::Worktree, problem))?;
    record_fate(engine, run, ChangesFate::Applied).await?;
    Ok(files)
}

/// Discards the changes of a run.
pub(crate) async fn discard(engine: &Engine, run: RunId) -> Result<(), RuntimeError> {
    let WorktreeChanges {
        worktree, changes, ..
    } = changed(engine, run).await?;
    let discarded = engine.worktrees.discard(&worktree, &changes).await;
    discarded.map_err(|problem| Refusal::new(RefusalReason::Worktree, problem))?;
    record_fate(engine, run, ChangesFate::Discarded).await?;
    Ok(())
}

/// Returns what a run changed in its worktree. Collects the worktree if that was never done.
pub(crate) async fn changed(engine: &Engine, run: RunId) -> Result<WorktreeChanges, RuntimeError> {
    let entries = engine.store.read(run, Seq(0)).await?;
    let mut worktree = None;
    let mut collected = None;
    for entry in entries {
        match entry.event {
            Event::Isolated { worktree: made } => worktree = Some(made),
            Event::Collected { changes } => collected = Some(changes),
            Event::Admitted { .. }
            | Event::Updated { .. }
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
            | Event::Finished { .. } => {}
        }
    }
    let Some(worktree) = worktree else {
        return Err(no_changes(format!(
            "task {run} has no worktree of its own: it worked in the workspace itself"
        )));
    };
    match collected {
        Some(Some(changes)) => {
            let diff = engine
                .store
                .blob(run, &changes.diff)
                .await?
                .unwrap_or_default();
            Ok(WorktreeChanges {
                worktree,
                changes,
                diff: String::from_utf8_lossy(&diff).into_owned(),
            })
        }
        Some(None) => Err(no_changes(format!(
            "task {run} changed nothing in its worktree"
        ))),
        None => collect_late(engine, run, worktree).await,
    }
}

async fn record_fate(engine: &Engine, run: RunId, fate: ChangesFate) -> StoreResult<()> {
    engine.store.set_changes_fate(run, fate).await?;
    engine.publisher.record_changed(run).await;
    Ok(())
}

/// Collects the worktree of a run that the store ended, or whose process died.
async fn collect_late(
    engine: &Engine,
    run: RunId,
    worktree: Worktree,
) -> Result<WorktreeChanges, RuntimeError> {
    if !engine.store.get(run).await?.status.is_terminal() {
        let message =
            format!("task {run} is still at work in its worktree; wait for it, or cancel it first");
        return Err(Refusal::new(RefusalReason::StillRunning, message).into());
    }
    let collected = engine.worktrees.collect(run).await;
    match collected.map_err(|problem| Refusal::new(RefusalReason::Worktree, problem))? {
        None => Err(no_changes(format!(
            "task {run} changed nothing in its worktree"
        ))),
        Some(collected) => Ok(WorktreeChanges {
            worktree,
            changes: collected.changes,
            diff: String::from_utf8_lossy(&collected.diff).into_owned(),
        }),
    }
}

fn no_changes(message: String) -> RuntimeError {
    Refusal::new(RefusalReason::NoChanges, message).into()
}
