//! What was used, and what is left.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use sortie_core::{ListFilter, Status};
use sortie_protocol::{Balance, BudgetLine, UsageLine, UsagePoint};
use utoipa::{IntoParams, ToSchema};

use crate::app::Shared;
use crate::body::Asked;
use crate::guard::Caller;
use crate::problem::Problem;
use crate::routes::sessions::moment;

/// Tasks whose accounts are shown.
const MAX_TASKS: u32 = 1_000;
/// Stretches in one answer: about a month of hours, or two years of days.
const MAX_POINTS: u64 = 750;
const HOUR_MS: u64 = 3_600_000;
/// Stretches that are shown if nobody says since when.
const DEFAULT_POINTS: u64 = 48;

/// The accounts of tasks that have not ended.
#[utoipa::path(get, path = "/api/budgets", tag = "usage",
    responses((status = 200, body = Vec<BudgetLine>)))]
pub(crate) async fn budgets(
    State(Shared(app)): State<Shared>,
    caller: Caller,
) -> Result<Json<Vec<BudgetLine>>, Problem> {
    let records = app
        .runtime
        .list(ListFilter {
            statuses: vec![Status::Pending, Status::Running],
            tenant: caller.tenant().cloned(),
            limit: MAX_TASKS,
            ..ListFilter::default()
        })
        .await?;
    let lines = records
        .iter()
        .filter(|record| !record.budget.is_empty())
        .map(|record| BudgetLine {
            task_id: record.run_id,
            label: record.label.clone(),
            agent: record.agent.clone(),
            status: record.status,
            balances: record.budget.iter().map(Balance::from).collect(),
        });
    Ok(Json(lines.collect()))
}

/// What runs used, by session, agent and model.
#[utoipa::path(get, path = "/api/usage", tag = "usage",
    responses((status = 200, body = Vec<UsageLine>)))]
pub(crate) async fn usage(
    State(Shared(app)): State<Shared>,
    caller: Caller,
) -> Result<Json<Vec<UsageLine>>, Problem> {
    let lines = app
        .runtime
        .usage(ListFilter {
            tenant: caller.tenant().cloned(),
            archived: true,
            ..ListFilter::default()
        })
        .await?;
    Ok(Json(lines.into_iter().map(UsageLine::from).collect()))
}

/// How long a stretch is.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bucket {
    /// An hour.
    Hour,
    /// A day, in UTC.
    Day,
}

/// Which stretches.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// How long each is; an hour if missing.
    #[param(inline)]
    bucket: Option<Bucket>,
    /// Since when.
    #[param(min_length = 1)]
    since: Option<String>,
}

/// What runs came to over time, oldest first. Stretches in which nothing began are left out.
#[utoipa::path(get, path = "/api/usage/series", tag = "usage", params(Which),
    responses((status = 200, body = Vec<UsagePoint>)))]
pub(crate) async fn series(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    Asked(which): Asked<Which>,
) -> Result<Json<Vec<UsagePoint>>, Problem> {
    let bucket_ms = match which.bucket.unwrap_or(Bucket::Hour) {
        Bucket::Hour => HOUR_MS,
        Bucket::Day => 24 * HOUR_MS,
    };
    let now = app.runtime.now();
    let since = match &which.since {
        Some(text) => moment(text)?,
        None => now.plus_ms(-i64::try_from(DEFAULT_POINTS * bucket_ms).unwrap_or(i64::MAX)),
    };
    if now.ms_since(since) / bucket_ms > MAX_POINTS {
        return Err(Problem::bad(format!(
            "that is more than {MAX_POINTS} stretches; choose a later `since` or a longer `bucket`"
        )));
    }
    let filter = ListFilter {
        tenant: caller.tenant().cloned(),
        archived: true,
        ..ListFilter::default()
    };
    let points = app.runtime.usage_series(filter, bucket_ms, since).await?;
    Ok(Json(points.into_iter().map(UsagePoint::from).collect()))
}
