//! `sortie resume`.

use std::collections::BTreeSet;
use std::sync::Arc;

use clap::Args;
use sortie_core::id::RunId;
use sortie_core::ports::store::ListFilter;
use sortie_core::run::{RunRecord, Status};
use sortie_protocol::Task;
use sortie_text::t;

use crate::engine::{Engine, Place};
use crate::exit::Exit;
use crate::follow::Goal;
use crate::foreground::{Everything, Foreground, Format};
use crate::ids::short_label;
use crate::output;
use crate::problem::Problem;
use crate::report;
use crate::screen::Screen;
use crate::settings::Settings;

/// Continues everything that an earlier process left unfinished
///
/// Starts queued tasks, continues interrupted ones at the end of their journal, and delivers
/// pending results. Prints the final text of each run that ends. Ctrl-C cancels what is running;
/// SIGTERM puts it back into the queue. If `sortie serve` owns the store, the command only waits
/// for the server's runs, and Ctrl-C stops the waiting.
#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// Waits only for this run; when it has ended, the others return to the queue
    id: Option<String>,
    /// Most subagents that run at once [default: subagents.max_concurrent]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_concurrent: Option<u32>,
    /// Prints the ended runs as JSON
    #[arg(long)]
    json: bool,
}

impl Resume {
    pub(crate) async fn run(
        self,
        settings: &Settings,
        screen: &Arc<Screen>,
    ) -> Result<Exit, Problem> {
        settings.check_configuration()?;
        let place = Place::find(settings).await?;
        let own = self.max_concurrent.is_some().then_some("--max-concurrent");
        place.refuse(settings, own)?;
        let unfinished = unfinished_roots(settings).await?;
        let builder = settings.builder().max_concurrent(self.max_concurrent);
        let foreground = Foreground::start(settings, screen, place, builder).await?;
        match self.id {
            Some(id) => one(settings, foreground, &id, Format::of(self.json, false)).await,
            None => everything(settings, screen, foreground, &unfinished, self.json).await,
        }
    }
}

/// Returns the roots of all trees that have not ended and are not paused.
async fn unfinished_roots(settings: &Settings) -> Result<BTreeSet<RunId>, Problem> {
    let store = settings.options.read_store()?;
    let filter = ListFilter {
        statuses: vec![Status::Pending, Status::Running],
        ..ListFilter::default()
    };
    let unfinished = store.list(filter).await?;
    let going_on = unfinished.iter().filter(|run| !run.paused);
    Ok(going_on.map(|run| run.root).collect())
}

async fn one(
    settings: &Settings,
    foreground: Foreground<'_>,
    id: &str,
    format: Format,
) -> Result<Exit, Problem> {
    let found = find(foreground.engine(), id).await;
    let record = match found {
        Ok(record) => record,
        Err(problem) => return Err(foreground.failed(problem).await),
    };
    if record.status.is_terminal() {
        output::note(&t!(
            settings.lang,
            "resume-ended",
            id = &record.handle,
            status = record.status.as_str()
        ));
    }
    // A subtree resumes only with its whole tree.
    foreground.finish(record.root, format).await
}

async fn find(engine: &Engine, id: &str) -> Result<RunRecord, Problem> {
    super::tasks::long_enough(id)?;
    let run = engine.resolve(id).await?;
    engine.get(run).await
}

async fn everything(
    settings: &Settings,
    screen: &Screen,
    foreground: Foreground<'_>,
    unfinished: &BTreeSet<RunId>,
    json: bool,
) -> Result<Exit, Problem> {
    let (goal, found) = match foreground.engine().runtime() {
        Some(runtime) => {
            let found = runtime.recovered();
            let nothing = unfinished.is_empty() && found.undelivered == 0;
            let lang = settings.lang;
            let resumed = found.resumed.len() as u64;
            let given_up = found.given_up.ended.len() as u64;
            let parts: Vec<String> = [
                (resumed, t!(lang, "resume-resumed", count = resumed)),
                (
                    found.queued,
                    t!(lang, "resume-queued", count = found.queued),
                ),
                (
                    found.undelivered,
                    t!(lang, "resume-undelivered", count = found.undelivered),
                ),
                (given_up, t!(lang, "resume-given-up", count = given_up)),
            ]
            .into_iter()
            .filter_map(|(count, words)| (count > 0).then_some(words))
            .collect();
            let words = match parts.as_slice() {
                [] => t!(lang, "resume-waiting"),
                parts => t!(lang, "resume-found", parts = parts.join(", ")),
            };
            (Goal::Everything, (!nothing).then_some(words))
        }
        None => {
            let count = unfinished.len();
            let words = t!(settings.lang, "resume-waits", count = count);
            let goal = Goal::Others(unfinished.clone());
            (goal, (count > 0).then_some(words))
        }
    };
    let Some(found) = found else {
        foreground.shut_down().await;
        screen.line(&t!(settings.lang, "resume-nothing"));
        if json {
            output::json(&Vec::<Task>::new())?;
        }
        return Ok(Exit::Ok);
    };
    screen.line(&found);
    match foreground.finish_all(goal).await? {
        Everything::Left(exit) => Ok(exit),
        Everything::Ended(foreground) => {
            let reported = report_ended(settings, foreground.engine(), unfinished, json).await;
            foreground.shut_down().await;
            reported
        }
    }
}

async fn report_ended(
    settings: &Settings,
    engine: &Engine,
    unfinished: &BTreeSet<RunId>,
    json: bool,
) -> Result<Exit, Problem> {
    let mut ended = Vec::new();
    // Without ids the filter would select all runs.
    if !unfinished.is_empty() {
        let filter = ListFilter {
            runs: unfinished.iter().copied().collect(),
            archived: true,
            oldest_first: true,
            ..ListFilter::default()
        };
        ended = engine.list(filter).await?;
        ended.retain(|run| run.status.is_terminal());
    }
    if json {
        let tasks: Vec<Task> = ended.iter().map(Task::from).collect();
        output::json(&tasks)?;
    } else {
        for record in &ended {
            let title = format!("[{}] {}", short_label(&record.label), record.handle);
            output::note(&title);
            report::ended(settings, engine, record).await?;
        }
    }
    Ok(ended
        .iter()
        .fold(Exit::Ok, |exit, record| exit.or(Exit::of(record))))
}
