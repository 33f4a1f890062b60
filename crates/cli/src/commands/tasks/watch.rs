//! `sortie tasks watch`.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use console::Term;
use sortie_core::id::RunId;
use sortie_core::ports::store::ListFilter;
use sortie_core::request::RequestFilter;
use sortie_core::run::{RunRecord, Status};
use sortie_core::time::Clock;
use sortie_core::words::Lang;
use sortie_protocol::Task;
use sortie_runtime::ProcessClock;
use sortie_store::ReadStore;
use sortie_text::{one_line, t};

use super::{READ_INTERVAL, output_columns};
use crate::exit::Exit;
use crate::lock::is_free;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::table::{self, TableOptions};

/// Follows active tasks until all have ended
///
/// On a terminal the table is updated in place; elsewhere each change is one line.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// Prints each change as a line of JSON
    #[arg(long)]
    json: bool,
}

/// The last printed state of a task, to detect changes.
type Shown = (Status, bool, u32);

impl Watch {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let store = settings.options.read_store()?;
        let mut view = View::new(settings, self.json);
        loop {
            let active = active(&store).await?;
            let watched = view.watched(&store, &active).await?;
            let requests = store.requests(RequestFilter::default()).await?;
            view.show(&watched, &table::needs_person(&requests))?;
            if active.is_empty() {
                if watched.is_empty() {
                    output::note(&t!(settings.lang, "watch-nothing"));
                }
                return Ok(Exit::Ok);
            }
            if is_free(&settings.options.home) {
                output::note(&t!(settings.lang, "watch-left-alone"));
                return Ok(Exit::Ok);
            }
            tokio::time::sleep(READ_INTERVAL).await;
        }
    }
}

async fn active(store: &ReadStore) -> Result<Vec<RunRecord>, Problem> {
    let filter = ListFilter {
        statuses: vec![Status::Pending, Status::Running],
        ..ListFilter::default()
    };
    Ok(store.list(filter).await?)
}

#[derive(Debug)]
struct View<'a> {
    settings: &'a Settings,
    json: bool,
    clock: ProcessClock,
    terminal: Option<Term>,
    lines_drawn: usize,
    shown: BTreeMap<RunId, Shown>,
}

impl<'a> View<'a> {
    fn new(settings: &'a Settings, json: bool) -> Self {
        let in_place = settings.terminal.output && !json;
        Self {
            settings,
            json,
            clock: ProcessClock::start(),
            terminal: in_place.then(Term::stdout),
            lines_drawn: 0,
            shown: BTreeMap::new(),
        }
    }

    /// Returns the active tasks, and those that were active and have ended since; newest first.
    async fn watched(
        &self,
        store: &ReadStore,
        active: &[RunRecord],
    ) -> Result<Vec<RunRecord>, Problem> {
        let mut records = active.to_vec();
        for run in self.shown.keys() {
            if active.iter().all(|record| record.run_id != *run) {
                records.push(store.get(*run).await?);
            }
        }
        records.sort_by_key(|record| std::cmp::Reverse(record.run_id));
        Ok(records)
    }

    fn show(
        &mut self,
        records: &[RunRecord],
        needs_person: &BTreeSet<RunId>,
    ) -> Result<(), Problem> {
        if self.terminal.is_some() {
            self.draw(records, needs_person)?;
        }
        for record in records.iter().rev() {
            let now = (
                record.status,
                needs_person.contains(&record.run_id),
                record.summary.tool_calls,
            );
            if self.shown.insert(record.run_id, now) == Some(now) || self.terminal.is_some() {
                continue;
            }
            if self.json {
                output::json_line(&Task::from(record))?;
            } else {
                let needs_person = needs_person.contains(&record.run_id);
                output::text(&change(self.settings.lang, record, needs_person))?;
            }
        }
        Ok(())
    }

    fn draw(
        &mut self,
        records: &[RunRecord],
        needs_person: &BTreeSet<RunId>,
    ) -> Result<(), Problem> {
        let Some(terminal) = &self.terminal else {
            return Ok(());
        };
        if records.is_empty() {
            return Ok(());
        }
        let text = table::tasks(
            records,
            &TableOptions {
                lang: self.settings.lang,
                columns: output_columns(self.settings),
                now: self.clock.now(),
                needs_person: needs_person.clone(),
                folder: self.settings.workspace(None).ok(),
            },
        );
        let (rows, _) = terminal.size();
        // Lines below the screen's edge cannot be redrawn.
        let lines: Vec<String> = text
            .lines()
            .take(usize::from(rows).saturating_sub(1))
            .map(str::to_owned)
            .collect();
        terminal
            .clear_last_lines(self.lines_drawn)
            .map_err(Problem::Output)?;
        self.lines_drawn = lines.len();
        output::text(&lines.join("\n"))
    }
}

fn change(lang: Lang, record: &RunRecord, needs_person: bool) -> String {
    let (status, _) = table::status(record, needs_person, lang);
    format!(
        "{} [{}] {}: {status} ({})",
        record.handle,
        one_line(&record.agent),
        one_line(&record.label),
        t!(lang, "count-tools", count = record.summary.tool_calls)
    )
}
