//! `sortie tasks list`.

use clap::Args;
use sortie_core::id::SessionKey;
use sortie_core::ports::store::ListFilter;
use sortie_core::time::Clock;
use sortie_protocol::Task;
use sortie_runtime::ProcessClock;
use sortie_text::t;

use super::{all_records, output_columns, prefixes, resolve};
use crate::arguments::StatusArgument;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::table::{self, Look};

/// Lists tasks as a tree, newest first
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only tasks in this state
    #[arg(long, value_enum)]
    status: Option<StatusArgument>,
    /// Only tasks of this session, written channel:chat_id
    #[arg(long, value_name = "SESSION")]
    session: Option<SessionKey>,
    /// Only children of this task
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    /// Archived ones too, and as many as there are
    #[arg(long)]
    all: bool,
    /// At most so many; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
    /// Prints JSON
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
        let all = all_records(&store).await?;
        output::text(&table::tasks(
            &records,
            &prefixes(&all),
            Look {
                lang: settings.lang,
                columns: output_columns(settings),
                now: ProcessClock::start().now(),
            },
        ))?;
        Ok(Exit::Ok)
    }
}
