//! Compresses responses with gzip: the files of the page, and JSON that is long enough to gain by it.
//!
//! Streams are never compressed: only bodies whose length is known are. A compressed length can reveal
//! a secret to an attacker who chooses a part of the same response and counts its bytes. Here it
//! cannot: no response with a secret is long enough, and no other origin can make a browser send an
//! authenticated request.

use std::io::{self, Write as _};

use axum::body::{Body, HttpBody as _, to_bytes};
use axum::extract::Request;
use axum::http::Method;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

/// Shorter bodies fit into one packet as they are.
const MIN_BYTES: u64 = 1_024;
/// Longer bodies are compressed on a thread for blocking work.
const MAX_INLINE_BYTES: usize = 32 * 1_024;
/// Lists repeat their keys, so a low level gains most of what a high one does, in half the time.
const LEVEL: Compression = Compression::new(4);

/// Compresses the body of a response if the client accepts it.
pub(crate) async fn compress(request: Request, next: Next) -> Response {
    let accepted = *request.method() != Method::HEAD && accepts_gzip(request.headers());
    let mut response = next.run(request).await;
    if !is_text(response.headers()) {
        return response;
    }
    let vary = HeaderValue::from_static("accept-encoding");
    response.headers_mut().append(header::VARY, vary);
    let length = response.body().size_hint().exact();
    if !accepted
        || length.is_none_or(|length| length < MIN_BYTES)
        || response.headers().contains_key(header::CONTENT_ENCODING)
    {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // A body with a known length is complete already; reading it neither waits nor fails.
    let Ok(plain) = to_bytes(body, usize::MAX).await else {
        return Response::from_parts(parts, Body::empty());
    };
    let Some(packed) = pack(&plain).await else {
        return Response::from_parts(parts, Body::from(plain));
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    let gzip = HeaderValue::from_static("gzip");
    parts.headers.insert(header::CONTENT_ENCODING, gzip);
    Response::from_parts(parts, Body::from(packed))
}

/// Returns whether the client accepts gzip.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| {
            let (name, quality) = coding.split_once(';').unwrap_or((coding, "q=1"));
            let quality = quality.trim().strip_prefix("q=").unwrap_or("1");
            name.trim().eq_ignore_ascii_case("gzip")
                && quality.parse::<f32>().is_ok_and(|quality| quality > 0.0)
        })
}

/// Returns whether compression shortens this kind of content, and it is not a stream of events.
fn is_text(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default();
    kind != "text/event-stream"
        && (kind.starts_with("text/") || kind.ends_with("json") || kind.ends_with("xml"))
}

/// Returns the compressed bytes; `None` if the server is stopping.
async fn pack(plain: &Bytes) -> Option<Vec<u8>> {
    if plain.len() <= MAX_INLINE_BYTES {
        return gzip(plain).ok();
    }
    let plain = plain.clone();
    let packed = tokio::task::spawn_blocking(move || gzip(&plain));
    packed.await.ok()?.ok()
}

fn gzip(plain: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 4), LEVEL);
    encoder.write_all(plain)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_accepted_only_if_the_client_says_so() {
        let check = |value: &'static str, expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(accepts_gzip(&headers), expected, "{value}");
        };
        check("gzip, deflate, br", true);
        check("br;q=1.0, GZIP;q=0.8", true);
        check("gzip;q=0", false);
        check("br", false);
        check("", false);
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    #[test]
    fn events_and_pictures_are_sent_as_they_are() {
        for (kind, expected) in [
            ("application/json", true),
            ("application/problem+json", true),
            ("text/javascript; charset=utf-8", true),
            ("image/svg+xml", true),
            ("text/event-stream", false),
            ("image/png", false),
            ("font/woff2", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
            assert_eq!(is_text(&headers), expected, "{kind}");
        }
        assert!(!is_text(&HeaderMap::new()));
    }
}
