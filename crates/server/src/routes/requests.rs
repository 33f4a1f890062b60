//! What runs ask persons, and what persons reply.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use sortie_core::{Replied, Reply, RequestFilter, RequestKind, RunId};
use sortie_protocol::{
    ApprovalBody, ApprovalDecision, AskedFor, ReplyNoted, ReplyView, Request, Role, SteerBody,
};
use utoipa::IntoParams;

use crate::app::{App, Shared};
use crate::body::{Asked, InPath, JsonBody};
use crate::guard::Caller;
use crate::problem::Problem;
use crate::routes::task::{check_words, reply_to_question};

/// Requests in one answer.
const MAX_REQUESTS: u32 = 1_000;

/// Which requests.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Also those that have their reply.
    all: Option<bool>,
    /// Of this task.
    #[param(min_length = 1)]
    task_id: Option<String>,
}

async fn list(
    app: &App,
    caller: &Caller,
    which: Which,
    kind: AskedFor,
) -> Result<Json<Vec<Request>>, Problem> {
    let run: Option<RunId> = match &which.task_id {
        None => None,
        Some(id) => Some(app.task(caller, id).await?.run_id),
    };
    let open = app
        .runtime
        .requests(RequestFilter {
            replied: which.all.unwrap_or_default(),
            run,
            tenant: caller.tenant().cloned(),
            limit: MAX_REQUESTS,
        })
        .await?;
    let requests = open.iter().map(Request::from);
    Ok(Json(
        requests.filter(|request| request.kind == kind).collect(),
    ))
}

/// Calls that wait for a person's yes.
#[utoipa::path(get, path = "/api/approvals", tag = "requests", params(Which),
    responses((status = 200, body = Vec<Request>)))]
pub(crate) async fn approvals(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    Asked(which): Asked<Which>,
) -> Result<Json<Vec<Request>>, Problem> {
    list(&app, &caller, which, AskedFor::Approval).await
}

/// Questions that wait for an answer.
#[utoipa::path(get, path = "/api/questions", tag = "requests", params(Which),
    responses((status = 200, body = Vec<Request>)))]
pub(crate) async fn questions(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    Asked(which): Asked<Which>,
) -> Result<Json<Vec<Request>>, Problem> {
    list(&app, &caller, which, AskedFor::Question).await
}

/// Says whether a call may run. The first reply holds.
#[utoipa::path(post, path = "/api/approvals/{id}", tag = "requests", request_body = ApprovalBody,
    params(("id" = String, Path)), responses((status = 200, body = ReplyNoted)))]
pub(crate) async fn approve(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    InPath(id): InPath<String>,
    JsonBody(body): JsonBody<ApprovalBody>,
) -> Result<Json<ReplyNoted>, Problem> {
    let request = app.request(&caller, &id).await?;
    let RequestKind::Approval(approval) = &request.request.kind else {
        return Err(Problem::conflict(
            "this is a question; use POST /api/questions/{id}",
        ));
    };
    if let Some(words) = &body.words {
        check_words(words)?;
    }
    app.may_reply(&caller, &request).await?;
    let by = caller.person();
    let reply = match (body.decision, body.lasting) {
        (ApprovalDecision::Approve, lasting) => {
            let is_offered = |rule: &String| approval.lasting.contains(rule);
            if caller.role() < Role::Admin && !lasting.iter().all(is_offered) {
                return Err(Problem::forbidden(
                    "only an admin may allow more than what `lasting` offers",
                ));
            }
            Reply::Approved { by, lasting }
        }
        (ApprovalDecision::Deny, None) => Reply::Refused {
            by,
            words: body.words,
        },
        (ApprovalDecision::Deny, Some(_)) => {
            return Err(Problem::bad(
                "a no lasts only for the one call; leave out `lasting`",
            ));
        }
    };
    noted(app.runtime.reply(&request.request.id, reply).await?)
}

/// Answers a question. The first answer holds.
#[utoipa::path(post, path = "/api/questions/{id}", tag = "requests", request_body = SteerBody,
    params(("id" = String, Path)), responses((status = 200, body = ReplyNoted)))]
pub(crate) async fn answer(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    InPath(id): InPath<String>,
    JsonBody(body): JsonBody<SteerBody>,
) -> Result<Json<ReplyNoted>, Problem> {
    check_words(&body.text)?;
    let request = app.request(&caller, &id).await?;
    reply_to_question(&app, &caller, &request, body.text).await
}

/// What came of a reply.
pub(crate) fn noted(replied: Replied) -> Result<Json<ReplyNoted>, Problem> {
    match replied {
        Replied::Noted { .. } => Ok(Json(ReplyNoted {
            noted: true,
            earlier: None,
        })),
        Replied::TooLate { earlier } => {
            let earlier = earlier.as_ref().map(ReplyView::from);
            let problem = Problem::conflict(
                "somebody was faster, or the task no longer waits for it; nothing changed",
            );
            Err(match serde_json::to_value(earlier) {
                Ok(earlier) => problem.with("earlier", earlier),
                Err(_) => problem,
            })
        }
    }
}
