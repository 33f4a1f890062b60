//! What a task was admitted with and what was applied: its mode, its sandbox, its worktree.

use serde::Serialize;
use sortie_base::hidden::write_out_line;
use sortie_core::event::{Event, JournalEntry};
use sortie_core::policy::Mode;
use sortie_core::run::{
    Changes, ChangesFate, Isolation, RunRecord, RunSpec, SandboxMode, Worktree,
};
use sortie_core::words::Lang;
use sortie_runtime::{MAX_NEUTRALISED, neutralised};
use sortie_sandbox::Neutralised;
use sortie_text::t;

use crate::commands::audit::backend;
use crate::table;

/// The characters of a policy hash that are printed.
const HASH_CHARS: usize = 12;

/// The mode, sandbox, worktree and changes of a task, read from its journal.
#[derive(Debug, Default, Serialize)]
pub(super) struct Circumstances {
    mode: Option<Mode>,
    policy_hash: Option<String>,
    sandbox: Option<SandboxMode>,
    network: Option<bool>,
    /// The sandbox that was applied to its last command.
    sandbox_applied: Option<serde_json::Value>,
    /// Files that its commands left, that would have taken effect later, and that were neutralised.
    neutralised: Vec<serde_json::Value>,
    isolation: Option<Isolation>,
    branch: Option<String>,
    changes: Option<Changes>,
    /// Whether the changes were applied or discarded, once that is decided.
    changes_fate: Option<ChangesFate>,
    wall_ms: Option<u64>,
    /// The worktree of the task, for the commands that apply its changes.
    #[serde(skip)]
    pub(super) worktree: Option<Worktree>,
    /// Whether its worktree was collected.
    #[serde(skip)]
    pub(super) collected: bool,
}

impl Circumstances {
    /// Reads a journal. A deleted journal yields only the fields of the record.
    pub(super) fn of(record: &RunRecord, entries: Vec<JournalEntry>) -> Self {
        let mut found = Self {
            changes_fate: record.changes_fate,
            ..Self::default()
        };
        for entry in entries {
            found.hear(entry.event);
        }
        found
    }

    /// Returns the changes in its worktree.
    pub(super) fn changes(&self) -> Option<&Changes> {
        self.changes.as_ref()
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Admitted { spec } => self.admitted(&spec),
            Event::ToolFinished {
                sandbox: Some(applied),
                ..
            } => {
                self.neutralised.extend(neutralised(Some(&applied)));
                self.neutralised.truncate(MAX_NEUTRALISED);
                self.sandbox_applied = Some(applied);
            }
            Event::Isolated { worktree } => {
                self.branch = Some(worktree.branch.clone());
                self.worktree = Some(worktree);
            }
            Event::Collected { changes } => {
                self.collected = true;
                self.changes = changes;
            }
            Event::Updated { .. }
            | Event::Paused
            | Event::Resumed
            | Event::Claimed { .. }
            | Event::InboxTaken { .. }
            | Event::Answered { .. }
            | Event::ModelFailed { .. }
            | Event::Compacted { .. }
            | Event::Intended { .. }
            | Event::Asked { .. }
            | Event::Delegated { .. }
            | Event::ToolFinished { sandbox: None, .. }
            | Event::BudgetLow { .. }
            | Event::BudgetSpent { .. }
            | Event::Finished { .. } => {}
        }
    }

    fn admitted(&mut self, spec: &RunSpec) {
        self.mode = Some(spec.policy.mode);
        self.policy_hash = Some(spec.policy_hash.clone());
        self.sandbox = Some(spec.confinement.sandbox);
        self.network = Some(spec.confinement.network);
        self.isolation = Some(spec.isolation);
        self.wall_ms = spec.limits.budget.wall_ms;
    }

    /// Returns the fields as rows for people.
    pub(super) fn rows(&self, lang: Lang) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        if let Some(mode) = self.mode {
            rows.push((t!(lang, "field-mode"), mode.to_string()));
        }
        if let Some(hash) = self.policy_hash.as_deref().filter(|hash| !hash.is_empty()) {
            let short = hash.chars().take(HASH_CHARS).collect();
            rows.push((t!(lang, "field-policy"), short));
        }
        if let Some(sandbox) = self.sandbox {
            let applied = self.sandbox_applied.as_ref().and_then(backend);
            let words = match applied {
                Some(backend) => t!(
                    lang,
                    "sandbox-applied",
                    mode = sandbox.as_str(),
                    backend = write_out_line(backend)
                ),
                None => sandbox.to_string(),
            };
            rows.push((t!(lang, "field-sandbox"), words));
        }
        for thing in &self.neutralised {
            if let Ok(thing) = serde_json::from_value::<Neutralised>(thing.clone()) {
                rows.push((
                    t!(lang, "field-neutralised"),
                    write_out_line(&thing.sentence()),
                ));
            }
        }
        rows.extend(self.isolation_rows(lang));
        if let Some(limit) = self.wall_ms {
            rows.push((t!(lang, "field-budget-time"), table::span(limit)));
        }
        rows
    }

    fn isolation_rows(&self, lang: Lang) -> Vec<(String, String)> {
        let Some(isolation) = self.isolation.filter(|where_| *where_ != Isolation::None) else {
            return Vec::new();
        };
        let mut rows = vec![(t!(lang, "field-isolation"), isolation.to_string())];
        if let Some(branch) = &self.branch {
            rows.push((t!(lang, "field-branch"), write_out_line(branch)));
        }
        if let Some(changes) = &self.changes {
            let words = t!(
                lang,
                "changes-line",
                files = changes.files,
                insertions = changes.insertions,
                deletions = changes.deletions,
                fate = self.changes_fate.map_or("open", ChangesFate::as_str)
            );
            rows.push((t!(lang, "field-changes"), words));
        }
        rows
    }
}
