//! Stops processes that the calls of a dead process left running, for runs that end without being
//! executed again.
//!
//! A run that is executed again stops them before its model continues (`dispatch`). A run that is
//! cancelled or given up after a crash is ended by the store alone, so its calls are looked up
//! here.

use std::collections::BTreeSet;

use sortie_core::event::{Event, JournalEntry};
use sortie_core::id::{CallId, EffectId, RunId, Seq};
use sortie_core::ports::store::StoreError;
use sortie_core::ports::tool::Recovery;

use crate::engine::{Engine, store_failed};

/// Returns the calls that were about to run and have no result.
fn unfinished(entries: &[JournalEntry]) -> Vec<CallId> {
    let mut open = BTreeSet::new();
    for entry in entries {
        if let Event::Intended { call, .. } = &entry.event {
            open.insert(call.clone());
        } else if let Event::ToolFinished { result, .. } = &entry.event {
            open.remove(&result.call);
        }
    }
    open.into_iter().collect()
}

/// Stops what the calls of these runs left running. The runs have ended, and no process executes
/// them. Returns when everything is stopped.
pub(crate) async fn stop_leftovers(engine: &Engine, runs: Vec<RunId>) {
    for run in runs {
        match engine.store.read(run, Seq(0)).await {
            Ok(entries) => stop_calls(engine, run, unfinished(&entries)).await,
            // Deleted meanwhile, which stopped them first.
            Err(StoreError::NotFound(_)) => {}
            Err(error) => {
                store_failed("read the journal of an ended run", &error);
            }
        }
    }
}

/// Stops what these calls of a run left running.
pub(crate) async fn stop_calls(engine: &Engine, run: RunId, calls: Vec<CallId>) {
    for call in calls {
        let effect = EffectId::new(run, &call);
        for tool in engine.planner.toolbox.tools() {
            if let Recovery::Once(Some(remains)) = tool.recovery() {
                let ended = remains.stop(&effect).await;
                tracing::info!(%effect, ended, "stopped processes that a call of a dead process left running");
            }
        }
    }
}
