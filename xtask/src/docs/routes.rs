//! Routes in documents, compared with the OpenAPI document of the server.

use serde_json::Value;

use super::document::Document;
use crate::tree::Tree;

/// The OpenAPI document; a test of the server keeps it current.
pub(super) const OPENAPI: &str = "crates/server/openapi.json";
const METHODS: [&str; 6] = ["GET", "POST", "PATCH", "PUT", "DELETE", "HEAD"];

/// The routes of the server.
#[derive(Debug, Default)]
pub(super) struct Routes {
    /// Path and methods in upper case.
    documented: Vec<(String, Vec<String>)>,
    /// Server sources, for the few routes that serve the login page and are not part of the API.
    sources: String,
}

impl Routes {
    pub(super) fn read(tree: &Tree) -> Self {
        let text = tree.text(OPENAPI).unwrap_or_default();
        let document: Value = serde_json::from_str(text).unwrap_or(Value::Null);
        let documented = document["paths"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(path, operations)| {
                let methods = operations.as_object().into_iter().flatten();
                let methods = methods.map(|(method, _)| method.to_uppercase()).collect();
                (path.clone(), methods)
            })
            .collect();
        let sources = tree
            .texts()
            .filter(|(path, _)| path.starts_with("crates/server/src/"))
            .map(|(_, text)| text)
            .collect();
        Self {
            documented,
            sources,
        }
    }

    pub(super) fn problems(&self, document: &Document) -> Vec<(usize, String)> {
        let fenced = document.fences.iter().flat_map(|fence| &fence.lines);
        document
            .spans
            .iter()
            .chain(fenced)
            .flat_map(|piece| {
                let found = claimed(&piece.text);
                let wrong = found
                    .into_iter()
                    .filter(|(method, path)| !self.has(*method, path));
                wrong.map(|(method, path)| {
                    let method = method
                        .map(|method| format!("{method} "))
                        .unwrap_or_default();
                    (piece.line, format!("there is no route {method}{path}"))
                })
            })
            .collect()
    }

    fn has(&self, method: Option<&str>, path: &str) -> bool {
        let allows = |methods: &[String]| {
            method.is_none_or(|method| methods.iter().any(|known| known == method))
        };
        self.documented
            .iter()
            .any(|(known, methods)| fits(known, path) && allows(methods))
            || (!path.starts_with("/api/") && self.sources.contains(&format!("\"{path}\"")))
    }
}

/// Returns whether a path of a document is this route: a parameter of the route matches any
/// segment, and `…` at the beginning stands for any prefix.
fn fits(known: &str, path: &str) -> bool {
    let known: Vec<&str> = known.split('/').collect();
    let (known, path) = match path.strip_prefix('…') {
        Some(rest) => {
            let rest: Vec<&str> = rest.split('/').skip(1).collect();
            let start = known.len().saturating_sub(rest.len());
            (known[start..].to_vec(), rest)
        }
        None => (known, path.split('/').collect()),
    };
    known.len() == path.len()
        && known
            .iter()
            .zip(&path)
            .all(|(known, part)| known.starts_with('{') || known == part)
}

/// Returns the routes that a text names: everything below `/api/`, and any path after a method.
fn claimed(text: &str) -> Vec<(Option<&str>, String)> {
    let mut routes = Vec::new();
    let mut method = None;
    for word in text.split_whitespace() {
        let word = word.trim_matches(['\'', '"', '(', ')', ',', '`']);
        if let Some(known) = METHODS.iter().find(|known| **known == word) {
            method = Some(*known);
            continue;
        }
        // `localhost:7878/api/tasks` names a route, `tests/api/requirements.txt` a file.
        let below_api = word.find("/api/").filter(|at| {
            let host = &word[..*at];
            host.is_empty() || host.contains(':') || host == "localhost"
        });
        let path = match (below_api, method.is_some()) {
            (Some(at), _) => &word[at..],
            (None, true) if word.starts_with('/') || word.starts_with("…/") => word,
            (None, _) => {
                method = None;
                continue;
            }
        };
        let end = path.find(['?', '\'', '"', ')', '`']).unwrap_or(path.len());
        let path = path[..end].trim_end_matches(['.', ',', ':', ';']);
        if path != "/api/" {
            routes.push((method, path.to_owned()));
        }
        method = None;
    }
    routes
}
