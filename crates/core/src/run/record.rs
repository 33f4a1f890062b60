//! What people and programs read about a run: derived from the journal, kept beside it.

use serde::{Deserialize, Serialize};

use crate::budget::Balance;
use crate::id::{RunId, Seq, SessionKey};
use crate::message::Usage;
use crate::run::{
    ChangesFate, Cleanup, Delivery, EdgeMode, Lane, Outcome, Priority, Reason, Status, WaitingOn,
};
use crate::tenant::Tenant;
use crate::time::Timestamp;

/// The parts of a record that change while the run runs. Computed by the fold, stored as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// What it waits for.
    pub waiting_on: Option<WaitingOn>,
    /// 0 to 100; never goes back.
    pub progress: u8,
    /// How many calls it made.
    pub tool_calls: u32,
    /// What it used; the cost is unknown if that of any answer is.
    pub usage: Usage,
    /// Answers whose cost is unknown.
    pub unpriced: u32,
    /// The model that really answered, or the one to be asked.
    pub model: String,
    /// The last thing it said, kept in case it never says more.
    pub last_text: Option<String>,
}

/// The record of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// The run.
    pub run_id: RunId,
    /// `subagent:{run_id}:{task_hash}`.
    pub child_session: SessionKey,
    /// The session that asked.
    pub session: SessionKey,
    /// Whose it is.
    pub tenant: Option<Tenant>,
    /// The run that asked.
    pub parent: Option<RunId>,
    /// Whether the parent's call waits.
    pub mode: Option<EdgeMode>,
    /// The first run of the tree.
    pub root: RunId,
    /// How far below the root.
    pub depth: u32,
    /// The agent's name.
    pub agent: String,
    /// The queue.
    pub lane: Lane,
    /// How urgent.
    pub priority: Priority,
    /// What people call it.
    pub label: String,
    /// What it is to do.
    pub task: String,
    /// How hard the model should think.
    pub thinking: Option<String>,
    /// How far it is.
    pub status: Status,
    /// What changes while it runs.
    pub summary: Summary,
    /// What its descendants used that have ended.
    pub children_usage: Usage,
    /// Answers to its ended descendants whose cost is unknown.
    pub children_unpriced: u32,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Whether the result has arrived.
    pub delivery: Delivery,
    /// Why delivery was given up.
    pub delivery_error: Option<String>,
    /// When it was admitted.
    pub created_at: Timestamp,
    /// When it was first claimed.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// How long it may run.
    pub timeout_ms: Option<u64>,
    /// What happens to its transcript.
    pub cleanup: Cleanup,
    /// When the transcript was removed.
    pub cleaned_at: Option<Timestamp>,
    /// When it was archived.
    pub archived_at: Option<Timestamp>,
    /// Its place in the queue, from 1, while it waits for a slot or for its provider. Among those that
    /// wait for a slot, a run of a tenant counts only those of the tenant: how busy others are is
    /// nobody else's business.
    pub queue_position: Option<u32>,
    /// The end of its journal.
    pub head: Seq,
    /// How often its process died under it.
    pub crashes: u32,
    /// Whether somebody wants it stopped.
    pub cancel_requested: bool,
    /// Whether somebody wants it to rest: it starts nothing new until that is taken back.
    pub paused: bool,
    /// What became of the changes in its worktree, once somebody has decided.
    pub changes_fate: Option<ChangesFate>,
    /// What is left of the accounts it draws from; nothing where nothing is limited.
    pub budget: Vec<Balance>,
}

impl RunRecord {
    /// What it and its ended descendants used. A sum of costs of which one is unknown is unknown.
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

    /// Why it failed.
    pub fn reason(&self) -> Option<Reason> {
        self.outcome.as_ref().and_then(Outcome::reason)
    }

    /// The final text, or what there was of it.
    pub fn result(&self) -> Option<&str> {
        self.outcome.as_ref().and_then(Outcome::text)
    }

    /// How long it has been running, at `now`.
    pub fn elapsed_ms(&self, now: Timestamp) -> u64 {
        self.started_at
            .map_or(0, |started| self.ended_at.unwrap_or(now).ms_since(started))
    }
}
