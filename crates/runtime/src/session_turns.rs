//! Starts turns for results that reach a session while none of its turns is active: those of background
//! children whose turn has ended, and of tasks that were created for the session.
//!
//! Takes no input but the store. The admission of a turn makes the waiting results due, and the scheduler
//! delivers them before it claims the turn.

use std::collections::BTreeMap;

use std::sync::Arc;
use std::time::Duration;

use sortie_core::check::Check;
use sortie_core::event::Event;
use sortie_core::id::RunId;
use sortie_core::ports::store::{Admission, Admit, StoreResult, WaitingSession};
use sortie_core::run::{RunRecord, RunSpec};
use sortie_text::t;
use tokio_util::sync::CancellationToken;

use crate::engine::{Engine, store_failed};
use crate::planner::label_of;

/// How often the store is read for waiting results without a hint.
const POLL: Duration = Duration::from_secs(60);

/// Starts turns until `stop`.
pub(crate) async fn serve(engine: Arc<Engine>, stop: CancellationToken) {
    loop {
        if let Err(error) = wake_all(&engine).await {
            store_failed("start turns for waiting results", &error);
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = engine.wakeups.sessions.notified() => {}
            () = tokio::time::sleep(POLL) => {}
        }
    }
}

async fn wake_all(engine: &Engine) -> StoreResult<()> {
    for waiting in engine.store.waiting_sessions().await? {
        // The results of other sessions do not wait for this one.
        if let Err(error) = wake(engine, waiting).await {
            store_failed("start a turn for waiting results", &error);
        }
    }
    Ok(())
}

/// Starts a turn that continues from the last one, with its agent, model, folder, limits and authority.
async fn wake(engine: &Engine, waiting: WaitingSession) -> StoreResult<()> {
    let (tenant, session) = (waiting.tenant.clone(), waiting.session.clone());
    let one_at_a_time = engine.session_locks.lock(tenant, session).await;
    // A message may have started a turn meanwhile, and that turn may have received the results.
    if !engine.store.waiting_sessions().await?.contains(&waiting) {
        return Ok(());
    }
    let WaitingSession {
        session,
        tenant,
        workspace,
    } = waiting;
    if let Some(last) = engine.store.last_turn(session, tenant, workspace).await?
        && last.status.is_terminal()
        && let Some(entry) = engine.store.first(last.run_id).await?
        && let Event::Admitted { spec } = entry.event
    {
        let run = engine.clock.new_run_id();
        let spec = next_turn(run, &last, *spec);
        let admit = Admit {
            run,
            spec: spec.clone(),
            at: engine.clock.now(),
            parent: None,
        };
        if let Admission::Admitted { .. } = engine.store.admit(admit).await? {
            engine.publish_admission(run, &spec);
        }
    }
    drop(one_at_a_time);
    Ok(())
}

/// Returns the spec of the turn that receives the results.
fn next_turn(run: RunId, last: &RunRecord, spec: RunSpec) -> RunSpec {
    let task = t!(spec.lang, "turn-for-results");
    RunSpec {
        label: label_of(None, &task),
        task,
        root: run,
        account: spec.limits.budget.needs_account().then_some(run),
        continues: Some(last.run_id),
        fork: None,
        context: None,
        result_schema: None,
        checks: spec
            .checks
            .into_iter()
            .filter(|check| matches!(check, Check::Hook(_)))
            .collect(),
        watched: BTreeMap::new(),
        report_to: Vec::new(),
        not_after: None,
        ..spec
    }
}
