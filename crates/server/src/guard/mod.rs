//! The checks that every request passes first: Host, Origin, credentials, role, rate. None of them
//! can be disabled.

mod failures;
mod names;
mod rates;

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::Method;
use axum::http::header::{self, HeaderMap, HeaderName};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use sortie_core::tenant::Tenant;
use sortie_core::time::Timestamp;
use sortie_protocol::{Me, Role, Via};
use tokio::sync::OwnedSemaphorePermit;

pub(crate) use failures::{ClaimedIdentity, Failures};
pub(crate) use names::Names;
pub(crate) use rates::Rates;

use crate::access;
use crate::anonymous::AnonymousConnection;
use crate::app::{App, Shared};
use crate::keys::{Authenticated, Credential};
use crate::links::Pass;
use crate::problem::{Kind, Problem};
use crate::routes::sse::HEARTBEAT;
use crate::routes::{Access, login};

/// The login form, which needs no credentials.
pub(crate) const LOGIN: &str = "/login";
/// The style sheet of the login form, which needs none either.
pub(crate) const STYLE: &str = "/login/style.css";
/// The other path that needs no credentials: it only proves the identity of the server.
pub(crate) const PROOF: &str = "/login/proof";

/// The header with the page key.
const PAGE_KEY_HEADER: HeaderName = HeaderName::from_static("sortie-page-key");
/// The prefix of the WebSocket subprotocol that carries the page key: a page cannot set headers of a
/// handshake.
const PAGE_KEY_PROTOCOL: &str = "sortie.page-key.";

/// The origin of a request. Set by the listener.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    pub(crate) anonymous: Arc<AnonymousConnection>,
    /// The permit of the connection. It is released with the last clone, so whatever a connection
    /// becomes keeps one.
    #[expect(
        dead_code,
        reason = "dropped with the connection, which releases the permit"
    )]
    pub(crate) slot: Arc<OwnedSemaphorePermit>,
}

#[derive(Clone, Debug)]
pub(crate) struct Caller(Arc<Authenticated>);

impl Caller {
    pub(crate) fn key(&self) -> &str {
        &self.0.key
    }

    /// Creates a pass for a browser, with at most this role.
    pub(crate) fn pass(&self, role: Role) -> Pass {
        self.0.pass(role)
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    pub(crate) fn role(&self) -> Role {
        self.0.role
    }

    pub(crate) fn tenant(&self) -> Option<&Tenant> {
        self.0.tenant.as_ref()
    }

    pub(crate) fn session(&self) -> Option<&str> {
        self.0.session.as_deref()
    }

    /// Returns whether the caller would still be authorized.
    fn is_still_valid(&self, app: &App) -> bool {
        app.keys.is_still_valid(&self.0, app.runtime.now())
    }

    /// Returns when the caller would no longer be authorized. Checks at each heartbeat, however slowly
    /// the client reads.
    pub(crate) async fn revoked(&self, app: &App) {
        loop {
            tokio::time::sleep(HEARTBEAT).await;
            if !self.is_still_valid(app) {
                return;
            }
        }
    }

    /// Returns the name of the caller in records.
    pub(crate) fn person(&self) -> String {
        match self.0.via {
            Via::Key => format!("api:{}", self.0.name),
            Via::Browser => format!("web:{}", self.0.name),
        }
    }

    /// Returns whether the caller is an admin without a tenant.
    pub(crate) fn is_global_admin(&self) -> bool {
        self.0.role == Role::Admin && self.0.tenant.is_none()
    }

    /// Returns whether the caller may see data of this tenant.
    pub(crate) fn sees(&self, tenant: Option<&Tenant>) -> bool {
        self.0.tenant.is_none() || self.0.tenant.as_ref() == tenant
    }

    pub(crate) fn me(&self, app: &App) -> Me {
        Me {
            name: self.0.name.clone(),
            role: self.0.role,
            tenant: self.0.tenant.as_ref().map(ToString::to_string),
            via: self.0.via,
            expires_at: self.0.expires_at.map(Timestamp::to_rfc3339),
            lang: app.config.lang,
        }
    }
}

impl From<Authenticated> for Caller {
    fn from(found: Authenticated) -> Self {
        Self(Arc::new(found))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        // Missing only if the guard did not run.
        parts
            .extensions
            .get::<Self>()
            .cloned()
            .ok_or_else(|| Problem::new(Kind::Unauthorized, "send a token"))
    }
}

/// Checks a request, and passes it on if it is authorized.
pub(crate) async fn guard(
    State(Shared(app)): State<Shared>,
    mut request: Request,
    next: Next,
) -> Response {
    match authorize(&app, &request) {
        Err(problem) => refusal(&app, &request, problem),
        Ok(authorized) => {
            let who = authorized.as_ref().map(|(caller, _)| caller.clone());
            if let Some((caller, access)) = authorized {
                request.extensions_mut().insert(caller);
                request.extensions_mut().insert(access);
            }
            let mut response = run_handler(&app, request, next).await;
            if let Some(who) = who {
                response.extensions_mut().insert(who);
            }
            response
        }
    }
}

/// Runs the handler, and turns a timeout or a panic into a response. A handler that changes something
/// completes even if its client disconnects.
async fn run_handler(app: &App, request: Request, next: Next) -> Response {
    let only_looks = matches!(*request.method(), Method::GET | Method::HEAD);
    // A handler that outlives its client still counts as a connection.
    let peer = request.extensions().get::<Peer>().cloned();
    let handler = async move {
        let handled = AssertUnwindSafe(next.run(request)).catch_unwind().await;
        drop(peer);
        handled.unwrap_or_else(|_panic| {
            tracing::error!("a handler panicked");
            Problem::new(
                Kind::Internal,
                "internal error; the log of the server has the cause",
            )
            .into_response()
        })
    };
    let answered = async {
        if only_looks {
            Some(handler.await)
        } else {
            app.complete(handler).await
        }
    };
    match tokio::time::timeout(app.config.limits.handler_timeout, answered).await {
        Ok(Some(response)) => response,
        Ok(None) => Problem::new(
            Kind::Unavailable,
            "the server is stopping; check the outcome once it is back",
        )
        .into_response(),
        Err(_elapsed) => Problem::new(
            Kind::Overdue,
            "the request has not completed yet and may still take effect; check before you retry",
        )
        .retry_after(1)
        .into_response(),
    }
}

/// Runs the checks in their order. Returns `None` for the routes that need no credentials.
fn authorize(app: &App, request: &Request) -> Result<Option<(Caller, Access)>, Problem> {
    app.names.check_host(request)?;
    let headers = request.headers();
    let same_origin = app.names.check_origin(headers)?;
    let looks_or_posts = matches!(*request.method(), Method::GET | Method::HEAD | Method::POST);
    let path = request.uri().path();
    let looks = *request.method() == Method::GET;
    if path == LOGIN && looks_or_posts || (path == PROOF || path == STYLE) && looks {
        return Ok(None);
    }
    let found = identify(app, request)?;
    if found.via == Via::Browser && is_unsafe(request) && !(same_origin || fetched_here(headers)) {
        return Err(Problem::forbidden(
            "a browser must send this from the page itself, with its Origin",
        ));
    }
    let access = match request.extensions().get::<MatchedPath>() {
        Some(path) => app.access.needed(request.method(), path.as_str()),
        // The files of the page.
        None => Access::VIEWER,
    };
    if found.role < access.role {
        return Err(Problem::forbidden(format!(
            "this route needs the role {}; the key {:?} has the role {}",
            access.role, found.name, found.role
        )));
    }
    app.rates.take(&found.key)?;
    if let Some(peer) = request.extensions().get::<Peer>() {
        peer.anonymous.authenticated();
    }
    Ok(Some((Caller::from(found), access)))
}

/// Returns whether a foreign page could make a browser send this request with the user's cookie.
fn is_unsafe(request: &Request) -> bool {
    !matches!(*request.method(), Method::GET | Method::HEAD)
        || request.headers().contains_key(header::UPGRADE)
}

fn fetched_here(headers: &HeaderMap) -> bool {
    headers
        .get(HeaderName::from_static("sec-fetch-site"))
        .is_some_and(|site| site == "same-origin")
}

/// Authenticates the caller by token or cookie.
fn identify(app: &App, request: &Request) -> Result<Authenticated, Problem> {
    let address = peer(request);
    let now = app.runtime.now();
    if let Some(value) = request.headers().get(header::AUTHORIZATION) {
        let shown = value
            .to_str()
            .ok()
            .and_then(|text| text.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .and_then(|(_, token)| Credential::of_token(token.trim()));
        let claimed = shown.as_ref().map_or(ClaimedIdentity::Malformed, |shown| {
            ClaimedIdentity::key(shown.id)
        });
        let found = match &shown {
            Some(shown) => app.keys.by_token(shown, now)?,
            None => None,
        };
        return found.ok_or_else(|| failed(app, address, &claimed));
    }
    let Some(text) = cookie(app, request.headers()) else {
        return Err(Problem::new(
            Kind::Unauthorized,
            "send a token: `Authorization: Bearer sortie_…`. `sortie keys create` makes one",
        ));
    };
    let shown = Credential::of_cookie(text);
    let claimed = shown.as_ref().map_or(ClaimedIdentity::Malformed, |shown| {
        ClaimedIdentity::browser(shown.id)
    });
    let found = match (&shown, page_key(request.headers())) {
        (Some(shown), Some(page_key)) => app.keys.by_cookie_and_page_key(shown, page_key, now)?,
        (Some(shown), None) if is_page_file(request) => app.keys.by_cookie(shown, now)?,
        (Some(_), None) => {
            return Err(Problem::new(
                Kind::Unauthorized,
                "the cookie alone is not sufficient: send the page key of the same login in the \
                 header Sortie-Page-Key. If the page has lost it, log in again",
            ));
        }
        (None, _) => None,
    };
    found.ok_or_else(|| failed(app, address, &claimed))
}

/// Returns the page key: from its header, or from a subprotocol of a WebSocket.
fn page_key(headers: &HeaderMap) -> Option<&str> {
    if let Some(value) = headers.get(PAGE_KEY_HEADER) {
        return value.to_str().ok();
    }
    headers
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .find_map(|protocol| protocol.trim().strip_prefix(PAGE_KEY_PROTOCOL))
}

/// Returns whether only a file of the page can answer the request: these have no data, and a browser
/// that navigates or loads a script cannot send the header.
fn is_page_file(request: &Request) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD)
        && request.extensions().get::<MatchedPath>().is_none()
        && !access::is_api(request.uri().path())
}

/// Records a failed attempt; too many of them have to wait. Only failures are limited: a secret has
/// 32 random bytes and cannot be guessed, and otherwise anyone who knows an id could lock its owner
/// out.
pub(crate) fn failed(app: &App, address: IpAddr, claimed: &ClaimedIdentity) -> Problem {
    app.metrics.count_auth_failure();
    if let Err(too_often) = app.failures.note(address, claimed.clone()) {
        return too_often;
    }
    tracing::warn!(%address, %claimed, "invalid credentials");
    Problem::new(
        Kind::Unauthorized,
        "the token is invalid: it is misspelled, was revoked, or has expired",
    )
}

/// Returns the address of the client.
pub(crate) fn peer(request: &Request) -> IpAddr {
    request
        .extensions()
        .get::<Peer>()
        .map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.address)
}

/// Returns the cookie of the browser session.
pub(crate) fn cookie<'a>(app: &App, headers: &'a HeaderMap) -> Option<&'a str> {
    cookie_named(headers, &app.cookie)
}

/// Returns the value of a cookie.
pub(crate) fn cookie_named<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(shown, _)| *shown == name)
        .map(|(_, value)| value)
}

/// Turns a refusal into a response; for a browser, into the login page.
fn refusal(app: &App, request: &Request, problem: Problem) -> Response {
    let for_people = problem.kind() == Kind::Unauthorized
        && request.method() == Method::GET
        && !access::is_api(request.uri().path())
        && wants_html(request.headers());
    if for_people {
        return login::needs_login(app, request);
    }
    problem.into_response()
}

/// Returns whether the client is a browser that shows a page.
pub(crate) fn wants_html(headers: &HeaderMap) -> bool {
    headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"))
}
