//! Reads, applies and discards what runs changed in their worktrees.

use sortie_core::id::{RunId, Seq};
use sortie_core::ports::store::StoreResult;
use sortie_core::run::{Changes, ChangesFate, RecordField, RunDetails, Worktree};

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
    let Some(RunDetails {
        worktree: Some(worktree),
        collected,
        changes,
        ..
    }) = RunDetails::of(&entries)
    else {
        return Err(no_changes(format!(
            "task {run} has no worktree of its own: it worked in the workspace itself"
        )));
    };
    match changes {
        Some(changes) => {
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
        None if collected => Err(no_changes(format!(
            "task {run} changed nothing in its worktree"
        ))),
        None => collect_late(engine, run, worktree).await,
    }
}

async fn record_fate(engine: &Engine, run: RunId, fate: ChangesFate) -> StoreResult<()> {
    engine
        .store
        .set(run, RecordField::ChangesFate(fate))
        .await?;
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
        let message = format!("task {run} has not ended yet; wait for it, or cancel it first");
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
