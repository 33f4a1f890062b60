//! The names of runs, for people: handles and labels.

use std::collections::BTreeMap;

use sortie_base::hidden::write_out_line;
use sortie_core::id::RunId;
use sortie_text::truncate_columns;

/// Columns of a label inside a sentence.
const LABEL_COLUMNS: usize = 48;

/// Returns a label for a sentence: on one line, hidden characters written out, truncated with an
/// ellipsis.
pub(crate) fn short_label(label: &str) -> String {
    truncate_columns(&write_out_line(label), LABEL_COLUMNS)
}

/// The handles of some runs.
#[derive(Debug)]
pub(crate) struct Handles(BTreeMap<RunId, String>);

impl Handles {
    pub(crate) fn new(handles: BTreeMap<RunId, String>) -> Self {
        Self(handles)
    }

    /// Returns the handle of a run. A run that was deleted has none, and keeps its id.
    pub(crate) fn of(&self, run: RunId) -> String {
        let handle = self.0.get(&run).cloned();
        handle.unwrap_or_else(|| run.to_string())
    }
}
