//! `sortie tasks cancel`.

use std::collections::BTreeSet;

use clap::Args;
use serde_json::json;
use sortie_base::hidden::write_out_line;
use sortie_core::id::SessionKey;
use sortie_core::run::RunRecord;
use sortie_text::t;

use super::control::left_text;
use super::long_enough;
use crate::engine::{Controller, Stopped, Taken};
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;

/// Cancels a task and its descendants, or everything that is active in a session
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// Handle or id of the task; at least 8 characters of an id
    #[arg(required_unless_present = "session")]
    id: Option<String>,
    /// Cancels everything that is active in this session
    #[arg(long, value_name = "KEY", conflicts_with = "id")]
    session: Option<SessionKey>,
    /// Reason, for the journal and the audit
    #[arg(long)]
    reason: Option<String>,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

impl Cancel {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        if let Some(id) = &self.id {
            long_enough(id)?;
        }
        let reason = self
            .reason
            .clone()
            .unwrap_or_else(|| t!(settings.lang, "cancel-reason-command"));
        let controller = Controller::find(settings).await?;
        let done = match (&self.session, &self.id) {
            (Some(session), _) => {
                self.cancel_session(settings, &controller, session, &reason)
                    .await
            }
            (None, id) => {
                let id = id.as_deref().unwrap_or_default();
                match cancel(&controller, id, &reason).await {
                    Ok((record, (report, taken))) => self.print(settings, &record, &report, &taken),
                    Err(problem) => Err(problem),
                }
            }
        };
        controller.shut_down().await;
        done.map(|()| Exit::Ok)
    }

    /// Cancels the trees of a session, one after the other.
    async fn cancel_session(
        &self,
        settings: &Settings,
        controller: &Controller<'_>,
        session: &SessionKey,
        reason: &str,
    ) -> Result<(), Problem> {
        let mut ended = BTreeSet::new();
        let mut left_for = None;
        for record in controller.active_in(session).await? {
            if !ended.contains(&record.run_id) {
                let (stopped, taken) = controller.cancel(record.run_id, reason).await?;
                ended.insert(record.run_id);
                ended.extend(stopped.ended);
                if let Taken::Left { owner } = taken {
                    left_for = Some(owner);
                }
            }
        }
        if self.json {
            return output::json(&json!({
                "session_id": session,
                "cancelled": ended,
                "left_for": left_for,
            }));
        }
        output::text(&match left_for {
            Some(owner) => t!(
                settings.lang,
                "cancel-session-left",
                session = session.as_str(),
                count = ended.len(),
                owner = write_out_line(&owner)
            ),
            None => t!(
                settings.lang,
                "cancel-session-done",
                session = session.as_str(),
                count = ended.len()
            ),
        })
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
