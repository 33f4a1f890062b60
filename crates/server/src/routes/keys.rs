//! Keys, login links, and the caller.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::response::IntoResponse;
use sortie_core::tenant::Tenant;
use sortie_core::time::Timestamp;
use sortie_protocol::{Health, Key, LinkBody, LoginLink, Me, NewKey, NewKeyMade, RotateBody};

use crate::app::{App, Shared};
use crate::body::{JsonBody, MaybeJson, PathParams};
use crate::guard::Caller;
use crate::keys::{KeyError, KeyFile, NewKeyRequest, StoredKey};
use crate::problem::Problem;
use crate::routes::login;

/// The longest grace period of an old secret: a week.
const MAX_GRACE_SECONDS: u64 = 7 * 24 * 3_600;

/// The longest life of a key that expires: a hundred years.
const MAX_LIFETIME_SECONDS: u64 = 100 * 365 * 24 * 3_600;

fn key_json(app: &App, key: &StoredKey) -> Key {
    Key {
        id: key.id.clone(),
        name: key.name.clone(),
        role: key.role,
        tenant: key.tenant.as_ref().map(ToString::to_string),
        created_at: key.created_at.to_rfc3339(),
        expires_at: key.expires_at.map(Timestamp::to_rfc3339),
        last_used_at: app.keys.last_used(&key.id).map(Timestamp::to_rfc3339),
    }
}

/// Works on the file of keys on a blocking thread.
pub(crate) async fn with_file<T: Send + 'static>(
    app: &Arc<App>,
    work: impl FnOnce(&KeyFile) -> Result<T, KeyError> + Send + 'static,
) -> Result<T, Problem> {
    let app_too = Arc::clone(app);
    let done = tokio::task::spawn_blocking(move || work(app_too.keys.file())).await;
    app.keys.forget();
    match done {
        Ok(done) => Ok(done?),
        Err(error) => Err(crate::problem::internal(&error)),
    }
}

/// Returns whether a caller may see and change a key.
fn is_theirs(caller: &Caller, key: &StoredKey) -> bool {
    caller.sees(key.tenant.as_ref())
}

async fn require_theirs(app: &Arc<App>, caller: &Caller, id: &str) -> Result<(), Problem> {
    let keys = with_file(app, KeyFile::list).await?;
    let known = keys.iter().find(|key| key.id == id);
    if known.is_some_and(|key| is_theirs(caller, key)) {
        Ok(())
    } else {
        Err(KeyError::NoSuchKey(id.to_owned()).into())
    }
}

#[utoipa::path(get, path = "/api/keys", tag = "keys",
    responses((status = 200, body = Vec<Key>)))]
/// Returns the keys, oldest first.
pub(crate) async fn list(
    State(Shared(app)): State<Shared>,
    caller: Caller,
) -> Result<Json<Vec<Key>>, Problem> {
    let keys = with_file(&app, KeyFile::list).await?;
    let theirs = keys.iter().filter(|key| is_theirs(&caller, key));
    Ok(Json(theirs.map(|key| key_json(&app, key)).collect()))
}

#[utoipa::path(post, path = "/api/keys", tag = "keys", request_body = NewKey,
    responses((status = 201, body = NewKeyMade)))]
/// Creates a key. The response is the only place that has its token.
pub(crate) async fn create(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    JsonBody(body): JsonBody<NewKey>,
) -> Result<impl IntoResponse, Problem> {
    refuse_to_keep(&headers)?;
    let tenant = body
        .tenant
        .map(|name| name.parse::<Tenant>())
        .transpose()
        .map_err(|error| Problem::bad(error.to_string()))?;
    let tenant = match (caller.tenant(), tenant) {
        (None, tenant) => tenant,
        (Some(own), None) => Some(own.clone()),
        (Some(own), Some(wanted)) if *own == wanted => Some(wanted),
        (Some(_), Some(_)) => {
            return Err(Problem::forbidden(
                "a key of a tenant can only create keys of that tenant",
            ));
        }
    };
    if body
        .expires_seconds
        .is_some_and(|seconds| seconds > MAX_LIFETIME_SECONDS)
    {
        return Err(Problem::bad(format!(
            "`expires_seconds` must be at most {MAX_LIFETIME_SECONDS}; leave it out for a key that never expires"
        )));
    }
    let now = app.runtime.now();
    let request = NewKeyRequest {
        name: body.name,
        role: body.role.min(caller.role()),
        tenant,
        expires_at: body.expires_seconds.map(|seconds| later(now, seconds)),
    };
    let (key, token) = with_file(&app, move |file| file.create(request, now)).await?;
    tracing::info!(key = key.id, by = caller.person(), "created a key");
    let made = NewKeyMade {
        key: key_json(&app, &key),
        token: token.reveal(),
    };
    Ok((StatusCode::CREATED, Json(made)))
}

/// Refuses an idempotency key: a response with a token must not be recorded.
fn refuse_to_keep(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key(HeaderName::from_static("idempotency-key")) {
        return Err(Problem::bad(
            "a token is shown once and not recorded; leave out Idempotency-Key",
        ));
    }
    Ok(())
}

fn later(now: Timestamp, seconds: u64) -> Timestamp {
    now.plus_ms(i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX))
}

#[utoipa::path(delete, path = "/api/keys/{id}", tag = "keys",
    params(("id" = String, Path)), responses((status = 200, body = Key)))]
/// Revokes a key, and ends its browser sessions.
pub(crate) async fn revoke(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Key>, Problem> {
    require_theirs(&app, &caller, &id).await?;
    let key = with_file(&app, move |file| file.revoke(&id)).await?;
    tracing::info!(key = key.id, by = caller.person(), "revoked a key");
    Ok(Json(key_json(&app, &key)))
}

#[utoipa::path(post, path = "/api/keys/{id}/rotate", tag = "keys",
    request_body = Option<RotateBody>,
    params(("id" = String, Path)), responses((status = 200, body = NewKeyMade)))]
/// Gives a key a new secret. The old one may stay valid for a grace period.
pub(crate) async fn rotate(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    PathParams(id): PathParams<String>,
    MaybeJson(body): MaybeJson<RotateBody>,
) -> Result<Json<NewKeyMade>, Problem> {
    refuse_to_keep(&headers)?;
    require_theirs(&app, &caller, &id).await?;
    if body
        .grace_seconds
        .is_some_and(|grace| grace > MAX_GRACE_SECONDS)
    {
        return Err(Problem::bad(format!(
            "`grace_seconds` must be at most {MAX_GRACE_SECONDS}"
        )));
    }
    let now = app.runtime.now();
    let until = body.grace_seconds.map(|grace| later(now, grace));
    let (key, token) = with_file(&app, move |file| file.rotate(&id, until, now)).await?;
    tracing::info!(key = key.id, by = caller.person(), "rotated a key");
    Ok(Json(NewKeyMade {
        key: key_json(&app, &key),
        token: token.reveal(),
    }))
}

#[utoipa::path(post, path = "/api/login-links", tag = "keys", request_body = Option<LinkBody>,
    responses((status = 201, body = LoginLink)))]
/// Creates a link that logs a browser in, once, within five minutes.
pub(crate) async fn link(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    MaybeJson(body): MaybeJson<LinkBody>,
) -> Result<impl IntoResponse, Problem> {
    refuse_to_keep(&headers)?;
    let pass = caller.pass(body.role.unwrap_or(caller.role()));
    let (code, expires_at) = app
        .links
        .make(pass, app.runtime.now())
        .map_err(|error| crate::problem::internal(&error))?;
    // The guard has checked that this is a name of the server.
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .unwrap_or("localhost");
    let scheme = if login::is_https(&headers) {
        "https"
    } else {
        "http"
    };
    let link = LoginLink {
        url: format!("{scheme}://{host}/login?code={code}"),
        expires_at: expires_at.to_rfc3339(),
    };
    Ok((StatusCode::CREATED, Json(link)))
}

/// Returns the caller.
#[utoipa::path(get, path = "/api/me", tag = "keys", responses((status = 200, body = Me)))]
pub(crate) async fn me(State(Shared(app)): State<Shared>, caller: Caller) -> Json<Me> {
    Json(caller.me(&app))
}

#[utoipa::path(post, path = "/api/logout", tag = "keys",
    responses((status = 200, body = Health)))]
/// Ends a browser session.
pub(crate) async fn logout(
    State(Shared(app)): State<Shared>,
    caller: Caller,
) -> Result<impl IntoResponse, Problem> {
    if let Some(session) = caller.session().map(str::to_owned) {
        with_file(&app, move |file| file.end_session(&session)).await?;
    }
    let gone = format!(
        "{}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0",
        app.cookie
    );
    let gone = HeaderValue::from_str(&gone).map_err(|error| crate::problem::internal(&error))?;
    Ok(([(header::SET_COOKIE, gone)], Json(Health::of("ok"))))
}
