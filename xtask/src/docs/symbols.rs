//! Rust symbols, environment variables and other identifiers in documents, compared with the
//! sources.

use std::collections::{BTreeMap, BTreeSet};

use super::document::Document;
use super::keys::Schema;
use crate::rust_text::{code, defines};
use crate::tree::Tree;

/// Files whose words a document may name: sources, schemas, prompts, scenarios.
const SOURCES: [&str; 12] = [
    ".rs", ".ts", ".tsx", ".mjs", ".sql", ".toml", ".ftl", ".yaml", ".json", ".py", ".service",
    ".in",
];
/// Names that belong to other programs.
const FOREIGN: [&str; 6] = [
    "EventSource",
    "MemoryDenyWriteExecute",
    "OLLAMA_CONTEXT_LENGTH",
    "no_new_privs",
    "num_ctx",
    "zh_CN",
];
const KEYWORDS: [&str; 9] = [
    "fn", "struct", "enum", "trait", "type", "mod", "const", "static", "union",
];

/// Everything that the sources define and mention.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    /// Identifiers that occur in code.
    words: BTreeSet<String>,
    /// Files that define a type, trait or module of this name, or implement it.
    homes: BTreeMap<String, BTreeSet<String>>,
    /// Names that a file defines: functions, types, constants, variants and fields.
    defined: BTreeMap<String, BTreeSet<String>>,
    functions: BTreeSet<String>,
}

impl Symbols {
    pub(super) fn read(tree: &Tree) -> Self {
        let mut symbols = Self::default();
        for path in tree.paths() {
            // The name of a file without an extension, such as Containerfile, is written like a
            // type.
            let name = path.rsplit('/').next().unwrap_or(path);
            symbols.words.insert(name.to_owned());
        }
        for (path, text) in tree.texts() {
            if !SOURCES.iter().any(|end| path.ends_with(end)) || path.starts_with("docs/") {
                continue;
            }
            for line in code(text) {
                symbols.add_words(line);
                if path.ends_with(".rs") {
                    symbols.add_definitions(path, line);
                }
            }
            if path.ends_with(".rs") {
                symbols.add_module(path);
            }
        }
        symbols
    }

    fn add_words(&mut self, line: &str) {
        for word in line.split(|c: char| !c.is_alphanumeric() && c != '_') {
            if word.len() > 2 && !self.words.contains(word) {
                self.words.insert(word.to_owned());
            }
        }
    }

    fn add_definitions(&mut self, path: &str, line: &str) {
        for keyword in KEYWORDS {
            if let Some(name) = defines(line, keyword) {
                self.define(name, path);
                if keyword == "fn" {
                    self.functions.insert(name.to_owned());
                } else {
                    self.home(name, path);
                }
                return;
            }
        }
        let trimmed = line.trim_start();
        if let Some(rest) = trimmed.strip_prefix("impl") {
            // `impl<T> Trait for Type<T> {`: both names are defined here.
            for word in rest.split(|c: char| !c.is_alphanumeric() && c != '_') {
                if word.starts_with(|c: char| c.is_ascii_uppercase()) {
                    self.home(word, path);
                }
            }
        }
        // An enum inside `words! { … }` has no keyword: `    Isolation {`.
        if let Some(name) = line
            .strip_prefix("    ")
            .and_then(|it| it.strip_suffix(" {"))
            && is_camel(name)
        {
            self.home(name, path);
        }
        // Variants, fields and re-exports: the first word of the line, or all words of a `use`.
        for word in trimmed
            .trim_start_matches("pub ")
            .split(|c: char| !c.is_alphanumeric() && c != '_')
        {
            if !word.is_empty() {
                self.define(word, path);
            }
            if !trimmed.contains("use ") {
                break;
            }
        }
    }

    /// Registers a file as the home of its module and of its crate, `sortie_core` as well as
    /// `core`.
    fn add_module(&mut self, path: &str) {
        let parts: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
        if let ["crates", name, ..] = parts[..] {
            let name = name.replace('-', "_");
            self.home(&format!("sortie_{name}"), path);
            self.home(&name, path);
        }
        if let Some(module) = parts.iter().rfind(|part| **part != "mod") {
            self.home(module, path);
        }
        if let [.., folder, "mod"] = parts[..] {
            self.home(folder, path);
        }
    }

    fn define(&mut self, name: &str, path: &str) {
        self.defined
            .entry(path.to_owned())
            .or_default()
            .insert(name.to_owned());
    }

    fn home(&mut self, name: &str, path: &str) {
        self.homes
            .entry(name.to_owned())
            .or_default()
            .insert(path.to_owned());
    }

    pub(super) fn problems(&self, document: &Document, schema: &Schema) -> Vec<(usize, String)> {
        document
            .spans
            .iter()
            .filter_map(|span| Some((span.line, self.judge(span.text.trim(), schema)?)))
            .collect()
    }

    fn judge(&self, text: &str, schema: &Schema) -> Option<String> {
        let name_end = text
            .find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':')
            .unwrap_or(text.len());
        let (name, rest) = text.split_at(name_end);
        let is_call = rest.starts_with('(') && rest.ends_with(')');
        if let Some((left, right)) = name.rsplit_once("::") {
            if left.is_empty() || right.is_empty() || left.starts_with("std::") {
                return None;
            }
            let owner = left.rsplit("::").next().unwrap_or(left);
            return (!self.has_member(owner, right))
                .then(|| format!("the sources have no {owner}::{right}"));
        }
        if name.contains(':') || !(rest.is_empty() || is_call || rest.starts_with('=')) {
            return None;
        }
        if let Some(key) = name.strip_prefix("SORTIE__") {
            let key = key.to_lowercase().replace("__", ".");
            let placeholder = key == "section.key";
            return (!placeholder && !schema.has(&key))
                .then(|| format!("there is no configuration key {key}"));
        }
        if FOREIGN.contains(&name) {
            return None;
        }
        // `create(NewRun)` is a call in Rust; `exec(git status *)` and `group:read` are rules.
        let rust_call = is_call
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && (rest == "()"
                || rest.contains([',', '&'])
                || rest.contains(|c: char| c.is_ascii_uppercase()))
            && !rest.contains(['*', '/', ':']);
        if rust_call && !self.functions.contains(name) {
            return Some(format!("the sources have no function {name}"));
        }
        let compound = name.contains('_') && !name.starts_with('_') && !name.ends_with('_');
        if (compound || is_camel(name)) && !self.words.contains(name) {
            return Some(format!("the sources do not contain {name}"));
        }
        None
    }

    fn has_member(&self, owner: &str, member: &str) -> bool {
        let Some(homes) = self.homes.get(owner) else {
            return false;
        };
        homes.iter().any(|path| {
            self.defined
                .get(path)
                .is_some_and(|defined| defined.contains(member))
        })
    }
}

/// Returns whether a name is written like a type or a variant.
fn is_camel(name: &str) -> bool {
    name.len() > 2
        && name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.contains(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric())
}
