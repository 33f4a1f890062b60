//! Reading what clients send: bounded in bytes, time and depth, and always with an answer that says
//! what to do.

use std::future::Future;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header;
use axum::http::request::Parts;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use sortie_core::MAX_JSON_DEPTH;

use crate::app::{App, Shared};
use crate::guard::{Caller, LOGIN};
use crate::problem::{Kind, Problem};
use crate::room::Room;

/// All that is read of a form with a token: whoever sends it is nobody yet.
const LOGIN_BYTES: usize = 4 * 1024;

/// The JSON of a body.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

/// The JSON of a body that may be missing.
#[derive(Debug)]
pub(crate) struct MaybeJson<T>(pub(crate) T);

/// What stands in the path.
#[derive(Debug)]
pub(crate) struct InPath<T>(pub(crate) T);

/// What stands behind the question mark.
#[derive(Debug)]
pub(crate) struct Asked<T>(pub(crate) T);

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

impl<T: DeserializeOwned + Send> FromRequestParts<Shared> for InPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        Path::from_request_parts(parts, state)
            .await
            .map(|Path(value)| Self(value))
            .map_err(|error| Problem::bad(format!("the path cannot be read: {error}")))
    }
}

impl<T: DeserializeOwned + Send> FromRequestParts<Shared> for Asked<T> {
    type Rejection = Problem;

    fn from_request_parts(
        parts: &mut Parts,
        _state: &Shared,
    ) -> impl Future<Output = Result<Self, Problem>> + Send {
        let asked = Query::try_from_uri(&parts.uri)
            .map(|Query(value)| Self(value))
            .map_err(|error| Problem::bad(format!("the query cannot be read: {error}")));
        std::future::ready(asked)
    }
}

/// Bodies that carry a task or a message may be larger.
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

/// Reads a whole body, within its bounds.
pub(crate) async fn read(app: &App, request: Request) -> Result<Bytes, Problem> {
    Ok(Whole::read(app, request).await?.bytes)
}

/// A body that was read, and the room that it takes meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    pub(crate) bytes: Bytes,
    #[expect(dead_code, reason = "it is held, not read")]
    room: Arc<Room>,
}

impl Whole {
    /// Reads a body, unless that was done before.
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
        let room = app.rooms.enter(request.extensions().get::<Caller>());
        let body = collect(request.into_body(), limit, room);
        match tokio::time::timeout(app.config.limits.body_timeout, body).await {
            Ok(whole) => whole,
            Err(_elapsed) => Err(Problem::new(
                Kind::Timeout,
                "the body did not arrive in time; send it faster",
            )),
        }
    }

    /// The request again, for whoever reads its body next.
    pub(crate) fn back_into(self, mut parts: Parts) -> Request {
        parts.extensions.insert(self);
        Request::from_parts(parts, Body::empty())
    }
}

/// Takes what arrives. Nobody waits for room: whoever finds none hears so, and comes again.
async fn collect(mut body: Body, limit: usize, mut room: Room) -> Result<Whole, Problem> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Problem::bad(format!("the body broke off: {error}")))?;
        // What is no data are trailers, which nobody here asks for.
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let length = bytes.len() + data.len();
        if length > limit {
            return Err(too_large(limit));
        }
        if !room.hold(length) {
            return Err(Problem::new(
                Kind::Unavailable,
                "too much is being sent at once; send this again in a moment",
            )
            .retry_after(1));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Whole {
        bytes: bytes.freeze(),
        room: Arc::new(room),
    })
}

fn too_large(limit: usize) -> Problem {
    Problem::new(
        Kind::TooLarge,
        format!("at most {limit} bytes are read here; send less"),
    )
    .with("limit_bytes", limit)
}

/// How many somebody wants, within what is possible.
pub(crate) fn limit(wanted: Option<u32>, default: u32, most: u32) -> Result<u32, Problem> {
    match wanted {
        None => Ok(default),
        Some(wanted) if (1..=most).contains(&wanted) => Ok(wanted),
        Some(_) => Err(Problem::bad(format!("`limit` is from 1 to {most}"))),
    }
}

/// A place that somebody wants to go on from; the beginning if it is missing.
pub(crate) fn place(after: Option<i64>) -> Result<u64, Problem> {
    u64::try_from(after.unwrap_or_default())
        .map_err(|_| Problem::bad("`after` is a number that was in an answer, or 0"))
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
    // A list would be read as the fields in their order, which nobody means.
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if first != Some(&b'{') {
        return Err(Problem::bad("the body has to be a JSON object"));
    }
    if is_too_deep(bytes) {
        return Err(Problem::bad(format!(
            "the JSON is nested deeper than {MAX_JSON_DEPTH} levels"
        )));
    }
    serde_json::from_slice(bytes).map_err(|error| Problem::bad(format!("the body: {error}")))
}

/// Whether JSON is nested too deeply, without building anything of it.
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
