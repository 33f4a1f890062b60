//! Usage and budgets.

use std::str::FromStr as _;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use sortie_core::id::RunId;
use sortie_core::ports::store::ListFilter;
use sortie_core::run::{RunRecord, Status};
use sortie_core::stats::{UsagePlace, UsageRange};
use sortie_protocol::{BudgetLine, TenantState, UsageExportLine, UsageLine, UsagePoint, usage_csv};
use utoipa::{IntoParams, ToSchema};

use crate::app::Shared;
use crate::body::{self, QueryParams};
use crate::guard::Caller;
use crate::pages::{self, Page, Shown};
use crate::problem::Problem;
use crate::routes::sessions::moment;

/// Maximum number of lines in a response.
const MAX_LINES: u32 = 1_000;
/// Maximum number of intervals in a response: about a month of hours, or two years of days.
const MAX_POINTS: u64 = 750;
const HOUR_MS: u64 = 3_600_000;
/// The number of intervals without `since`.
const DEFAULT_POINTS: u64 = 48;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct UsageQuery {
    /// Maximum number of lines; 1000 by default and at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The cursor of the previous response.
    #[param(min_length = 1)]
    cursor: Option<String>,
}

impl UsageQuery {
    fn set_next(&self, page: &mut Page, cursor: &str, path: &str) -> Result<(), Problem> {
        let query = [
            ("cursor", Some(cursor.to_owned())),
            ("limit", self.limit.map(|limit| limit.to_string())),
        ];
        page.set_next(cursor, &pages::address(path, &query))
    }
}

#[utoipa::path(get, path = "/api/budgets", tag = "usage", params(UsageQuery),
    responses((status = 200, body = Vec<BudgetLine>)))]
/// Returns the budgets of tasks that have not ended, newest first.
///
/// When there are more than `limit`, `Sortie-Next-Cursor` and `Link: rel="next"` name the start of
/// the next page.
pub(crate) async fn budgets(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    QueryParams(part): QueryParams<UsageQuery>,
) -> Result<Page, Problem> {
    let first = part.cursor.as_deref().map(RunId::from_str).transpose();
    let filter = ListFilter {
        statuses: vec![Status::Pending, Status::Running],
        tenant: caller.tenant().cloned(),
        ..ListFilter::default()
    };
    let (mut page, next) = pages::fill(
        body::limit(part.limit, MAX_LINES, MAX_LINES)?,
        first.map_err(|_| pages::bad_cursor())?,
        |before, limit| {
            app.runtime.list(ListFilter {
                before,
                limit,
                ..filter.clone()
            })
        },
        |record| record.run_id,
        |record| {
            Ok(Shown {
                item: budget_of(record),
                bytes: record.task.len(),
            })
        },
    )
    .await?;
    if let Some(last) = next {
        part.set_next(&mut page, &last.to_string(), "/api/budgets")?;
    }
    Ok(page)
}

fn budget_of(record: &RunRecord) -> Option<BudgetLine> {
    (!record.budget.is_empty()).then(|| BudgetLine {
        task_id: record.run_id,
        label: record.label.clone(),
        agent: record.agent.clone(),
        status: record.status,
        balances: record.budget.clone(),
    })
}

#[utoipa::path(get, path = "/api/usage", tag = "usage", params(UsageQuery),
    responses((status = 200, body = Vec<UsageLine>)))]
/// Returns usage by session, agent and model.
///
/// When there are more than `limit`, `Sortie-Next-Cursor` and `Link: rel="next"` name the start of
/// the next page.
pub(crate) async fn usage(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    QueryParams(part): QueryParams<UsageQuery>,
) -> Result<Page, Problem> {
    let limit = body::limit(part.limit, MAX_LINES, MAX_LINES)?;
    let filter = ListFilter {
        tenant: caller.tenant().cloned(),
        archived: true,
        ..ListFilter::default()
    };
    let after: Option<UsagePlace> = pages::place_in(part.cursor.as_deref())?;
    // One more shows whether there are more. The store aggregates all runs for each response, so the
    // lines are read at once; they are short.
    let lines = app.runtime.usage(filter, after, limit + 1).await?;
    let mut page = Page::default();
    let mut last = None;
    for (index, line) in lines.into_iter().enumerate() {
        let place = line.place();
        if index == limit as usize || !page.take(&[UsageLine::from(line)])? {
            part.set_next(&mut page, &pages::cursor_of(&last)?, "/api/usage")?;
            break;
        }
        last = Some(place);
    }
    Ok(page)
}

/// The length of an interval.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bucket {
    /// An hour.
    Hour,
    /// A day, in UTC.
    Day,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SeriesQuery {
    /// The length of an interval; an hour if missing.
    #[param(inline)]
    bucket: Option<Bucket>,
    /// The start of the first interval.
    #[param(min_length = 1)]
    since: Option<String>,
}

#[utoipa::path(get, path = "/api/usage/series", tag = "usage", params(SeriesQuery),
    responses((status = 200, body = Vec<UsagePoint>)))]
/// Returns usage over time, oldest first. Intervals without an admitted run are left out.
pub(crate) async fn series(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    QueryParams(which): QueryParams<SeriesQuery>,
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
            "the range has more than {MAX_POINTS} intervals; choose a later `since` or a longer `bucket`"
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

#[utoipa::path(get, path = "/api/tenants", tag = "usage",
    responses((status = 200, body = Vec<TenantState>)))]
/// Returns what tenants use, with their weights and quotas, by name. Keys of a tenant see theirs.
pub(crate) async fn tenants(
    State(Shared(app)): State<Shared>,
    caller: Caller,
) -> Result<Json<Vec<TenantState>>, Problem> {
    let now = app.runtime.now();
    let tenants = app.runtime.tenants(caller.tenant().cloned()).await?;
    let states = tenants.iter().map(|tenant| TenantState::of(tenant, now));
    Ok(Json(states.collect()))
}

/// The format of an export.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExportFormat {
    Json,
    /// RFC 4180, with a header.
    Csv,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportQuery {
    /// What the export is broken down by, separated by commas: any of `tenant`, `agent`, `model` and
    /// `day`; all four if missing.
    by: Option<String>,
    /// The format; JSON if missing.
    #[param(inline)]
    format: Option<ExportFormat>,
    /// The first day (UTC), such as `2027-03-01`; the first of this month if missing.
    #[param(min_length = 1)]
    since: Option<String>,
    /// The last day, which is included; today if missing.
    #[param(min_length = 1)]
    until: Option<String>,
}

#[utoipa::path(get, path = "/api/usage/export", tag = "usage", params(ExportQuery),
    responses((status = 200, content(
        (Vec<UsageExportLine> = "application/json"), (String = "text/csv")))))]
/// Exports the usage of ended tasks by tenant, agent, model and day, deleted ones included.
///
/// A task counts on the day of its end, so lines of past days never change. Keys of a tenant get the
/// lines of their tenant.
pub(crate) async fn export(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    QueryParams(query): QueryParams<ExportQuery>,
) -> Result<Response, Problem> {
    let by = query.by.as_deref().unwrap_or(ALL_PARTS);
    let days = (query.since.as_deref(), query.until.as_deref());
    let mut range = UsageRange::parse(by, days, app.runtime.now()).map_err(Problem::bad)?;
    range.tenant = caller.tenant().cloned();
    let by = range.by.clone();
    let lines = app.runtime.ended_usage(range).await?;
    let lines = UsageRange::checked(lines).map_err(Problem::bad)?;
    let lines: Vec<UsageExportLine> = lines.into_iter().map(UsageExportLine::from).collect();
    Ok(match query.format.unwrap_or(ExportFormat::Json) {
        ExportFormat::Json => Json(lines).into_response(),
        ExportFormat::Csv => {
            let kind = [(header::CONTENT_TYPE, "text/csv; charset=utf-8")];
            (kind, usage_csv(&by, &lines)).into_response()
        }
    })
}

/// The parts of an export that names none.
const ALL_PARTS: &str = "tenant,agent,model,day";
