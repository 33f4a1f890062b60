//! How a browser comes in: by a link that works once, or by a pasted token. No script, no data.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Query, Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;
use sortie_core::Lang;
use sortie_protocol::MAX_NONCE_CHARS;
use sortie_text::t;

use crate::app::{App, Shared};
use crate::body::{self, Asked};
use crate::guard::{Claimed, cookie, failed, peer};
use crate::keys::Credential;
use crate::links::Pass;
use crate::problem::{Kind, Problem};
use crate::routes::keys::with_file;

/// How long a browser stays in: seven days.
const SESSION_SECONDS: i64 = 7 * 24 * 3_600;
/// The name that the page finds its key by in the fragment of its first address.
const PAGE_KEY_FRAGMENT: &str = "page-key";

/// What a link carries.
#[derive(Debug, Deserialize)]
pub(crate) struct Carried {
    code: Option<String>,
}

/// The form, or the way in for somebody with a link.
pub(crate) async fn form(State(Shared(app)): State<Shared>, request: Request) -> Response {
    let carried = Query::<Carried>::try_from_uri(request.uri());
    let code = carried.ok().and_then(|Query(carried)| carried.code);
    let Some(code) = code else {
        return page(StatusCode::OK, app.config.lang, Words::Form);
    };
    if request.method() == Method::HEAD || is_prefetch(request.headers()) {
        // Whoever only looks ahead does not use the link up.
        return StatusCode::NO_CONTENT.into_response();
    }
    let address = peer(&request);
    let headers = request.headers().clone();
    match follow(&app, address, &headers, &code).await {
        Ok(response) => response,
        Err(problem) => refused(&app, problem),
    }
}

/// Lets somebody in who really follows a link. A page of somebody else can make a browser follow one
/// too, and would leave it in the name of another; then, whoever sits in front of it is asked first.
async fn follow(
    app: &Arc<App>,
    address: IpAddr,
    headers: &HeaderMap,
    code: &str,
) -> Result<Response, Problem> {
    if comes_from_elsewhere(headers) || is_somebody_else(app, headers, code)? {
        return Ok(page(StatusCode::OK, app.config.lang, Words::Confirm(code)));
    }
    by_code(app, address, headers, code).await
}

/// Whether a page of somebody else may have sent the browser here. An address that was typed, or
/// opened by another program, comes from nowhere, and browsers say so; to addresses that they do not
/// trust, which is all without TLS on other machines, they say nothing.
fn comes_from_elsewhere(headers: &HeaderMap) -> bool {
    headers
        .get(HeaderName::from_static("sec-fetch-site"))
        .is_none_or(|site| site != "none" && site != "same-origin")
}

/// Whether the browser is in already, by another key than that of the link.
fn is_somebody_else(app: &App, headers: &HeaderMap, code: &str) -> Result<bool, Problem> {
    let now = app.runtime.now();
    let Some(shown) = cookie(app, headers).and_then(Credential::of_cookie) else {
        return Ok(false);
    };
    let found = app.keys.by_cookie(&shown, now)?;
    let pass = app.links.look(code, now);
    Ok(found
        .zip(pass)
        .is_some_and(|(found, pass)| found.key != pass.key))
}

/// What a client asks before it shows its token to whoever listens here.
#[derive(Debug, Deserialize)]
pub(crate) struct Challenge {
    nonce: String,
}

/// Shows that this is the server that wrote its file, and nothing else.
pub(crate) async fn proof(
    State(Shared(app)): State<Shared>,
    Asked(challenge): Asked<Challenge>,
) -> Result<impl IntoResponse, Problem> {
    let answer = app.config.proof.answer(&challenge.nonce).ok_or_else(|| {
        Problem::bad(format!(
            "`nonce` has 1 to {MAX_NONCE_CHARS} hexadecimal digits"
        ))
    })?;
    Ok((
        [(header::CONTENT_TYPE, "text/plain; charset=utf-8")],
        answer,
    ))
}

/// A pasted token, or a link that somebody was asked about. The guard has checked that the form is ours.
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
        return Err(failed(app, address, &Claimed::Code));
    };
    come_in(app, headers, pass).await
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
        Some((Some(_), Some(_)) | (None, None)) | None => {
            Err(Problem::bad("the form has one field: token or code"))
        }
    }
}

async fn by_token(
    app: &Arc<App>,
    address: IpAddr,
    headers: &HeaderMap,
    token: &str,
) -> Result<Response, Problem> {
    let shown = Credential::of_token(token.trim());
    let claimed = shown
        .as_ref()
        .map_or(Claimed::Malformed, |shown| Claimed::key(shown.id));
    let found = match &shown {
        Some(shown) => app.keys.by_token(shown, app.runtime.now())?,
        None => None,
    };
    let found = found.ok_or_else(|| failed(app, address, &claimed))?;
    // Each time writes a file.
    app.rates.take(&found.key)?;
    come_in(app, headers, found.pass(found.role)).await
}

/// Gives a browser its cookie, and the page its key.
async fn come_in(app: &Arc<App>, headers: &HeaderMap, pass: Pass) -> Result<Response, Problem> {
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
    // The browser sends no server a fragment. The page moves the key into the storage of its origin,
    // which, other than the cookie, belongs to this port alone.
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

/// Whether the browser speaks to something in front of us that has a certificate. A lie only makes the
/// cookie stricter.
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

/// What a page says above its form.
#[derive(Clone, Copy, Debug)]
enum Words<'a> {
    Form,
    Needed,
    Refused,
    /// Somebody has a link with this code, and may not know.
    Confirm(&'a str),
}

/// For somebody who came without a cookie.
pub(crate) fn needs_login(lang: Lang) -> Response {
    page(StatusCode::UNAUTHORIZED, lang, Words::Needed)
}

/// A page in both languages, that of the server first.
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
