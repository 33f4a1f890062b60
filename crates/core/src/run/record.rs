//! The record of a run: derived from the journal and stored beside it, for interfaces.

use std::path::PathBuf;

use crate::budget::Balance;
use crate::id::{RunId, Seq, SessionKey};
use crate::message::Usage;
use crate::run::{
    ChangesFate, Cleanup, Delivery, EdgeMode, Lane, Outcome, Priority, Reason, Status, WaitingOn,
};
use crate::tenant::Tenant;
use crate::time::Timestamp;

/// The part of a record that changes while the run executes. Computed by the fold.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub waiting_on: Option<WaitingOn>,
    /// From 0 to 100; never decreases.
    pub progress: u8,
    pub tool_calls: u32,
    /// The cost is unknown if that of any completion is.
    pub usage: Usage,
    /// Completions of unknown cost.
    pub unpriced: u32,
    /// The model that replied last, or the one to be prompted.
    pub model: String,
    /// The model's latest text; the partial result if the run ends early.
    pub last_text: Option<String>,
}

/// The record of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    pub run_id: RunId,
    /// The short name that people see and type; unique in the store.
    pub handle: String,
    /// The private session: `subagent:{run_id}:{task_hash}`.
    pub child_session: SessionKey,
    /// The session that the run was created for.
    pub session: SessionKey,
    pub tenant: Option<Tenant>,
    pub parent: Option<RunId>,
    /// Whether the parent's call waits for the result.
    pub mode: Option<EdgeMode>,
    /// The root run of the tree.
    pub root: RunId,
    /// The distance from the root.
    pub depth: u32,
    pub agent: String,
    pub lane: Lane,
    pub priority: Priority,
    pub label: String,
    pub task: String,
    /// The folder in which it works.
    pub workspace: PathBuf,
    /// The model's reasoning effort.
    pub thinking: Option<String>,
    pub status: Status,
    pub summary: Summary,
    /// The usage of its ended descendants.
    pub children_usage: Usage,
    /// Completions of its ended descendants with unknown cost.
    pub children_unpriced: u32,
    pub outcome: Option<Outcome>,
    /// Whether the result has been delivered.
    pub delivery: Delivery,
    /// Why delivery is blocked.
    pub delivery_error: Option<String>,
    /// When it was admitted.
    pub created_at: Timestamp,
    /// When it was first claimed.
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub timeout_ms: Option<u64>,
    pub cleanup: Cleanup,
    /// When the transcript was deleted.
    pub cleaned_at: Option<Timestamp>,
    pub archived_at: Option<Timestamp>,
    /// Its position in the queue, from 1, while it waits for a slot or a rate limit. For a slot, a
    /// run of a tenant counts only runs of that tenant, so that it reveals nothing about others.
    pub queue_position: Option<u32>,
    /// The last position of its journal.
    pub head: Seq,
    /// How often a process died while it held the run.
    pub crashes: u32,
    pub cancel_requested: bool,
    /// Whether it is paused: it starts nothing new until it is resumed.
    pub paused: bool,
    /// Whether the changes in its worktree were applied or discarded; `None` if undecided.
    pub changes_fate: Option<ChangesFate>,
    /// The balances of the accounts it draws from; empty if nothing is limited.
    pub budget: Vec<Balance>,
}

/// A field of a record that its executor does not write, with its new value. It is not journaled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordField {
    ChangesFate(ChangesFate),
}

impl RecordField {
    /// Returns whether the value replaces the one in the record.
    pub fn replaces(&self, record: &RunRecord) -> bool {
        match self {
            // Applied changes stay applied when their branch is discarded later.
            Self::ChangesFate(_) => record.changes_fate != Some(ChangesFate::Applied),
        }
    }
}

impl RunRecord {
    /// Returns the usage of the run and its ended descendants. The cost is unknown if any part of
    /// it is.
    pub fn total_usage(&self) -> Usage {
        let sum = self.summary.usage.plus(self.children_usage);
        if self.summary.unpriced > 0 || self.children_unpriced > 0 {
            return Usage {
                cost_usd: None,
                ..sum
            };
        }
        sum
    }

    pub fn reason(&self) -> Option<Reason> {
        self.outcome.as_ref().and_then(Outcome::reason)
    }

    /// Returns the final or partial text.
    pub fn result(&self) -> Option<&str> {
        self.outcome.as_ref().and_then(Outcome::text)
    }

    pub fn elapsed_ms(&self, now: Timestamp) -> u64 {
        self.started_at
            .map_or(0, |started| self.ended_at.unwrap_or(now).ms_since(started))
    }
}
