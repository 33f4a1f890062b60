//! `sortie tasks`: reading needs no lock and works while another process holds the store. Commands
//! that write lock the store, or call the server that holds it.

mod budget;
mod cancel;
mod changes;
mod clean;
mod control;
mod delete;
pub(crate) mod events;
mod list;
mod report;
mod result;
mod show;
mod stats;
mod transcript;
mod watch;

use std::time::Duration;

use clap::Subcommand;
use sortie_core::id::{MIN_PREFIX_CHARS, RunId, as_handle};
use sortie_core::run::RunRecord;
use sortie_store::ReadStore;

use crate::exit::Exit;
use crate::ids::Handles;
use crate::problem::Problem;
use crate::settings::Settings;

/// How often commands that follow a task read the store.
const READ_INTERVAL: Duration = Duration::from_millis(250);

/// Shows and manages tasks.
#[derive(Debug, Subcommand)]
pub(crate) enum Tasks {
    List(list::List),
    Show(show::Show),
    Result(result::ResultText),
    Report(report::Report),
    Transcript(transcript::Transcript),
    Events(events::Events),
    Watch(watch::Watch),
    Stats(stats::Stats),
    Diff(changes::Diff),
    Apply(changes::Apply),
    Discard(changes::Discard),
    Cancel(cancel::Cancel),
    Delete(delete::Delete),
    Clean(clean::Clean),
    Pause(control::Pause),
    Resume(control::Resume),
    Retry(control::Retry),
    Steer(control::Steer),
}

impl Tasks {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        match self {
            Self::List(list) => list.run(settings).await,
            Self::Show(show) => show.run(settings).await,
            Self::Result(result) => result.run(settings).await,
            Self::Report(report) => report.run(settings).await,
            Self::Transcript(transcript) => transcript.run(settings).await,
            Self::Events(events) => events.run(settings).await,
            Self::Watch(watch) => watch.run(settings).await,
            Self::Stats(stats) => stats.run(settings).await,
            Self::Diff(diff) => diff.run(settings).await,
            Self::Apply(apply) => apply.run(settings).await,
            Self::Discard(discard) => discard.run(settings).await,
            Self::Cancel(cancel) => cancel.run(settings).await,
            Self::Delete(delete) => delete.run(settings).await,
            Self::Clean(clean) => clean.run(settings).await,
            Self::Pause(pause) => pause.run(settings).await,
            Self::Resume(resume) => resume.run(settings).await,
            Self::Retry(retry) => retry.run(settings).await,
            Self::Steer(steer) => steer.run(settings).await,
        }
    }
}

/// Opens the store read-only and finds the task with the handle or the beginning of the id in `id`.
pub(super) async fn open(settings: &Settings, id: &str) -> Result<(ReadStore, RunRecord), Problem> {
    let store = settings.options.read_store()?;
    let run = resolve(&store, id).await?;
    let record = store.get(run).await?;
    Ok((store, record))
}

pub(super) async fn resolve(store: &ReadStore, id: &str) -> Result<RunId, Problem> {
    long_enough(id)?;
    Ok(store.resolve(id).await?)
}

/// Rejects what is neither a handle nor long enough for a prefix of an id.
pub(super) fn long_enough(id: &str) -> Result<(), Problem> {
    if as_handle(id).is_some() {
        return Ok(());
    }
    let digits = id.chars().filter(|character| *character != '-').count();
    if digits < MIN_PREFIX_CHARS {
        return Err(Problem::ShortId(id.to_owned()));
    }
    Ok(())
}

/// Returns the handles of these tasks.
pub(super) async fn handles(
    store: &ReadStore,
    tasks: impl Iterator<Item = RunId>,
) -> Result<Handles, Problem> {
    Ok(Handles::new(store.handles(tasks.collect()).await?))
}

/// Returns the width of the terminal on stdout, if it is one.
pub(crate) fn output_columns(settings: &Settings) -> Option<u16> {
    settings.terminal.output.then(|| {
        let (_, columns) = console::Term::stdout().size();
        columns
    })
}
