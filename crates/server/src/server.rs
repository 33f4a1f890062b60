//! A server, from its first breath to its last.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use sortie_runtime::Runtime;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::{self, App};
use crate::config::ServerConfig;
use crate::guard::{Failures, Names, Rates};
use crate::host::Host;
use crate::hub::Hub;
use crate::keys::{KeyError, KeyFile, KeyRing, mark_of};
use crate::links::{Links, Pass};
use crate::metrics::Metrics;
use crate::once::UnderWay;
use crate::random::{self, NoRandomness};
use crate::readiness::Readiness;
use crate::room::Rooms;
use crate::{listen, routes};

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is taken or not ours.
    #[error("could not listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The keys could not be read or made.
    #[error("the keys cannot be used")]
    Keys(#[from] KeyError),
    /// No random bytes.
    #[error("no secret could be made")]
    Random(#[from] NoRandomness),
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    pub(crate) app: Arc<App>,
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Listens, and makes the first key if there is none. Nothing is answered yet.
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
            rooms: Rooms::default(),
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

    /// Where it listens, with the port that it really got.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A link that lets a browser in as an admin, once, within five minutes. Not to be logged.
    pub fn login_link(&self) -> Result<String, ServeError> {
        let now = self.app.runtime.now();
        let token = self.app.keys.file().ensure_first(now)?;
        let pass = Pass {
            key: token.id().to_owned(),
            mark: mark_of(&token.hash()).to_owned(),
            role: sortie_protocol::Role::Admin,
        };
        let (code, _) = self.app.links.make(pass, now)?;
        Ok(format!("http://{}/login?code={code}", here(self.address)))
    }

    /// Answers until it is told to stop; then lets clients go, and returns.
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
            tracing::warn!(left, "clients did not let go in time, and are cut off");
            app.cut.cancel();
            app.tracker.wait().await;
        }
        tracing::info!("stopped listening");
        Ok(())
    }
}

/// An address that clients and browsers on this machine can use, for one that a server listens at.
pub fn here(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        // It may listen at addresses of version 6 only.
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V4(_) | IpAddr::V6(_) => return address,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::here;

    #[test]
    fn everywhere_is_also_here() {
        for (listens, expected) in [
            ("0.0.0.0:7878", "127.0.0.1:7878"),
            ("[::]:7878", "[::1]:7878"),
            ("127.0.0.2:7878", "127.0.0.2:7878"),
        ] {
            assert_eq!(here(listens.parse().unwrap()), expected.parse().unwrap());
        }
    }
}
