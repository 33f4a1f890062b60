//! A runtime of this process, from its start until nothing is waited for any more.

use std::sync::Arc;

use sortie_core::{ListFilter, Notification, RunId, RunRecord, TaskJson, Timestamp};
use sortie_mcp::Pool;
use sortie_models::Directory;
use sortie_runtime::{NewRun, Runtime};
use sortie_text::t;
use tokio::sync::broadcast;

use crate::exit::Exit;
use crate::follow::{Follow, Goal, Stopped, Stream};
use crate::output;
use crate::problem::Problem;
use crate::report;
use crate::screen::Screen;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::wiring::{self, Started, Wishes};

/// What stdout gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The final text.
    Text,
    /// The task as JSON.
    Json,
    /// Everything that happens as lines of JSON, and the task last.
    StreamJson,
}

impl Format {
    /// The format that flags ask for.
    pub(crate) const fn of(json: bool, stream_json: bool) -> Self {
        match (json, stream_json) {
            (_, true) => Self::StreamJson,
            (true, false) => Self::Json,
            (false, false) => Self::Text,
        }
    }

    const fn stream(self) -> Stream {
        match self {
            Self::StreamJson => Stream::JsonLines,
            Self::Text | Self::Json => Stream::Off,
        }
    }
}

/// A running runtime and what the process hears.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    settings: &'a Settings,
    screen: &'a Arc<Screen>,
    runtime: Runtime,
    /// They live as long as the runtime.
    _servers: Option<Pool>,
    news: broadcast::Receiver<Notification>,
    signals: Signals,
    started_at: Timestamp,
}

impl<'a> Session<'a> {
    /// Starts the runtime; recovers what an earlier process left behind.
    pub(crate) async fn start(
        settings: &'a Settings,
        screen: &'a Arc<Screen>,
        models: Arc<Directory>,
        wishes: Wishes,
    ) -> Result<Self, Problem> {
        let signals = Signals::listen().map_err(Problem::Process)?;
        let Started { runtime, servers } = wiring::start(settings, models, wishes).await?;
        let recovered = runtime.recovered().given_up.ended.len();
        tracing::debug!(recovered, "the runtime has started");
        Ok(Self {
            news: runtime.subscribe(),
            started_at: runtime.now(),
            settings,
            screen,
            _servers: servers,
            runtime,
            signals,
        })
    }

    /// The runtime.
    pub(crate) const fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Says that runs of an earlier process go on beside the one that was asked for.
    pub(crate) fn mention_leftovers(&self) {
        let found = self.runtime.recovered();
        let count = found.resumed.len() as u64 + found.queued;
        if count > 0 {
            let words = t!(self.settings.lang, "leftovers", count = count);
            self.screen.line(&words);
        }
    }

    /// Makes a run, waits for it and says how it went.
    pub(crate) async fn run(self, new: NewRun, format: Format) -> Result<Exit, Problem> {
        self.mention_leftovers();
        match self.runtime.create(new).await {
            Ok(run) => self.finish(run, format).await,
            Err(error) => Err(self.failed(error).await),
        }
    }

    /// Gives the store back after something went wrong.
    pub(crate) async fn failed(self, problem: impl Into<Problem>) -> Problem {
        self.runtime.shut_down().await;
        problem.into()
    }

    /// Waits for a run and its descendants, and says how it went.
    pub(crate) async fn finish(mut self, run: RunId, format: Format) -> Result<Exit, Problem> {
        let followed = self.follow(Goal::Tree(run), format.stream()).await;
        let said = match followed {
            Ok(Stopped::Ended | Stopped::Cancelled) => self.say(run, format).await,
            Ok(Stopped::Terminated) => return Ok(self.terminated().await),
            Ok(Stopped::Abandoned) => return Ok(self.abandoned()),
            Err(problem) => Err(problem),
        };
        self.runtime.shut_down().await;
        said
    }

    /// Waits for everything; gives back how waiting ended, and the runtime if it still runs.
    pub(crate) async fn finish_everything(mut self) -> Result<Everything<'a>, Problem> {
        match self.follow(Goal::Everything, Stream::Off).await {
            Ok(Stopped::Ended | Stopped::Cancelled) => Ok(Everything::Ended(Box::new(self))),
            Ok(Stopped::Terminated) => Ok(Everything::Left(self.terminated().await)),
            Ok(Stopped::Abandoned) => Ok(Everything::Left(self.abandoned())),
            Err(problem) => {
                self.runtime.shut_down().await;
                Err(problem)
            }
        }
    }

    /// Gives the store back.
    pub(crate) async fn shut_down(self) {
        self.runtime.shut_down().await;
    }

    async fn follow(&mut self, goal: Goal, stream: Stream) -> Result<Stopped, Problem> {
        Follow::new(
            self.settings,
            self.screen,
            &self.runtime,
            goal,
            stream,
            self.started_at,
        )
        .until_ended(&mut self.news, &mut self.signals)
        .await
    }

    async fn say(&self, run: RunId, format: Format) -> Result<Exit, Problem> {
        let record = self.runtime.get(run).await?;
        match format {
            Format::Json => output::json(&TaskJson::from(&record))?,
            Format::StreamJson => output::json_line(&TaskJson::from(&record))?,
            Format::Text => {
                let all = self.all_records().await?;
                report::ended(self.settings, &record, &all)?;
            }
        }
        Ok(Exit::of(&record))
    }

    /// All records there are, archived ones too.
    pub(crate) async fn all_records(&self) -> Result<Vec<RunRecord>, Problem> {
        let filter = ListFilter {
            archived: true,
            ..ListFilter::default()
        };
        Ok(self.runtime.list(filter).await?)
    }

    /// Everything goes back to the queue.
    async fn terminated(self) -> Exit {
        self.screen.clear();
        self.runtime.shut_down().await;
        output::note(&t!(self.settings.lang, "terminated"));
        Exit::Terminated
    }

    /// Dropping the runtime is like a crash, and the next start recovers from it.
    fn abandoned(self) -> Exit {
        self.screen.clear();
        output::note(&t!(self.settings.lang, "abandoned"));
        Exit::Cancelled
    }
}

/// How waiting for everything ended.
#[derive(Debug)]
pub(crate) enum Everything<'a> {
    /// Nothing is active.
    Ended(Box<Session<'a>>),
    /// The process has to go.
    Left(Exit),
}
