//! The engine of a command: a runtime of this process, or a server that holds the store.
//!
//! Commands that write call an [`Engine`] and need not know which it is. Reads go to the store in both
//! cases, so that all commands see the same.

mod controller;
mod feed;
mod place;
mod remote;

use std::path::Path;
use std::time::Duration;

use sortie::{Builder, Sortie};
use sortie_core::event::JournalEntry;
use sortie_core::id::{RunId, Seq, SessionKey};
use sortie_core::ports::store::{
    ListFilter, Replied, RetentionRule, StoreError, Unblock, Undelivered,
};
use sortie_core::request::{OpenRequest, Reply, RequestFilter, RequestId};
use sortie_core::run::{RunRecord, Status};
use sortie_core::session::{SessionFilter, SessionSummary};
use sortie_core::time::Timestamp;
use sortie_protocol::CleanBody;
use sortie_runtime::{Agents, Fork, MessageReceipt, NewRun, Runtime, RuntimeError};
use tokio::time::Instant;

pub(crate) use controller::{Controller, Taken};
pub(crate) use feed::{Feed, FeedItem};
pub(crate) use place::{Place, token};
use remote::Remote;

use crate::problem::Problem;
use crate::settings::Settings;

/// How long a command that found no server tries to lock the store: a server that starts meanwhile has
/// written its file long before.
const LOST_RACE: Duration = Duration::from_secs(1);
/// Pause between two attempts to take the lock.
const RACE_PAUSE: Duration = Duration::from_millis(50);

/// The engine of a command.
#[derive(Debug)]
pub(crate) enum Engine {
    /// A runtime of this process.
    Own(Box<Sortie>),
    Server(Box<Remote>),
}

/// Calls one operation of the runtime, or the operation of the same name of the server.
macro_rules! forward {
    ($engine:expr, $operation:ident($($argument:expr),*)) => {
        match $engine {
            Engine::Own(own) => Ok(own.runtime().$operation($($argument),*).await?),
            Engine::Server(server) => Ok(server.$operation($($argument),*).await?),
        }
    };
}

/// The result of a cancellation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stopped {
    /// Runs that it ends.
    pub(crate) ended: Vec<RunId>,
    /// The status of a run that had ended before.
    pub(crate) already_ended: Option<Status>,
}

impl Engine {
    /// Locks the store for this process, or connects to the server that holds it.
    pub(crate) async fn start(
        settings: &Settings,
        place: Place,
        builder: Builder,
    ) -> Result<Self, Problem> {
        match place {
            Place::Here => {
                settings.check_home_writable()?;
                #[cfg(feature = "crash-points")]
                settings.arm_crash_points()?;
                Ok(Self::Own(Box::new(builder.build().await?)))
            }
            Place::There(client) => Ok(Self::Server(Box::new(Remote::open(settings, *client)?))),
        }
    }

    /// Starts an engine that writes and delivers. A runtime of this process executes no run.
    pub(crate) async fn idle(settings: &Settings) -> Result<Self, Problem> {
        let builder = settings.builder().admit_only();
        let deadline = Instant::now() + LOST_RACE;
        loop {
            let place = Place::find(settings).await?;
            let started = Self::start(settings, place, builder.clone()).await;
            match started {
                // A server locked the store between the check and the attempt: the next check finds it.
                Err(Problem::Runtime(RuntimeError::Store(StoreError::Locked { .. })))
                    if Instant::now() < deadline =>
                {
                    tokio::time::sleep(RACE_PAUSE).await;
                }
                started => return started,
            }
        }
    }

    /// Returns the runtime of this process, if the engine is one.
    pub(crate) fn runtime(&self) -> Option<&Runtime> {
        match self {
            Self::Own(own) => Some(own.runtime()),
            Self::Server(_) => None,
        }
    }

    /// Subscribes to events from now on.
    pub(crate) async fn listen(&self) -> Result<Feed, Problem> {
        match self {
            Self::Own(own) => Ok(Feed::of_runtime(own.runtime())),
            Self::Server(server) => Ok(server.listen().await?),
        }
    }

    /// Subscribes to events and to the text of completions from now on.
    pub(crate) async fn listen_with_text(&self) -> Result<Feed, Problem> {
        match self {
            Self::Own(own) => Ok(Feed::with_text(own.runtime())),
            Self::Server(server) => Ok(server.listen_with_text().await?),
        }
    }

    /// Returns the agents that this process knows. A server may know others.
    pub(crate) fn agents(&self) -> &Agents {
        match self {
            Self::Own(own) => own.runtime().agents(),
            Self::Server(server) => &server.agents,
        }
    }

    /// Fails with the names of all agents if there is none of this name. A server knows its own.
    pub(crate) fn check_agent(&self, name: Option<&str>) -> Result<(), Problem> {
        let (Self::Own(_), Some(name)) = (self, name) else {
            return Ok(());
        };
        match self.agents().find(name) {
            Some(_) => Ok(()),
            None => Err(Problem::NoAgent {
                name: name.to_owned(),
                known: self.agents().names(),
            }),
        }
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> Timestamp {
        use sortie_core::time::Clock as _;
        match self {
            Self::Own(own) => own.runtime().now(),
            Self::Server(server) => server.clock.now(),
        }
    }

    /// Whether the server has gone and no process holds the store.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Self::Own(_) => false,
            Self::Server(server) => server.is_gone(),
        }
    }

    /// Whether a server executes the runs.
    pub(crate) const fn is_server(&self) -> bool {
        matches!(self, Self::Server(_))
    }

    pub(crate) async fn get(&self, run: RunId) -> Result<RunRecord, Problem> {
        forward!(self, get(run))
    }

    /// Returns the run with this handle, or whose id begins with `prefix`.
    pub(crate) async fn resolve(&self, prefix: &str) -> Result<RunId, Problem> {
        forward!(self, resolve(prefix))
    }

    /// Counts the results that were not delivered.
    pub(crate) async fn undelivered(&self) -> Result<Undelivered, Problem> {
        forward!(self, undelivered())
    }

    /// Returns records, newest first.
    pub(crate) async fn list(&self, filter: ListFilter) -> Result<Vec<RunRecord>, Problem> {
        forward!(self, list(filter))
    }

    /// Returns approval requests and questions.
    pub(crate) async fn requests(
        &self,
        filter: RequestFilter,
    ) -> Result<Vec<OpenRequest>, Problem> {
        forward!(self, requests(filter))
    }

    /// Returns the journal of a run after `after`.
    pub(crate) async fn events(
        &self,
        run: RunId,
        after: Seq,
    ) -> Result<Vec<JournalEntry>, Problem> {
        forward!(self, events(run, after))
    }

    /// Returns sessions, the one with the latest turn first.
    pub(crate) async fn sessions(
        &self,
        filter: SessionFilter,
    ) -> Result<Vec<SessionSummary>, Problem> {
        forward!(self, sessions(filter))
    }

    /// Returns an unused run id.
    pub(crate) fn new_run_id(&self) -> RunId {
        use sortie_core::time::Clock as _;
        match self {
            Self::Own(own) => own.runtime().new_run_id(),
            Self::Server(server) => server.clock.new_run_id(),
        }
    }

    /// Sends a message to the session of the request: it steers the active turn, or starts a new
    /// one.
    pub(crate) async fn send_message(&self, new: NewRun) -> Result<MessageReceipt, Problem> {
        forward!(self, send_message(new))
    }

    pub(crate) async fn create(&self, new: NewRun) -> Result<RunId, Problem> {
        forward!(self, create(new))
    }

    /// Creates a run that continues from an event of another.
    pub(crate) async fn fork(&self, fork: Fork) -> Result<RunId, Problem> {
        forward!(self, fork(fork))
    }

    /// Cancels a run and its descendants.
    pub(crate) async fn cancel(&self, run: RunId, reason: &str) -> Result<Stopped, Problem> {
        match self {
            Self::Own(own) => {
                let report = own.runtime().cancel(run, reason).await?;
                Ok(Stopped {
                    ended: report.ended.iter().map(|ended| ended.run).collect(),
                    already_ended: report.already_ended,
                })
            }
            Self::Server(server) => Ok(server.cancel(run, reason).await?),
        }
    }

    /// Deletes a run and its descendants; returns how many.
    pub(crate) async fn delete(&self, run: RunId) -> Result<u64, Problem> {
        forward!(self, delete(run))
    }

    /// Deletes ended tasks, or counts them; returns how many.
    pub(crate) async fn clean(&self, body: &CleanBody) -> Result<u64, Problem> {
        match self {
            Self::Own(own) => {
                let runtime = own.runtime();
                let rule = RetentionRule {
                    statuses: body.status.clone(),
                    agent: body.agent.clone(),
                    ..runtime.older_than(hours(body.max_age_hours))
                };
                Ok(if body.dry_run {
                    runtime.count_clean_up(rule).await?
                } else {
                    runtime.clean_up(rule).await?
                })
            }
            Self::Server(server) => Ok(server.clean(body).await?),
        }
    }

    /// Retries dead letters of hooks or drops them: one, or all; returns how many.
    pub(crate) async fn unblock_letters(
        &self,
        id: Option<i64>,
        choice: Unblock,
    ) -> Result<u64, Problem> {
        forward!(self, unblock_letters(id, choice))
    }

    /// Returns the changes of a run in its worktree, as a diff.
    pub(crate) async fn diff(&self, run: RunId) -> Result<String, Problem> {
        forward!(self, diff(run))
    }

    /// Applies the changes of a run's worktree to the checkout; returns the files.
    pub(crate) async fn apply(&self, run: RunId) -> Result<Vec<String>, Problem> {
        forward!(self, apply(run))
    }

    /// Discards the changes of a run's worktree.
    pub(crate) async fn discard(&self, run: RunId) -> Result<(), Problem> {
        forward!(self, discard(run))
    }

    /// Pauses a run and its descendants.
    pub(crate) async fn pause(&self, run: RunId) -> Result<(), Problem> {
        match self {
            Self::Own(own) => Ok(own.runtime().pause(run).await.map(drop)?),
            Self::Server(server) => Ok(server.pause(run).await.map(drop)?),
        }
    }

    /// Resumes a run and its descendants.
    pub(crate) async fn unpause(&self, run: RunId) -> Result<(), Problem> {
        match self {
            Self::Own(own) => Ok(own.runtime().unpause(run).await.map(drop)?),
            Self::Server(server) => Ok(server.unpause(run).await.map(drop)?),
        }
    }

    /// Creates a run like one that has ended.
    pub(crate) async fn retry(&self, run: RunId) -> Result<RunId, Problem> {
        forward!(self, retry(run))
    }

    /// Adds to a run's instruction.
    pub(crate) async fn steer(&self, run: RunId, text: &str) -> Result<(), Problem> {
        forward!(self, steer(run, text))
    }

    /// Replies to an approval request or a question.
    pub(crate) async fn reply(
        &self,
        request: &RequestId,
        reply: Reply,
    ) -> Result<Replied, Problem> {
        forward!(self, reply(request, reply))
    }

    /// Revokes a grant of a session in a folder, or all of them; returns how many.
    pub(crate) async fn revoke(
        &self,
        session: &SessionKey,
        folder: &Path,
        rule: Option<&str>,
    ) -> Result<u64, Problem> {
        match self {
            Self::Own(own) => Ok(own.sessions().revoke(session, folder, rule).await?),
            Self::Server(server) => Ok(server.revoke(session, folder, rule).await?),
        }
    }

    /// Releases the store of this process. A server continues.
    pub(crate) async fn shut_down(self) {
        match self {
            Self::Own(own) => own.shut_down().await,
            Self::Server(_) => {}
        }
    }
}

const fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours.saturating_mul(3_600))
}
