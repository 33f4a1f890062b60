//! A command in the foreground: an engine, its events and the signals of the process, until all runs
//! that the command waits for have ended.

use std::sync::Arc;

use sortie::Builder;
use sortie_core::id::RunId;
use sortie_core::time::Timestamp;
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

/// The output format on stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    /// The task as JSON.
    Json,
    /// Every event as a line of JSON, and the task last.
    StreamJson,
}

impl Format {
    /// Returns the format that the flags select.
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

/// An engine, its events and the signals of the process.
#[derive(Debug)]
pub(crate) struct Foreground<'a> {
    settings: &'a Settings,
    screen: &'a Arc<Screen>,
    engine: Engine,
    feed: Feed,
    signals: Signals,
    started_at: Timestamp,
}

impl<'a> Foreground<'a> {
    /// Starts the runtime, which recovers what an earlier process left behind, or connects to the
    /// server that holds the store.
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
        let feed = match engine.listen().await {
            Ok(feed) => feed,
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
            feed,
            signals,
        })
    }

    pub(crate) const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Reports that runs of an earlier process continue beside the new one.
    pub(crate) fn mention_leftovers(&self) {
        // A server's runs are no concern of its clients.
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

    /// Creates a run, waits for it and prints its result.
    pub(crate) async fn run(self, new: NewRun, format: Format) -> Result<Exit, Problem> {
        self.mention_leftovers();
        match self.engine.create(new).await {
            Ok(run) => self.finish(run, format).await,
            Err(error) => Err(self.failed(error).await),
        }
    }

    /// Releases the store after a failure.
    pub(crate) async fn failed(self, problem: impl Into<Problem>) -> Problem {
        self.engine.shut_down().await;
        problem.into()
    }

    /// Waits for a run and its descendants, and prints its result.
    pub(crate) async fn finish(mut self, run: RunId, format: Format) -> Result<Exit, Problem> {
        let followed = self.follow(Goal::Tree(run), format.stream()).await;
        let printed = match followed {
            Ok(Stopped::Ended | Stopped::Cancelled) => self.print(run, format).await,
            Ok(Stopped::Terminated) => return Ok(self.terminated(Some(run)).await),
            Ok(Stopped::Abandoned) => return Ok(self.abandoned()),
            Ok(Stopped::ServerGone) => return Ok(self.server_gone()),
            Err(problem) => Err(problem),
        };
        self.engine.shut_down().await;
        printed
    }

    /// Waits for all runs. Returns how that ended, with the engine if it still runs.
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

    /// Shuts the engine down and releases the store.
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
        .until_ended(&mut self.feed, &mut self.signals)
        .await
    }

    async fn print(&self, run: RunId, format: Format) -> Result<Exit, Problem> {
        let record = self.engine.get(run).await?;
        match format {
            Format::Json => output::json(&Task::from(&record))?,
            Format::StreamJson => output::json_line(&Task::from(&record))?,
            Format::Text => report::ended(self.settings, &self.engine, &record).await?,
        }
        Ok(Exit::of(&record))
    }

    /// Puts all runs back into the queue; the runs of a server continue.
    async fn terminated(self, run: Option<RunId>) -> Exit {
        self.screen.clear();
        let lang = self.settings.lang;
        let words = match (self.engine.is_server(), run) {
            (false, _) => t!(lang, "terminated"),
            (true, Some(run)) => t!(lang, "left-in-server", id = run.to_string()),
            (true, None) => t!(lang, "left-all-in-server"),
        };
        self.engine.shut_down().await;
        output::note(&words);
        Exit::Terminated
    }

    /// Drops the runtime, which is like a crash: the next start recovers. A server completes the
    /// cancellation.
    fn abandoned(self) -> Exit {
        self.screen.clear();
        let lang = self.settings.lang;
        output::note(&if self.engine.is_server() {
            t!(lang, "abandoned-in-server")
        } else {
            t!(lang, "abandoned")
        });
        Exit::Cancelled
    }

    /// Reports that the server has gone. Its runs are in the queue, or the next start recovers them.
    fn server_gone(self) -> Exit {
        self.screen.clear();
        output::note(&t!(self.settings.lang, "server-gone"));
        Exit::Terminated
    }
}

/// How waiting for all runs ended.
#[derive(Debug)]
pub(crate) enum Everything<'a> {
    /// No run is active.
    Ended(Box<Foreground<'a>>),
    /// The process has to exit.
    Left(Exit),
}
