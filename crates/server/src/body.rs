//! Extractors for request bodies, paths and queries: limited in bytes, time and depth, with errors
//! that name the remedy.

use std::future::Future;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header;
use axum::http::request::Parts;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use sortie_core::message::MAX_JSON_DEPTH;

use crate::app::{App, Shared};
use crate::body_memory::Reservation;
use crate::guard::{Caller, LOGIN};
use crate::problem::{Kind, Problem};

/// The limit of the login form, which needs no credentials.
const LOGIN_BYTES: usize = 4 * 1024;

/// The JSON of a body.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

/// The JSON of a body that may be missing.
#[derive(Debug)]
pub(crate) struct MaybeJson<T>(pub(crate) T);

/// The parameters of the path.
#[derive(Debug)]
pub(crate) struct PathParams<T>(pub(crate) T);

/// The parameters of the query.
#[derive(Debug)]
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Shared> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, Shared(app): &Shared) -> Result<Self, Problem> {
        require_json(&request)?;
        let bytes = read(app, request).await?;
        parse(&bytes).map(Self)
    }
}

impl<T: DeserializeOwned + Default> FromRequest<Shared> for MaybeJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, Shared(app): &Shared) -> Result<Self, Problem> {
        let is_json = require_json(&request);
        let bytes = read(app, request).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        is_json?;
        parse(&bytes).map(Self)
    }
}

impl<T: DeserializeOwned + Send> FromRequestParts<Shared> for PathParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        Path::from_request_parts(parts, state)
            .await
            .map(|Path(value)| Self(value))
            .map_err(|error| Problem::bad(format!("invalid path: {error}")))
    }
}

impl<T: DeserializeOwned + Send> FromRequestParts<Shared> for QueryParams<T> {
    type Rejection = Problem;

    fn from_request_parts(
        parts: &mut Parts,
        _state: &Shared,
    ) -> impl Future<Output = Result<Self, Problem>> + Send {
        let params = Query::try_from_uri(&parts.uri)
            .map(|Query(value)| Self(value))
            .map_err(|error| Problem::bad(format!("invalid query: {error}")));
        std::future::ready(params)
    }
}

/// Returns the limit of a body. Tasks and messages may be larger.
fn allowed_bytes(app: &App, path: &str) -> usize {
    let limits = &app.config.limits;
    if path == LOGIN {
        return LOGIN_BYTES;
    }
    if path == "/api/tasks" || path.ends_with("/messages") {
        limits.task_body_bytes
    } else {
        limits.body_bytes
    }
}

/// Reads a whole body, within its limits.
pub(crate) async fn read(app: &App, request: Request) -> Result<Bytes, Problem> {
    Ok(BufferedBody::read(app, request).await?.bytes)
}

/// A body that was read, with the memory that is reserved for it.
#[derive(Clone, Debug)]
pub(crate) struct BufferedBody {
    pub(crate) bytes: Bytes,
    #[expect(dead_code, reason = "dropped with the body, which releases the memory")]
    reservation: Arc<Reservation>,
}

impl BufferedBody {
    /// Reads a body, unless it was read before.
    pub(crate) async fn read(app: &App, mut request: Request) -> Result<Self, Problem> {
        if let Some(whole) = request.extensions_mut().remove::<Self>() {
            return Ok(whole);
        }
        let limit = allowed_bytes(app, request.uri().path());
        let announced = request
            .headers()
            .get(header::CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|length| length > limit as u64) {
            return Err(too_large(limit));
        }
        let reservation = app
            .body_memory
            .reserve(request.extensions().get::<Caller>());
        let body = collect(request.into_body(), limit, reservation);
        match tokio::time::timeout(app.config.limits.body_timeout, body).await {
            Ok(whole) => whole,
            Err(_elapsed) => Err(Problem::new(
                Kind::Timeout,
                "the body did not arrive in time; send it again, faster",
            )),
        }
    }

    /// Returns the request with the body for its next reader.
    pub(crate) fn back_into(self, mut parts: Parts) -> Request {
        parts.extensions.insert(self);
        Request::from_parts(parts, Body::empty())
    }
}

/// Collects the bytes of a body. A request does not wait for memory: without it, the request is
/// refused and the client retries.
async fn collect(
    mut body: Body,
    limit: usize,
    mut reservation: Reservation,
) -> Result<BufferedBody, Problem> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| Problem::bad(format!("the body is incomplete: {error}")))?;
        // Trailers are ignored.
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let length = bytes.len() + data.len();
        if length > limit {
            return Err(too_large(limit));
        }
        if !reservation.grow_to(length) {
            return Err(Problem::new(
                Kind::Unavailable,
                "too many bodies are being received; send this again in a moment",
            )
            .retry_after(1));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(BufferedBody {
        bytes: bytes.freeze(),
        reservation: Arc::new(reservation),
    })
}

fn too_large(limit: usize) -> Problem {
    Problem::new(
        Kind::TooLarge,
        format!("the body is larger than the limit of {limit} bytes"),
    )
    .with("limit_bytes", limit)
}

/// Checks the `limit` of a query.
pub(crate) fn limit(wanted: Option<u32>, default: u32, most: u32) -> Result<u32, Problem> {
    match wanted {
        None => Ok(default),
        Some(wanted) if (1..=most).contains(&wanted) => Ok(wanted),
        Some(_) => Err(Problem::bad(format!("`limit` must be from 1 to {most}"))),
    }
}

/// Checks the `after` of a query; 0 if it is missing.
pub(crate) fn place(after: Option<i64>) -> Result<u64, Problem> {
    u64::try_from(after.unwrap_or_default())
        .map_err(|_| Problem::bad("`after` must be 0 or a number from an earlier response"))
}

fn require_json(request: &Request) -> Result<(), Problem> {
    let kind = request
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .and_then(|kind| kind.split(';').next())
        .map(str::trim);
    if kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    Err(Problem::new(
        Kind::UnsupportedMediaType,
        "send JSON with `Content-Type: application/json`",
    ))
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // serde would read a list as the fields in their order.
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if first != Some(&b'{') {
        return Err(Problem::bad("the body must be a JSON object"));
    }
    if is_too_deep(bytes) {
        return Err(Problem::bad(format!(
            "the JSON is nested deeper than {MAX_JSON_DEPTH} levels"
        )));
    }
    serde_json::from_slice(bytes).map_err(|error| Problem::bad(format!("invalid body: {error}")))
}

/// Returns whether JSON is nested too deeply, without parsing it into values.
fn is_too_deep(bytes: &[u8]) -> bool {
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                if depth > MAX_JSON_DEPTH {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_counted_outside_of_strings() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(!is_too_deep(nested(MAX_JSON_DEPTH).as_bytes()));
        assert!(is_too_deep(nested(MAX_JSON_DEPTH + 1).as_bytes()));
        let quoted = format!("\"{}\\\"{}\"", "[".repeat(100), "{".repeat(100));
        assert!(!is_too_deep(quoted.as_bytes()));
        let flat = format!("[{}]", vec!["[]"; 500].join(","));
        assert!(!is_too_deep(flat.as_bytes()));
    }
}
