//! What does the work of a command: a runtime of this process, or a server that holds the store.
//!
//! Commands that write ask an [`Engine`] and need not know which it is. Looking goes to the store in
//! both cases, so that everybody sees the same.

mod feed;
mod place;
mod remote;

use std::path::Path;
use std::time::Duration;

use sortie::{Builder, Sortie};
use sortie_core::{
    ListFilter, OpenRequest, Replied, Reply, RequestFilter, RequestId, RunId, RunRecord,
    SessionKey, Status, StoreError, Timestamp,
};
use sortie_runtime::{Agents, Fork, NewRun, Runtime, RuntimeError};
use tokio::time::Instant;

pub(crate) use feed::{Feed, Heard};
pub(crate) use place::{Place, token};
use remote::Remote;

use crate::problem::Problem;
use crate::settings::Settings;

/// How long a command that found no server tries to take the store: a server that starts meanwhile has
/// written its file long before.
const LOST_RACE: Duration = Duration::from_secs(1);
/// Between two attempts.
const RACE_PAUSE: Duration = Duration::from_millis(50);

/// What does the work.
#[derive(Debug)]
pub(crate) enum Engine {
    /// A runtime of this process.
    Own(Box<Sortie>),
    /// A server.
    Server(Box<Remote>),
}

/// What became of a cancel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stopped {
    /// Runs that end because of it.
    pub(crate) ended: Vec<RunId>,
    /// How it had ended before.
    pub(crate) already_ended: Option<Status>,
}

impl Engine {
    /// Takes the store for this process, or goes to the server that has it.
    pub(crate) async fn start(
        settings: &Settings,
        place: Place,
        builder: Builder,
    ) -> Result<Self, Problem> {
        match place {
            Place::Here => {
                #[cfg(feature = "crash-points")]
                settings.arm_crash_points()?;
                Ok(Self::Own(Box::new(builder.build().await?)))
            }
            Place::There(client) => Ok(Self::Server(Box::new(Remote::open(settings, *client)?))),
        }
    }

    /// One that writes and delivers, and, where it is this process, executes nothing.
    pub(crate) async fn idle(settings: &Settings) -> Result<Self, Problem> {
        let builder = settings.builder().admit_only();
        let deadline = Instant::now() + LOST_RACE;
        loop {
            let place = Place::find(settings).await?;
            let started = Self::start(settings, place, builder.clone()).await;
            match started {
                // A server that starts took the store between the look and the attempt: it is found next.
                Err(Problem::Runtime(RuntimeError::Store(StoreError::Locked { .. })))
                    if Instant::now() < deadline =>
                {
                    tokio::time::sleep(RACE_PAUSE).await;
                }
                started => return started,
            }
        }
    }

    /// The runtime, if it is of this process.
    pub(crate) fn runtime(&self) -> Option<&Runtime> {
        match self {
            Self::Own(own) => Some(own.runtime()),
            Self::Server(_) => None,
        }
    }

    /// Listens to what happens from now on.
    pub(crate) async fn listen(&self) -> Result<Feed, Problem> {
        match self {
            Self::Own(own) => Ok(Feed::Own(own.runtime().subscribe())),
            Self::Server(server) => Ok(server.listen().await?),
        }
    }

    /// The agents that runs can be made from, as far as this process knows.
    pub(crate) fn agents(&self) -> &Agents {
        match self {
            Self::Own(own) => own.runtime().agents(),
            Self::Server(server) => &server.agents,
        }
    }

    /// The present moment.
    pub(crate) fn now(&self) -> Timestamp {
        use sortie_core::Clock as _;
        match self {
            Self::Own(own) => own.runtime().now(),
            Self::Server(server) => server.clock.now(),
        }
    }

    /// Whether the server that was asked has gone, and nobody has the store.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Self::Own(_) => false,
            Self::Server(server) => server.is_gone(),
        }
    }

    /// One record.
    pub(crate) async fn get(&self, run: RunId) -> Result<RunRecord, Problem> {
        match self {
            Self::Own(own) => Ok(own.runtime().get(run).await?),
            Self::Server(server) => Ok(server.store.get(run).await?),
        }
    }

    /// The run that a person means by a prefix.
    pub(crate) async fn resolve(&self, prefix: &str) -> Result<RunId, Problem> {
        match self {
            Self::Own(own) => Ok(own.runtime().resolve(prefix).await?),
            Self::Server(server) => Ok(server.store.resolve(prefix).await?),
        }
    }

    /// Records, newest first.
    pub(crate) async fn list(&self, filter: ListFilter) -> Result<Vec<RunRecord>, Problem> {
        match self {
            Self::Own(own) => Ok(own.runtime().list(filter).await?),
            Self::Server(server) => Ok(server.store.list(filter).await?),
        }
    }

    /// What waits for somebody's word.
    pub(crate) async fn requests(
        &self,
        filter: RequestFilter,
    ) -> Result<Vec<OpenRequest>, Problem> {
        match self {
            Self::Own(own) => Ok(own.runtime().requests(filter).await?),
            Self::Server(server) => Ok(server.store.requests(filter).await?),
        }
    }

    /// Makes a run.
    pub(crate) async fn create(&self, new: NewRun) -> Result<RunId, Problem> {
        match self {
            Self::Own(own) => Ok(own.runtime().create(new).await?),
            Self::Server(server) => Ok(server.create(new).await?),
        }
    }

    /// Makes a run that branches off another.
    pub(crate) async fn fork(&self, fork: Fork) -> Result<RunId, Problem> {
        match self {
            Self::Own(own) => Ok(own.runtime().fork(fork).await?),
            Self::Server(server) => server.fork(fork).await,
        }
    }

    /// Wants a run and everything below it stopped.
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

    /// Removes a run and everything below it; says how many.
    pub(crate) async fn delete(&self, run: RunId) -> Result<u64, Problem> {
        match self {
            Self::Own(own) => Ok(own.runtime().delete(run).await?),
            Self::Server(server) => Ok(server.delete(run).await?),
        }
    }

    /// What a run changed in its worktree.
    pub(crate) async fn diff(&self, run: RunId) -> Result<String, Problem> {
        match self {
            Self::Own(own) => Ok(own.runtime().diff(run).await?),
            Self::Server(server) => Ok(server.diff(run).await?),
        }
    }

    /// Brings it into the checkout; says which files.
    pub(crate) async fn apply(&self, run: RunId) -> Result<Vec<String>, Problem> {
        match self {
            Self::Own(own) => Ok(own.runtime().apply(run).await?),
            Self::Server(server) => Ok(server.apply(run).await?),
        }
    }

    /// Throws it away.
    pub(crate) async fn discard(&self, run: RunId) -> Result<(), Problem> {
        match self {
            Self::Own(own) => Ok(own.runtime().discard(run).await?),
            Self::Server(server) => Ok(server.discard(run).await?),
        }
    }

    /// Lets a run and everything below it rest.
    pub(crate) async fn pause(&self, run: RunId) -> Result<(), Problem> {
        match self {
            Self::Own(own) => own.runtime().pause(run).await.map(drop)?,
            Self::Server(server) => server.pause(run).await.map(drop)?,
        }
        Ok(())
    }

    /// Lets them go on.
    pub(crate) async fn unpause(&self, run: RunId) -> Result<(), Problem> {
        match self {
            Self::Own(own) => own.runtime().unpause(run).await.map(drop)?,
            Self::Server(server) => server.unpause(run).await.map(drop)?,
        }
        Ok(())
    }

    /// Makes a run like one that has ended.
    pub(crate) async fn retry(&self, run: RunId) -> Result<RunId, Problem> {
        match self {
            Self::Own(own) => Ok(own.runtime().retry(run).await?),
            Self::Server(server) => Ok(server.retry(run).await?),
        }
    }

    /// Adds to a run's instruction.
    pub(crate) async fn steer(&self, run: RunId, text: &str) -> Result<(), Problem> {
        match self {
            Self::Own(own) => Ok(own.runtime().steer(run, text).await?),
            Self::Server(server) => Ok(server.steer(run, text).await?),
        }
    }

    /// Replies to what a run asked.
    pub(crate) async fn reply(
        &self,
        request: &RequestId,
        reply: Reply,
    ) -> Result<Replied, Problem> {
        match self {
            Self::Own(own) => Ok(own.runtime().reply(request, reply).await?),
            Self::Server(server) => server.reply(request, reply).await,
        }
    }

    /// Takes back what was allowed for a session in a folder.
    pub(crate) async fn revoke(
        &self,
        session: &SessionKey,
        folder: &Path,
        rule: Option<&str>,
    ) -> Result<u64, Problem> {
        match self {
            Self::Own(own) => {
                let session = session.in_folder(folder);
                Ok(own.runtime().revoke(None, &session, rule).await?)
            }
            Self::Server(server) => Ok(server.revoke(session, folder, rule).await?),
        }
    }

    /// Gives the store back; leaves the server to itself.
    pub(crate) async fn shut_down(self) {
        match self {
            Self::Own(own) => own.shut_down().await,
            Self::Server(_) => {}
        }
    }
}
