//! The web page: a client of the API like any other, only that it comes from here.

use axum::extract::Request;
use axum::http::Method;
use axum::http::header::{self, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use sortie_page::Asset;

use crate::access::is_api;
use crate::guard::wants_html;
use crate::problem::Problem;

/// The page itself, for every path that it may have in the browser.
const INDEX: &str = "index.html";

/// Whatever no route answers: a file of the page, the page, or nothing.
pub(crate) async fn anything_else(request: Request) -> Response {
    let path = request.uri().path();
    let looks = matches!(*request.method(), Method::GET | Method::HEAD);
    if !looks || is_api(path) {
        return nothing(path);
    }
    let name = path.trim_start_matches('/');
    if let Some(asset) = sortie_page::get(name).filter(|_| !name.is_empty()) {
        return file(asset);
    }
    match sortie_page::get(INDEX).filter(|_| path == "/" || wants_html(request.headers())) {
        Some(index) => file(index),
        None => nothing(path),
    }
}

fn nothing(path: &str) -> Response {
    Problem::not_found(format!(
        "nothing is at {path}; GET /api/openapi.json tells what is where"
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
