//! `sortie tasks delete`.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use sortie_core::{Delivery, ListFilter, RunId};
use sortie_runtime::Runtime;
use sortie_text::t;
use tokio::time::Instant;

use super::long_enough;
use crate::engine::Engine;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;

/// How long a cancelled child's announcement may take to reach its parent.
const DELIVERY_GRACE: Duration = Duration::from_secs(2);
/// How often that is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Deletes a task and everything it started; cancels it first if it has not ended
#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// The task's id, or the beginning of it
    id: String,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

impl Delete {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        long_enough(&self.id)?;
        let engine = Engine::idle(settings).await?;
        let done = delete(settings, &engine, &self.id).await;
        engine.shut_down().await;
        let (run, count) = done?;
        if self.json {
            output::json(&json!({"task_id": run, "deleted": count}))?;
        } else {
            output::text(&t!(
                settings.lang,
                "delete-done",
                id = run.to_string(),
                count = count
            ))?;
        }
        Ok(Exit::Ok)
    }
}

async fn delete(settings: &Settings, engine: &Engine, id: &str) -> Result<(RunId, u64), Problem> {
    let run = engine.resolve(id).await?;
    let record = engine.get(run).await?;
    if let Some(runtime) = engine.runtime() {
        if !record.status.is_terminal() {
            let reason = t!(settings.lang, "cancel-reason-delete");
            runtime.cancel(run, &reason).await?;
        }
        wait_for_deliveries(runtime, record.root).await?;
    }
    Ok((run, engine.delete(run).await?))
}

/// Nobody else runs, so this takes an instant; what takes longer is refused by the store.
async fn wait_for_deliveries(runtime: &Runtime, root: RunId) -> Result<(), Problem> {
    let deadline = Instant::now() + DELIVERY_GRACE;
    loop {
        let filter = ListFilter {
            root: Some(root),
            archived: true,
            ..ListFilter::default()
        };
        let owed = runtime
            .list(filter)
            .await?
            .iter()
            .any(|run| run.status.is_terminal() && run.delivery == Delivery::Pending);
        if !owed || Instant::now() >= deadline {
            return Ok(());
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}
