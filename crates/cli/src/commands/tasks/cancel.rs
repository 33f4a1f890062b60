//! `sortie tasks cancel`.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use sortie_core::{CancelReport, RunId};
use sortie_runtime::Runtime;
use sortie_text::t;

use super::long_enough;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::wiring::{self, Wishes};

/// Cancels a task and everything it started
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// The task's id, or the beginning of it
    id: String,
    /// Why
    #[arg(long)]
    reason: Option<String>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

impl Cancel {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        long_enough(&self.id)?;
        let runtime = idle_runtime(settings).await?;
        let reason = self
            .reason
            .clone()
            .unwrap_or_else(|| t!(settings.lang, "cancel-reason-command"));
        let done = cancel(&runtime, &self.id, &reason).await;
        runtime.shut_down().await;
        let (run, report) = done?;
        self.say(settings, run, &report)?;
        Ok(Exit::Ok)
    }

    fn say(&self, settings: &Settings, run: RunId, report: &CancelReport) -> Result<(), Problem> {
        if self.json {
            let ended: Vec<RunId> = report.ended.iter().map(|ended| ended.run).collect();
            return output::json(&json!({
                "task_id": run,
                "cancelled": ended,
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

/// A runtime that writes and delivers but executes nothing.
pub(super) async fn idle_runtime(settings: &Settings) -> Result<Runtime, Problem> {
    let wishes = Wishes {
        only_admits: true,
        ..Wishes::default()
    };
    let models = wiring::models(settings, Duration::ZERO, None);
    // Servers of tools end here: nothing will call them.
    Ok(wiring::start(settings, models, wishes).await?.runtime)
}

async fn cancel(
    runtime: &Runtime,
    id: &str,
    reason: &str,
) -> Result<(RunId, CancelReport), Problem> {
    let run = runtime.resolve(id).await?;
    Ok((run, runtime.cancel(run, reason).await?))
}
