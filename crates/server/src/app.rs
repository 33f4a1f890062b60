//! The state that all handlers share, and the router.

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRef, Request};
use axum::middleware;
use axum::response::{IntoResponse as _, Response};
use sortie_core::time::Timestamp;
use sortie_runtime::Runtime;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::body_memory::BodyMemory;
use crate::config::ServerConfig;
use crate::guard::{self, Failures, Names, Rates};
use crate::host::Host;
use crate::hub::Hub;
use crate::idempotency::UnderWay;
use crate::keys::KeyRing;
use crate::links::Links;
use crate::metrics::Metrics;
use crate::problem::{Kind, Problem};
use crate::readiness::Readiness;
use crate::routes::{self, AccessTable};
use crate::{compression, headers, idempotency, metrics};

/// The state that all handlers share.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) config: ServerConfig,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) keys: KeyRing,
    pub(crate) links: Links,
    pub(crate) names: Names,
    /// The access that each route needs.
    pub(crate) access: AccessTable,
    /// The name of the cookie of browser sessions. It contains the port, because browsers send a
    /// cookie to all ports of a host: two servers on one machine would log each other's browsers out.
    pub(crate) cookie: String,
    pub(crate) failures: Failures,
    pub(crate) rates: Rates,
    pub(crate) under_way: UnderWay,
    pub(crate) hub: Hub,
    pub(crate) metrics: Metrics,
    pub(crate) readiness: Readiness,
    pub(crate) started_at: Timestamp,
    /// The memory of bodies that are being received.
    pub(crate) body_memory: BodyMemory,
    /// Ends streams and WebSockets.
    pub(crate) stop: CancellationToken,
    /// Ends everything that did not end by itself.
    pub(crate) cut: CancellationToken,
    /// Connections and their tasks.
    pub(crate) tracker: TaskTracker,
}

impl App {
    /// Runs a task of a client. The server waits for it when it stops, and ends it if that takes too
    /// long.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let cut = self.cut.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                () = work => {}
                () = cut.cancelled() => {}
            }
        });
    }

    /// Completes a request even if its client disconnects or its time limit passes, so that what was
    /// started is recorded. Returns `None` if the server stopped meanwhile.
    pub(crate) async fn complete<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        self.spawn(async move {
            // An error means that the receiver is gone.
            sender.send(work.await).ok();
        });
        receiver.await.ok()
    }
}

/// The shared state as an extractor.
#[derive(Clone, Debug)]
pub(crate) struct Shared(pub(crate) Arc<App>);

impl FromRef<Shared> for Arc<App> {
    fn from_ref(shared: &Shared) -> Self {
        Self::clone(&shared.0)
    }
}

pub(crate) fn router(app: &Arc<App>) -> Router {
    let (routes, _) = routes::all().router.split_for_parts();
    let shared = Shared(Arc::clone(app));
    routes
        .merge(routes::outside_the_document())
        .fallback(routes::page::anything_else)
        .method_not_allowed_fallback(wrong_method)
        // The layer that is added last runs first.
        .layer(middleware::from_fn_with_state(
            shared.clone(),
            idempotency::middleware,
        ))
        .layer(middleware::from_fn_with_state(shared.clone(), guard::guard))
        .layer(middleware::from_fn_with_state(
            shared.clone(),
            metrics::observe,
        ))
        .layer(middleware::from_fn(compression::compress))
        .layer(middleware::from_fn(headers::add))
        .with_state(shared)
}

async fn wrong_method(request: Request) -> Response {
    Problem::new(
        Kind::MethodNotAllowed,
        format!(
            "{} does not support {}; GET /api/openapi.json lists its methods",
            request.uri().path(),
            request.method()
        ),
    )
    .into_response()
}
