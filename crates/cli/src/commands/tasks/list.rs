//! `sortie tasks list`.

use clap::Args;
use sortie_core::id::SessionKey;
use sortie_core::ports::store::ListFilter;
use sortie_core::time::Clock;
use sortie_protocol::Task;
use sortie_runtime::ProcessClock;
use sortie_text::t;

use super::{output_columns, resolve};
use crate::arguments::StatusArgument;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::table::{self, TableOptions};

/// Lists tasks as a tree, newest first
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Lists only tasks with this status
    #[arg(long, value_enum)]
    status: Option<StatusArgument>,
    /// Lists only tasks of this session, written channel:chat_id; ID alone means api:ID
    #[arg(long, value_name = "SESSION")]
    session: Option<SessionKey>,
    /// Lists only children of this task
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    /// Lists archived tasks as well, and ignores --limit
    #[arg(long)]
    all: bool,
    /// Lists at most this many tasks; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

impl List {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let store = settings.options.read_store()?;
        let parent = match &self.parent {
            Some(id) => Some(resolve(&store, id).await?),
            None => None,
        };
        let records = store
            .list(ListFilter {
                session: self.session,
                statuses: self.status.into_iter().map(Into::into).collect(),
                parent,
                archived: self.all,
                limit: if self.all { 0 } else { self.limit },
                ..ListFilter::default()
            })
            .await?;
        if self.json {
            let tasks: Vec<Task> = records.iter().map(Task::from).collect();
            output::json(&tasks)?;
            return Ok(Exit::Ok);
        }
        if records.is_empty() {
            output::note(&t!(settings.lang, "no-tasks"));
            return Ok(Exit::Ok);
        }
        output::text(&table::tasks(
            &records,
            TableOptions {
                lang: settings.lang,
                columns: output_columns(settings),
                now: ProcessClock::start().now(),
            },
        ))?;
        Ok(Exit::Ok)
    }
}
