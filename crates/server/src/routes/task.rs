//! One task, and the operations on it.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use sortie_core::id::{RunId, Seq};
use sortie_core::ports::store::{ListFilter, Replied, Unblock};
use sortie_core::request::{AskedFor, OpenRequest, Reply, RequestFilter, RequestKind};
use sortie_core::run::{ForkPoint, RunRecord};
use sortie_protocol::{
    AnswerBody, Applied, CancelBody, Cancelled, Deleted, DeliveryAction, DeliveryBody, ForkBody,
    ReplyNoted, SteerBody, Task, TaskDetail, TaskPatch, TaskRef,
};
use sortie_runtime::Fork;

use crate::app::{App, Shared};
use crate::body::{JsonBody, MaybeJson, PathParams};
use crate::guard::Caller;
use crate::idempotency::ReservedRun;
use crate::problem::Problem;
use crate::routes::requests::{beside, noted};
use crate::routes::tasks::{made, refused};

/// The longest text that a person adds to a run.
const MAX_WORDS_CHARS: usize = sortie_core::inbox::MAX_MESSAGE_CHARS;

#[utoipa::path(get, path = "/api/tasks/{id}", tag = "tasks",
    params(("id" = String, Path, description = "The id, at least 8 characters of it, or the handle")),
    responses((status = 200, body = TaskDetail)))]
/// Returns a task with everything that a detail view needs.
pub(crate) async fn get(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<TaskDetail>, Problem> {
    let record = app.task(&caller, &id).await?;
    Ok(Json(detail(&app, &record).await?))
}

async fn detail(app: &App, record: &RunRecord) -> Result<TaskDetail, Problem> {
    let run = record.run_id;
    let filter = RequestFilter {
        run: Some(run),
        ..RequestFilter::default()
    };
    let children = app
        .runtime
        .stats(ListFilter {
            parent: Some(run),
            archived: true,
            ..ListFilter::default()
        })
        .await?;
    let journal = app.runtime.details(record).await?;
    let requests = beside(app, filter, |_| true).await?;
    Ok(TaskDetail::new(
        record,
        journal.as_deref(),
        children.total,
        requests,
    ))
}

#[utoipa::path(patch, path = "/api/tasks/{id}", tag = "tasks", request_body = TaskPatch,
    params(("id" = String, Path)), responses((status = 200, body = Task)))]
/// Changes the label or priority of a queued task.
pub(crate) async fn patch(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    JsonBody(patch): JsonBody<TaskPatch>,
) -> Result<Json<Task>, Problem> {
    let run = app.controlled(&caller, &id).await?;
    app.runtime
        .update(run, patch.label.as_deref(), patch.priority)
        .await?;
    now(&app, run).await
}

#[utoipa::path(delete, path = "/api/tasks/{id}", tag = "tasks",
    params(("id" = String, Path)), responses((status = 200, body = Deleted)))]
/// Deletes a task and its descendants; an active one is cancelled first.
pub(crate) async fn delete(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Deleted>, Problem> {
    let task_id = app.controlled(&caller, &id).await?;
    tracing::info!(%task_id, by = caller.person(), "deleting a task");
    let deleted = app.runtime.delete(task_id).await?;
    Ok(Json(Deleted { task_id, deleted }))
}

#[utoipa::path(post, path = "/api/tasks/{id}/cancel", tag = "tasks",
    request_body = Option<CancelBody>,
    params(("id" = String, Path)), responses((status = 200, body = Cancelled)))]
/// Cancels a task and its descendants.
pub(crate) async fn cancel(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    MaybeJson(body): MaybeJson<CancelBody>,
) -> Result<Json<Cancelled>, Problem> {
    let task_id = app.task(&caller, &id).await?.run_id;
    let person = caller.person();
    let reason = match body.reason.as_deref().map(str::trim) {
        None | Some("") => person,
        Some(reason) => {
            check_words(reason)?;
            format!("{reason} ({person})")
        }
    };
    let report = app.runtime.cancel(task_id, &reason).await?;
    let mut cancelled: Vec<RunId> = report.ended.iter().map(|ended| ended.run).collect();
    cancelled.extend(report.signalled);
    cancelled.sort_unstable();
    cancelled.dedup();
    Ok(Json(Cancelled {
        task_id,
        cancelled,
        already_ended: report.already_ended,
    }))
}

#[utoipa::path(post, path = "/api/tasks/{id}/retry", tag = "tasks",
    params(("id" = String, Path)), responses((status = 201, body = Task)))]
/// Creates a new task with the same instruction.
pub(crate) async fn retry(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    ReservedRun(again): ReservedRun,
    PathParams(id): PathParams<String>,
) -> Result<impl IntoResponse, Problem> {
    let run = app.task(&caller, &id).await?.run_id;
    // The new task is a root, so the rights of the retried task itself count.
    app.check_creatable(&caller, &app.runtime.spec(run).await?)?;
    let run = app.runtime.retry_as(run, again).await?;
    Ok(made(&Task::from(&app.runtime.get(run).await?)))
}

#[utoipa::path(post, path = "/api/tasks/{id}/fork", tag = "tasks", request_body = ForkBody,
    params(("id" = String, Path)), responses((status = 201, body = Task)))]
/// Creates a task that continues after an entry of another task's journal. Effects of the other task
/// stay.
pub(crate) async fn fork(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    ReservedRun(branch): ReservedRun,
    PathParams(id): PathParams<String>,
    JsonBody(body): JsonBody<ForkBody>,
) -> Result<impl IntoResponse, Problem> {
    let run = app.task(&caller, &id).await?.run_id;
    let spec = app.runtime.spec(run).await?;
    app.check_creatable_in_any_mode(&caller, &spec)?;
    app.check_model(&caller, body.model.as_deref())?;
    let mode = body.mode.map_or(spec.policy.mode, Into::into);
    let fork = Fork {
        point: ForkPoint {
            run,
            at: Seq(body.at),
        },
        model: body.model,
        label: None,
        mode: app.mode(&caller, Some(mode))?,
    };
    let run = app.runtime.fork_as(fork, branch).await.map_err(refused)?;
    Ok(made(&Task::from(&app.runtime.get(run).await?)))
}

#[utoipa::path(post, path = "/api/tasks/{id}/pause", tag = "tasks",
    params(("id" = String, Path)), responses((status = 200, body = Task)))]
/// Pauses a task and its descendants after their present step.
pub(crate) async fn pause(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Task>, Problem> {
    let run = app.task(&caller, &id).await?.run_id;
    app.runtime.pause(run).await?;
    now(&app, run).await
}

#[utoipa::path(post, path = "/api/tasks/{id}/resume", tag = "tasks",
    params(("id" = String, Path)), responses((status = 200, body = Task)))]
/// Resumes a task and its descendants.
pub(crate) async fn resume(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Task>, Problem> {
    let run = app.controlled(&caller, &id).await?;
    app.runtime.unpause(run).await?;
    now(&app, run).await
}

#[utoipa::path(post, path = "/api/tasks/{id}/steer", tag = "tasks", request_body = SteerBody,
    params(("id" = String, Path)), responses((status = 202, body = TaskRef)))]
/// Adds to the instruction of a task, as a person.
pub(crate) async fn steer(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    JsonBody(body): JsonBody<SteerBody>,
) -> Result<impl IntoResponse, Problem> {
    check_words(&body.text)?;
    let task_id = app.controlled(&caller, &id).await?;
    app.runtime.steer(task_id, &body.text).await?;
    Ok((StatusCode::ACCEPTED, Json(TaskRef { task_id })))
}

#[utoipa::path(post, path = "/api/tasks/{id}/answer", tag = "tasks", request_body = AnswerBody,
    params(("id" = String, Path)), responses((status = 200, body = ReplyNoted)))]
/// Answers a question of a task.
pub(crate) async fn answer(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    JsonBody(body): JsonBody<AnswerBody>,
) -> Result<Json<ReplyNoted>, Problem> {
    check_words(&body.text)?;
    let run = app.task(&caller, &id).await?.run_id;
    let request = match &body.request_id {
        Some(id) => app.request(&caller, id).await?,
        None => only_question(&app, run).await?,
    };
    if request.task_id != run {
        return Err(Problem::not_found("the task does not have this question"));
    }
    reply_to_question(&app, &caller, &request, body.text).await
}

/// Answers a question in the name of the caller.
pub(crate) async fn reply_to_question(
    app: &App,
    caller: &Caller,
    request: &OpenRequest,
    text: String,
) -> Result<Json<ReplyNoted>, Problem> {
    if !matches!(request.request.kind, RequestKind::Question(_)) {
        return Err(Problem::conflict(
            "this is an approval request; use POST /api/approvals/{id}",
        ));
    }
    app.check_reply(caller, request).await?;
    let reply = Reply::Answered {
        by: sortie_core::request::Answerer::Person,
        name: Some(caller.person()),
        text,
    };
    let replied: Replied = app.runtime.reply(&request.request.id, reply).await?;
    tracing::info!(request = %request.request.id, by = caller.person(), "answered a question");
    noted(replied)
}

async fn only_question(app: &App, run: RunId) -> Result<OpenRequest, Problem> {
    let open = app
        .runtime
        .requests(RequestFilter {
            run: Some(run),
            kind: Some(AskedFor::Question),
            // Two are enough to see that there are several.
            limit: 2,
            ..RequestFilter::default()
        })
        .await?;
    let mut questions = open.into_iter();
    match (questions.next(), questions.next()) {
        (Some(only), None) => Ok(only),
        (Some(_), Some(_)) => Err(Problem::conflict(
            "the task has several open questions; name one in `request_id`",
        )),
        (None, _) => Err(Problem::conflict("the task has no open question")),
    }
}

#[utoipa::path(post, path = "/api/tasks/{id}/apply", tag = "tasks",
    params(("id" = String, Path)), responses((status = 200, body = Applied)))]
/// Applies the changes of a task's worktree to the checkout.
pub(crate) async fn apply(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Applied>, Problem> {
    let task_id = app.controlled(&caller, &id).await?;
    let files = app.runtime.apply(task_id).await?;
    tracing::info!(%task_id, by = caller.person(), "applied changes");
    Ok(Json(Applied { task_id, files }))
}

#[utoipa::path(post, path = "/api/tasks/{id}/discard", tag = "tasks",
    params(("id" = String, Path)), responses((status = 200, body = TaskRef)))]
/// Discards the changes of a task's worktree.
pub(crate) async fn discard(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<TaskRef>, Problem> {
    let task_id = app.controlled(&caller, &id).await?;
    app.runtime.discard(task_id).await?;
    tracing::info!(%task_id, by = caller.person(), "discarded changes");
    Ok(Json(TaskRef { task_id }))
}

#[utoipa::path(post, path = "/api/tasks/{id}/delivery", tag = "tasks", request_body = DeliveryBody,
    params(("id" = String, Path)), responses((status = 200, body = Task)))]
/// Retries a blocked delivery, or gives it up.
pub(crate) async fn delivery(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    JsonBody(body): JsonBody<DeliveryBody>,
) -> Result<Json<Task>, Problem> {
    let run = app.controlled(&caller, &id).await?;
    let choice = match body.action {
        DeliveryAction::Retry => Unblock::Retry,
        DeliveryAction::Dismiss => Unblock::Dismiss,
    };
    app.runtime.unblock(run, choice).await?;
    now(&app, run).await
}

async fn now(app: &App, run: RunId) -> Result<Json<Task>, Problem> {
    Ok(Json(Task::from(&app.runtime.get(run).await?)))
}

/// Checks a text for a run: not empty, and not too long.
pub(crate) fn check_words(text: &str) -> Result<(), Problem> {
    if text.trim().is_empty() {
        return Err(Problem::bad("the text is empty"));
    }
    if text.chars().count() > MAX_WORDS_CHARS {
        return Err(Problem::bad(format!(
            "the text has more than {MAX_WORDS_CHARS} characters"
        )));
    }
    Ok(())
}
