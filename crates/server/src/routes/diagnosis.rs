//! The state of the server.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use sortie_core::ports::store::ListFilter;
use sortie_protocol::{
    ConfigLine, Connections, DoctorLine, Health, LaneState, ModelState, ServerState, Worker,
};

use crate::app::Shared;
use crate::guard::Caller;
use crate::problem::Problem;
use crate::{metrics as numbers, openapi as contract};

#[utoipa::path(get, path = "/healthz", tag = "server",
    responses((status = 200, body = Health)))]
/// Returns whether the server responds.
pub(crate) async fn healthz() -> Json<Health> {
    Json(Health::of("ok"))
}

#[utoipa::path(get, path = "/readyz", tag = "server",
    responses((status = 200, body = Health), (status = 503, body = Health)))]
/// Returns whether the server is ready: a write to the store, at most one per second, has to succeed.
pub(crate) async fn readyz(State(Shared(app)): State<Shared>) -> (StatusCode, Json<Health>) {
    let unavailable = StatusCode::SERVICE_UNAVAILABLE;
    if app.stop.is_cancelled() {
        return (unavailable, Json(Health::of("stopping")));
    }
    match app.readiness.check(&app.runtime).await {
        Ok(()) => (StatusCode::OK, Json(Health::of("ready"))),
        Err(reason) => {
            let health = Health {
                reason: Some(reason),
                ..Health::of("broken")
            };
            (unavailable, Json(health))
        }
    }
}

#[utoipa::path(get, path = "/metrics", tag = "server",
    responses((status = 200, body = String, content_type = "text/plain")))]
/// Returns metrics for Prometheus. Keys of a tenant see the metrics of their tenant.
pub(crate) async fn metrics(
    State(Shared(app)): State<Shared>,
    caller: Caller,
) -> Result<impl IntoResponse, Problem> {
    let filter = ListFilter {
        tenant: caller.tenant().cloned(),
        archived: true,
        ..ListFilter::default()
    };
    let text = numbers::text(&app, filter).await?;
    Ok((
        [(
            header::CONTENT_TYPE,
            "text/plain; version=0.0.4; charset=utf-8",
        )],
        text,
    ))
}

#[utoipa::path(get, path = "/api/openapi.json", tag = "server",
    responses((status = 200, body = Object)))]
/// Returns this document.
pub(crate) async fn openapi() -> impl IntoResponse {
    static DOCUMENT: OnceLock<String> = OnceLock::new();
    let document = DOCUMENT.get_or_init(contract::document);
    (
        [(header::CONTENT_TYPE, "application/json")],
        document.as_str(),
    )
}

#[utoipa::path(get, path = "/api/state", tag = "server",
    responses((status = 200, body = ServerState)))]
/// Returns the state of the server. Lanes, models and connections are empty for keys of a tenant,
/// because tenants share them.
pub(crate) async fn state(
    State(Shared(app)): State<Shared>,
    caller: Caller,
) -> Result<Json<ServerState>, Problem> {
    let own = ServerState {
        version: app.host.version(),
        started_at: app.started_at.to_rfc3339(),
        epoch: app.hub.epoch().to_owned(),
        home: String::new(),
        lanes: Vec::new(),
        models: Vec::new(),
        connections: Connections::default(),
        uptime_seconds: app.runtime.now().ms_since(app.started_at) / 1_000,
    };
    if caller.tenant().is_some() {
        return Ok(Json(own));
    }
    let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let lanes = app.runtime.lanes().await?;
    let models = app.runtime.models_state();
    Ok(Json(ServerState {
        home: app.config.home.display().to_string(),
        lanes: lanes
            .into_iter()
            .map(|lane| LaneState {
                lane: lane.lane,
                limit: lane.limit,
                claimed: count(lane.claimed),
                queued: count(lane.queued),
            })
            .collect(),
        models: models.into_iter().map(ModelState::from).collect(),
        connections: Connections {
            websocket: app.metrics.websockets.load(Ordering::Relaxed),
            sse: app.metrics.streams.load(Ordering::Relaxed),
        },
        ..own
    }))
}

#[utoipa::path(get, path = "/api/workers", tag = "server",
    responses((status = 200, body = Vec<Worker>)))]
/// Returns the processes that execute tasks, the oldest first. Not for keys of a tenant, because
/// tenants share them.
pub(crate) async fn workers(
    State(Shared(app)): State<Shared>,
    caller: Caller,
) -> Result<Json<Vec<Worker>>, Problem> {
    require_all(&caller)?;
    let workers = app.runtime.workers().await?;
    Ok(Json(workers.iter().map(Worker::from).collect()))
}

pub(crate) fn require_all(caller: &Caller) -> Result<(), Problem> {
    if caller.tenant().is_none() {
        return Ok(());
    }
    Err(Problem::forbidden(
        "this is about the whole server; only an admin without a tenant may see it",
    ))
}

#[utoipa::path(get, path = "/api/config", tag = "server",
    responses((status = 200, body = Vec<ConfigLine>)))]
/// Returns the effective settings and where each was set, redacted.
pub(crate) async fn config(
    State(Shared(app)): State<Shared>,
    caller: Caller,
) -> Result<Json<Vec<ConfigLine>>, Problem> {
    require_all(&caller)?;
    Ok(Json(app.host.config().await?))
}

#[utoipa::path(get, path = "/api/doctor", tag = "server",
    responses((status = 200, body = Vec<DoctorLine>)))]
/// Returns the results of the checks of the server's machine.
pub(crate) async fn doctor(
    State(Shared(app)): State<Shared>,
    caller: Caller,
) -> Result<Json<Vec<DoctorLine>>, Problem> {
    require_all(&caller)?;
    Ok(Json(app.host.doctor().await?))
}
