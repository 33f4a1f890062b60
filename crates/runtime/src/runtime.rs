//! A running runtime: its parts, its services, and its operations grouped by noun.

mod approvals;
mod audit;
mod changes;
mod hook_letters;
mod idempotency;
mod journals;
mod policies;
mod sessions;
mod tasks;
mod tenants;
mod usage;
mod workers;

pub use policies::{Explained, PolicySubject, PolicyView};
pub use sessions::MessageReceipt;
pub use tasks::check_message;
pub use usage::LaneState;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sortie_base::redact::Redactor;
use sortie_core::id::RunId;
use sortie_core::notification::Notification;
use sortie_core::ports::hooks::{Hooks, NoHooks};
use sortie_core::ports::model::ModelDirectory;
use sortie_core::ports::store::{RecoverReport, Store, StoreError};
use sortie_core::ports::tool::Tool;
use sortie_core::ports::workspace::{NoSkills, NoWorktrees, Skills, Worktrees};
use sortie_core::time::{Clock, Timestamp};
use sortie_core::words::Lang;
use sortie_core::worker::{self, Worker, WorkerId};
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::active_runs::ActiveRuns;
use crate::agents::Agents;
use crate::authority::PolicyCache;
use crate::clock::{ProcessClock, StoreClock};
use crate::details_cache::DetailsCache;
use crate::engine::{Engine, Wakeups, store_failed};
use crate::hooks;
use crate::peers;
use crate::planner::Planner;
use crate::publish::Publisher;
use crate::refusal::Refusal;
use crate::requeue::ExecutorFailures;
use crate::scheduler;
use crate::session_locks::SessionLocks;
use crate::session_turns;
use crate::settings::{Settings, WorkerSettings};
use crate::sinks::Sink;
use crate::toolbox::ToolboxError;

/// The parts of a runtime.
#[derive(Debug)]
pub struct Parts {
    /// The store, which has all durable state.
    pub store: Arc<dyn Store>,
    pub models: Arc<dyn ModelDirectory>,
    pub tools: Vec<Arc<dyn Tool>>,
    pub agents: Agents,
    /// The source of time and run ids.
    pub clock: Arc<dyn Clock>,
    /// Destinations outside the store for results.
    pub sinks: Vec<Arc<dyn Sink>>,
    /// Creates worktrees for isolated runs.
    pub worktrees: Arc<dyn Worktrees>,
    /// Runs the commands of hooks and sends their letters.
    pub hooks: Arc<dyn Hooks>,
    pub skills: Arc<dyn Skills>,
    /// Removes secrets from everything that is written.
    pub redactor: Redactor,
}

impl Parts {
    /// Creates the parts with defaults: built-in agents in English, the clock of this process, no
    /// worktrees, no skills and no sinks.
    pub fn new(
        store: Arc<dyn Store>,
        models: Arc<dyn ModelDirectory>,
        tools: Vec<Arc<dyn Tool>>,
    ) -> Self {
        Self {
            store,
            models,
            tools,
            agents: Agents::built_in(Lang::En),
            clock: Arc::new(ProcessClock::start()),
            sinks: Vec::new(),
            worktrees: Arc::new(NoWorktrees),
            hooks: Arc::new(NoHooks),
            skills: Arc::new(NoSkills),
            redactor: Redactor::default(),
        }
    }
}

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The request was refused, and nothing was written.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The tools cannot be registered.
    #[error(transparent)]
    Toolbox(#[from] ToolboxError),
}

/// A running runtime. Dropping it is like killing the process; [`Runtime::shut_down`] releases
/// every run first.
#[derive(Debug)]
pub struct Runtime {
    engine: Arc<Engine>,
    details: DetailsCache,
    services: JoinSet<()>,
    stop: CancellationToken,
    recovered: RecoverReport,
    started_at: Timestamp,
}

impl Runtime {
    /// Recovers what an earlier process left behind, and starts the services.
    pub async fn start(parts: Parts, settings: Settings) -> Result<Self, RuntimeError> {
        let worker = this_process(&parts, &settings);
        let store_clock = Arc::new(StoreClock::new(Arc::clone(&parts.clock)));
        let clock: Arc<dyn Clock> = if parts.store.is_shared() {
            Arc::clone(&store_clock) as _
        } else {
            parts.clock
        };
        let publisher = Publisher::new(Arc::clone(&parts.store), Arc::clone(&clock));
        let engine = Arc::new(Engine {
            planner: Planner::new(parts.tools, parts.agents, settings, parts.skills)?,
            store: parts.store,
            clock,
            models: parts.models,
            worktrees: parts.worktrees,
            hooks: parts.hooks,
            redactor: parts.redactor,
            policies: PolicyCache::default(),
            active_runs: ActiveRuns::default(),
            failures: ExecutorFailures::default(),
            publisher,
            wakeups: Wakeups::default(),
            session_locks: SessionLocks::default(),
            worker,
            store_clock,
            is_draining: AtomicBool::new(false),
        });
        let is_shared = engine.store.is_shared();
        if is_shared {
            engine.read_store_clock().await;
        }
        let recovered = engine.recover_at_start().await?;
        if is_shared {
            engine.join().await?;
        }
        if engine.worker.is_front {
            let rules = engine.settings().tenants.clone();
            engine.store.set_tenants(rules).await?;
        }
        scheduler::reconcile_at_start(&engine).await;
        let stop = CancellationToken::new();
        let mut services = JoinSet::new();
        let drained = CancellationToken::new();
        services.spawn(scheduler::serve(
            Arc::clone(&engine),
            stop.clone(),
            drained.clone(),
        ));
        services.spawn(scheduler::keep_leases(Arc::clone(&engine), drained));
        if is_shared {
            services.spawn(peers::follow(Arc::clone(&engine), stop.clone()));
        }
        let is_front = engine.worker.is_front;
        if is_front {
            services.spawn(scheduler::deliver_outside(
                Arc::clone(&engine),
                parts.sinks,
                stop.clone(),
            ));
            services.spawn(hooks::deliver(Arc::clone(&engine), stop.clone()));
        }
        if is_front && engine.settings().wake_sessions {
            services.spawn(session_turns::serve(Arc::clone(&engine), stop.clone()));
        }
        Ok(Self {
            started_at: engine.clock.now(),
            engine,
            details: DetailsCache::default(),
            services,
            stop,
            recovered,
        })
    }

    /// Returns what recovery found at the start.
    pub const fn recovered(&self) -> &RecoverReport {
        &self.recovered
    }

    /// Commits a small write: fails while the store accepts none.
    pub async fn probe(&self) -> Result<(), RuntimeError> {
        Ok(self.engine.store.probe().await?)
    }

    /// Subscribes to notifications from now on. A subscriber that misses some reads the records.
    pub fn subscribe(&self) -> broadcast::Receiver<Notification> {
        self.engine.publisher.subscribe()
    }

    /// Subscribes to the text that models write, as it arrives.
    pub fn subscribe_text(&self) -> broadcast::Receiver<(RunId, Arc<str>)> {
        self.engine.publisher.subscribe_text()
    }

    /// Returns the present time of this runtime's clock.
    pub fn now(&self) -> Timestamp {
        self.engine.clock.now()
    }

    /// Stops the services. Active runs return to the queue; the next process resumes them.
    pub async fn shut_down(mut self) {
        self.engine.is_draining.store(true, Ordering::Relaxed);
        self.stop.cancel();
        let is_shared = self.engine.store.is_shared();
        if is_shared && let Err(error) = self.engine.join().await {
            store_failed("announce the end of this process", &error);
        }
        while let Some(ended) = self.services.join_next().await {
            if let Err(panic) = ended {
                tracing::error!(%panic, "a service panicked");
            }
        }
        let worker = self.engine.worker.id.clone();
        if is_shared && let Err(error) = self.engine.store.leave(worker).await {
            // The others see it as lost, and remove it later.
            store_failed("leave the list of workers", &error);
        }
    }
}

/// Describes this process. The only owner of a store needs no id that no other process has.
fn this_process(parts: &Parts, settings: &Settings) -> Worker {
    let WorkerSettings {
        is_front,
        host,
        labels,
    } = settings.worker.clone();
    let pid = std::process::id();
    let id = if parts.store.is_shared() {
        WorkerId::new(&host, pid, parts.clock.new_run_id())
    } else {
        WorkerId::from_stored(settings.owner.clone())
    };
    let lanes = settings.lanes.limits();
    Worker {
        id,
        command: settings.owner.clone(),
        is_front,
        host,
        pid,
        labels: worker::sorted(labels),
        lanes: lanes
            .into_iter()
            .map(|limit| (limit.lane, limit.max_concurrent))
            .collect(),
    }
}
