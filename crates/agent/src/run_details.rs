//! What one view of a task needs and its record does not say: a fold that can go on from where it
//! was, so that a long journal is not read again for each look at it.

use std::path::PathBuf;

use serde_json::Value;
use sortie_core::{
    Changes, Event, Isolation, JournalEntry, Mode, RunId, RunSpec, SandboxMode, Seq, Todo,
};

/// The most neutralised things that one view of a task names; each call has all of its own.
pub const MAX_NEUTRALISED: usize = 200;

/// What a journal says about a run beside its record.
#[derive(Clone, Debug, PartialEq)]
pub struct Particulars {
    /// The folder it was admitted with.
    pub workspace: PathBuf,
    /// How calls that change something are treated.
    pub mode: Mode,
    /// What its shell commands are started in.
    pub sandbox: SandboxMode,
    /// Whether they may reach the network.
    pub network: bool,
    /// Where it works.
    pub isolation: Isolation,
    /// The hash of its policy.
    pub policy_hash: String,
    /// The tools it may call.
    pub tools: Vec<String>,
    /// The skills it may load.
    pub skills: Vec<String>,
    /// The run whose history it goes on from.
    pub continues: Option<RunId>,
    /// The branch that its changes are on.
    pub branch: Option<String>,
    /// What it changed in its worktree.
    pub changes: Option<Changes>,
    /// Its todo list.
    pub todos: Vec<Todo>,
    /// What its commands left that would have acted later, and was neutralised.
    pub neutralised: Vec<Value>,
    /// The last entry that counts.
    pub head: Seq,
}

impl Particulars {
    /// What a journal from its beginning says; `None` if it was removed.
    pub fn of(entries: &[JournalEntry]) -> Option<Self> {
        let (first, rest) = entries.split_first()?;
        let Event::Admitted { spec } = &first.event else {
            return None;
        };
        let mut particulars = Self::at_admission(spec, first.seq);
        particulars.extend(rest);
        Some(particulars)
    }

    /// Adds the entries that follow.
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

/// What the record of a command says that was neutralised after it.
pub fn neutralised(sandbox: Option<&Value>) -> Vec<Value> {
    let things = sandbox.and_then(|sandbox| sandbox.get("neutralised"));
    things
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default()
}
