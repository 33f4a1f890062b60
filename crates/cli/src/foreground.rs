//! An engine and what the process hears, until nothing is waited for any more.

use std::sync::Arc;

use sortie::Builder;
use sortie_core::{ListFilter, RunId, RunRecord, Timestamp};
use sortie_protocol::Task;
use sortie_runtime::NewRun;
use sortie_text::t;

use crate::engine::{Engine, Feed, Place};
use crate::exit::Exit;
use crate::follow::{Follow, Goal, Stopped, Stream};
use crate::output;
use crate::problem::Problem;
use crate::report;
use crate::screen::Screen;
use crate::settings::Settings;
use crate::signals::Signals;

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

/// An engine and what the process hears.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    settings: &'a Settings,
    screen: &'a Arc<Screen>,
    engine: Engine,
    news: Feed,
    signals: Signals,
    started_at: Timestamp,
}

impl<'a> Session<'a> {
    /// Starts the runtime and recovers what an earlier process left behind, or goes to the server.
    pub(crate) async fn start(
        settings: &'a Settings,
        screen: &'a Arc<Screen>,
        place: Place,
        builder: Builder,
    ) -> Result<Self, Problem> {
        place.refuse(settings, settings.own_configuration())?;
        let signals = Signals::listen().map_err(Problem::Process)?;
        let engine = Engine::start(settings, place, builder).await?;
        if let Some(runtime) = engine.runtime() {
            let recovered = runtime.recovered().given_up.ended.len();
            tracing::debug!(recovered, "the runtime has started");
        }
        let news = match engine.listen().await {
            Ok(news) => news,
            Err(problem) => {
                engine.shut_down().await;
                return Err(problem);
            }
        };
        Ok(Self {
            started_at: engine.now(),
            settings,
            screen,
            engine,
            news,
            signals,
        })
    }

    /// What does the work.
    pub(crate) const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Says that runs of an earlier process go on beside the one that was asked for.
    pub(crate) fn mention_leftovers(&self) {
        // What a server runs is not the concern of its clients.
        let Some(runtime) = self.engine.runtime() else {
            return;
        };
        let found = runtime.recovered();
        let count = found.resumed.len() as u64 + found.queued;
        if count > 0 {
            let words = t!(self.settings.lang, "leftovers", count = count);
            self.screen.line(&words);
        }
    }

    /// Makes a run, waits for it and says how it went.
    pub(crate) async fn run(self, new: NewRun, format: Format) -> Result<Exit, Problem> {
        self.mention_leftovers();
        match self.engine.create(new).await {
            Ok(run) => self.finish(run, format).await,
            Err(error) => Err(self.failed(error).await),
        }
    }

    /// Gives the store back after something went wrong.
    pub(crate) async fn failed(self, problem: impl Into<Problem>) -> Problem {
        self.engine.shut_down().await;
        problem.into()
    }

    /// Waits for a run and its descendants, and says how it went.
    pub(crate) async fn finish(mut self, run: RunId, format: Format) -> Result<Exit, Problem> {
        let followed = self.follow(Goal::Tree(run), format.stream()).await;
        let said = match followed {
            Ok(Stopped::Ended | Stopped::Cancelled) => self.say(run, format).await,
            Ok(Stopped::Terminated) => return Ok(self.terminated(Some(run)).await),
            Ok(Stopped::Abandoned) => return Ok(self.abandoned()),
            Ok(Stopped::ServerGone) => return Ok(self.server_gone()),
            Err(problem) => Err(problem),
        };
        self.engine.shut_down().await;
        said
    }

    /// Waits for everything; gives back how waiting ended, and the engine if it still runs.
    pub(crate) async fn finish_all(mut self, goal: Goal) -> Result<Everything<'a>, Problem> {
        match self.follow(goal, Stream::Off).await {
            Ok(Stopped::Ended | Stopped::Cancelled) => Ok(Everything::Ended(Box::new(self))),
            Ok(Stopped::Terminated) => Ok(Everything::Left(self.terminated(None).await)),
            Ok(Stopped::Abandoned) => Ok(Everything::Left(self.abandoned())),
            Ok(Stopped::ServerGone) => Ok(Everything::Left(self.server_gone())),
            Err(problem) => {
                self.engine.shut_down().await;
                Err(problem)
            }
        }
    }

    /// Gives the store back.
    pub(crate) async fn shut_down(self) {
        self.engine.shut_down().await;
    }

    async fn follow(&mut self, goal: Goal, stream: Stream) -> Result<Stopped, Problem> {
        Follow::new(
            self.settings,
            self.screen,
            &self.engine,
            goal,
            stream,
            self.started_at,
        )
        .until_ended(&mut self.news, &mut self.signals)
        .await
    }

    async fn say(&self, run: RunId, format: Format) -> Result<Exit, Problem> {
        let record = self.engine.get(run).await?;
        match format {
            Format::Json => output::json(&Task::from(&record))?,
            Format::StreamJson => output::json_line(&Task::from(&record))?,
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
        self.engine.list(filter).await
    }

    /// Everything goes back to the queue; in a server, it goes on.
    async fn terminated(self, run: Option<RunId>) -> Exit {
        self.screen.clear();
        let lang = self.settings.lang;
        let words = match (&self.engine, run) {
            (Engine::Own(_), _) => t!(lang, "terminated"),
            (Engine::Server(_), Some(run)) => t!(lang, "left-in-server", id = run.to_string()),
            (Engine::Server(_), None) => t!(lang, "left-all-in-server"),
        };
        self.engine.shut_down().await;
        output::note(&words);
        Exit::Terminated
    }

    /// Dropping the runtime is like a crash, and the next start recovers from it. A server goes on
    /// to cancel what it was told to.
    fn abandoned(self) -> Exit {
        self.screen.clear();
        let lang = self.settings.lang;
        output::note(&match &self.engine {
            Engine::Own(_) => t!(lang, "abandoned"),
            Engine::Server(_) => t!(lang, "abandoned-in-server"),
        });
        Exit::Cancelled
    }

    /// The server has put what it ran back into the queue, or its store knows where it was.
    fn server_gone(self) -> Exit {
        self.screen.clear();
        output::note(&t!(self.settings.lang, "server-gone"));
        Exit::Terminated
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
