//! Renders the visible content of a page as Markdown, text or tidied HTML.
//!
//! Pages may be hostile to parsers. The parser is fed in small pieces with a check of the deadline
//! between them, because some nestings take quadratic time; content that is nested too deeply is never
//! passed to recursive code.

use std::time::{Duration, Instant};

use crate::Url;
use dom_query::{Document, NodeRef};
use dom_smoothie::{Config, Readability, TextMode};
use html5ever::tendril::{StrTendril, TendrilSink as _};
use html5ever::tree_builder::TreeBuilderOpts;
use html5ever::{ParseOpts, parse_document};
use sortie_base::truncate::first_bytes;

use crate::tools::clean::{clean, one_line};

/// Limit of bytes that are parsed.
const MAX_HTML_BYTES: usize = 3 * 1024 * 1024;
/// Bytes that are parsed between two checks of the deadline.
const PIECE_BYTES: usize = 4 * 1024;
/// Time limit of parsing; ordinary pages take a few hundredths of a second.
const MAX_PARSE_TIME: Duration = Duration::from_secs(3);
const MAX_NODES: usize = 200_000;
/// Limit of nesting for structured rendering; browsers use 512.
const MAX_DEPTH: usize = 256;
/// Limit of elements that are searched for the article.
const MAX_ARTICLE_ELEMENTS: usize = 30_000;
/// A shorter article, or one below a tenth of the page, is not the main content.
const MIN_ARTICLE_CHARS: usize = 250;
const MIN_ARTICLE_SHARE: usize = 10;
const MAX_TITLE_CHARS: usize = 300;

/// Elements without readable content.
const UNREAD: [&str; 15] = [
    "script", "style", "noscript", "template", "iframe", "frame", "object", "embed", "svg",
    "canvas", "audio", "video", "link", "meta", "base",
];
/// Style declarations that hide an element, without white space.
const HIDING: [&str; 7] = [
    "display:none",
    "visibility:hidden",
    "visibility:collapse",
    "opacity:0;",
    "font-size:0;",
    "font-size:0px",
    "clip:rect(0",
];
/// Attributes that contain a URL.
const LINKS: [&str; 2] = ["href", "src"];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    #[default]
    Markdown,
    Text,
    Html,
}

/// A page rendered as text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) title: String,
    pub(crate) text: String,
    /// Whether the end of the page is missing.
    pub(crate) cut: bool,
}

/// Renders a page of `url`.
pub(crate) fn read(html: &str, url: &Url, format: Format) -> Reading {
    read_within(html, url, format, MAX_PARSE_TIME)
}

fn read_within(html: &str, url: &Url, format: Format, time: Duration) -> Reading {
    let (document, cut) = parse(html, time);
    let title = document.select_single("title").text();
    let title = one_line(&title, MAX_TITLE_CHARS);
    let base = base(&document, url);
    tidy(&document.root(), &base);
    let text = if depth(&document.root()) > MAX_DEPTH {
        document.formatted_text().to_string()
    } else {
        shown(document, format)
    };
    Reading {
        title,
        text: clean(&text),
        cut,
    }
}

/// Parses a page within the limits.
pub(crate) fn document(html: &str) -> Document {
    parse(html, MAX_PARSE_TIME).0
}

/// Returns the tree, and whether a limit stopped the parser.
fn parse(html: &str, time: Duration) -> (Document, bool) {
    let opts = ParseOpts {
        tree_builder: TreeBuilderOpts {
            scripting_enabled: false,
            ..TreeBuilderOpts::default()
        },
        ..ParseOpts::default()
    };
    let deadline = Instant::now() + time;
    let mut parser = parse_document(Document::default(), opts);
    let mut rest = first_bytes(html, MAX_HTML_BYTES);
    let mut cut = rest.len() < html.len();
    while !rest.is_empty() {
        let nodes = parser.tokenizer.sink.sink.tree.len();
        if nodes > MAX_NODES || Instant::now() > deadline {
            cut = true;
            break;
        }
        let (piece, more) = rest.split_at(first_bytes(rest, PIECE_BYTES).len());
        parser.process(StrTendril::from(piece));
        rest = more;
    }
    (parser.finish(), cut)
}

/// Returns the depth of the tree.
fn depth(root: &NodeRef<'_>) -> usize {
    let mut deepest = 0;
    let mut open = vec![(*root, 0)];
    while let Some((node, depth)) = open.pop() {
        deepest = deepest.max(depth);
        open.extend(node.children_it(false).map(|child| (child, depth + 1)));
    }
    deepest
}

/// Returns the base URL of the links of a page.
fn base(document: &Document, url: &Url) -> Url {
    let named = document.select_single("base[href]").attr("href");
    named
        .and_then(|href| url.join(&href).ok())
        .unwrap_or_else(|| url.clone())
}

/// Removes invisible elements and makes links absolute.
fn tidy(root: &NodeRef<'_>, base: &Url) {
    let mut open = vec![*root];
    while let Some(node) = open.pop() {
        if is_unread(&node) {
            node.remove_from_parent();
            continue;
        }
        for name in LINKS {
            if let Some(target) = node.attr(name) {
                match whole(base, &target) {
                    Some(target) => node.set_attr(name, target.as_str()),
                    None => node.remove_attr(name),
                }
            }
        }
        open.extend(node.children());
    }
}

fn whole(base: &Url, target: &str) -> Option<Url> {
    let url = base.join(target.trim()).ok()?;
    matches!(url.scheme(), "http" | "https" | "mailto").then_some(url)
}

fn is_unread(node: &NodeRef<'_>) -> bool {
    if node.is_comment() {
        return true;
    }
    let Some(name) = node.node_name() else {
        return false;
    };
    UNREAD.contains(&name.as_ref())
        || node.has_attr("hidden")
        || node
            .attr("aria-hidden")
            .is_some_and(|value| &*value == "true")
        || (&*name == "input" && node.attr("type").is_some_and(|kind| &*kind == "hidden"))
        || node.attr("style").is_some_and(|style| hides(&style))
}

fn hides(style: &str) -> bool {
    let mut plain: String = style.chars().filter(|c| !c.is_whitespace()).collect();
    plain.make_ascii_lowercase();
    // Lets the last declaration end with a semicolon too.
    plain.push(';');
    HIDING.iter().any(|hiding| plain.contains(hiding))
}

fn shown(document: Document, format: Format) -> String {
    if format == Format::Html {
        return document.html().to_string();
    }
    let whole = match format {
        Format::Markdown => document.md(None),
        Format::Text | Format::Html => document.formatted_text(),
    };
    match article(document, format) {
        Some(article) if is_what_the_page_is_about(&article, &whole) => article,
        Some(_) | None => whole.to_string(),
    }
}

fn article(document: Document, format: Format) -> Option<String> {
    let config = Config {
        max_elements_to_parse: MAX_ARTICLE_ELEMENTS,
        disable_json_ld: true,
        text_mode: match format {
            Format::Markdown => TextMode::Markdown,
            Format::Text | Format::Html => TextMode::Formatted,
        },
        ..Config::default()
    };
    let mut readability = Readability::with_document(document, None, Some(config)).ok()?;
    let article = readability.parse().ok()?;
    Some(article.text_content.to_string())
}

fn is_what_the_page_is_about(article: &str, whole: &str) -> bool {
    article.chars().count() >= MIN_ARTICLE_CHARS && article.len() * MIN_ARTICLE_SHARE >= whole.len()
}

#[cfg(test)]
mod tests;
