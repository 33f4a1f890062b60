//! One task, looked at from several sides.

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use serde::Deserialize;
use sortie_core::{AuditFilter, BlobId, ListFilter, Seq};
use sortie_protocol::{
    AuditLine, CriticalSpan, Diff, EffectivePolicy, Mode, PolicyLayer, Span, Task, TaskResult,
    Timeline, TimelineTask, ToolRuling, TranscriptItem,
};
use utoipa::IntoParams;

use crate::app::Shared;
use crate::body::{self, Asked, InPath};
use crate::guard::Caller;
use crate::problem::Problem;

/// The most lines of an audit, or tasks of a tree, in one answer.
const MAX_LINES: u32 = 10_000;

/// What a task changed in its worktree.
#[utoipa::path(get, path = "/api/tasks/{id}/diff", tag = "tasks",
    params(("id" = String, Path)), responses((status = 200, body = Diff)))]
pub(crate) async fn diff(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    InPath(id): InPath<String>,
) -> Result<Json<Diff>, Problem> {
    let task_id = app.task(&caller, &id).await?.run_id;
    let diff = app.runtime.diff(task_id).await?;
    Ok(Json(Diff { task_id, diff }))
}

/// How a task ended, or how far it is.
#[utoipa::path(get, path = "/api/tasks/{id}/result", tag = "tasks",
    params(("id" = String, Path)), responses((status = 200, body = TaskResult)))]
pub(crate) async fn result(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    InPath(id): InPath<String>,
) -> Result<Json<TaskResult>, Problem> {
    let record = app.task(&caller, &id).await?;
    Ok(Json(Task::from(&record).into()))
}

/// What was said and done, for people.
#[utoipa::path(get, path = "/api/tasks/{id}/transcript", tag = "tasks",
    params(("id" = String, Path)), responses((status = 200, body = Vec<TranscriptItem>)))]
pub(crate) async fn transcript(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    InPath(id): InPath<String>,
) -> Result<Json<Vec<TranscriptItem>>, Problem> {
    let run = app.task(&caller, &id).await?.run_id;
    let entries = app.runtime.events(run, Seq(0)).await?;
    Ok(Json(TranscriptItem::of_journal(&entries)))
}

/// All tasks of the tree that a task is in, oldest first.
#[utoipa::path(get, path = "/api/tasks/{id}/tree", tag = "tasks",
    params(("id" = String, Path)), responses((status = 200, body = Vec<Task>)))]
pub(crate) async fn tree(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    InPath(id): InPath<String>,
) -> Result<Json<Vec<Task>>, Problem> {
    let root = app.task(&caller, &id).await?.root;
    let mut records = app
        .runtime
        .list(ListFilter {
            root: Some(root),
            archived: true,
            limit: MAX_LINES,
            ..ListFilter::default()
        })
        .await?;
    records.reverse();
    Ok(Json(records.iter().map(Task::from).collect()))
}

/// When the runs of a task's tree did what, and what its length came from.
#[utoipa::path(get, path = "/api/tasks/{id}/timeline", tag = "tasks",
    params(("id" = String, Path)), responses((status = 200, body = Timeline)))]
pub(crate) async fn timeline(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    InPath(id): InPath<String>,
) -> Result<Json<Timeline>, Problem> {
    let root = app.task(&caller, &id).await?.root;
    Ok(Json(timeline_json(&app.runtime.timeline(root).await?)))
}

fn timeline_json(timeline: &sortie_runtime::Timeline) -> Timeline {
    Timeline {
        root_id: timeline.root,
        from: timeline.from.to_rfc3339(),
        until: timeline.until.to_rfc3339(),
        tasks: timeline.tasks.iter().map(timeline_task).collect(),
        critical_path: timeline
            .critical_path
            .iter()
            .map(|span| CriticalSpan {
                task_id: span.run,
                from: span.from.to_rfc3339(),
                until: span.until.to_rfc3339(),
                kind: span.kind.as_str().to_owned(),
            })
            .collect(),
    }
}

fn timeline_task(task: &sortie_runtime::TaskTimeline) -> TimelineTask {
    TimelineTask {
        task_id: task.run,
        parent_id: task.parent,
        label: task.label.clone(),
        agent: task.agent.clone(),
        status: task.status,
        depth: task.depth,
        started: task.started.map(sortie_core::Timestamp::to_rfc3339),
        ended: task.ended.map(sortie_core::Timestamp::to_rfc3339),
        spans: task
            .spans
            .iter()
            .map(|span| Span {
                from: span.from.to_rfc3339(),
                until: span.until.to_rfc3339(),
                kind: span.kind.as_str().to_owned(),
                name: span.name.clone(),
                critical: span.critical,
            })
            .collect(),
    }
}

/// Everything that a task may do, and who says so.
#[utoipa::path(get, path = "/api/tasks/{id}/policy", tag = "tasks",
    params(("id" = String, Path)), responses((status = 200, body = EffectivePolicy)))]
pub(crate) async fn policy(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    InPath(id): InPath<String>,
) -> Result<Json<EffectivePolicy>, Problem> {
    let run = app.task(&caller, &id).await?.run_id;
    let view = app.runtime.policy_view(run).await?;
    Ok(Json(EffectivePolicy {
        hash: view.hash,
        mode: Mode::from(view.mode).as_str().to_owned(),
        read_only: view.read_only,
        allow_dangerous: view.allow_dangerous,
        layers: view.layers.iter().map(PolicyLayer::from).collect(),
        tools: view
            .tools
            .iter()
            .map(|(name, ruling)| ToolRuling::of(name, ruling))
            .collect(),
    }))
}

/// Where to begin.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct After {
    /// After this place.
    after: Option<u64>,
    /// At most so many.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<u32>,
}

/// What happened to the calls of a task and of everything below it.
#[utoipa::path(get, path = "/api/tasks/{id}/audit", tag = "tasks",
    params(("id" = String, Path), After), responses((status = 200, body = Vec<AuditLine>)))]
pub(crate) async fn audit(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    InPath(id): InPath<String>,
    Asked(after): Asked<After>,
) -> Result<Json<Vec<AuditLine>>, Problem> {
    let run = app.task(&caller, &id).await?.run_id;
    let lines = app
        .runtime
        .audit(AuditFilter {
            run: Some(run),
            tenant: caller.tenant().cloned(),
            after: after.after.unwrap_or_default(),
            limit: body::limit(after.limit, MAX_LINES, MAX_LINES)?,
        })
        .await?;
    Ok(Json(lines.into_iter().map(AuditLine::from).collect()))
}

/// A long output of a task, whole.
#[utoipa::path(get, path = "/api/tasks/{id}/blobs/{blob}", tag = "tasks",
    params(("id" = String, Path), ("blob" = String, Path)),
    responses((status = 200, body = String, content_type = "text/plain")))]
pub(crate) async fn blob(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    InPath((id, blob)): InPath<(String, String)>,
) -> Result<impl IntoResponse, Problem> {
    let run = app.task(&caller, &id).await?.run_id;
    let bytes = app
        .runtime
        .blob(run, &BlobId::from_stored(blob))
        .await?
        .ok_or_else(|| Problem::not_found("the task has no such output"))?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], bytes))
}
