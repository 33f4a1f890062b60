//! `sortie tasks delete`.

use clap::Args;
use serde_json::json;
use sortie_core::run::RunRecord;
use sortie_text::t;

use super::long_enough;
use crate::engine::Engine;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;

/// Deletes a task and its descendants; cancels active ones first
#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// Handle or id of the task; at least 8 characters of an id
    id: String,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

impl Delete {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        long_enough(&self.id)?;
        let engine = Engine::idle(settings).await?;
        let done = delete(&engine, &self.id).await;
        engine.shut_down().await;
        let (record, count) = done?;
        if self.json {
            output::json(&json!({"task_id": record.run_id, "deleted": count}))?;
        } else {
            output::text(&t!(
                settings.lang,
                "delete-done",
                id = &record.handle,
                count = count
            ))?;
        }
        Ok(Exit::Ok)
    }
}

async fn delete(engine: &Engine, id: &str) -> Result<(RunRecord, u64), Problem> {
    let run = engine.resolve(id).await?;
    let record = engine.get(run).await?;
    Ok((record, engine.delete(run).await?))
}
