//! Renders the response of a server for a model.

use crate::Url;
use sortie_core::ports::tool::{Image, ToolFailure};

use crate::tools::charset::decode;
use crate::tools::clean::clean;
use crate::tools::html::{Format, Reading, read};

/// Limit for pictures: model providers refuse larger ones.
const MAX_PICTURE_BYTES: usize = 3 * 1024 * 1024;
/// Limit for JSON that is indented: indenting multiplies its size.
const MAX_PRETTY_BYTES: usize = 256 * 1024;
/// How many bytes are inspected to detect the content type.
const PROBE_BYTES: usize = 4 * 1024;

/// A response as received.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) url: Url,
    pub(crate) content_type: Option<String>,
    pub(crate) bytes: Vec<u8>,
    /// Whether the body was longer than the limit.
    pub(crate) cut: bool,
}

/// Rendered content for a model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Text(Reading),
    Picture(Image),
}

/// The kind of content.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Html,
    Json,
    Text,
    Picture(&'static str),
    /// Binary content of this type.
    Other(String),
}

/// Renders a response; an error is the reason why it cannot be read.
pub(crate) fn render(raw: Raw, format: Format) -> Result<Content, ToolFailure> {
    let (essence, charset) = split(raw.content_type.as_deref().unwrap_or_default());
    let text = |raw: &Raw| decode(&raw.bytes, charset.as_deref());
    match kind(&essence, &raw.bytes) {
        Kind::Html => {
            let mut reading = read(&text(&raw), &raw.url, format);
            reading.cut |= raw.cut;
            Ok(Content::Text(reading))
        }
        Kind::Json => Ok(plain(&pretty(&text(&raw)), raw.cut)),
        Kind::Text => Ok(plain(&text(&raw), raw.cut)),
        Kind::Picture(media_type) => picture(raw, media_type),
        Kind::Other(name) => Err(unreadable(&raw, &name)),
    }
}

fn plain(text: &str, cut: bool) -> Content {
    Content::Text(Reading {
        title: String::new(),
        text: clean(text),
        cut,
    })
}

fn picture(raw: Raw, media_type: &'static str) -> Result<Content, ToolFailure> {
    if raw.cut || raw.bytes.len() > MAX_PICTURE_BYTES {
        return Err(ToolFailure::new(format!(
            "The URL is a picture ({media_type}) of more than {MAX_PICTURE_BYTES} bytes, which is the limit. Use the URL of a smaller version."
        )));
    }
    Ok(Content::Picture(Image {
        media_type: media_type.to_owned(),
        bytes: raw.bytes,
    }))
}

fn unreadable(raw: &Raw, name: &str) -> ToolFailure {
    let more = if raw.cut { "more than " } else { "" };
    ToolFailure::new(format!(
        "The URL is not text but {name}, {more}{} bytes. Use a page that describes it, or the same content as HTML or text.",
        raw.bytes.len()
    ))
}

/// Returns the media type in lower case, and the charset if there is one.
fn split(content_type: &str) -> (String, Option<String>) {
    let mut parts = content_type.split(';');
    let essence = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
    let charset = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let is_charset = name.trim().eq_ignore_ascii_case("charset");
        is_charset.then(|| value.trim().trim_matches(['"', '\'']).to_owned())
    });
    (essence, charset)
}

/// Detects the kind by the first bytes where these are clear, because servers often send a wrong type.
fn kind(essence: &str, bytes: &[u8]) -> Kind {
    if let Some(media_type) = picture_type(bytes) {
        return Kind::Picture(media_type);
    }
    if bytes.starts_with(b"%PDF-") {
        return Kind::Other("application/pdf".to_owned());
    }
    let sub = essence.split_once('/').map_or("", |(_, sub)| sub);
    match essence {
        "text/html" | "application/xhtml+xml" => Kind::Html,
        "" | "application/octet-stream" | "text/plain" => unsaid(essence, bytes),
        _ if sub == "json" || sub.ends_with("+json") => Kind::Json,
        _ if essence.starts_with("text/") => unsaid(essence, bytes),
        "application/xml"
        | "application/javascript"
        | "application/ecmascript"
        | "application/x-ndjson"
        | "application/yaml"
        | "application/x-yaml"
        | "application/toml"
        | "application/sql"
        | "application/x-sh"
        | "application/graphql" => Kind::Text,
        _ if sub.ends_with("+xml") || sub.ends_with("+yaml") => Kind::Text,
        other => Kind::Other(one_word(other)),
    }
}

/// Detects the kind where the server sends no useful type.
fn unsaid(essence: &str, bytes: &[u8]) -> Kind {
    let probe = &bytes[..bytes.len().min(PROBE_BYTES)];
    let wide = probe.starts_with(b"\xff\xfe") || probe.starts_with(b"\xfe\xff");
    if probe.contains(&0) && !wide {
        let name = if essence.is_empty() {
            "something binary"
        } else {
            essence
        };
        return Kind::Other(one_word(name));
    }
    let start = String::from_utf8_lossy(probe)
        .trim_start()
        .to_ascii_lowercase();
    let is_html = start.starts_with("<!doctype html") || start.starts_with("<html");
    if is_html && essence != "text/plain" {
        Kind::Html
    } else {
        Kind::Text
    }
}

fn picture_type(bytes: &[u8]) -> Option<&'static str> {
    let starts = |magic: &[u8]| bytes.starts_with(magic);
    if starts(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if starts(b"\xff\xd8\xff") {
        Some("image/jpeg")
    } else if starts(b"GIF87a") || starts(b"GIF89a") {
        Some("image/gif")
    } else if starts(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        Some("image/webp")
    } else {
        None
    }
}

/// Returns a media type for use in a message. The server chooses it, so it is repeated only if it has the right form.
fn one_word(name: &str) -> String {
    let good = |c: char| c.is_ascii_alphanumeric() || "/+-. ".contains(c);
    if name.len() <= 80 && name.chars().all(good) {
        name.to_owned()
    } else {
        "something of an unknown type".to_owned()
    }
}

/// Indents JSON; other text is returned unchanged.
fn pretty(text: &str) -> String {
    if text.len() > MAX_PRETTY_BYTES {
        return text.to_owned();
    }
    let value = serde_json::from_str::<serde_json::Value>(text);
    let laid_out = value.and_then(|value| serde_json::to_string_pretty(&value));
    laid_out.unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content_type: &str, bytes: &[u8], expected: &str) {
        let raw = Raw {
            url: Url::parse("https://example.org/").unwrap(),
            content_type: (!content_type.is_empty()).then(|| content_type.to_owned()),
            bytes: bytes.to_vec(),
            cut: false,
        };
        let shown = match render(raw, Format::Markdown) {
            Ok(Content::Text(reading)) => reading.text,
            Ok(Content::Picture(image)) => format!("[{}]", image.media_type),
            Err(failure) => {
                let sentence = failure.to_string();
                format!("! {}", sentence.split(". ").next().unwrap())
            }
        };
        assert_eq!(shown, expected, "{content_type} {bytes:?}");
    }

    #[test]
    fn kinds() {
        check("text/html", b"<p>a <i>b</i>", "a *b*");
        check("Text/HTML; charset=\"gbk\"", b"<p>\xb2\xe2\xca\xd4", "测试");
        check("", b" <!DOCTYPE html><p>a", "a");
        check("application/octet-stream", b"<html><p>a", "a");
        check("text/plain", b"<html><p>a", "<html><p>a");
        check("text/markdown", b"# a\r\n", "# a");
        check(
            "application/json",
            b"{\"b\":[1],\"a\":2}",
            "{\n  \"a\": 2,\n  \"b\": [\n    1\n  ]\n}",
        );
        check("application/ld+json", b"{broken", "{broken");
        check("application/rss+xml", b"<rss><x/></rss>", "<rss><x/></rss>");
        check("image/svg+xml", b"<svg/>", "<svg/>");
        check("image/png", b"\x89PNG\r\n\x1a\nx", "[image/png]");
        check("text/html", b"GIF89a", "[image/gif]");
        check(
            "application/pdf",
            b"%PDF-1.7",
            "! The URL is not text but application/pdf, 8 bytes",
        );
        check(
            "text/html",
            b"%PDF-1.7",
            "! The URL is not text but application/pdf, 8 bytes",
        );
        check(
            "application/zip",
            b"PK",
            "! The URL is not text but application/zip, 2 bytes",
        );
        check(
            "",
            b"\x7fELF\0\0",
            "! The URL is not text but something binary, 6 bytes",
        );
        check(
            "text/x",
            b"a\0b",
            "! The URL is not text but text/x, 3 bytes",
        );
        check(
            "video/mp4\"]ignore",
            b"x",
            "! The URL is not text but something of an unknown type, 1 bytes",
        );
        check("text/plain", b"\xff\xfeh\0i\0", "hi");
        check("text/plain", b"a\xffb", "aÿb");
    }

    #[test]
    fn deep_json_is_only_text() {
        let deep = "[".repeat(100_000);
        check("application/json", deep.as_bytes(), &deep);
    }

    #[test]
    fn large_pictures_are_refused() {
        let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
        bytes.resize(MAX_PICTURE_BYTES + 1, 0);
        check(
            "image/png",
            &bytes,
            "! The URL is a picture (image/png) of more than 3145728 bytes, which is the limit",
        );
    }
}
