//! The audit of all calls.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use sortie_core::AuditFilter;
use sortie_protocol::{AuditLine, AuditVerdict};
use utoipa::IntoParams;

use crate::app::{App, Shared};
use crate::body::{self, Asked};
use crate::guard::Caller;
use crate::pages::{self, Page, Shown};
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
///
/// An answer ends after `limit` lines, or earlier when they are long (8 MiB). When there are more,
/// `Sortie-Next-Cursor` is the `after` that goes on, and `Link: rel="next"` says it whole.
#[utoipa::path(get, path = "/api/audit", tag = "audit", params(Which),
    responses((status = 200, body = Vec<AuditLine>)))]
pub(crate) async fn list(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    Asked(which): Asked<Which>,
) -> Result<Page, Problem> {
    let run = match &which.task_id {
        None => None,
        Some(id) => Some(app.task(&caller, id).await?.run_id),
    };
    let filter = AuditFilter {
        run,
        tenant: caller.tenant().cloned(),
        after: body::place(which.after)?,
        limit: body::limit(which.limit, DEFAULT_LIMIT, MAX_LIMIT)?,
    };
    let query = [
        ("task_id", which.task_id),
        ("limit", which.limit.map(|limit| limit.to_string())),
    ];
    page_of(&app, filter, "/api/audit", query).await
}

/// A page of lines; what goes on is at the same path with this query.
pub(crate) async fn page_of<const N: usize>(
    app: &App,
    filter: AuditFilter,
    path: &str,
    query: [(&str, Option<String>); N],
) -> Result<Page, Problem> {
    let (mut page, next) = pages::fill(
        filter.limit,
        Some(filter.after),
        |after, limit| {
            app.runtime.audit(AuditFilter {
                after: after.unwrap_or_default(),
                limit,
                ..filter.clone()
            })
        },
        |line| line.seq,
        |line| Shown::whole(AuditLine::from(line.clone())),
    )
    .await?;
    if let Some(last) = next {
        let last = last.to_string();
        let mut query = query.to_vec();
        query.push(("after", Some(last.clone())));
        page.goes_on(&last, &pages::address(path, &query))?;
    }
    Ok(page)
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
