//! Configuration keys in documents, compared with the snapshot of the configuration's schema.

use serde_json::Value;

use super::document::{Document, Piece};
use crate::tree::Tree;

/// The snapshot of the schema; a test of the configuration keeps it current.
pub(super) const SCHEMA: &str = "crates/config/tests/it/snapshots/it__schema__schema.snap";
/// Endings of file names, which look like a key with a dot.
const FILES: [&str; 8] = [
    ".json", ".toml", ".rs", ".md", ".db", ".service", ".snap", ".log",
];
/// Tables of Cargo's manifest, which documents show in TOML blocks as well.
const CARGO: [&str; 5] = [
    "dependencies",
    "package",
    "features",
    "profile",
    "workspace",
];

/// The schema of the configuration.
#[derive(Debug)]
pub(super) struct Schema {
    root: Value,
}

impl Schema {
    pub(super) fn read(tree: &Tree) -> Self {
        let text = tree.text(SCHEMA).unwrap_or_default();
        // A snapshot begins with a header between two lines of dashes.
        let json = text.splitn(3, "---\n").nth(2).unwrap_or_default();
        Self {
            root: serde_json::from_str(json).unwrap_or(Value::Null),
        }
    }

    /// Returns whether a key or a section of this dotted name exists. `NAME` stands for a chosen
    /// name.
    pub(super) fn has(&self, key: &str) -> bool {
        let parts = split(key);
        !parts.is_empty() && self.descend(&self.root, &parts)
    }

    fn has_section(&self, name: &str) -> bool {
        self.root["properties"].get(name).is_some()
    }

    fn descend(&self, node: &Value, parts: &[String]) -> bool {
        let Some((first, rest)) = parts.split_first() else {
            return true;
        };
        if let Some(target) = node["$ref"]
            .as_str()
            .and_then(|target| target.strip_prefix('#'))
        {
            return self
                .root
                .pointer(target)
                .is_some_and(|node| self.descend(node, parts));
        }
        let named = node["properties"].get(first);
        let chosen = Some(&node["additionalProperties"]).filter(|node| node.is_object());
        if named
            .or(chosen)
            .is_some_and(|node| self.descend(node, rest))
        {
            return true;
        }
        ["anyOf", "allOf", "oneOf"].iter().any(|kind| {
            node[*kind]
                .as_array()
                .is_some_and(|nodes| nodes.iter().any(|node| self.descend(node, parts)))
        })
    }

    pub(super) fn problems(&self, document: &Document) -> Vec<(usize, String)> {
        let mut problems = Vec::new();
        for span in &document.spans {
            for key in self.claimed(&span.text) {
                if !self.has(&key) {
                    problems.push((span.line, format!("there is no configuration key {key}")));
                }
            }
        }
        let of_cargo = |line: &str| header(line).is_some_and(|name| is_cargo(&name));
        for fence in document.fences.iter().filter(|f| f.language == "toml") {
            // Another file: a manifest, or the table of vendors, which is a list of tables.
            let other = |line: &Piece| line.text.starts_with("[[") || of_cargo(line.text.trim());
            if fence.lines.iter().any(other) {
                continue;
            }
            let mut section = String::new();
            let mut in_list = false;
            for line in &fence.lines {
                let text = line.text.split(" #").next().unwrap_or_default().trim();
                if std::mem::take(&mut in_list) {
                    in_list = !text.ends_with(']');
                    continue;
                }
                if let Some(header) = header(text) {
                    section = format!("{header}.");
                } else if let Some((key, value)) = text.split_once(" = ") {
                    in_list = value == "[";
                    let key = format!("{section}{}", key.trim());
                    if !text.starts_with('#') && !self.has(&key) {
                        let problem = format!("there is no configuration key {key}");
                        problems.push((line.line, problem));
                    }
                }
            }
        }
        problems
    }

    /// Returns the keys that a code span names: `a.b`, `a.b = 1`, `[a.b]`, `[a.b] c`.
    fn claimed(&self, text: &str) -> Vec<String> {
        if let Some(end) = text.find(']')
            && let Some(section) = header(&text[..=end])
        {
            let rest = text[end + 1..].split('=').next().unwrap_or_default().trim();
            if !self.has_section(split(&section).first().map_or("", String::as_str)) {
                return Vec::new();
            }
            return match rest {
                "" => vec![section],
                key => vec![format!("{section}.{key}")],
            };
        }
        let key = text.split(" = ").next().unwrap_or_default().trim();
        let plain = key
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '"' | '/' | '-' | ':' | '*'));
        let is_file = FILES.iter().any(|end| key.ends_with(end));
        let parts = split(key);
        if !plain || is_file || parts.len() < 2 || !self.has_section(&parts[0]) {
            return Vec::new();
        }
        vec![key.to_owned()]
    }
}

/// Returns the name in a TOML table header.
fn header(text: &str) -> Option<String> {
    let name = text.strip_prefix('[')?.strip_suffix(']')?;
    let plain =
        name.starts_with(|c: char| c.is_ascii_lowercase()) && !name.contains(['[', '=', ' ']);
    plain.then(|| name.trim_end_matches('…').trim_end_matches('.').to_owned())
}

fn is_cargo(table: &str) -> bool {
    CARGO.iter().any(|known| table.starts_with(known))
}

/// Splits a dotted key; a quoted part may contain dots.
fn split(key: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    for c in key.chars() {
        match c {
            '"' | '\'' => quoted = !quoted,
            '.' if !quoted => parts.push(String::new()),
            _ => {
                if let Some(part) = parts.last_mut() {
                    part.push(c);
                }
            }
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}
