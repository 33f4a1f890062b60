//! The web page as bytes of the binary.
//!
//! Sources are in `/web`; `build/main.rs` builds them into `OUT_DIR` where Node is at hand. Where it
//! is not, a plain page stands in and says how to get the real one, so the crate always builds.

use std::borrow::Cow;

use rust_embed::RustEmbed;

/// Where Vite puts files whose names carry a hash of their content.
const HASHED: &str = "assets/";

#[derive(Debug, RustEmbed)]
#[folder = "$OUT_DIR/dist"]
struct Files;

/// One file of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asset {
    /// What is in it.
    pub bytes: Cow<'static, [u8]>,
    /// Its `Content-Type`.
    pub media_type: &'static str,
    /// Whether its name changes whenever its content does, so that it may be cached for ever.
    pub immutable: bool,
}

/// Finds a file of the page by its path, without a slash at the front.
#[must_use]
pub fn get(path: &str) -> Option<Asset> {
    let file = Files::get(path)?;
    Some(Asset {
        bytes: file.data,
        media_type: media_type(path),
        immutable: path.starts_with(HASHED),
    })
}

/// Whether this is the real page, and not the plain one that stands in for it.
#[must_use]
pub fn is_built() -> bool {
    Files::iter().any(|path| path.starts_with(HASHED))
}

/// Every path that [`get`] knows.
pub fn paths() -> impl Iterator<Item = Cow<'static, str>> {
    Files::iter()
}

/// The kinds of files that the build makes; anything else is bytes that no browser runs.
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
