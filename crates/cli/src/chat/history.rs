//! The messages that were typed, kept between conversations in the home folder.

use std::path::{Path, PathBuf};

use sortie_base::{atomic_file, regular_file};

use super::editor::MAX_HISTORY;

/// The name of the file in the home folder.
pub(crate) const FILE: &str = "history.json";
/// The largest file that is read.
const MAX_BYTES: u64 = 8 << 20;
/// The longest message that is kept, in bytes.
const MAX_ENTRY_BYTES: usize = 10_000;

/// The history file.
#[derive(Debug)]
pub(super) struct History {
    path: PathBuf,
}

impl History {
    pub(super) fn of(home: &Path) -> Self {
        Self {
            path: home.join(FILE),
        }
    }

    /// Returns the messages, oldest first. A file that cannot be read is an empty history.
    pub(super) fn read(&self) -> Vec<String> {
        let Ok(bytes) = regular_file::read(&self.path, MAX_BYTES) else {
            return Vec::new();
        };
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// Adds a message. Another conversation may have written meanwhile, so the file is read again.
    pub(super) fn add(&self, text: &str) {
        if text.trim().is_empty() || text.len() > MAX_ENTRY_BYTES {
            return;
        }
        let mut entries = self.read();
        if entries.last().is_some_and(|last| last == text) {
            return;
        }
        entries.push(text.to_owned());
        let extra = entries.len().saturating_sub(MAX_HISTORY);
        entries.drain(..extra);
        let written = serde_json::to_vec(&entries)
            .map_err(std::io::Error::from)
            .and_then(|json| atomic_file::replace(&self.path, &json));
        if let Err(error) = written {
            tracing::debug!(%error, "the history could not be written");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_is_bounded_and_skips_repetitions() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::of(folder.path());
        assert!(history.read().is_empty());
        history.add("one");
        history.add("one");
        history.add("two\nlines");
        history.add("  ");
        assert_eq!(history.read(), ["one", "two\nlines"]);
        let full: Vec<String> = (0..MAX_HISTORY).map(|number| number.to_string()).collect();
        std::fs::write(&history.path, serde_json::to_vec(&full).unwrap()).unwrap();
        history.add("newest");
        let kept = history.read();
        assert_eq!(kept.len(), MAX_HISTORY);
        assert_eq!(kept.first().map(String::as_str), Some("1"));
        assert_eq!(kept.last().map(String::as_str), Some("newest"));
    }
}
