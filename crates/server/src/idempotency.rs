//! Idempotency keys: a request with an `Idempotency-Key` takes effect once, however often it is sent,
//! also across restarts.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::request::Parts;
use axum::http::{Extensions, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use sha2::{Digest as _, Sha256};
use sortie_core::id::{RunId, hex};
use sortie_core::ports::store::{Begun, StoreError};
use sortie_protocol::Task;
use sortie_runtime::RuntimeError;

use crate::app::{App, Shared};
use crate::body::BufferedBody;
use crate::guard::Caller;
use crate::problem::{Kind, Problem};
use crate::routes::{Access, tasks};

/// The name of the header.
const NAME: HeaderName = HeaderName::from_static("idempotency-key");
/// Most characters of an idempotency key.
const MAX_KEY_CHARS: usize = 200;
/// The largest response that is recorded; real ones are far below.
const MAX_KEPT_BYTES: usize = 16 * 1024 * 1024;

/// The id of the run that a request creates: the same at every attempt. Only handlers of routes that
/// are declared to create a run can take it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReservedRun(pub(crate) RunId);

impl FromRequestParts<Shared> for ReservedRun {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, Shared(app): &Shared) -> Result<Self, Problem> {
        if !creates_run(&parts.extensions) {
            return Err(Problem::new(
                Kind::Internal,
                "the route creates a run without being declared to",
            ));
        }
        let reserved = parts.extensions.get::<Self>().copied();
        Ok(reserved.unwrap_or_else(|| Self(app.runtime.new_run_id())))
    }
}

fn creates_run(extensions: &Extensions) -> bool {
    let access = extensions.get::<Access>();
    access.is_some_and(|access| access.creates_run)
}

/// The requests with a key that this process executes now.
#[derive(Debug, Default)]
pub(crate) struct UnderWay(Mutex<HashSet<String>>);

/// Removes its request from the set when it is dropped.
#[derive(Debug)]
struct Entry {
    app: Arc<App>,
    key: String,
}

impl Entry {
    fn new(app: &Arc<App>, key: &str) -> Option<Self> {
        let mut under_way = app
            .under_way
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        under_way.insert(key.to_owned()).then(|| Self {
            app: Arc::clone(app),
            key: key.to_owned(),
        })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut under_way = self
            .app
            .under_way
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        under_way.remove(&self.key);
    }
}

/// Replays the recorded response of a repeated request.
pub(crate) async fn middleware(
    State(Shared(app)): State<Shared>,
    request: Request,
    next: Next,
) -> Response {
    let (Some(caller), Some(key)) = (
        request.extensions().get::<Caller>().cloned(),
        request.headers().get(&NAME).cloned(),
    ) else {
        return next.run(request).await;
    };
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    match through(&app, &caller, &key, request, next).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

async fn through(
    app: &Arc<App>,
    caller: &Caller,
    key: &HeaderValue,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let key = key
        .to_str()
        .ok()
        .filter(|key| !key.is_empty() && key.len() <= MAX_KEY_CHARS)
        .ok_or_else(|| {
            Problem::bad(format!(
                "`Idempotency-Key` must have 1 to {MAX_KEY_CHARS} visible ASCII characters"
            ))
        })?;
    if wants_stream(&request) {
        return Err(Problem::bad(
            "a stream cannot be replayed; leave out Idempotency-Key or `Accept: text/event-stream`",
        ));
    }
    // The key of the caller is part of the hash: no caller can replay the response of another.
    let key = digest(&[caller.key().as_bytes(), key.as_bytes()]);
    let (parts, body) = request.into_parts();
    let whole = BufferedBody::read(app, Request::from_parts(parts.clone(), body)).await?;
    let target = parts
        .uri
        .path_and_query()
        .map_or("", |target| target.as_str());
    let fingerprint = digest(&[
        parts.method.as_str().as_bytes(),
        target.as_bytes(),
        &whole.bytes,
    ]);
    let Some(entry) = Entry::new(app, &key) else {
        return Err(still_under_way());
    };
    Attempt {
        app: Arc::clone(app),
        entry,
        fingerprint,
        creates_run: creates_run(&parts.extensions),
        request: whole.back_into(parts),
        next,
    }
    .make()
    .await
}

/// One attempt. The guard completes it even if the client disconnects, and records the outcome for a
/// retry.
struct Attempt {
    app: Arc<App>,
    entry: Entry,
    fingerprint: String,
    creates_run: bool,
    request: Request,
    next: Next,
}

impl Attempt {
    async fn make(self) -> Result<Response, Problem> {
        let Self {
            app,
            entry,
            fingerprint,
            creates_run,
            mut request,
            next,
        } = self;
        let run = app.runtime.new_run_id();
        let begun = app.runtime.begin_once(&entry.key, &fingerprint, run).await;
        let run = match begun? {
            Begun::Fresh => run,
            Begun::Done { status, body, run } => return Ok(kept(status, body, run)),
            Begun::Mismatch => {
                return Err(Problem::new(
                    Kind::IdempotencyMismatch,
                    "this Idempotency-Key was sent with another request; choose a new one",
                ));
            }
            // This process does not execute it, so the one that did has died. If it created the run,
            // the run is the response, whatever has changed since; otherwise the run is created now.
            Begun::Running { run, .. } if creates_run => match app.runtime.get(run).await {
                Ok(record) => {
                    let response = tasks::made(&Task::from(&record)).into_response();
                    return keep(&app, &entry.key, response).await;
                }
                Err(RuntimeError::Store(StoreError::NotFound(_))) => run,
                Err(error) => return Err(error.into()),
            },
            Begun::Running { .. } => {
                return Err(Problem::new(
                    Kind::OutcomeUnknown,
                    "the server stopped during the first attempt; check its outcome, and send the \
                     request again with a new Idempotency-Key if it is still needed",
                ));
            }
        };
        request.extensions_mut().insert(ReservedRun(run));
        let response = next.run(request).await;
        keep(&app, &entry.key, response).await
    }
}

/// Records a response, or removes the record of a refused request.
async fn keep(app: &App, key: &str, response: Response) -> Result<Response, Problem> {
    let status = response.status();
    if status.is_success() {
        let (parts, body) = response.into_parts();
        let bytes = http_body_util::Limited::new(body, MAX_KEPT_BYTES)
            .collect()
            .await
            .map_err(|error| Problem::new(Kind::Internal, error.to_string()))?
            .to_bytes();
        app.runtime
            .complete_once(key, status.as_u16(), bytes.to_vec())
            .await?;
        return Ok(Response::from_parts(parts, Body::from(bytes)));
    }
    if status.is_client_error() {
        // Refused: nothing took effect, so a corrected attempt may use the same key.
        app.runtime.forget_once(key).await?;
    }
    // After an internal error the outcome is unknown; the record stays and tells the next attempt.
    Ok(response)
}

/// Returns the response of the first attempt.
fn kept(status: u16, body: Vec<u8>, run: RunId) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let mut response = (status, Bytes::from(body)).into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(
        HeaderName::from_static("idempotent-replayed"),
        HeaderValue::from_static("true"),
    );
    if status == StatusCode::CREATED
        && let Ok(place) = HeaderValue::from_str(&format!("/api/tasks/{run}"))
    {
        headers.insert(header::LOCATION, place);
    }
    response
}

fn still_under_way() -> Problem {
    Problem::new(
        Kind::UnderWay,
        "the first attempt with this Idempotency-Key has not ended; send it again in a moment to \
         get its outcome",
    )
    .retry_after(1)
}

pub(crate) fn wants_stream(request: &Request) -> bool {
    request
        .headers()
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("text/event-stream"))
}

/// Hashes several parts, each with its length, so that no two lists of parts collide.
fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}
