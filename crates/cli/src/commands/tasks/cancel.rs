//! `sortie tasks cancel`.

use clap::Args;
use serde_json::json;
use sortie_core::run::RunRecord;
use sortie_text::t;

use super::control::left_text;
use super::long_enough;
use crate::engine::{Controller, Stopped, Taken};
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;

/// Cancels a task and its descendants
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// Handle or id of the task; at least 8 characters of an id
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
        let controller = Controller::find(settings).await?;
        let reason = self
            .reason
            .clone()
            .unwrap_or_else(|| t!(settings.lang, "cancel-reason-command"));
        let done = cancel(&controller, &self.id, &reason).await;
        controller.shut_down().await;
        let (record, (report, taken)) = done?;
        self.print(settings, &record, &report, &taken)?;
        Ok(Exit::Ok)
    }

    fn print(
        &self,
        settings: &Settings,
        record: &RunRecord,
        report: &Stopped,
        taken: &Taken,
    ) -> Result<(), Problem> {
        if self.json {
            return output::json(&json!({
                "task_id": record.run_id,
                "cancelled": report.ended,
                "already_ended": report.already_ended,
                "left_for": match taken {
                    Taken::Applied => None,
                    Taken::Left { owner } => Some(owner),
                },
            }));
        }
        if let Some(text) = left_text(settings, record, taken) {
            return output::text(&text);
        }
        output::text(&match report.already_ended {
            Some(status) => t!(
                settings.lang,
                "cancel-already-ended",
                id = &record.handle,
                status = status.as_str()
            ),
            None => t!(
                settings.lang,
                "cancel-done",
                id = &record.handle,
                count = report.ended.len()
            ),
        })
    }
}

async fn cancel(
    controller: &Controller<'_>,
    id: &str,
    reason: &str,
) -> Result<(RunRecord, (Stopped, Taken)), Problem> {
    let run = controller.resolve(id).await?;
    let record = controller.get(run).await?;
    Ok((record, controller.cancel(run, reason).await?))
}
