//! `sortie tasks report`.

use clap::Args;

use super::{open, output_columns};
use crate::delegation;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;

/// Reports how a task was delegated: time, tokens and cost of each subagent, the critical path,
/// duplicate work, and an estimate of whether it paid off
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// Handle or id of the task; at least 8 characters of an id
    id: String,
    /// Prints the report as Markdown
    #[arg(long, conflicts_with_all = ["html", "json"])]
    markdown: bool,
    /// Prints the report as an HTML page that needs no other file
    #[arg(long, conflicts_with = "json")]
    html: bool,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

impl Report {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let (store, record) = open(settings, &self.id).await?;
        let report = delegation::load(&store, &record).await?;
        if self.json {
            output::json(&report)?;
            return Ok(Exit::Ok);
        }
        let document = delegation::document(settings.lang, &report);
        let text = match (self.markdown, self.html) {
            (true, _) => document.markdown(),
            (_, true) => document.html(),
            (false, false) => document.text(output_columns(settings)),
        };
        output::text(&text)?;
        Ok(Exit::Ok)
    }
}
