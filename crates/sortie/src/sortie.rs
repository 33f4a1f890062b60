//! A running Sortie.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sortie_core::notification::Notification;
use sortie_core::policy::Mode;
use sortie_core::ports::model::ModelDirectory;
use sortie_core::words::Lang;
use sortie_runtime::Runtime;
#[cfg(feature = "server")]
use sortie_server::{Host, ServeError, Server, ServerConfig};
use tokio::sync::broadcast;

use crate::approvals::Approvals;
use crate::assembly::Services;
use crate::audit::Audit;
use crate::builder::Builder;
use crate::options::Options;
use crate::sessions::Sessions;
use crate::tasks::Tasks;

/// How long a connection of the server may keep the runtime after a shutdown has begun.
const CONNECTIONS_LIMIT: Duration = Duration::from_secs(5);
/// The interval between two checks for such connections.
const CONNECTIONS_INTERVAL: Duration = Duration::from_millis(20);

/// A running Sortie: it holds the store, runs tasks and delivers their results.
///
/// Every operation is on disk when it returns. Dropping this value is like killing the process;
/// [`shut_down`](Self::shut_down) puts runs back into the queue first. Either way the next
/// [`build`](Builder::build) on the same home folder continues them.
#[derive(Debug)]
pub struct Sortie {
    runtime: Arc<Runtime>,
    models: Arc<dyn ModelDirectory>,
    defaults: Defaults,
    services: Services,
}

/// The values of a request that names none.
#[derive(Clone, Debug)]
pub(crate) struct Defaults {
    pub(crate) model: Option<String>,
    pub(crate) workspace: PathBuf,
    pub(crate) lang: Lang,
    pub(crate) mode: Mode,
}

impl Defaults {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            model: options.configured_model(),
            workspace: options.workspace.clone(),
            lang: options.lang,
            mode: options.config.approvals.mode,
        }
    }
}

impl Sortie {
    /// Returns a builder without options.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(
        runtime: Runtime,
        models: Arc<dyn ModelDirectory>,
        defaults: Defaults,
        services: Services,
    ) -> Self {
        Self {
            runtime: Arc::new(runtime),
            models,
            defaults,
            services,
        }
    }

    /// Returns the handle for tasks: create, wait, steer, cancel, read.
    pub fn tasks(&self) -> Tasks<'_> {
        Tasks::new(&self.runtime, &*self.models, &self.defaults)
    }

    /// Returns the handle for conversations.
    pub fn sessions(&self) -> Sessions<'_> {
        Sessions::new(self.tasks())
    }

    /// Returns the handle for approval requests and questions.
    pub fn approvals(&self) -> Approvals<'_> {
        Approvals::new(&self.runtime)
    }

    /// Returns the handle for the audit.
    pub fn audit(&self) -> Audit<'_> {
        Audit::new(&self.runtime)
    }

    /// Subscribes to events of all tasks. Events are hints: a subscriber that lags misses some, and
    /// reads the records again.
    pub fn subscribe(&self) -> broadcast::Receiver<Notification> {
        self.runtime.subscribe()
    }

    /// Returns the runtime, for operations that no handle offers.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Listens for clients of the HTTP API. [`Server::serve`] then answers them.
    #[cfg(feature = "server")]
    pub async fn bind_server(
        &self,
        config: ServerConfig,
        host: Arc<dyn Host>,
    ) -> Result<Server, ServeError> {
        Server::bind(config, Arc::clone(&self.runtime), host).await
    }

    /// Puts runs back into the queue, releases the store, and flushes telemetry.
    pub async fn shut_down(self) {
        self.release_store().await.flush().await;
    }

    /// Puts runs back into the queue and releases the store. Telemetry is still to be flushed.
    pub async fn release_store(self) -> PendingTelemetry {
        release(self.runtime).await;
        PendingTelemetry(self.services)
    }
}

/// Telemetry of a runtime that has shut down.
#[derive(Debug)]
#[must_use = "spans of the last runs are lost unless they are flushed"]
pub struct PendingTelemetry(Services);

impl PendingTelemetry {
    /// Sends pending spans; gives up after three seconds.
    pub async fn flush(self) {
        self.0.flush().await;
    }
}

/// Shuts the runtime down once no connection of the server uses it.
async fn release(mut runtime: Arc<Runtime>) {
    let deadline = tokio::time::Instant::now() + CONNECTIONS_LIMIT;
    loop {
        match Arc::try_unwrap(runtime) {
            Ok(runtime) => return runtime.shut_down().await,
            Err(shared) => runtime = shared,
        }
        if tokio::time::Instant::now() >= deadline {
            // The next start recovers, as from a crash.
            tracing::error!("a connection did not release the runtime");
            return;
        }
        tokio::time::sleep(CONNECTIONS_INTERVAL).await;
    }
}
