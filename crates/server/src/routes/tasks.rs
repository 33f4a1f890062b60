//! The list of tasks, new tasks, and statistics.

use std::str::FromStr;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header;
use axum::{Json, response::IntoResponse};
use serde::Deserialize;
use sortie_core::id::RunId;
use sortie_core::ports::store::{ListFilter, RetentionRule};
use sortie_core::run::{Announce, Priority, RunRecord, Sampling, SinkAddress, Status};
use sortie_core::worker::{Label, MAX_LABELS};
use sortie_protocol::{CleanBody, Cleaned, NewTask, Stats, Task};
use sortie_runtime::{NewRun, Refusal, RefusalReason, RuntimeError};
use utoipa::IntoParams;

use crate::access;
use crate::app::{App, Shared};
use crate::body::{self, JsonBody, QueryParams};
use crate::guard::Caller;
use crate::idempotency::ReservedRun;
use crate::pages::{self, Page, Shown};
use crate::problem::Problem;

/// The default number of tasks in a response.
const DEFAULT_LIMIT: u32 = 100;
/// Maximum number of tasks in a response.
const MAX_LIMIT: u32 = 1_000;
/// The highest age of tasks to delete: a hundred years. `CleanBody` documents it.
const MAX_AGE_HOURS: u64 = 876_000;
/// The longest text to search for.
const MAX_SEARCH_CHARS: usize = 200;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TaskQuery {
    /// Only tasks of this session.
    #[param(min_length = 1)]
    session_id: Option<String>,
    /// Only tasks with one of these statuses, separated by commas.
    status: Option<String>,
    /// Only tasks of this agent.
    agent: Option<String>,
    /// Only children of this task.
    #[param(min_length = 1)]
    parent_id: Option<String>,
    /// Only tasks of this tree.
    #[param(min_length = 1)]
    root_id: Option<String>,
    /// Only roots.
    roots: Option<bool>,
    /// Only tasks with this text in the label or message, or with an id that starts with it.
    q: Option<String>,
    /// Archived tasks too.
    archived: Option<bool>,
    /// Truncates message and result to 280 characters.
    summary: Option<bool>,
    /// Maximum number of tasks; 100 by default, at most 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The cursor of the previous response.
    #[param(min_length = 1)]
    cursor: Option<String>,
}

impl TaskQuery {
    async fn filter(&self, app: &App, caller: &Caller) -> Result<ListFilter, Problem> {
        let too_long = |text: &String| text.chars().count() > MAX_SEARCH_CHARS;
        if self.q.as_ref().is_some_and(too_long) {
            return Err(Problem::bad(format!(
                "`q` must have at most {MAX_SEARCH_CHARS} characters"
            )));
        }
        let statuses = match &self.status {
            None => Vec::new(),
            Some(words) => words
                .split(',')
                .filter(|word| !word.is_empty())
                .map(|word| Status::from_str(word.trim()))
                .collect::<Result<_, _>>()
                .map_err(|error| Problem::bad(error.to_string()))?,
        };
        let session = match &self.session_id {
            None => None,
            Some(session) => Some(access::session(caller, Some(session))?),
        };
        let cursor = self.cursor.as_deref().map(RunId::from_str).transpose();
        Ok(ListFilter {
            session,
            statuses,
            parent: task_of(app, caller, self.parent_id.as_deref()).await?,
            root: task_of(app, caller, self.root_id.as_deref()).await?,
            roots_only: self.roots.unwrap_or_default(),
            agent: self.agent.clone(),
            tenant: caller.tenant().cloned(),
            text: self.q.clone().filter(|text| !text.is_empty()),
            before: cursor.map_err(|_| pages::bad_cursor())?,
            archived: self.archived.unwrap_or_default(),
            ..ListFilter::default()
        })
    }
}

async fn task_of(app: &App, caller: &Caller, id: Option<&str>) -> Result<Option<RunId>, Problem> {
    match id {
        None => Ok(None),
        Some(id) => Ok(Some(app.task(caller, id).await?.run_id)),
    }
}

#[utoipa::path(get, path = "/api/tasks", tag = "tasks", params(TaskQuery),
    responses((status = 200, body = Vec<Task>)))]
/// Returns tasks, newest first.
///
/// A response ends after `limit` tasks, or earlier if they are long (8 MiB). When there are more,
/// `Sortie-Next-Cursor` and `Link: rel="next"` name the start of the next page.
pub(crate) async fn list(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    QueryParams(which): QueryParams<TaskQuery>,
) -> Result<Page, Problem> {
    let limit = body::limit(which.limit, DEFAULT_LIMIT, MAX_LIMIT)?;
    let filter = which.filter(&app, &caller).await?;
    let summary = which.summary.unwrap_or_default();
    let (mut page, next) = pages::fill(
        limit,
        filter.before,
        |before, limit| {
            app.runtime.list(ListFilter {
                before,
                limit,
                ..filter.clone()
            })
        },
        |record| record.run_id,
        |record| shown(record, summary),
    )
    .await?;
    if let Some(last) = next {
        add_next(&mut page, &which, last)?;
    }
    Ok(page)
}

/// Returns a task of a list.
pub(crate) fn shown(record: &RunRecord, summary: bool) -> Result<Shown<Task>, Problem> {
    let mut shown = Shown::whole(Task::from(record))?;
    if summary {
        shown.item = shown.item.map(Task::summary);
    }
    Ok(shown)
}

/// Adds the address of the next page.
fn add_next(page: &mut Page, which: &TaskQuery, last: RunId) -> Result<(), Problem> {
    let flag = |value: Option<bool>| value.map(|value| value.to_string());
    let query = [
        ("cursor", Some(last.to_string())),
        ("session_id", which.session_id.clone()),
        ("status", which.status.clone()),
        ("agent", which.agent.clone()),
        ("parent_id", which.parent_id.clone()),
        ("root_id", which.root_id.clone()),
        ("roots", flag(which.roots)),
        ("q", which.q.clone()),
        ("archived", flag(which.archived)),
        ("summary", flag(which.summary)),
        ("limit", which.limit.map(|limit| limit.to_string())),
    ];
    page.set_next(&last.to_string(), &pages::address("/api/tasks", &query))
}

#[utoipa::path(post, path = "/api/tasks", tag = "tasks", request_body = NewTask,
    params(("Idempotency-Key" = Option<String>, Header,
        description = "A retry with the same key does not create a second task")),
    responses((status = 201, body = Task, headers(("Location" = String)))))]
/// Creates a task.
pub(crate) async fn create(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    ReservedRun(run): ReservedRun,
    JsonBody(body): JsonBody<NewTask>,
) -> Result<impl IntoResponse, Problem> {
    let new = new_run(&app, &caller, body).await?;
    let run = app.runtime.create_as(run, new).await.map_err(refused)?;
    let task = Task::from(&app.runtime.get(run).await?);
    Ok(made(&task))
}

/// Returns the response for a created task.
pub(crate) fn made(task: &Task) -> impl IntoResponse + use<> {
    (
        StatusCode::CREATED,
        [(header::LOCATION, format!("/api/tasks/{}", task.task_id))],
        Json(task.clone()),
    )
}

/// Converts an error before admission: the request is invalid.
pub(crate) fn refused(error: RuntimeError) -> Problem {
    match error {
        RuntimeError::Refused(Refusal {
            reason: RefusalReason::QuotaReached { .. },
            ..
        }) => error.into(),
        RuntimeError::Refused(refusal) => Problem::bad(refusal.message),
        RuntimeError::Store(_) | RuntimeError::Toolbox(_) => error.into(),
    }
}

async fn new_run(app: &App, caller: &Caller, body: NewTask) -> Result<NewRun, Problem> {
    if body.message.trim().is_empty() {
        return Err(Problem::bad("`message` is empty; give an instruction"));
    }
    app.check_model(caller, body.model.as_deref())?;
    app.check_model(caller, body.default_model.as_deref())?;
    for model in body.fallbacks.iter().flatten() {
        app.check_model(caller, Some(model))?;
    }
    let continues = match &body.continues {
        None => None,
        Some(id) => Some(app.controlled(caller, id).await?),
    };
    let workspace = app.workspace(caller, body.workspace.as_deref())?;
    let default_model = body.default_model.as_ref();
    let default_model = default_model.unwrap_or(&app.config.default_model);
    let new = NewRun::in_checked_folder(body.message, workspace, default_model);
    let new = if body.main { new } else { new.in_background() };
    Ok(NewRun {
        session: access::session(caller, body.session_id.as_deref())?,
        tenant: caller.tenant().cloned(),
        agent: body.agent,
        label: body.label,
        model: body.model,
        fallbacks: body.fallbacks,
        thinking: body.thinking,
        sampling: Sampling {
            temperature: body.temperature,
            max_tokens: body.max_tokens,
        },
        result_schema: body.result_schema,
        checks: body.checks,
        lang: body.lang.unwrap_or(app.config.lang),
        priority: body.priority.unwrap_or(Priority::Normal),
        max_iterations: body.max_iterations,
        max_depth: body.max_depth,
        timeout: body.timeout_seconds.map(Duration::from_secs),
        budget: body.budget.unwrap_or_default().into(),
        continues,
        report_to: sinks(caller, &body.report_to)?,
        mode: app.mode(caller, body.mode)?,
        isolation: body.isolation,
        fork: body.fork,
        announce: body
            .announce
            .or_else(|| body.session_id.as_ref().map(|_| Announce::Steer)),
        cleanup: body.cleanup,
        requires: required(&body.requires)?,
        ..new
    })
}

/// Parses the labels that a task requires.
fn required(labels: &[String]) -> Result<Vec<Label>, Problem> {
    if labels.len() > MAX_LABELS {
        let problem = format!("`requires` must have at most {MAX_LABELS} labels");
        return Err(Problem::bad(problem));
    }
    let parsed = labels.iter().map(|label| label.parse::<Label>());
    parsed
        .collect::<Result<_, _>>()
        .map_err(|error| Problem::bad(format!("`requires`: {error}")))
}

/// Parses external destinations: the server writes them with its own rights, so only a global admin
/// may name them.
fn sinks(caller: &Caller, places: &[String]) -> Result<Vec<SinkAddress>, Problem> {
    if !places.is_empty() && !caller.is_global_admin() {
        return Err(Problem::forbidden(
            "only an admin without a tenant may use `report_to`",
        ));
    }
    places
        .iter()
        .map(|place| match place.split_once(':') {
            Some(("file", target)) if target.starts_with('/') => Ok(SinkAddress {
                scheme: "file".to_owned(),
                target: target.to_owned(),
            }),
            Some(_) | None => Err(Problem::bad(
                "`report_to` must have entries such as file:/ABSOLUTE/PATH",
            )),
        })
        .collect()
}

#[utoipa::path(post, path = "/api/tasks/clean", tag = "tasks", request_body = CleanBody,
    responses((status = 200, body = Cleaned)))]
/// Deletes ended tasks by age.
///
/// Deletes a task with its descendants when all of them ended long enough ago and their results are
/// delivered, archived or not. Usage and audit entries stay.
pub(crate) async fn clean(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    JsonBody(body): JsonBody<CleanBody>,
) -> Result<Json<Cleaned>, Problem> {
    if body.max_age_hours > MAX_AGE_HOURS {
        let detail = format!("max_age_hours is at most {MAX_AGE_HOURS}: a hundred years");
        return Err(Problem::bad(detail));
    }
    let age = Duration::from_secs(body.max_age_hours * 3_600);
    let rule = RetentionRule {
        statuses: body.status,
        agent: body.agent,
        tenant: caller.tenant().cloned(),
        ..app.runtime.older_than(age)
    };
    let deleted = if body.dry_run {
        app.runtime.count_clean_up(rule).await?
    } else {
        tracing::info!(?rule, by = caller.person(), "deleting old tasks");
        app.runtime.clean_up(rule).await?
    };
    let dry_run = body.dry_run;
    Ok(Json(Cleaned { deleted, dry_run }))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StatsQuery {
    /// Only tasks of this session.
    #[param(min_length = 1)]
    session_id: Option<String>,
}

#[utoipa::path(get, path = "/api/tasks/stats", tag = "tasks", params(StatsQuery),
    responses((status = 200, body = Stats)))]
/// Returns the number of tasks by status, archived tasks included.
pub(crate) async fn stats(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    QueryParams(which): QueryParams<StatsQuery>,
) -> Result<Json<Stats>, Problem> {
    let session = match &which.session_id {
        None => None,
        Some(session) => Some(access::session(&caller, Some(session))?),
    };
    let filter = ListFilter {
        session,
        tenant: caller.tenant().cloned(),
        archived: true,
        ..ListFilter::default()
    };
    Ok(Json(app.runtime.stats(filter).await?.into()))
}
