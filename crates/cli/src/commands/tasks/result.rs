//! `sortie tasks result`.

use clap::Args;
use sortie_core::run::Outcome;
use sortie_protocol::Task;
use sortie_text::{strip_sequences, t};

use super::open;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::report;
use crate::settings::Settings;

/// Prints the result of a task; the exit code follows its status
#[derive(Debug, Args)]
pub(crate) struct ResultText {
    /// Handle or id of the task; at least 8 characters of an id
    id: String,
    /// Prints the task as JSON
    #[arg(long)]
    json: bool,
}

impl ResultText {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let (_, record) = open(settings, &self.id).await?;
        if self.json {
            output::json(&Task::from(&record))?;
            return Ok(Exit::of(&record));
        }
        let Some(outcome) = &record.outcome else {
            output::note(&t!(
                settings.lang,
                "result-not-yet",
                id = &record.handle,
                status = record.status.as_str()
            ));
            return Ok(Exit::NotFound);
        };
        if let Some(text) = Outcome::text(outcome) {
            report::final_text(settings, text)?;
        }
        if let Some(error) = report::why(settings.lang, &record) {
            let message = strip_sequences(&error);
            output::note(&t!(settings.lang, "error-line", message = message));
        }
        Ok(Exit::of(&record))
    }
}
