//! The journal of one task, as a list or as a stream.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use sortie_core::event::Event;
use sortie_core::id::{RunId, Seq};
use sortie_protocol::{JournalEntry, Resume};
use utoipa::IntoParams;

use crate::app::{App, Shared};
use crate::body::{PathParams, QueryParams};
use crate::guard::Caller;
use crate::hub::{NewSubscription, Outgoing, Subscriber, Topic};
use crate::idempotency::wants_stream;
use crate::pages::{PAGE_BYTES, Page};
use crate::problem::Problem;
use crate::routes::sse::{self, Line, Lines};

/// How often a journal is read without an event of its run.
const POLL: Duration = Duration::from_secs(1);

/// The bytes of a journal that are read at once: a client that reads slowly occupies this much
/// memory.
const PART_BYTES: usize = 1024 * 1024;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AfterQuery {
    /// Only entries after this one.
    after: Option<i64>,
    /// Whether to stream the text of completions too; for streams.
    text: Option<bool>,
}

#[utoipa::path(get, path = "/api/tasks/{id}/events", tag = "tasks",
    params(("id" = String, Path), AfterQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "The last entry that was received")),
    responses((status = 200, content(
        (Vec<JournalEntry> = "application/json"), (String = "text/event-stream")))))]
/// Returns the journal of a task.
///
/// With `Accept: text/event-stream` it is streamed until the task has ended; `Last-Event-ID` resumes.
/// Otherwise a response ends when it is long (8 MiB); then `Sortie-Next-Cursor` is the `after` of the
/// next page, and `Link: rel="next"` is its address.
pub(crate) async fn of_task(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(after): QueryParams<AfterQuery>,
    request: Request,
) -> Result<Response, Problem> {
    let run = app.task(&caller, &id).await?.run_id;
    if !wants_stream(&request) {
        let from = Seq(after.after.unwrap_or_default());
        return Ok(entries(&app, run, from).await?.into_response());
    }
    let from = match last_event_id(request.headers()) {
        Some(last) => last
            .parse()
            .map_err(|_| Problem::bad("Last-Event-ID must be the number of an entry"))?,
        None => after.after.unwrap_or_default(),
    };
    let mut listener = Subscriber::new(&app, caller.clone());
    listener.subscribe(NewSubscription {
        id: "events".to_owned(),
        topic: Topic::Task(run),
        text: after.text.unwrap_or_default(),
        resume: Some(Resume {
            epoch: app.hub.epoch().to_owned(),
            seq: app.hub.seq(),
        }),
    });
    let app_too = Arc::clone(&app);
    Ok(sse::answer(&app, caller, async move |lines| {
        follow(&app_too, &lines, listener, run, Seq(from)).await
    }))
}

/// Returns a page of the journal.
async fn entries(app: &App, run: RunId, from: Seq) -> Result<Page, Problem> {
    let mut page = Page::default();
    let mut last = from;
    loop {
        let entries = app.runtime.events_part(run, last, PAGE_BYTES).await?;
        if entries.is_empty() {
            return Ok(page);
        }
        for entry in entries {
            if !page.take(std::slice::from_ref(&entry))? {
                let next = format!("/api/tasks/{run}/events?after={last}");
                page.set_next(&last.to_string(), &next)?;
                return Ok(page);
            }
            last = entry.seq;
        }
    }
}

/// Returns the id of the last event that the client received.
pub(crate) fn last_event_id(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(HeaderName::from_static("last-event-id"))
        .and_then(|id| id.to_str().ok())
        .filter(|id| !id.is_empty())
}

/// Streams the journal until the run has ended.
async fn follow(
    app: &App,
    lines: &Lines,
    mut listener: Subscriber,
    run: RunId,
    mut from: Seq,
) -> Option<()> {
    loop {
        let entries = match app.runtime.events_part(run, from, PART_BYTES).await {
            Ok(entries) => entries,
            Err(error) => {
                tracing::debug!(error = %sortie_core::error::with_causes(&error), "a stream ends early");
                return None;
            }
        };
        let is_end = entries.is_empty();
        for entry in entries {
            from = entry.seq;
            let data = serde_json::to_string(&entry).ok()?;
            let id = entry.seq.to_string();
            lines
                .send(Line::new(entry.event.name(), Some(&id), &data))
                .await?;
            if matches!(entry.event, Event::Finished { .. }) {
                return Some(());
            }
        }
        if !is_end {
            continue;
        }
        // A deleted journal has no `finished` entry.
        let record = app.runtime.get(run).await.ok()?;
        if record.status.is_terminal() && record.head <= from {
            return Some(());
        }
        if record.status.is_terminal() && record.cleaned_at.is_some() {
            return Some(());
        }
        wait(lines, &mut listener).await?;
    }
}

/// Returns when there may be new entries; forwards text meanwhile.
async fn wait(lines: &Lines, listener: &mut Subscriber) -> Option<()> {
    let deadline = tokio::time::Instant::now() + POLL;
    loop {
        match tokio::time::timeout_at(deadline, listener.next()).await {
            Err(_elapsed) => return Some(()),
            Ok(Err(_)) => return None,
            Ok(Ok(Outgoing::Frame(frame))) if frame.name == "text" => {
                lines.send(Line::new("text", None, &frame.bytes)).await?;
            }
            Ok(Ok(Outgoing::Frame(_) | Outgoing::Snapshot { .. })) => return Some(()),
            Ok(Ok(Outgoing::Control(_))) => {}
        }
    }
}
