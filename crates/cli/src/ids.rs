//! The handles of runs, for people.

use std::collections::BTreeMap;

use sortie_core::id::RunId;

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
