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
use crate::pages::{PAGE_BYTES, Page, size};
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

/// Where to begin in a journal.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct From {
    /// After this place in the journal.
    after: Option<i64>,
}

/// What was said and done, for people.
///
/// An answer ends when its texts are long (8 MiB); then `Sortie-Next-Cursor` is the `after` that goes
/// on, and `Link: rel="next"` says it whole.
#[utoipa::path(get, path = "/api/tasks/{id}/transcript", tag = "tasks",
    params(("id" = String, Path), From), responses((status = 200, body = Vec<TranscriptItem>)))]
pub(crate) async fn transcript(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    InPath(id): InPath<String>,
    Asked(from): Asked<From>,
) -> Result<Page, Problem> {
    let run = app.task(&caller, &id).await?.run_id;
    // From the beginning: what a result means may stand in front of it.
    let entries = app.runtime.events(run, Seq(0)).await?;
    let items = TranscriptItem::of_journal(&entries);
    let mut page = Page::default();
    let mut last = from.after.unwrap_or_default();
    // What one entry of the journal says stays together, so that its number is a place to go on.
    for said in items.chunk_by(|one, next| one.seq == next.seq) {
        let [first, ..] = said else { continue };
        if first.seq <= from.after.unwrap_or_default() {
            continue;
        }
        if !page.take(said)? {
            let next = format!("/api/tasks/{run}/transcript?after={last}");
            page.goes_on(&last.to_string(), &next)?;
            break;
        }
        last = first.seq;
    }
    Ok(page)
}

/// All tasks of the tree that a task is in, oldest first. In a tree with long texts (8 MiB) those of
/// the later tasks are cut, as with `summary`.
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
    let mut bytes = 0;
    let mut tasks = Vec::with_capacity(records.len());
    for record in &records {
        let task = Task::from(record);
        bytes += size(&task)?;
        tasks.push(if bytes < PAGE_BYTES {
            task
        } else {
            task.summary()
        });
    }
    Ok(Json(tasks))
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
    #[param(minimum = 0)]
    after: Option<i64>,
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
            after: body::place(after.after)?,
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
