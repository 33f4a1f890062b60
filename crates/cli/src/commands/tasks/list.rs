//! `sortie tasks list`.

use std::path::Path;

use clap::Args;
use sortie_core::id::{RunId, SessionKey};
use sortie_core::ports::store::ListFilter;
use sortie_core::request::RequestFilter;
use sortie_core::run::RunRecord;
use sortie_core::time::Clock;
use sortie_protocol::Task;
use sortie_runtime::ProcessClock;
use sortie_store::ReadStore;
use sortie_text::t;

use super::{output_columns, resolve};
use crate::arguments::StatusArgument;
use crate::exit::Exit;
use crate::lock::is_free;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::table::{self, TableOptions};

/// The most trees that are searched for those of this folder.
const SEARCHED: u32 = 1_000;

/// Lists tasks as trees: those that need you first, then the newest
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
    /// Lists only tasks that work in this folder
    #[arg(long)]
    here: bool,
    /// Lists at most this many trees, each of them whole; with --status or --parent, tasks; 0 is no
    /// limit
    #[arg(long, value_name = "N", default_value_t = 20)]
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
        let folder = settings.workspace(None)?;
        let records = self.records(&store, parent, &folder).await?;
        if self.json {
            let tasks: Vec<Task> = records.iter().map(Task::from).collect();
            output::json(&tasks)?;
            return Ok(Exit::Ok);
        }
        if records.is_empty() {
            output::note(&t!(settings.lang, "no-tasks"));
            return Ok(Exit::Ok);
        }
        let requests = store.requests(RequestFilter::default()).await?;
        output::text(&table::tasks(
            &records,
            &TableOptions {
                lang: settings.lang,
                columns: output_columns(settings),
                now: ProcessClock::start().now(),
                needs_person: table::needs_person(&requests),
                folder: Some(folder),
            },
        ))?;
        let active = records
            .iter()
            .filter(|record| !record.status.is_terminal())
            .count();
        if active > 0 && is_free(&settings.options.home) {
            output::note(&t!(settings.lang, "list-left-alone", count = active));
        }
        Ok(Exit::Ok)
    }

    /// Returns the tasks to list, newest first. Without a status and a parent, the limit counts trees.
    async fn records(
        &self,
        store: &ReadStore,
        parent: Option<RunId>,
        folder: &Path,
    ) -> Result<Vec<RunRecord>, Problem> {
        let limit = if self.all { 0 } else { self.limit };
        let is_of_trees = self.status.is_none() && parent.is_none() && limit > 0;
        let filter = ListFilter {
            session: self.session.clone(),
            statuses: self.status.into_iter().map(Into::into).collect(),
            parent,
            roots_only: is_of_trees,
            archived: self.all,
            limit: if self.here { SEARCHED } else { limit },
            ..ListFilter::default()
        };
        let mut records = store.list(filter).await?;
        if self.here {
            records.retain(|record| record.workspace == folder);
            if limit > 0 {
                records.truncate(limit as usize);
            }
        }
        if !is_of_trees {
            return Ok(records);
        }
        let roots = std::mem::take(&mut records);
        for root in roots {
            let filter = ListFilter {
                root: Some(root.run_id),
                ..ListFilter::default()
            };
            records.extend(store.list(filter).await?);
        }
        records.sort_by_key(|record| std::cmp::Reverse(record.run_id));
        Ok(records)
    }
}
