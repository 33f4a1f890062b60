//! Sessions.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use sortie_core::id::{RunId, Seq, SessionKey};
use sortie_core::ports::store::ListFilter;
use sortie_core::request::RequestFilter;
use sortie_core::run::{Lane, RunRecord};
use sortie_core::session::{SessionFilter, SessionSummary};
use sortie_core::time::Timestamp;
use sortie_protocol::{
    Grant, MessageAccepted, NewMessage, Resume, Revoked, Session, SessionDetail, Task,
    TranscriptItem, Turn,
};
use sortie_runtime::{NewRun, RuntimeError};
use utoipa::IntoParams;

use crate::access;
use crate::app::{App, Shared};
use crate::body::{self, JsonBody, PathParams, QueryParams};
use crate::guard::Caller;
use crate::hub::{NewSubscription, Outgoing, Subscriber, Topic};
use crate::idempotency::wants_stream;
use crate::pages::{self, NEXT_CURSOR, PAGE_BYTES, Page, size};
use crate::problem::Problem;
use crate::routes::requests::beside;
use crate::routes::sse::{self, Line};
use crate::routes::task::check_words;
use crate::routes::tasks::refused;

/// The default number of sessions in a response.
const DEFAULT_LIMIT: u32 = 50;
/// Maximum number of sessions in a response.
const MAX_LIMIT: u32 = 500;
/// Maximum number of turns in a response.
const TURNS: usize = 50;
/// The number of runs that are searched for turns at once.
const LOOK: u32 = 51;
const MAX_LOOKS: u32 = 80;
/// Maximum number of children of one turn.
const MAX_CHILDREN: u32 = 500;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SessionQuery {
    /// Maximum number of sessions.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// The cursor of the previous response.
    #[param(min_length = 1)]
    cursor: Option<String>,
}

#[utoipa::path(get, path = "/api/sessions", tag = "sessions", params(SessionQuery),
    responses((status = 200, body = Vec<Session>)))]
/// Returns the sessions, the one with the latest turn first.
///
/// When there are more than `limit`, `Sortie-Next-Cursor` and `Link: rel="next"` name the start of
/// the next page.
pub(crate) async fn list(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    QueryParams(which): QueryParams<SessionQuery>,
) -> Result<Page, Problem> {
    let limit = body::limit(which.limit, DEFAULT_LIMIT, MAX_LIMIT)?;
    let filter = SessionFilter {
        tenant: caller.tenant().cloned(),
        after: pages::place_in(which.cursor.as_deref())?,
        // One more shows whether there are more. The store aggregates all runs for each response, so
        // the sessions are read at once.
        limit: limit + 1,
        ..SessionFilter::default()
    };
    let sessions = app.runtime.sessions(filter).await?;
    let mut page = Page::default();
    let mut last = None;
    for (index, summary) in sessions.iter().enumerate() {
        if index == limit as usize || !page.take(&[Session::from(summary)])? {
            let cursor = pages::cursor_of(&last)?;
            let query = [
                ("cursor", Some(cursor.clone())),
                ("limit", which.limit.map(|limit| limit.to_string())),
            ];
            page.set_next(&cursor, &pages::address("/api/sessions", &query))?;
            break;
        }
        last = Some(summary.place());
    }
    Ok(page)
}

/// Parses a time in RFC 3339.
pub(crate) fn moment(text: &str) -> Result<Timestamp, Problem> {
    text.parse::<jiff::Timestamp>()
        .map(|moment| Timestamp(moment.as_millisecond()))
        .map_err(|_| Problem::bad("times must be RFC 3339, such as 2026-01-31T12:00:00Z"))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TurnQuery {
    /// Only turns before this task.
    #[param(min_length = 1)]
    before: Option<String>,
}

#[utoipa::path(get, path = "/api/sessions/{id}", tag = "sessions",
    params(("id" = String, Path), TurnQuery), responses((status = 200, body = SessionDetail)))]
/// Returns a session with its newest turns, oldest first.
///
/// A response has at most 50 turns, and fewer if they are long (8 MiB). When there are more,
/// `Sortie-Next-Cursor` is the `before` of the next page. A turn that is too long by itself has its
/// latest items; `left_out` counts those that only `GET /api/tasks/{id}/transcript` has.
pub(crate) async fn get(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(before): QueryParams<TurnQuery>,
) -> Result<(HeaderMap, Json<SessionDetail>), Problem> {
    let summary = find(&app, &caller, &id).await?;
    let (turns_list, next) = newest(&app, &caller, &summary, before.before.as_deref()).await?;
    let filter = RequestFilter {
        session: Some(summary.session.clone()),
        tenant: summary.tenant.clone(),
        ..RequestFilter::default()
    };
    let detail = SessionDetail {
        session: Session::from(&summary),
        turns_list,
        grants: grants_of(&app, &summary).await?,
        // A filter without a tenant matches every tenant, which may have a session of the same key.
        requests: beside(&app, filter, |open| open.tenant == summary.tenant).await?,
    };
    let mut headers = HeaderMap::new();
    if let Some(next) = next
        && let Ok(next) = HeaderValue::from_str(&next.to_string())
    {
        headers.insert(NEXT_CURSOR, next);
    }
    Ok((headers, Json(detail)))
}

/// Returns the newest turns that fit into a response, oldest first, and where the earlier ones begin.
async fn newest(
    app: &App,
    caller: &Caller,
    summary: &SessionSummary,
    before: Option<&str>,
) -> Result<(Vec<Turn>, Option<RunId>), Problem> {
    let records = turns(app, caller, summary, before).await?;
    let mut left = PAGE_BYTES;
    let mut newest = Vec::new();
    for record in records.iter().take(TURNS) {
        let mut turn = turn(app, record).await?;
        let mut bytes = size(&turn)?;
        if bytes > left && !newest.is_empty() {
            break;
        }
        let mut first = 0;
        while bytes > left && first < turn.items.len() {
            bytes -= size(&turn.items[first])?.min(bytes);
            first += 1;
        }
        turn.items.drain(..first);
        turn.left_out = first as u64;
        left = left.saturating_sub(bytes);
        newest.push(turn);
    }
    let is_all = newest.len() == records.len();
    newest.reverse();
    let oldest = newest.first().map(|turn| turn.task.task_id);
    Ok((newest, oldest.filter(|_| !is_all)))
}

async fn find(app: &App, caller: &Caller, id: &str) -> Result<SessionSummary, Problem> {
    let found = called(app, caller, &access::session(caller, Some(id))?).await?;
    // Tenants may have sessions of the same key; a caller without a tenant means its own first.
    let own = own(caller, &found);
    own.or_else(|| found.first()).cloned().ok_or_else(|| {
        Problem::not_found(format!(
            "there is no session {id:?}; GET /api/sessions lists them"
        ))
    })
}

/// Returns the session in which a caller writes: never one of another tenant, even for a caller that
/// reads all of them.
fn own<'a>(caller: &Caller, found: &'a [SessionSummary]) -> Option<&'a SessionSummary> {
    found
        .iter()
        .find(|summary| summary.tenant.as_ref() == caller.tenant())
}

/// Returns the sessions with this key that a caller may read.
async fn called(
    app: &App,
    caller: &Caller,
    session: &SessionKey,
) -> Result<Vec<SessionSummary>, Problem> {
    Ok(app
        .runtime
        .sessions(SessionFilter {
            tenant: caller.tenant().cloned(),
            session: Some(session.clone()),
            ..SessionFilter::default()
        })
        .await?)
}

/// Returns the main runs of a session, newest first: as many as a response has, and one more if there
/// are more.
async fn turns(
    app: &App,
    caller: &Caller,
    summary: &SessionSummary,
    before: Option<&str>,
) -> Result<Vec<RunRecord>, Problem> {
    let mut cursor = match before {
        None => None,
        Some(id) => Some(app.task(caller, id).await?.run_id),
    };
    let mut turns = Vec::new();
    for _ in 0..MAX_LOOKS {
        let records = app
            .runtime
            .list(ListFilter {
                session: Some(summary.session.clone()),
                tenant: summary.tenant.clone(),
                roots_only: true,
                archived: true,
                before: cursor,
                limit: LOOK,
                ..ListFilter::default()
            })
            .await?;
        let is_last = records.len() < LOOK as usize;
        cursor = records.last().map(|record| record.run_id);
        turns.extend(
            records
                .into_iter()
                .filter(|record| record.lane == Lane::Main && record.tenant == summary.tenant),
        );
        if is_last || turns.len() > TURNS {
            break;
        }
    }
    turns.truncate(TURNS + 1);
    Ok(turns)
}

async fn turn(app: &App, record: &RunRecord) -> Result<Turn, Problem> {
    let entries = app.runtime.events(record.run_id, Seq(0)).await?;
    let mut children = app
        .runtime
        .list(ListFilter {
            parent: Some(record.run_id),
            archived: true,
            limit: MAX_CHILDREN,
            ..ListFilter::default()
        })
        .await?;
    children.reverse();
    Ok(Turn {
        task: Task::from(record),
        items: TranscriptItem::of_journal(&entries),
        left_out: 0,
        // The page shows them as cards; each has a page of its own.
        children: children
            .iter()
            .map(|child| Task::from(child).summary())
            .collect(),
    })
}

async fn grants_of(app: &App, summary: &SessionSummary) -> Result<Vec<Grant>, Problem> {
    let key = summary.session.in_folder(&summary.workspace);
    let grants = app.runtime.grants(summary.tenant.as_ref(), &key).await?;
    Ok(grants.iter().map(Grant::from).collect())
}

#[utoipa::path(get, path = "/api/sessions/{id}/grants", tag = "sessions",
    params(("id" = String, Path)), responses((status = 200, body = Vec<Grant>)))]
/// Returns the grants of a session.
pub(crate) async fn grants(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Vec<Grant>>, Problem> {
    let summary = find(&app, &caller, &id).await?;
    Ok(Json(grants_of(&app, &summary).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Rule {
    /// The rule as it was granted; all if missing.
    rule: Option<String>,
    /// The folder of the grant; that of the last turn if missing.
    #[param(min_length = 1)]
    workspace: Option<String>,
}

#[utoipa::path(delete, path = "/api/sessions/{id}/grants", tag = "sessions",
    params(("id" = String, Path), Rule), responses((status = 200, body = Revoked)))]
/// Revokes grants of a session.
pub(crate) async fn revoke(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(rule): QueryParams<Rule>,
) -> Result<Json<Revoked>, Problem> {
    let (session, tenant, folder) = match rule.workspace {
        Some(folder) if folder.is_empty() => {
            return Err(Problem::bad(
                "the workspace is empty: give the folder of the grant",
            ));
        }
        // Background tasks have grants too, and are not turns of the session.
        Some(folder) => {
            let session = access::session(&caller, Some(&id))?;
            (session, caller.tenant().cloned(), folder.into())
        }
        None => {
            let summary = find(&app, &caller, &id).await?;
            (summary.session, summary.tenant, summary.workspace)
        }
    };
    let key = session.in_folder(&folder);
    let revoked = app
        .runtime
        .revoke(tenant.as_ref(), &key, rule.rule.as_deref())
        .await?;
    tracing::info!(%session, by = caller.person(), revoked, "revoked grants");
    Ok(Json(Revoked { revoked }))
}

#[utoipa::path(post, path = "/api/sessions/{id}/messages", tag = "sessions",
    request_body = NewMessage, params(("id" = String, Path)),
    responses((status = 202, body = MessageAccepted),
        (status = 200, body = String, content_type = "text/event-stream")))]
/// Sends a message to a session.
///
/// It steers the turn that is executing, or starts a new one. With `Accept: text/event-stream` the
/// turn is streamed: `accepted`, `text`, `event`, and finally `done` with the task.
pub(crate) async fn message(
    State(shared): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    request: Request,
) -> Result<Response, Problem> {
    let app = Arc::clone(&shared.0);
    let streams = wants_stream(&request);
    let JsonBody(message) =
        <JsonBody<NewMessage> as axum::extract::FromRequest<Shared>>::from_request(
            request, &shared,
        )
        .await?;
    let new = new_turn(&app, &caller, &id, message).await?;
    // Before the message is sent, so that no event is lost.
    let listener = streams.then(|| {
        let mut listener = Subscriber::new(&app, caller.clone());
        listener.subscribe(NewSubscription {
            id: "message".to_owned(),
            topic: Topic::Session(new.session.clone()),
            text: true,
            resume: Some(Resume {
                epoch: app.hub.epoch().to_owned(),
                seq: app.hub.seq(),
            }),
        });
        listener
    });
    // Checked while no other turn can start, so that the checked run is the one that gets the
    // message.
    let sent = app.runtime.send_message_if(None, new, |last| {
        let may = app.check_creatable(&caller, last);
        may.map_err(NotSent)
    });
    let sent = sent.await.map_err(|NotSent(problem)| problem)?;
    let accepted = MessageAccepted {
        task_id: sent.run,
        steered: sent.steered,
    };
    Ok(match listener {
        None => (StatusCode::ACCEPTED, Json(accepted)).into_response(),
        Some(listener) => follow(&app, caller, listener, &accepted),
    })
}

/// Why a message was refused.
#[derive(Debug)]
struct NotSent(Problem);

impl From<RuntimeError> for NotSent {
    fn from(error: RuntimeError) -> Self {
        Self(refused(error))
    }
}

async fn new_turn(
    app: &App,
    caller: &Caller,
    id: &str,
    message: NewMessage,
) -> Result<NewRun, Problem> {
    check_words(&message.text)?;
    app.check_model(caller, message.model.as_deref())?;
    let session = access::session(caller, Some(id))?;
    let found = called(app, caller, &session).await?;
    let workspace = match (&message.workspace, own(caller, &found)) {
        (Some(wanted), _) => app.workspace(caller, Some(wanted))?,
        (None, Some(before)) => {
            let last = before.workspace.display().to_string();
            let now = app.workspace(caller, Some(&last))?;
            // A symbolic link must not redirect the session to another folder.
            if now != before.workspace {
                return Err(Problem::conflict(format!(
                    "the path of {last} now contains a link, which is not followed; name the folder in `workspace`"
                )));
            }
            now
        }
        (None, None) => app.workspace(caller, None)?,
    };
    Ok(NewRun {
        session,
        tenant: caller.tenant().cloned(),
        agent: message.agent,
        model: message.model,
        thinking: message.thinking,
        lang: message.lang.unwrap_or(app.config.lang),
        budget: message.budget.unwrap_or_default().into(),
        mode: app.mode(caller, message.mode)?,
        ..NewRun::in_checked_folder(message.text, workspace, &app.config.default_model)
    })
}

/// Streams a turn until it has ended.
fn follow(
    app: &Arc<App>,
    caller: Caller,
    mut listener: Subscriber,
    accepted: &MessageAccepted,
) -> Response {
    let run = accepted.task_id;
    let first = Line::of("accepted", accepted);
    let app_too = Arc::clone(app);
    sse::answer(app, caller, async move |lines| {
        lines.send(first).await?;
        loop {
            let Ok(out) = listener.next().await else {
                return None;
            };
            let frame = match &out {
                Outgoing::Frame(frame) => frame,
                Outgoing::Control(_) => continue,
                // The end may be among the missed events: the record has it.
                Outgoing::Snapshot { .. } => {
                    let record = app_too.runtime.get(run).await.ok()?;
                    if record.status.is_terminal() {
                        break;
                    }
                    continue;
                }
            };
            if !frame.is_about(&Topic::Tree(run)) {
                continue;
            }
            let name = if frame.name == "text" {
                "text"
            } else {
                "event"
            };
            lines.send(Line::new(name, None, &frame.bytes)).await?;
            let is_end = matches!(frame.name, "completed" | "failed" | "timeout" | "cancelled")
                && Subscriber::is_about(&out, run);
            if is_end {
                break;
            }
        }
        // The event may be ahead of the record.
        let record = app_too.runtime.wait_for(run).await.ok()?;
        lines.send(Line::of("done", &Task::from(&record))).await
    })
}
