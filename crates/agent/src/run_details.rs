//! What views of a task need besides its record: an incremental fold, so that a long journal is not
//! read again for every view.

use std::path::PathBuf;

use serde_json::Value;
use sortie_core::event::{Event, JournalEntry};
use sortie_core::id::{RunId, Seq};
use sortie_core::message::Todo;
use sortie_core::policy::Mode;
use sortie_core::run::{Changes, Isolation, RunSpec, SandboxMode};

/// The most neutralised items that one view of a task lists; each call has all of its own.
pub const MAX_NEUTRALISED: usize = 200;

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
    /// The branch with its changes.
    pub branch: Option<String>,
    /// What it changed in its worktree.
    pub changes: Option<Changes>,
    /// Its todo list.
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
            branch: None,
            changes: None,
            todos: Vec::new(),
            neutralised: Vec::new(),
            head,
        }
    }

    fn add(&mut self, event: &Event) {
        match event {
            Event::Isolated { worktree } => self.branch = Some(worktree.branch.clone()),
            Event::Collected { changes } => self.changes.clone_from(changes),
            Event::ToolFinished { todos, sandbox, .. } => {
                if let Some(todos) = todos {
                    self.todos.clone_from(todos);
                }
                self.neutralised.extend(neutralised(sandbox.as_ref()));
                self.neutralised.truncate(MAX_NEUTRALISED);
            }
            Event::Admitted { .. }
            | Event::Updated { .. }
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
            | Event::BudgetLow { .. }
            | Event::BudgetSpent { .. }
            | Event::Finished { .. } => {}
        }
    }
}

/// Returns what was neutralised after a command, by the record of its sandbox.
pub fn neutralised(sandbox: Option<&Value>) -> Vec<Value> {
    let things = sandbox.and_then(|sandbox| sandbox.get("neutralised"));
    things
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default()
}
