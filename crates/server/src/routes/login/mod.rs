//! Browser login: with a link that works once, or with a pasted token. Afterwards the browser shows
//! the address that it asked for before.

mod render;

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Query, Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{AppendHeaders, IntoResponse, Response};
use serde::Deserialize;
use sortie_protocol::MAX_NONCE_CHARS;

use crate::app::{App, Shared};
use crate::body::{self, QueryParams};
use crate::deep_link;
use crate::guard::{ClaimedIdentity, cookie, failed, peer};
use crate::keys::{Authenticated, Credential};
use crate::links::Pass;
use crate::problem::{Kind, Problem};
use crate::routes::keys::with_file;
use render::Notice;

/// How long a browser session lasts: seven days.
const SESSION_SECONDS: i64 = 7 * 24 * 3_600;
/// The name of the page key in the fragment of the page's first address.
const PAGE_KEY_FRAGMENT: &str = "page-key";

/// The query of a login link, or of the form.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Carried {
    code: Option<String>,
    /// The address after the login.
    next: Option<String>,
}

/// Shows the login form, or logs in with a link.
pub(crate) async fn form(State(Shared(app)): State<Shared>, request: Request) -> Response {
    let carried = Query::<Carried>::try_from_uri(request.uri());
    let Carried { code, next } = carried.map_or_else(|_| Carried::default(), |Query(found)| found);
    let headers = request.headers();
    let Some(code) = code else {
        let next = next.as_deref().and_then(deep_link::of_page);
        return show(&app, headers, StatusCode::OK, Notice::None, next);
    };
    if request.method() == Method::HEAD || is_prefetch(headers) {
        // A link preview must not use the link up.
        return StatusCode::NO_CONTENT.into_response();
    }
    let address = peer(&request);
    match follow(&app, address, headers, &code).await {
        Ok(response) => response,
        Err(problem) => refused(&app, headers, problem),
    }
}

/// Returns the style sheet of the form.
pub(crate) async fn style() -> impl IntoResponse {
    render::style().await
}

/// Shows the form in the language of the browser, and keeps the address for a login link, which the
/// user opens in another tab.
fn show(
    app: &App,
    headers: &HeaderMap,
    status: StatusCode,
    notice: Notice<'_>,
    next: Option<&str>,
) -> Response {
    let lang = render::lang_of(headers, app.config.lang);
    let mut response = render::page(status, lang, notice, next);
    if let Some(cookie) = next.and_then(|next| deep_link::keep(app, next)) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

/// Returns the form for a browser without a session.
pub(crate) fn needs_login(app: &App, request: &Request) -> Response {
    let wanted = request.uri().path_and_query();
    let wanted = wanted.map(axum::http::uri::PathAndQuery::as_str);
    let next = wanted.and_then(deep_link::of_page);
    let headers = request.headers();
    show(app, headers, StatusCode::UNAUTHORIZED, Notice::None, next)
}

/// Logs in with a link. A foreign page can make a browser follow a link too, which would leave the
/// browser logged in with the key of an attacker; in that case the user has to confirm first.
async fn follow(
    app: &Arc<App>,
    address: IpAddr,
    headers: &HeaderMap,
    code: &str,
) -> Result<Response, Problem> {
    if is_cross_site(headers) || is_logged_in_otherwise(app, headers, code)? {
        let notice = Notice::Confirm(code);
        return Ok(show(app, headers, StatusCode::OK, notice, None));
    }
    by_code(app, address, headers, code).await
}

/// Returns whether a foreign page may have sent the browser here. For a typed address, or one that
/// another program opened, browsers send `Sec-Fetch-Site: none`; to untrusted addresses, which is
/// everything without TLS on other machines, they send nothing.
fn is_cross_site(headers: &HeaderMap) -> bool {
    headers
        .get(HeaderName::from_static("sec-fetch-site"))
        .is_none_or(|site| site != "none" && site != "same-origin")
}

/// Returns the login that the browser has.
fn logged_in(app: &App, headers: &HeaderMap) -> Result<Option<Authenticated>, Problem> {
    match cookie(app, headers).and_then(Credential::of_cookie) {
        Some(shown) => Ok(app.keys.by_cookie(&shown, app.runtime.now())?),
        None => Ok(None),
    }
}

/// Returns whether the browser is logged in with another key than that of the link.
fn is_logged_in_otherwise(app: &App, headers: &HeaderMap, code: &str) -> Result<bool, Problem> {
    let found = logged_in(app, headers)?;
    let pass = app.links.peek(code, app.runtime.now());
    Ok(found
        .zip(pass)
        .is_some_and(|(found, pass)| found.key != pass.key))
}

/// The query of a client that verifies the server before it sends its token.
#[derive(Debug, Deserialize)]
pub(crate) struct Challenge {
    nonce: String,
}

/// Proves that this is the server that wrote `server.json`. Reveals nothing else.
pub(crate) async fn proof(
    State(Shared(app)): State<Shared>,
    QueryParams(challenge): QueryParams<Challenge>,
) -> Result<impl IntoResponse, Problem> {
    let answer = app.config.proof.answer(&challenge.nonce).ok_or_else(|| {
        Problem::bad(format!(
            "`nonce` must have 1 to {MAX_NONCE_CHARS} hexadecimal digits"
        ))
    })?;
    Ok((
        [(header::CONTENT_TYPE, "text/plain; charset=utf-8")],
        answer,
    ))
}

/// Logs in with a pasted token, or with a link that the user confirmed. The guard has checked the
/// origin of the form.
pub(crate) async fn submit(State(Shared(app)): State<Shared>, request: Request) -> Response {
    let headers = request.headers().clone();
    match by_form(&app, request).await {
        Ok(response) => response,
        Err(problem) => refused(&app, &headers, problem),
    }
}

fn refused(app: &App, headers: &HeaderMap, problem: Problem) -> Response {
    if problem.kind() != Kind::Unauthorized {
        return problem.into_response();
    }
    let next = deep_link::kept(app, headers);
    let status = StatusCode::UNAUTHORIZED;
    show(app, headers, status, Notice::Refused, next.as_deref())
}

async fn by_code(
    app: &Arc<App>,
    address: IpAddr,
    headers: &HeaderMap,
    code: &str,
) -> Result<Response, Problem> {
    let Some(pass) = app.links.take(code, app.runtime.now()) else {
        // A restored tab or a second click on a used link: the browser has what the link would give.
        if logged_in(app, headers)?.is_some() {
            let page = [(header::LOCATION, HeaderValue::from_static("/"))];
            return Ok((StatusCode::SEE_OTHER, page).into_response());
        }
        return Err(failed(app, address, &ClaimedIdentity::Code));
    };
    let next = deep_link::kept(app, headers);
    log_in(app, headers, pass, next.as_deref()).await
}

async fn by_form(app: &Arc<App>, request: Request) -> Result<Response, Problem> {
    #[derive(Deserialize)]
    struct Form {
        token: Option<String>,
        code: Option<String>,
        next: Option<String>,
    }
    let address = peer(&request);
    let headers = request.headers().clone();
    let bytes = body::read(app, request).await?;
    let form = std::str::from_utf8(&bytes)
        .ok()
        .and_then(|text| format!("/?{text}").parse::<Uri>().ok())
        .and_then(|uri| Query::<Form>::try_from_uri(&uri).ok())
        .map(|Query(form)| (form.token, form.code, form.next));
    match form {
        Some((Some(token), None, next)) => {
            let next = next.as_deref().and_then(deep_link::of_page);
            by_token(app, address, &headers, &token, next).await
        }
        Some((None, Some(code), _)) => by_code(app, address, &headers, &code).await,
        Some((Some(_), Some(_), _) | (None, None, _)) | None => Err(Problem::bad(
            "the form must have the field `token` or `code`",
        )),
    }
}

async fn by_token(
    app: &Arc<App>,
    address: IpAddr,
    headers: &HeaderMap,
    token: &str,
    next: Option<&str>,
) -> Result<Response, Problem> {
    let shown = Credential::of_token(token.trim());
    let claimed = shown.as_ref().map_or(ClaimedIdentity::Malformed, |shown| {
        ClaimedIdentity::key(shown.id)
    });
    let found = match &shown {
        Some(shown) => app.keys.by_token(shown, app.runtime.now())?,
        None => None,
    };
    let found = found.ok_or_else(|| failed(app, address, &claimed))?;
    // Each login writes a file.
    app.rates.take(&found.key)?;
    log_in(app, headers, found.pass(found.role), next).await
}

/// Creates the session: sets the cookie, and passes the page key to the page at the address.
async fn log_in(
    app: &Arc<App>,
    headers: &HeaderMap,
    pass: Pass,
    next: Option<&str>,
) -> Result<Response, Problem> {
    let now = app.runtime.now();
    let until = now.plus_ms(SESSION_SECONDS * 1_000);
    let session = with_file(app, move |file| file.add_session(&pass, now, until)).await?;
    let secure = if is_https(headers) { "; Secure" } else { "" };
    let cookie = format!(
        "{}={}; HttpOnly; SameSite=Strict; Path=/; Max-Age={SESSION_SECONDS}{secure}",
        app.cookie,
        session.cookie.cookie()
    );
    let mut cookie = HeaderValue::from_str(&cookie)
        .map_err(|_| Problem::new(Kind::Internal, "the cookie cannot be sent"))?;
    cookie.set_sensitive(true);
    // Browsers do not send fragments to servers. The page moves the key into the storage of its
    // origin, which belongs to this port alone, unlike the cookie.
    let page = next.unwrap_or("/");
    let page = format!("{page}#{PAGE_KEY_FRAGMENT}={}", session.page_key);
    let mut page = HeaderValue::from_str(&page)
        .map_err(|_| Problem::new(Kind::Internal, "the page key cannot be sent"))?;
    page.set_sensitive(true);
    let forget = deep_link::forget(app).map(|cookie| (header::SET_COOKIE, cookie));
    Ok((
        StatusCode::SEE_OTHER,
        [(header::SET_COOKIE, cookie), (header::LOCATION, page)],
        AppendHeaders(forget),
        (),
    )
        .into_response())
}

/// Returns whether the browser uses TLS to a proxy. A forged header only makes the cookie stricter.
pub(crate) fn is_https(headers: &HeaderMap) -> bool {
    let forwarded = headers
        .get(HeaderName::from_static("x-forwarded-proto"))
        .is_some_and(|scheme| scheme == "https");
    let origin = headers
        .get(header::ORIGIN)
        .and_then(|origin| origin.to_str().ok())
        .is_some_and(|origin| origin.starts_with("https://"));
    forwarded || origin
}

fn is_prefetch(headers: &HeaderMap) -> bool {
    ["sec-purpose", "purpose", "x-moz"].into_iter().any(|name| {
        headers
            .get(HeaderName::from_static(name))
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.to_ascii_lowercase().contains("prefetch"))
    })
}
