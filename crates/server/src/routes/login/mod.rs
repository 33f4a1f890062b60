//! Browser login: with a link that works once, or with a pasted token. The pages have no scripts and
//! no data.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Query, Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;
use sortie_core::words::Lang;
use sortie_protocol::MAX_NONCE_CHARS;
use sortie_text::t;

use crate::app::{App, Shared};
use crate::body::{self, QueryParams};
use crate::guard::{ClaimedIdentity, cookie, failed, peer};
use crate::keys::Credential;
use crate::links::Pass;
use crate::problem::{Kind, Problem};
use crate::routes::keys::with_file;

/// How long a browser session lasts: seven days.
const SESSION_SECONDS: i64 = 7 * 24 * 3_600;
/// The name of the page key in the fragment of the page's first address.
const PAGE_KEY_FRAGMENT: &str = "page-key";

/// The query of a login link.
#[derive(Debug, Deserialize)]
pub(crate) struct Carried {
    code: Option<String>,
}

/// Shows the login form, or logs in with a link.
pub(crate) async fn form(State(Shared(app)): State<Shared>, request: Request) -> Response {
    let carried = Query::<Carried>::try_from_uri(request.uri());
    let code = carried.ok().and_then(|Query(carried)| carried.code);
    let Some(code) = code else {
        return page(StatusCode::OK, app.config.lang, Words::Form);
    };
    if request.method() == Method::HEAD || is_prefetch(request.headers()) {
        // A link preview must not use the link up.
        return StatusCode::NO_CONTENT.into_response();
    }
    let address = peer(&request);
    let headers = request.headers().clone();
    match follow(&app, address, &headers, &code).await {
        Ok(response) => response,
        Err(problem) => refused(&app, problem),
    }
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
        return Ok(page(StatusCode::OK, app.config.lang, Words::Confirm(code)));
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

/// Returns whether the browser is logged in with another key than that of the link.
fn is_logged_in_otherwise(app: &App, headers: &HeaderMap, code: &str) -> Result<bool, Problem> {
    let now = app.runtime.now();
    let Some(shown) = cookie(app, headers).and_then(Credential::of_cookie) else {
        return Ok(false);
    };
    let found = app.keys.by_cookie(&shown, now)?;
    let pass = app.links.peek(code, now);
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
    match by_form(&app, request).await {
        Ok(response) => response,
        Err(problem) => refused(&app, problem),
    }
}

fn refused(app: &App, problem: Problem) -> Response {
    if problem.kind() == Kind::Unauthorized {
        return page(StatusCode::UNAUTHORIZED, app.config.lang, Words::Refused);
    }
    problem.into_response()
}

async fn by_code(
    app: &Arc<App>,
    address: IpAddr,
    headers: &HeaderMap,
    code: &str,
) -> Result<Response, Problem> {
    let Some(pass) = app.links.take(code, app.runtime.now()) else {
        return Err(failed(app, address, &ClaimedIdentity::Code));
    };
    log_in(app, headers, pass).await
}

async fn by_form(app: &Arc<App>, request: Request) -> Result<Response, Problem> {
    #[derive(Deserialize)]
    struct Form {
        token: Option<String>,
        code: Option<String>,
    }
    let address = peer(&request);
    let headers = request.headers().clone();
    let bytes = body::read(app, request).await?;
    let form = std::str::from_utf8(&bytes)
        .ok()
        .and_then(|text| format!("/?{text}").parse::<Uri>().ok())
        .and_then(|uri| Query::<Form>::try_from_uri(&uri).ok())
        .map(|Query(form)| (form.token, form.code));
    match form {
        Some((Some(token), None)) => by_token(app, address, &headers, &token).await,
        Some((None, Some(code))) => by_code(app, address, &headers, &code).await,
        Some((Some(_), Some(_)) | (None, None)) | None => Err(Problem::bad(
            "the form must have the field `token` or `code`",
        )),
    }
}

async fn by_token(
    app: &Arc<App>,
    address: IpAddr,
    headers: &HeaderMap,
    token: &str,
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
    log_in(app, headers, found.pass(found.role)).await
}

/// Creates the session: sets the cookie, and passes the page key to the page.
async fn log_in(app: &Arc<App>, headers: &HeaderMap, pass: Pass) -> Result<Response, Problem> {
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
    let page = format!("/#{PAGE_KEY_FRAGMENT}={}", session.page_key);
    let mut page = HeaderValue::from_str(&page)
        .map_err(|_| Problem::new(Kind::Internal, "the page key cannot be sent"))?;
    page.set_sensitive(true);
    Ok((
        StatusCode::SEE_OTHER,
        [(header::SET_COOKIE, cookie), (header::LOCATION, page)],
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

/// The text above the form.
#[derive(Clone, Copy, Debug)]
enum Words<'a> {
    Form,
    Needed,
    Refused,
    /// The user followed a link with this code, possibly unknowingly.
    Confirm(&'a str),
}

/// Returns the page for a browser without a session.
pub(crate) fn needs_login(lang: Lang) -> Response {
    page(StatusCode::UNAUTHORIZED, lang, Words::Needed)
}

/// Renders a page in both languages, that of the server first.
fn page(status: StatusCode, lang: Lang, words: Words<'_>) -> Response {
    let other = match lang {
        Lang::En => Lang::Zh,
        Lang::Zh => Lang::En,
    };
    let said = |lang: Lang| {
        let words = match words {
            Words::Form => t!(lang, "login-form"),
            Words::Needed => t!(lang, "login-needed"),
            Words::Refused => t!(lang, "login-refused"),
            Words::Confirm(_) => t!(lang, "login-confirm"),
        };
        format!("<p lang=\"{lang}\">{}</p>", escaped(&words))
    };
    let field = match words {
        Words::Confirm(code) => format!(
            "<input type=\"hidden\" name=\"code\" value=\"{}\">",
            escaped(code)
        ),
        Words::Form | Words::Needed | Words::Refused => format!(
            "<label>{} <input type=\"password\" name=\"token\" autocomplete=\"off\" required></label>",
            escaped(&t!(lang, "login-token"))
        ),
    };
    let button = escaped(&t!(lang, "login-button"));
    let html = format!(
        "<!doctype html>\n<html lang=\"{lang}\">\n<head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Sortie</title></head>\n\
         <body>\n<h1>Sortie</h1>\n{}\n{}\n\
         <form method=\"post\" action=\"/login\">{field} <button>{button}</button></form>\n\
         </body>\n</html>\n",
        said(lang),
        said(other)
    );
    (status, Html(html)).into_response()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
