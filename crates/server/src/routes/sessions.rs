//! Conversations.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use sortie_core::{
    Lane, ListFilter, RequestFilter, RunRecord, Seq, SessionFilter, SessionKey, SessionSummary,
    Timestamp,
};
use sortie_protocol::{
    Grant, MessageAccepted, NewMessage, Resume, Revoked, Session, SessionDetail, Task,
    TranscriptItem, Turn,
};
use sortie_runtime::NewRun;
use utoipa::IntoParams;

use crate::access;
use crate::app::{App, Shared};
use crate::body::{self, Asked, InPath, JsonBody};
use crate::guard::Caller;
use crate::hub::{Listener, Out, Wanted, Wish};
use crate::once::wants_stream;
use crate::problem::Problem;
use crate::routes::sse::{self, Line};
use crate::routes::task::check_words;
use crate::routes::tasks::refused;

/// Sessions in one answer, unless more are wanted.
const DEFAULT_LIMIT: u32 = 50;
/// The most sessions in one answer.
const MAX_LIMIT: u32 = 500;
/// Turns of one session in one answer.
const TURNS: usize = 50;
/// Runs that are looked through for turns at once, and how often.
const LOOK: u32 = 200;
const MAX_LOOKS: u32 = 20;
/// Children of one turn.
const MAX_CHILDREN: u32 = 500;

/// Which sessions.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// At most so many.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// Whose last turn began before this time.
    before: Option<String>,
}

/// Conversations, the one with the latest turn first.
#[utoipa::path(get, path = "/api/sessions", tag = "sessions", params(Which),
    responses((status = 200, body = Vec<Session>)))]
pub(crate) async fn list(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    Asked(which): Asked<Which>,
) -> Result<Json<Vec<Session>>, Problem> {
    let sessions = app
        .runtime
        .sessions(SessionFilter {
            tenant: caller.tenant().cloned(),
            session: None,
            before: which.before.as_deref().map(moment).transpose()?,
            limit: body::limit(which.limit, DEFAULT_LIMIT, MAX_LIMIT)?,
        })
        .await?;
    Ok(Json(sessions.iter().map(Session::from).collect()))
}

/// Reads RFC 3339.
pub(crate) fn moment(text: &str) -> Result<Timestamp, Problem> {
    text.parse::<jiff::Timestamp>()
        .map(|moment| Timestamp(moment.as_millisecond()))
        .map_err(|_| Problem::bad("times are written like 2026-01-31T12:00:00Z"))
}

/// Where in a session.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Before {
    /// Turns before this task.
    before: Option<String>,
}

/// A conversation with its newest turns, oldest first.
#[utoipa::path(get, path = "/api/sessions/{id}", tag = "sessions",
    params(("id" = String, Path), Before), responses((status = 200, body = SessionDetail)))]
pub(crate) async fn get(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    InPath(id): InPath<String>,
    Asked(before): Asked<Before>,
) -> Result<Json<SessionDetail>, Problem> {
    let summary = find(&app, &caller, &id).await?;
    let mut turns_list = Vec::new();
    for record in turns(&app, &caller, &summary, before.before.as_deref()).await? {
        turns_list.push(turn(&app, &record).await?);
    }
    turns_list.reverse();
    let open = app
        .runtime
        .requests(RequestFilter {
            tenant: summary.tenant.clone(),
            ..RequestFilter::default()
        })
        .await?;
    let requests = open
        .iter()
        .filter(|request| request.session_id == summary.session && request.tenant == summary.tenant)
        .map(Into::into)
        .collect();
    Ok(Json(SessionDetail {
        session: Session::from(&summary),
        turns_list,
        grants: grants_of(&app, &summary).await?,
        requests,
    }))
}

async fn find(app: &App, caller: &Caller, id: &str) -> Result<SessionSummary, Problem> {
    find_key(app, caller, &access::session(caller, Some(id))?)
        .await?
        .ok_or_else(|| {
            Problem::not_found(format!("there is no session {id:?}; look in /api/sessions"))
        })
}

async fn find_key(
    app: &App,
    caller: &Caller,
    session: &SessionKey,
) -> Result<Option<SessionSummary>, Problem> {
    let found = app
        .runtime
        .sessions(SessionFilter {
            tenant: caller.tenant().cloned(),
            session: Some(session.clone()),
            before: None,
            limit: 0,
        })
        .await?;
    // Sessions of tenants may have the same name; whoever sees all means its own first.
    let own = found
        .iter()
        .find(|summary| summary.tenant.as_ref() == caller.tenant());
    Ok(own.or_else(|| found.first()).cloned())
}

/// The main runs of a session, newest first.
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
        if is_last || turns.len() >= TURNS {
            break;
        }
    }
    turns.truncate(TURNS);
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
        children: children.iter().map(Task::from).collect(),
    })
}

async fn grants_of(app: &App, summary: &SessionSummary) -> Result<Vec<Grant>, Problem> {
    let key = summary.session.in_folder(&summary.workspace);
    let grants = app.runtime.grants(summary.tenant.as_ref(), &key).await?;
    Ok(grants.iter().map(Grant::from).collect())
}

/// What persons allowed for a whole session.
#[utoipa::path(get, path = "/api/sessions/{id}/grants", tag = "sessions",
    params(("id" = String, Path)), responses((status = 200, body = Vec<Grant>)))]
pub(crate) async fn grants(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    InPath(id): InPath<String>,
) -> Result<Json<Vec<Grant>>, Problem> {
    let summary = find(&app, &caller, &id).await?;
    Ok(Json(grants_of(&app, &summary).await?))
}

/// Which grant.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Rule {
    /// The rule as it was granted; all if missing.
    rule: Option<String>,
    /// The folder that it was granted for; that of the last turn if missing.
    workspace: Option<String>,
}

/// Takes back what persons allowed for a session.
#[utoipa::path(delete, path = "/api/sessions/{id}/grants", tag = "sessions",
    params(("id" = String, Path), Rule), responses((status = 200, body = Revoked)))]
pub(crate) async fn revoke(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    InPath(id): InPath<String>,
    Asked(rule): Asked<Rule>,
) -> Result<Json<Revoked>, Problem> {
    let (session, tenant, folder) = match rule.workspace {
        // Background tasks are granted something too, and are no turn of a conversation.
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
    tracing::info!(%session, by = caller.person(), revoked, "grants were revoked");
    Ok(Json(Revoked { revoked }))
}

/// Says something in a conversation.
///
/// It goes into the turn that is under way, or begins a new one. With `Accept: text/event-stream` what
/// follows is streamed: `accepted`, `text`, `event`, and at last `done` with the task.
#[utoipa::path(post, path = "/api/sessions/{id}/messages", tag = "sessions",
    request_body = NewMessage, params(("id" = String, Path)),
    responses((status = 202, body = MessageAccepted),
        (status = 200, body = String, content_type = "text/event-stream")))]
pub(crate) async fn message(
    State(shared): State<Shared>,
    caller: Caller,
    InPath(id): InPath<String>,
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
    // Before anything is said, so that nothing of the answer is missed.
    let listener = streams.then(|| {
        let mut listener = Listener::new(&app, caller.clone());
        listener.subscribe(Wish {
            id: "message".to_owned(),
            wanted: Wanted::Session(new.session.clone()),
            text: true,
            resume: Some(Resume {
                epoch: app.hub.epoch().to_owned(),
                seq: app.hub.seq(),
            }),
        });
        listener
    });
    let said = app.runtime.say(new).await.map_err(refused)?;
    let accepted = MessageAccepted {
        task_id: said.run,
        steered: said.steered,
    };
    Ok(match listener {
        None => (StatusCode::ACCEPTED, Json(accepted)).into_response(),
        Some(listener) => follow(&app, caller, listener, &accepted),
    })
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
    let before = find_key(app, caller, &session).await?;
    let workspace = match (&message.workspace, &before) {
        (Some(wanted), _) => app.workspace(caller, Some(wanted))?,
        (None, Some(before)) => {
            let last = before.workspace.display().to_string();
            app.workspace(caller, Some(&last))?
        }
        (None, None) => app.workspace(caller, None)?,
    };
    let tenant = match &before {
        Some(before) => before.tenant.clone(),
        None => caller.tenant().cloned(),
    };
    Ok(NewRun {
        session,
        tenant,
        agent: message.agent,
        model: message.model,
        thinking: message.thinking,
        lang: message.lang.unwrap_or(app.config.lang),
        budget: message.budget.unwrap_or_default().into(),
        mode: app.mode(caller, message.mode.map(Into::into))?,
        ..NewRun::new(message.text, workspace, &app.config.default_model)
    })
}

/// Streams a turn until it has ended.
fn follow(
    app: &Arc<App>,
    caller: Caller,
    mut listener: Listener,
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
            let Out::Frame(frame) = &out else { continue };
            if !frame.is_about(&Wanted::Tree(run)) {
                continue;
            }
            let name = if frame.name == "text" {
                "text"
            } else {
                "event"
            };
            lines.send(Line::new(name, None, &frame.bytes)).await?;
            let is_end = matches!(frame.name, "completed" | "failed" | "timeout" | "cancelled")
                && Listener::is_about(&out, run);
            if is_end {
                break;
            }
        }
        // News may be a little ahead of the record.
        let record = app_too.runtime.execute(run).await.ok()?;
        lines.send(Line::of("done", &Task::from(&record))).await
    })
}
