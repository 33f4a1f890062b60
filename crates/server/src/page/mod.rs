//! The web page, embedded into the binary.
//!
//! The sources are in `/web`; `build/main.rs` builds them into `OUT_DIR` if Node is installed. If it
//! is not, a plain page takes their place and explains how to build the real one, so the crate always
//! builds. Without the feature `page` the binary has no page at all.

use std::borrow::Cow;

#[cfg(test)]
mod tests;

/// Where Vite puts files whose names carry a hash of their content.
const HASHED: &str = "assets/";

#[cfg(feature = "page")]
#[derive(Debug, rust_embed::RustEmbed)]
#[folder = "$OUT_DIR/dist"]
struct Files;

/// One file of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asset {
    pub(crate) bytes: Cow<'static, [u8]>,
    pub(crate) media_type: &'static str,
    /// Whether the name of the file changes with its content, so that browsers may cache it for ever.
    pub(crate) immutable: bool,
}

/// Returns the file at a path, which has no leading slash.
pub(crate) fn get(path: &str) -> Option<Asset> {
    Some(Asset {
        bytes: file(path)?,
        media_type: media_type(path),
        immutable: path.starts_with(HASHED),
    })
}

/// Returns whether the binary has the real page, not the plain one that takes its place.
#[must_use]
pub fn is_built() -> bool {
    paths().any(|path| path.starts_with(HASHED))
}

#[cfg(feature = "page")]
fn file(path: &str) -> Option<Cow<'static, [u8]>> {
    Files::get(path).map(|file| file.data)
}

#[cfg(feature = "page")]
fn paths() -> impl Iterator<Item = Cow<'static, str>> {
    Files::iter()
}

#[cfg(not(feature = "page"))]
fn file(_path: &str) -> Option<Cow<'static, [u8]>> {
    None
}

#[cfg(not(feature = "page"))]
fn paths() -> impl Iterator<Item = Cow<'static, str>> {
    std::iter::empty()
}

/// Returns the `Content-Type` of a file that the build makes. Browsers do not execute any other.
fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("json") => "application/json",
        Some("webmanifest") => "application/manifest+json",
        Some("txt") => "text/plain; charset=utf-8",
        Some("woff2") => "font/woff2",
        Some(_) | None => "application/octet-stream",
    }
}
