//! Serves the web page, which is a client of the API like any other.

use axum::extract::Request;
use axum::http::Method;
use axum::http::header::{self, HeaderValue};
use axum::response::{IntoResponse as _, Response};

use crate::access::is_api;
use crate::guard::wants_html;
use crate::page::{self, Asset};
use crate::problem::Problem;

/// The document of the page, for every path of its router.
const INDEX: &str = "index.html";

/// Answers requests that match no route: with a file of the page, with the page, or with 404.
pub(crate) async fn anything_else(request: Request) -> Response {
    let path = request.uri().path();
    let looks = matches!(*request.method(), Method::GET | Method::HEAD);
    if !looks || is_api(path) {
        return nothing(path);
    }
    let name = path.trim_start_matches('/');
    if let Some(asset) = page::get(name).filter(|_| !name.is_empty()) {
        return file(asset);
    }
    match page::get(INDEX).filter(|_| path == "/" || wants_html(request.headers())) {
        Some(index) => file(index),
        None => nothing(path),
    }
}

fn nothing(path: &str) -> Response {
    Problem::not_found(format!(
        "there is no route {path}; GET /api/openapi.json lists the routes"
    ))
    .into_response()
}

fn file(asset: Asset) -> Response {
    let cache = if asset.immutable {
        "private, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    (
        [
            (
                header::CONTENT_TYPE,
                HeaderValue::from_static(asset.media_type),
            ),
            (header::CACHE_CONTROL, HeaderValue::from_static(cache)),
        ],
        asset.bytes.into_owned(),
    )
        .into_response()
}
