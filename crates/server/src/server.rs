//! The life cycle of a server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sortie_protocol::local_address;
use sortie_runtime::Runtime;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::{self, App};
use crate::body_memory::BodyMemory;
use crate::config::ServerConfig;
use crate::guard::{Failures, Names, Rates};
use crate::host::Host;
use crate::hub::Hub;
use crate::idempotency::UnderWay;
use crate::keys::{KeyError, KeyFile, KeyRing, mark_of};
use crate::links::{Links, Pass};
use crate::metrics::Metrics;
use crate::random::{self, NoRandomness};
use crate::readiness::Readiness;
use crate::{listen, routes};

/// Why the server could not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is in use or not one of this machine.
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The keys could not be read or created.
    #[error("the keys cannot be used")]
    Keys(#[from] KeyError),
    /// There are no random bytes.
    #[error("cannot create a secret")]
    Random(#[from] NoRandomness),
}

/// A server that is bound to its address.
#[derive(Debug)]
pub struct Server {
    pub(crate) app: Arc<App>,
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Binds the address, and creates the first key if there is none. Requests wait until
    /// [`Self::serve`].
    pub async fn bind(
        config: ServerConfig,
        runtime: Arc<Runtime>,
        host: Arc<dyn Host>,
    ) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Listen {
            address: config.listen,
            source,
        };
        let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let file = KeyFile::open(&config.home)?;
        let started_at = runtime.now();
        file.ensure_first(started_at)?;
        let stop = CancellationToken::new();
        let tracker = TaskTracker::new();
        let hub = Hub::start(&runtime, random::id()?, &stop, &tracker);
        let app = Arc::new(App {
            names: Names::new(address, &config.hosts),
            access: routes::all().access,
            cookie: format!("sortie_session_{}", address.port()),
            rates: Rates::new(config.limits.rate),
            keys: KeyRing::new(file)?,
            links: Links::default(),
            failures: Failures::default(),
            under_way: UnderWay::default(),
            body_memory: BodyMemory::default(),
            metrics: Metrics::default(),
            readiness: Readiness::default(),
            hub,
            config,
            runtime,
            host,
            started_at,
            stop,
            cut: CancellationToken::new(),
            tracker,
        });
        Ok(Self {
            app,
            listener,
            address,
        })
    }

    /// Returns the address, with the port that was chosen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Creates a link that logs a browser in as an admin, once, within five minutes. Must not be
    /// logged.
    pub fn login_link(&self) -> Result<String, ServeError> {
        let now = self.app.runtime.now();
        let token = self.app.keys.file().ensure_first(now)?;
        let pass = Pass {
            key: token.id().to_owned(),
            mark: mark_of(&token.hash()).to_owned(),
            role: sortie_protocol::Role::Admin,
        };
        let (code, _) = self.app.links.make(pass, now)?;
        Ok(format!(
            "http://{}/login?code={code}",
            local_address(self.address)
        ))
    }

    /// Serves requests until `stop`; then disconnects the clients and returns.
    pub async fn serve(self, stop: CancellationToken) -> Result<(), ServeError> {
        let Self {
            app,
            listener,
            address,
        } = self;
        tracing::info!(%address, "listening");
        let router = app::router(&app);
        tokio::select! {
            () = listen::accept(Arc::clone(&app), listener, router) => {}
            () = stop.cancelled() => {}
        }
        let patience: Duration = app.config.limits.stop_timeout;
        app.stop.cancel();
        app.tracker.close();
        if tokio::time::timeout(patience, app.tracker.wait())
            .await
            .is_err()
        {
            let left = app.tracker.len();
            tracing::warn!(
                left,
                "clients did not disconnect in time; closing their connections"
            );
            app.cut.cancel();
            app.tracker.wait().await;
        }
        tracing::info!("stopped listening");
        Ok(())
    }
}
