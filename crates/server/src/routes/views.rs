//! Views of one task.

use std::str::FromStr as _;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use serde::Deserialize;
use sortie_core::event::{Event, JournalEntry};
use sortie_core::id::{BlobId, RunId, Seq};
use sortie_core::ports::store::{AuditFilter, ListFilter};
use sortie_protocol::{
    AuditLine, CallsOfChildren, CriticalSpan, DelegationReport, Diff, EffectivePolicy, PolicyLayer,
    Span, Task, TaskResult, Timeline, TimelineTask, ToolRuling, TranscriptItem,
};
use utoipa::IntoParams;

use crate::app::{App, Shared};
use crate::body::{self, PathParams, QueryParams};
use crate::guard::Caller;
use crate::pages::{self, PAGE_BYTES, Page};
use crate::problem::Problem;
use crate::routes::{audit, tasks};

/// Maximum number of audit entries in a response.
const MAX_LINES: u32 = 10_000;
/// Maximum number of tasks of a tree in a response.
const MAX_TASKS: u32 = 1_000;
/// The number of journal entries that are first read to find the last completion.
const LOOK_BACK: i64 = 32;

#[utoipa::path(get, path = "/api/tasks/{id}/diff", tag = "tasks",
    params(("id" = String, Path)), responses((status = 200, body = Diff)))]
/// Returns the changes in the worktree of a task.
pub(crate) async fn diff(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Diff>, Problem> {
    let task_id = app.task(&caller, &id).await?.run_id;
    let diff = app.runtime.diff(task_id).await?;
    Ok(Json(Diff { task_id, diff }))
}

#[utoipa::path(get, path = "/api/tasks/{id}/result", tag = "tasks",
    params(("id" = String, Path)), responses((status = 200, body = TaskResult)))]
/// Returns the result of a task, or its status.
pub(crate) async fn result(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<TaskResult>, Problem> {
    let record = app.task(&caller, &id).await?;
    Ok(Json(Task::from(&record).into()))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ItemQuery {
    /// Only items after this journal entry.
    #[param(minimum = 0)]
    after: Option<i64>,
}

#[utoipa::path(get, path = "/api/tasks/{id}/transcript", tag = "tasks",
    params(("id" = String, Path), ItemQuery), responses((status = 200, body = Vec<TranscriptItem>)))]
/// Returns the transcript of a task.
///
/// A response ends when it is long (8 MiB); then `Sortie-Next-Cursor` is the `after` of the next
/// page, and `Link: rel="next"` is its address.
pub(crate) async fn transcript(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(from): QueryParams<ItemQuery>,
) -> Result<Page, Problem> {
    let run = app.task(&caller, &id).await?.run_id;
    let after = i64::try_from(body::place(from.after)?).unwrap_or(i64::MAX);
    let mut last = Seq(after);
    let mut children = calls_of_children(&app, run, last).await?;
    let mut page = Page::default();
    loop {
        let entries = app.runtime.events_part(run, last, PAGE_BYTES).await?;
        let Some(end) = entries.last().map(|entry| entry.seq) else {
            return Ok(page);
        };
        let items = TranscriptItem::of_part(&entries, &mut children);
        // The items of one journal entry stay together, so that its number is a valid cursor.
        for entry_items in items.chunk_by(|one, next| one.seq == next.seq) {
            if !page.take(entry_items)? {
                let next = format!("/api/tasks/{run}/transcript?after={last}");
                page.set_next(&last.to_string(), &next)?;
                return Ok(page);
            }
            last = entry_items.first().map_or(last, |first| Seq(first.seq));
        }
        last = end;
    }
}

/// Returns which open calls children answer: the journal names the child before the result of the
/// call. The last completion made all open calls, so the journal is read back to it, not from its
/// beginning for every page.
async fn calls_of_children(app: &App, run: RunId, at: Seq) -> Result<CallsOfChildren, Problem> {
    let mut back = LOOK_BACK;
    loop {
        let mut from = Seq(at.0.saturating_sub(back).max(0));
        let is_beginning = from.0 == 0;
        let mut entries = Vec::new();
        while from < at {
            let part = app.runtime.events_part(run, from, PAGE_BYTES).await?;
            let Some(end) = part.last().map(|entry| entry.seq) else {
                break;
            };
            from = end;
            entries.extend(part.into_iter().filter(|entry| entry.seq <= at));
        }
        let is_answer = |entry: &JournalEntry| matches!(entry.event, Event::Answered { .. });
        if is_beginning || entries.iter().any(is_answer) {
            let mut children = CallsOfChildren::default();
            TranscriptItem::of_part(&entries, &mut children);
            return Ok(children);
        }
        back = back.saturating_mul(4);
    }
}

/// Selects tasks of a tree.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct InTree {
    /// Truncates message and result to 280 characters.
    summary: Option<bool>,
    /// The cursor of the previous response.
    #[param(min_length = 1)]
    cursor: Option<String>,
}

#[utoipa::path(get, path = "/api/tasks/{id}/tree", tag = "tasks",
    params(("id" = String, Path), InTree), responses((status = 200, body = Vec<Task>)))]
/// Returns all tasks of the tree of a task, oldest first.
///
/// A response ends after 1,000 tasks, or earlier if they are long (8 MiB). When there are more,
/// `Sortie-Next-Cursor` and `Link: rel="next"` name the start of the next page.
pub(crate) async fn tree(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(place): QueryParams<InTree>,
) -> Result<Page, Problem> {
    let root = app.task(&caller, &id).await?.root;
    let first = place.cursor.as_deref().map(RunId::from_str).transpose();
    let summary = place.summary.unwrap_or_default();
    let (mut page, next) = pages::fill(
        MAX_TASKS,
        first.map_err(|_| pages::bad_cursor())?,
        |after, limit| {
            app.runtime.list(ListFilter {
                root: Some(root),
                archived: true,
                oldest_first: true,
                after,
                limit,
                ..ListFilter::default()
            })
        },
        |record| record.run_id,
        |record| tasks::shown(record, summary),
    )
    .await?;
    if let Some(last) = next {
        let last = last.to_string();
        let query = [
            ("cursor", Some(last.clone())),
            ("summary", place.summary.map(|summary| summary.to_string())),
        ];
        let path = format!("/api/tasks/{root}/tree");
        page.set_next(&last, &pages::address(&path, &query))?;
    }
    Ok(page)
}

#[utoipa::path(get, path = "/api/tasks/{id}/timeline", tag = "tasks",
    params(("id" = String, Path)), responses((status = 200, body = Timeline)))]
/// Returns the timeline of a task's tree, with its critical path.
pub(crate) async fn timeline(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Timeline>, Problem> {
    let root = app.task(&caller, &id).await?.root;
    let (timeline, left_out) = app.runtime.timeline(root).await?;
    Ok(Json(timeline_json(&timeline, left_out)))
}

fn timeline_json(timeline: &sortie_runtime::Timeline, left_out: u64) -> Timeline {
    Timeline {
        root_id: timeline.root,
        from: timeline.from.to_rfc3339(),
        until: timeline.until.to_rfc3339(),
        tasks: timeline.tasks.iter().map(timeline_task).collect(),
        left_out,
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
        started: task.started.map(sortie_core::time::Timestamp::to_rfc3339),
        ended: task.ended.map(sortie_core::time::Timestamp::to_rfc3339),
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

#[utoipa::path(get, path = "/api/tasks/{id}/report", tag = "tasks",
    params(("id" = String, Path)), responses((status = 200, body = DelegationReport)))]
/// Returns how the tree below a task was delegated: time, tokens, cost and waits, the critical
/// path, duplicate work, and an estimate of whether it paid off.
pub(crate) async fn report(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<DelegationReport>, Problem> {
    let run = app.task(&caller, &id).await?.run_id;
    Ok(Json(app.runtime.report(run).await?))
}

#[utoipa::path(get, path = "/api/tasks/{id}/policy", tag = "tasks",
    params(("id" = String, Path)), responses((status = 200, body = EffectivePolicy)))]
/// Returns the policy of a task, with the origin of each rule.
pub(crate) async fn policy(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<EffectivePolicy>, Problem> {
    let run = app.task(&caller, &id).await?.run_id;
    let view = app.runtime.policy_view(run).await?;
    Ok(Json(EffectivePolicy {
        hash: view.hash,
        mode: view.mode.to_string(),
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

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EntryQuery {
    /// Only entries after this position.
    #[param(minimum = 0)]
    after: Option<i64>,
    /// Maximum number of entries.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<u32>,
}

#[utoipa::path(get, path = "/api/tasks/{id}/audit", tag = "tasks",
    params(("id" = String, Path), EntryQuery), responses((status = 200, body = Vec<AuditLine>)))]
/// Returns the audit log of a task and its descendants, with pages like `GET /api/audit`.
pub(crate) async fn audit(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(after): QueryParams<EntryQuery>,
) -> Result<Page, Problem> {
    let run = app.task(&caller, &id).await?.run_id;
    let filter = AuditFilter {
        run: Some(run),
        tenant: caller.tenant().cloned(),
        after: body::place(after.after)?,
        limit: body::limit(after.limit, MAX_LINES, MAX_LINES)?,
    };
    let query = [("limit", after.limit.map(|limit| limit.to_string()))];
    audit::page_of(&app, filter, &format!("/api/tasks/{run}/audit"), query).await
}

#[utoipa::path(get, path = "/api/tasks/{id}/blobs/{blob}", tag = "tasks",
    params(("id" = String, Path), ("blob" = String, Path)),
    responses((status = 200, body = String, content_type = "text/plain")))]
/// Returns a long output of a task, whole.
pub(crate) async fn blob(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams((id, blob)): PathParams<(String, String)>,
) -> Result<impl IntoResponse, Problem> {
    let run = app.task(&caller, &id).await?.run_id;
    let bytes = app
        .runtime
        .blob(run, &BlobId::from_stored(blob))
        .await?
        .ok_or_else(|| Problem::not_found("the task does not have this output"))?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], bytes))
}
