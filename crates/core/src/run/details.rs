//! What views of a task need besides its record: an incremental fold, so that a long journal is not
//! read again for every view.

use std::path::PathBuf;

use serde_json::Value;

use crate::event::{Event, JournalEntry};
use crate::id::{RunId, Seq};
use crate::message::Todo;
use crate::policy::Mode;
use crate::run::{Changes, Isolation, RunSpec, SandboxMode, Worktree};

/// The most neutralised items that one view of a task lists; each call has all of its own.
const MAX_NEUTRALISED: usize = 200;

/// What a journal tells about a run besides its record.
#[derive(Clone, Debug, PartialEq)]
pub struct RunDetails {
    /// The folder that the run was admitted with.
    pub workspace: PathBuf,
    /// How calls that change something are treated.
    pub mode: Mode,
    /// How its shell commands are confined.
    pub sandbox: SandboxMode,
    /// Whether its shell commands may reach the network.
    pub network: bool,
    /// Whether it works in a worktree.
    pub isolation: Isolation,
    /// The hash of its policy.
    pub policy_hash: String,
    /// The tools it may call.
    pub tools: Vec<String>,
    /// The skills it may load.
    pub skills: Vec<String>,
    /// The run whose history it continues.
    pub continues: Option<RunId>,
    /// The most time that the run and its tree may take.
    pub wall_ms: Option<u64>,
    pub worktree: Option<Worktree>,
    /// Whether its worktree was collected.
    pub collected: bool,
    /// What it changed in its worktree.
    pub changes: Option<Changes>,
    /// The sandbox that was applied to its last command.
    pub sandbox_applied: Option<Value>,
    pub todos: Vec<Todo>,
    /// What its commands left behind that could have acted later, and was neutralised.
    pub neutralised: Vec<Value>,
    /// The last entry that was folded.
    pub head: Seq,
}

impl RunDetails {
    /// Folds a journal from its beginning; `None` if it was removed.
    pub fn of(entries: &[JournalEntry]) -> Option<Self> {
        let (first, rest) = entries.split_first()?;
        let Event::Admitted { spec } = &first.event else {
            return None;
        };
        let mut details = Self::at_admission(spec, first.seq);
        details.extend(rest);
        Some(details)
    }

    /// Folds the entries that follow.
    pub fn extend(&mut self, entries: &[JournalEntry]) {
        for entry in entries {
            self.head = entry.seq;
            self.add(&entry.event);
        }
    }

    fn at_admission(spec: &RunSpec, head: Seq) -> Self {
        Self {
            workspace: spec.workspace.clone(),
            mode: spec.policy.mode,
            sandbox: spec.confinement.sandbox,
            network: spec.confinement.network,
            isolation: spec.isolation,
            policy_hash: spec.policy_hash.clone(),
            tools: spec.tools.clone(),
            skills: spec.skills.iter().map(|skill| skill.name.clone()).collect(),
            continues: spec.continues,
            wall_ms: spec.limits.budget.wall_ms,
            worktree: None,
            collected: false,
            changes: None,
            sandbox_applied: None,
            todos: Vec::new(),
            neutralised: Vec::new(),
            head,
        }
    }

    fn add(&mut self, event: &Event) {
        if let Event::Isolated { worktree } = event {
            self.worktree = Some(worktree.clone());
        } else if let Event::Collected { changes } = event {
            self.collected = true;
            self.changes.clone_from(changes);
        } else if let Event::ToolFinished { todos, sandbox, .. } = event {
            if let Some(todos) = todos {
                self.todos.clone_from(todos);
            }
            if let Some(applied) = sandbox {
                self.neutralised.extend(neutralised(applied));
                self.neutralised.truncate(MAX_NEUTRALISED);
                self.sandbox_applied = Some(applied.clone());
            }
        }
    }
}

/// Returns what was neutralised after a command, by the record of its sandbox.
fn neutralised(sandbox: &Value) -> Vec<Value> {
    let things = sandbox.get("neutralised").and_then(Value::as_array);
    things.cloned().unwrap_or_default()
}
