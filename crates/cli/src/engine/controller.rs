//! Controls a run, whichever process executes it.
//!
//! A server gets the operation over HTTP. A store that no process owns gets it directly. Beside any
//! other owner, such as a plain `sortie run`, the operation goes into the mailbox of the store: it is
//! durable there, and the owner applies it within a second, or the next owner does.

use std::time::Duration;

use sortie_core::id::{RunId, SessionKey};
use sortie_core::ports::store::{
    Control, LeaveControl, LeftControl, ListFilter, Requests as _, StoreError,
};
use sortie_core::run::{RunRecord, Status};
use sortie_core::time::Clock as _;
use sortie_runtime::{ProcessClock, RuntimeError, check_message};
use sortie_store::ReadStore;
use tokio::time::Instant;

use super::{Engine, Place, Stopped};
use crate::lock;
use crate::problem::Problem;
use crate::settings::Settings;

/// How long a command waits for the owner to apply its operation.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two checks of the mailbox.
const PAUSE: Duration = Duration::from_millis(50);

/// The ways to control a run.
#[derive(Debug)]
pub(crate) enum Controller<'a> {
    /// A server, or a runtime of this process.
    Engine(Box<Engine>),
    /// The mailbox of the process that owns the store.
    Mailbox(Box<Mailbox<'a>>),
}

/// The mailbox of the process that owns the store.
#[derive(Debug)]
pub(crate) struct Mailbox<'a> {
    settings: &'a Settings,
    store: ReadStore,
    clock: ProcessClock,
    owner: String,
}

/// Whether an operation was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Applied,
    /// It is durable, and this process has not applied it yet.
    Left {
        owner: String,
    },
}

impl<'a> Controller<'a> {
    pub(crate) async fn find(settings: &'a Settings) -> Result<Self, Problem> {
        let place = Place::find(settings).await?;
        let builder = settings.builder().admit_only();
        match Engine::start(settings, place, builder).await {
            Ok(engine) => Ok(Self::Engine(Box::new(engine))),
            Err(Problem::Runtime(RuntimeError::Store(StoreError::Locked { owner }))) => {
                Ok(Self::Mailbox(Box::new(Mailbox {
                    settings,
                    store: settings.options.read_store()?,
                    clock: ProcessClock::start(),
                    owner,
                })))
            }
            Err(problem) => Err(problem),
        }
    }

    pub(crate) async fn resolve(&self, id: &str) -> Result<RunId, Problem> {
        match self {
            Self::Engine(engine) => engine.resolve(id).await,
            Self::Mailbox(mailbox) => Ok(mailbox.store.resolve(id).await?),
        }
    }

    pub(crate) async fn get(&self, run: RunId) -> Result<RunRecord, Problem> {
        match self {
            Self::Engine(engine) => engine.get(run).await,
            Self::Mailbox(mailbox) => Ok(mailbox.store.get(run).await?),
        }
    }

    /// Cancels a run and its descendants.
    pub(crate) async fn cancel(
        &self,
        run: RunId,
        reason: &str,
    ) -> Result<(Stopped, Taken), Problem> {
        match self {
            Self::Engine(engine) => Ok((engine.cancel(run, reason).await?, Taken::Applied)),
            Self::Mailbox(mailbox) => {
                let reason = reason.to_owned();
                let (left, taken) = mailbox.leave(run, Control::Cancel { reason }).await?;
                let stopped = Stopped {
                    already_ended: left.already_ended.filter(|_| left.active.is_empty()),
                    ended: left.active,
                };
                Ok((stopped, taken))
            }
        }
    }

    /// Pauses a run and its descendants.
    pub(crate) async fn pause(&self, run: RunId) -> Result<Taken, Problem> {
        match self {
            Self::Engine(engine) => engine.pause(run).await.map(|()| Taken::Applied),
            Self::Mailbox(mailbox) => Ok(mailbox.leave(run, Control::Pause).await?.1),
        }
    }

    /// Resumes a run and its descendants.
    pub(crate) async fn unpause(&self, run: RunId) -> Result<Taken, Problem> {
        match self {
            Self::Engine(engine) => engine.unpause(run).await.map(|()| Taken::Applied),
            Self::Mailbox(mailbox) => Ok(mailbox.leave(run, Control::Resume).await?.1),
        }
    }

    /// Adds to a run's instruction.
    pub(crate) async fn steer(&self, run: RunId, text: &str) -> Result<Taken, Problem> {
        match self {
            Self::Engine(engine) => engine.steer(run, text).await.map(|()| Taken::Applied),
            Self::Mailbox(mailbox) => {
                check_message(text)?;
                let text = text.to_owned();
                Ok(mailbox.leave(run, Control::Steer { text }).await?.1)
            }
        }
    }

    /// Returns the active runs of a session, the oldest first.
    pub(crate) async fn active_in(&self, session: &SessionKey) -> Result<Vec<RunRecord>, Problem> {
        let filter = ListFilter {
            session: Some(session.clone()),
            statuses: vec![Status::Pending, Status::Running],
            oldest_first: true,
            ..ListFilter::default()
        };
        match self {
            Self::Engine(engine) => engine.list(filter).await,
            Self::Mailbox(mailbox) => Ok(mailbox.store.list(filter).await?),
        }
    }

    /// Releases the store of this process.
    pub(crate) async fn shut_down(self) {
        match self {
            Self::Engine(engine) => engine.shut_down().await,
            Self::Mailbox(_) => {}
        }
    }
}

impl Mailbox<'_> {
    /// Leaves an operation, and waits a while for the owner to apply it.
    async fn leave(&self, run: RunId, control: Control) -> Result<(LeftControl, Taken), Problem> {
        let left = self.settings.options.leave_control(&LeaveControl {
            run,
            control,
            at: self.clock.now(),
        })?;
        let Some(mail) = left.mail else {
            return Ok((left, Taken::Applied));
        };
        let deadline = Instant::now() + PATIENCE;
        while self.store.is_waiting(mail).await? {
            if lock::is_free(&self.settings.options.home) {
                self.apply_for_next_owner().await?;
            }
            if Instant::now() >= deadline {
                let owner = self.owner.clone();
                return Ok((left, Taken::Left { owner }));
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok((left, Taken::Applied))
    }

    /// Applies the mailbox in place of an owner that has ended.
    async fn apply_for_next_owner(&self) -> Result<(), Problem> {
        match self.settings.options.open_store() {
            Ok(opened) => {
                opened.store.reconcile(opened.clock.now()).await?;
                Ok(())
            }
            // Another process was faster, and takes the operation in.
            Err(StoreError::Locked { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
