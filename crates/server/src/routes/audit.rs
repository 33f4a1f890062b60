//! The audit of all calls.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use sortie_core::AuditFilter;
use sortie_protocol::{AuditLine, AuditVerdict};
use utoipa::IntoParams;

use crate::app::Shared;
use crate::body::{self, Asked};
use crate::guard::Caller;
use crate::problem::Problem;

/// Lines in one answer, unless more are wanted.
const DEFAULT_LIMIT: u32 = 200;
/// The most lines in one answer.
const MAX_LIMIT: u32 = 1_000;

/// Which lines.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Of this task and everything below it.
    #[param(min_length = 1)]
    task_id: Option<String>,
    /// After this place.
    #[param(minimum = 0)]
    after: Option<i64>,
    /// At most so many; 200 if missing, 1000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// What happened to calls, in order.
#[utoipa::path(get, path = "/api/audit", tag = "audit", params(Which),
    responses((status = 200, body = Vec<AuditLine>)))]
pub(crate) async fn list(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    Asked(which): Asked<Which>,
) -> Result<Json<Vec<AuditLine>>, Problem> {
    let run = match &which.task_id {
        None => None,
        Some(id) => Some(app.task(&caller, id).await?.run_id),
    };
    let lines = app
        .runtime
        .audit(AuditFilter {
            run,
            tenant: caller.tenant().cloned(),
            after: body::place(which.after)?,
            limit: body::limit(which.limit, DEFAULT_LIMIT, MAX_LIMIT)?,
        })
        .await?;
    Ok(Json(lines.into_iter().map(AuditLine::from).collect()))
}

/// Checks the whole chain.
#[utoipa::path(get, path = "/api/audit/verify", tag = "audit",
    responses((status = 200, body = AuditVerdict)))]
pub(crate) async fn verify(
    State(Shared(app)): State<Shared>,
    caller: Caller,
) -> Result<Json<AuditVerdict>, Problem> {
    if caller.tenant().is_some() {
        return Err(Problem::forbidden(
            "the chain is one for all tenants; an admin without a tenant can check it",
        ));
    }
    Ok(Json(app.runtime.verify_audit().await?.into()))
}
