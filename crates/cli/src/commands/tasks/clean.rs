//! `sortie tasks clean`.

use clap::Args;
use sortie_protocol::{CleanBody, Cleaned};
use sortie_text::t;

use crate::arguments::StatusArgument;
use crate::engine::Engine;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;

/// Deletes ended tasks by age
///
/// Deletes a task with its descendants when all of them ended long enough ago and their results are
/// delivered, archived or not. Usage and audit entries stay. `subagents.max_age_hours` does the same
/// regularly.
#[derive(Debug, Args)]
pub(crate) struct Clean {
    /// Deletes tasks that ended more than this many hours ago
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    older_than: u64,
    /// Deletes only tasks with this status; can be repeated
    #[arg(long, value_enum)]
    status: Vec<StatusArgument>,
    /// Deletes only tasks of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Counts the tasks and deletes nothing
    #[arg(long)]
    dry_run: bool,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

impl Clean {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let body = CleanBody {
            max_age_hours: self.older_than,
            status: self.status.into_iter().map(Into::into).collect(),
            agent: self.agent,
            dry_run: self.dry_run,
        };
        let engine = Engine::idle(settings).await?;
        let done = engine.clean(&body).await;
        engine.shut_down().await;
        let cleaned = Cleaned {
            deleted: done?,
            dry_run: body.dry_run,
        };
        if self.json {
            output::json(&cleaned)?;
        } else {
            let key = if cleaned.dry_run {
                "clean-would-delete"
            } else {
                "clean-done"
            };
            output::text(&t!(settings.lang, key, count = cleaned.deleted))?;
        }
        Ok(Exit::Ok)
    }
}
