//! `sortie tasks stats`.

use clap::Args;
use sortie_core::id::SessionKey;
use sortie_core::ports::store::ListFilter;
use sortie_core::run::Status;
use sortie_text::t;

use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::table;

/// Counts tasks by status
#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// Counts only tasks of this session, written channel:chat_id; ID alone means api:ID
    #[arg(long, value_name = "SESSION")]
    session: Option<SessionKey>,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

impl Stats {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let store = settings.options.read_store()?;
        let stats = store
            .stats(ListFilter {
                session: self.session,
                archived: true,
                ..ListFilter::default()
            })
            .await?;
        if self.json {
            output::json(&stats)?;
            return Ok(Exit::Ok);
        }
        let count = |status: &Status| match status {
            Status::Pending => stats.pending,
            Status::Running => stats.running,
            Status::Completed => stats.completed,
            Status::Failed => stats.failed,
            Status::Timeout => stats.timeout,
            Status::Cancelled => stats.cancelled,
        };
        let mut rows: Vec<(String, String)> = Status::ALL
            .iter()
            .map(|status| (status.to_string(), count(status).to_string()))
            .collect();
        rows.push((t!(settings.lang, "stats-total"), stats.total.to_string()));
        output::text(&table::pairs(&rows))?;
        Ok(Exit::Ok)
    }
}
