//! `sortie tasks cancel`.

use clap::Args;
use serde_json::json;
use sortie_core::id::RunId;
use sortie_text::t;

use super::long_enough;
use crate::engine::{Engine, Stopped};
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;

/// Cancels a task and its descendants
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// Id of the task, or a unique prefix of at least 8 characters
    id: String,
    /// Reason, for the journal and the audit
    #[arg(long)]
    reason: Option<String>,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

impl Cancel {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        long_enough(&self.id)?;
        let engine = Engine::idle(settings).await?;
        let reason = self
            .reason
            .clone()
            .unwrap_or_else(|| t!(settings.lang, "cancel-reason-command"));
        let done = cancel(&engine, &self.id, &reason).await;
        engine.shut_down().await;
        let (run, report) = done?;
        self.print(settings, run, &report)?;
        Ok(Exit::Ok)
    }

    fn print(&self, settings: &Settings, run: RunId, report: &Stopped) -> Result<(), Problem> {
        if self.json {
            return output::json(&json!({
                "task_id": run,
                "cancelled": report.ended,
                "already_ended": report.already_ended,
            }));
        }
        output::text(&match report.already_ended {
            Some(status) => t!(
                settings.lang,
                "cancel-already-ended",
                id = run.to_string(),
                status = status.as_str()
            ),
            None => t!(
                settings.lang,
                "cancel-done",
                id = run.to_string(),
                count = report.ended.len()
            ),
        })
    }
}

async fn cancel(engine: &Engine, id: &str, reason: &str) -> Result<(RunId, Stopped), Problem> {
    let run = engine.resolve(id).await?;
    Ok((run, engine.cancel(run, reason).await?))
}
