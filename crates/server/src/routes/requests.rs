//! Approval requests and questions, and replies to them.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use sortie_core::id::RunId;
use sortie_core::ports::store::Replied;
use sortie_core::request::{AskedFor, OpenRequest, Reply, RequestFilter, RequestKind};
use sortie_protocol::{
    ApprovalBody, ApprovalDecision, ReplyKind, ReplyNoted, ReplyView, Request, Role, SteerBody,
};
use utoipa::IntoParams;

use crate::app::{App, Shared};
use crate::body::{self, JsonBody, PathParams, QueryParams};
use crate::guard::Caller;
use crate::pages::{self, Page, Shown};
use crate::problem::Problem;
use crate::routes::task::{check_words, reply_to_question};

/// The default number of requests in a response.
const DEFAULT_LIMIT: u32 = 200;
/// Maximum number of requests in a response.
const MAX_LIMIT: u32 = 1_000;
/// Maximum number of requests in the detail of a task or session.
const MAX_BESIDE: u32 = 100;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RequestQuery {
    /// Also requests that have a reply.
    all: Option<bool>,
    /// Only requests of this task.
    #[param(min_length = 1)]
    task_id: Option<String>,
    /// Maximum number of requests; 200 by default, at most 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The cursor of the previous response.
    #[param(min_length = 1)]
    cursor: Option<String>,
}

/// Returns a page of requests: the open ones, oldest first, or all, newest first.
async fn list(
    app: &App,
    caller: &Caller,
    which: RequestQuery,
    kind: AskedFor,
) -> Result<Page, Problem> {
    let limit = body::limit(which.limit, DEFAULT_LIMIT, MAX_LIMIT)?;
    let run: Option<RunId> = match &which.task_id {
        None => None,
        Some(id) => Some(app.task(caller, id).await?.run_id),
    };
    let filter = RequestFilter {
        replied: which.all.unwrap_or_default(),
        kind: Some(kind),
        run,
        tenant: caller.tenant().cloned(),
        ..RequestFilter::default()
    };
    let (mut page, next) = pages::fill(
        limit,
        pages::place_in(which.cursor.as_deref())?,
        |after, limit| {
            app.runtime.requests(RequestFilter {
                after,
                limit,
                ..filter.clone()
            })
        },
        OpenRequest::place,
        shown,
    )
    .await?;
    if let Some(last) = next {
        let cursor = pages::cursor_of(&last)?;
        let path = match kind {
            AskedFor::Approval => "/api/approvals",
            AskedFor::Question => "/api/questions",
        };
        let query = [
            ("cursor", Some(cursor.clone())),
            ("all", which.all.map(|all| all.to_string())),
            ("task_id", which.task_id),
            ("limit", which.limit.map(|limit| limit.to_string())),
        ];
        page.set_next(&cursor, &pages::address(path, &query))?;
    }
    Ok(page)
}

/// Returns a request of a list, truncated; all of its text was read.
fn shown(open: &OpenRequest) -> Result<Shown<Request>, Problem> {
    let mut shown = Shown::whole(Request::from(open))?;
    shown.item = shown.item.map(Request::summary);
    Ok(shown)
}

/// Returns the open requests of a task or session: the [`MAX_BESIDE`] oldest, truncated.
pub(crate) async fn beside(
    app: &App,
    filter: RequestFilter,
    is_meant: impl Fn(&OpenRequest) -> bool,
) -> Result<Vec<Request>, Problem> {
    let open = app.runtime.requests(RequestFilter {
        limit: MAX_BESIDE,
        ..filter
    });
    let open = open.await?;
    let meant = open.iter().filter(|open| is_meant(open));
    Ok(meant.map(|open| Request::from(open).summary()).collect())
}

#[utoipa::path(get, path = "/api/approvals", tag = "requests", params(RequestQuery),
    responses((status = 200, body = Vec<Request>)))]
/// Returns the open approval requests, oldest first.
///
/// With `all`, also those that have a reply, newest first. Long texts are truncated (`cut`); `GET
/// /api/approvals/{id}` has them whole. A response ends after `limit` requests, or earlier if they
/// are long (8 MiB). When there are more, `Sortie-Next-Cursor` and `Link: rel="next"` name the start
/// of the next page.
pub(crate) async fn approvals(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    QueryParams(which): QueryParams<RequestQuery>,
) -> Result<Page, Problem> {
    list(&app, &caller, which, AskedFor::Approval).await
}

#[utoipa::path(get, path = "/api/questions", tag = "requests", params(RequestQuery),
    responses((status = 200, body = Vec<Request>)))]
/// Returns the open questions, with pages like `GET /api/approvals`.
pub(crate) async fn questions(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    QueryParams(which): QueryParams<RequestQuery>,
) -> Result<Page, Problem> {
    list(&app, &caller, which, AskedFor::Question).await
}

#[utoipa::path(get, path = "/api/approvals/{id}", tag = "requests",
    params(("id" = String, Path)), responses((status = 200, body = Request)))]
/// Returns an approval request, with everything that an approver needs to decide.
pub(crate) async fn approval(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Request>, Problem> {
    one(&app, &caller, &id, AskedFor::Approval).await
}

#[utoipa::path(get, path = "/api/questions/{id}", tag = "requests",
    params(("id" = String, Path)), responses((status = 200, body = Request)))]
/// Returns a question.
pub(crate) async fn question(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Request>, Problem> {
    one(&app, &caller, &id, AskedFor::Question).await
}

async fn one(
    app: &App,
    caller: &Caller,
    id: &str,
    kind: AskedFor,
) -> Result<Json<Request>, Problem> {
    let found = app.request(caller, id).await?;
    if found.request.kind.asked_for() != kind {
        return Err(Problem::not_found(format!(
            "{id:?} is of the other kind; see /api/approvals and /api/questions"
        )));
    }
    Ok(Json(Request::from(&found)))
}

#[utoipa::path(post, path = "/api/approvals/{id}", tag = "requests", request_body = ApprovalBody,
    params(("id" = String, Path)), responses((status = 200, body = ReplyNoted)))]
/// Approves or denies a tool call. The first decision applies.
pub(crate) async fn approve(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
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
    app.check_reply(&caller, &request).await?;
    let by = caller.person();
    let reply = match (body.decision, body.lasting) {
        (ApprovalDecision::Approve, lasting) => {
            let is_offered = |rule: &String| approval.lasting.contains(rule);
            if caller.role() < Role::Admin && !lasting.iter().all(is_offered) {
                return Err(Problem::forbidden(
                    "only an admin may grant a rule that `lasting` of the request does not list",
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
                "`deny` applies to one call only; leave out `lasting`",
            ));
        }
    };
    noted(app.runtime.reply(&request.request.id, reply).await?)
}

#[utoipa::path(post, path = "/api/questions/{id}", tag = "requests", request_body = SteerBody,
    params(("id" = String, Path)), responses((status = 200, body = ReplyNoted)))]
/// Answers a question. The first answer applies.
pub(crate) async fn answer(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    JsonBody(body): JsonBody<SteerBody>,
) -> Result<Json<ReplyNoted>, Problem> {
    check_words(&body.text)?;
    let request = app.request(&caller, &id).await?;
    reply_to_question(&app, &caller, &request, body.text).await
}

/// Converts the result of a reply.
pub(crate) fn noted(replied: Replied) -> Result<Json<ReplyNoted>, Problem> {
    match replied {
        Replied::Accepted { .. } => Ok(Json(ReplyNoted {
            noted: true,
            earlier: None,
        })),
        Replied::TooLate { earlier } => {
            let earlier = earlier.as_ref().map(ReplyView::from);
            let problem = Problem::conflict(too_late(earlier.as_ref()));
            Err(match serde_json::to_value(earlier) {
                Ok(earlier) => problem.with("earlier", earlier),
                Err(_) => problem,
            })
        }
    }
}

/// Describes the earlier reply.
fn too_late(earlier: Option<&ReplyView>) -> String {
    let Some(earlier) = earlier else {
        return "the task no longer waits for an answer; nothing changed".to_owned();
    };
    let what = match earlier.reply {
        ReplyKind::Approved => "approved",
        ReplyKind::Refused => "denied",
        ReplyKind::Answered => "answered",
        ReplyKind::Expired => {
            return "it expired without an answer; nothing changed".to_owned();
        }
    };
    let by = earlier.by.as_deref().unwrap_or("another approver");
    format!("{by} {what} it before; nothing changed")
}
