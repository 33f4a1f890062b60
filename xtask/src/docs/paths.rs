//! Files, folders and links in documents, compared with the tree.

use super::document::Document;
use crate::tree::Tree;

/// Endings of the project's sources: a name that ends so must be a file of the project.
const SOURCES: [&str; 6] = [".rs", ".ts", ".tsx", ".sql", ".snap", ".ftl"];
/// Folders of the root whose content documents name.
const ROOTS: [&str; 8] = [
    "crates/",
    "docs/",
    "xtask/",
    "web/",
    "tests/",
    "packaging/",
    ".config/",
    "systemd/",
];

/// Files of a user's project or home that documents name.
const FOREIGN: [&str; 2] = ["build.rs", ".config/git"];

/// Problems of links: a file or an anchor that does not exist.
pub(super) fn broken_links(
    tree: &Tree,
    document: &Document,
    others: &[Document],
) -> Vec<(usize, String)> {
    let mut problems = Vec::new();
    for link in &document.links {
        let (file, anchor) = link.text.split_once('#').unwrap_or((&link.text, ""));
        if file.contains("://") || file.starts_with("mailto:") {
            continue;
        }
        let path = if file.is_empty() {
            document.path.clone()
        } else {
            relative(&document.path, file)
        };
        if !tree.contains(&path) {
            problems.push((link.line, format!("the link leads nowhere: {}", link.text)));
            continue;
        }
        let target = others.iter().find(|other| other.path == path);
        if !anchor.is_empty()
            && target.is_some_and(|target| !target.anchors.iter().any(|known| known == anchor))
        {
            problems.push((link.line, format!("{path} has no heading #{anchor}")));
        }
    }
    problems
}

/// Problems of code spans: a path of the project that does not exist.
pub(super) fn missing(tree: &Tree, document: &Document) -> Vec<(usize, String)> {
    document
        .spans
        .iter()
        .filter(|span| is_claim(tree, &span.text) && !exists(tree, document, &span.text))
        .map(|span| {
            (
                span.line,
                format!("there is no file or folder {}", span.text),
            )
        })
        .collect()
}

/// Whether a code span names a path of the project rather than one of a user or of the system.
fn is_claim(tree: &Tree, text: &str) -> bool {
    let plain = text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'));
    if !plain || text.starts_with('/') || FOREIGN.contains(&text) {
        return false;
    }
    let source = SOURCES
        .iter()
        .any(|end| text.ends_with(end) && text.len() > end.len());
    let below_root = ROOTS
        .iter()
        .any(|root| text.starts_with(root) && text.len() > root.len());
    // `runtime/executor.rs`, `server/hub`: a crate's folder and what is in it.
    let of_crate = text
        .split_once('/')
        .is_some_and(|(first, rest)| !rest.is_empty() && tree.contains(&format!("crates/{first}")));
    source || below_root || of_crate
}

fn exists(tree: &Tree, document: &Document, text: &str) -> bool {
    let text = text.trim_end_matches('/');
    if tree.resolve(text).is_some() || tree.contains(&relative(&document.path, text)) {
        return true;
    }
    // A bare name or a tail of a path, after its folder was named in the same sentence.
    let tail = format!("/{text}");
    tree.paths().any(|path| path.ends_with(&tail))
}

/// A path relative to a document, with `..` resolved.
fn relative(document: &str, path: &str) -> String {
    let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}
