//! The files of a checkout, read once: what `measure` counts and `docs` compares documents with.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// Folders that contain no source: version control, packages of others, build output.
const SKIPPED: [&str; 4] = [".git", "node_modules", "target", "dist"];

/// The files of a checkout. Paths are relative to its root, with `/`.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// The content of every UTF-8 file.
    texts: BTreeMap<String, String>,
    /// Every file and folder, text or not.
    paths: BTreeSet<String>,
}

impl Tree {
    /// Reads a checkout. It need not be a git repository, so an exported commit can be measured.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.add_folder(root, "")?;
        Ok(tree)
    }

    /// Adds a text file, for tests.
    #[cfg(test)]
    pub(crate) fn with(mut self, path: &str, text: &str) -> Self {
        let folders = path.match_indices('/').map(|(at, _)| path[..at].to_owned());
        self.paths.extend(folders);
        self.paths.insert(path.to_owned());
        self.texts.insert(path.to_owned(), text.to_owned());
        self
    }

    fn add_folder(&mut self, folder: &Path, prefix: &str) -> Result<()> {
        let entries =
            fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
                self.add_folder(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file()
                && let Ok(text) = String::from_utf8(fs::read(entry.path())?)
            {
                self.texts.insert(path.clone(), text);
            }
            self.paths.insert(path);
        }
        Ok(())
    }

    /// Returns the content of a text file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// Returns every text file with its content, sorted by path.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Returns whether a file or folder of this path exists.
    pub(crate) fn contains(&self, path: &str) -> bool {
        self.paths.contains(path.trim_end_matches('/'))
    }

    /// Returns the full path of a file that a document names: a path from the root, or
    /// `runtime/executor.rs` for a file of a crate's sources.
    pub(crate) fn resolve(&self, path: &str) -> Option<String> {
        let path = path.trim_end_matches('/');
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        [
            path.to_owned(),
            format!("crates/{first}/src/{rest}"),
            format!("crates/{first}/{rest}"),
        ]
        .into_iter()
        .find(|candidate| self.contains(candidate))
    }

    /// Returns every file and folder, sorted.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(String::as_str)
    }
}
