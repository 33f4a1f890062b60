//! The audit log.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use sortie_core::ports::store::AuditFilter;
use sortie_protocol::{AuditLine, AuditVerdict};
use utoipa::IntoParams;

use crate::app::{App, Shared};
use crate::body::{self, QueryParams};
use crate::guard::Caller;
use crate::pages::{self, Page, Shown};
use crate::problem::Problem;

/// The default number of entries in a response.
const DEFAULT_LIMIT: u32 = 200;
/// Maximum number of entries in a response.
const MAX_LIMIT: u32 = 1_000;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditQuery {
    /// Only entries of this task and its descendants.
    #[param(min_length = 1)]
    task_id: Option<String>,
    /// Only entries after this position.
    #[param(minimum = 0)]
    after: Option<i64>,
    /// Maximum number of entries; 200 by default, at most 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

#[utoipa::path(get, path = "/api/audit", tag = "audit", params(AuditQuery),
    responses((status = 200, body = Vec<AuditLine>)))]
/// Returns the audit log, in order.
///
/// A response ends after `limit` entries, or earlier if they are long (8 MiB). When there are more,
/// `Sortie-Next-Cursor` is the `after` of the next page, and `Link: rel="next"` is its address.
pub(crate) async fn list(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    QueryParams(which): QueryParams<AuditQuery>,
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

/// Returns a page of entries; the next page is at the same path with this query.
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
        page.set_next(&last, &pages::address(path, &query))?;
    }
    Ok(page)
}

#[utoipa::path(get, path = "/api/audit/verify", tag = "audit",
    responses((status = 200, body = AuditVerdict)))]
/// Verifies the whole hash chain.
pub(crate) async fn verify(
    State(Shared(app)): State<Shared>,
    caller: Caller,
) -> Result<Json<AuditVerdict>, Problem> {
    if caller.tenant().is_some() {
        return Err(Problem::forbidden(
            "all tenants share the hash chain; only an admin without a tenant can verify it",
        ));
    }
    Ok(Json(app.runtime.verify_audit().await?.into()))
}
