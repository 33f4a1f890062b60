//! The audit: every call, who made it, what was decided about it and by whom.
//!
//! Written in the transaction of the facts themselves, in one chain for the whole store, and never
//! removed with a transcript.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{CallId, EffectId, RunId};
use crate::message::ResultStatus;
use crate::policy::Ruling;
use crate::tenant::Tenant;
use crate::time::Timestamp;

/// One thing that happened to a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// The run that made the call.
    pub run: RunId,
    /// The run that asked for that one.
    pub parent: Option<RunId>,
    /// The first run of the tree.
    pub root: RunId,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    /// How far below the root.
    pub depth: u32,
    /// Its agent.
    pub agent: String,
    /// The call.
    pub call: CallId,
    /// The stable name of what it does.
    pub effect: EffectId,
    /// The tool, by its own name where it is known.
    pub tool: String,
    /// The arguments, without secrets, bounded.
    pub parameters: Value,
    /// What was decided, and by whom.
    pub ruling: Option<Ruling>,
    /// What the rules were, by their hash.
    pub policy: String,
    /// What happened.
    #[serde(flatten)]
    pub stage: AuditStage,
}

/// What happened to a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "snake_case")]
pub enum AuditStage {
    /// It is about to run. If nothing follows, the process died with it.
    Begun,
    /// It waits for children, or for somebody's word.
    Waits,
    /// It has its answer.
    Ended {
        /// How it went.
        status: ResultStatus,
        /// How long it took.
        duration_ms: u64,
        /// The SHA-256 of what the model reads, or of the whole where that was cut.
        result: String,
        /// What its commands ran in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sandbox: Option<Value>,
    },
}

/// An entry in its place in the chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditLine {
    /// Its place, from 1, without gaps.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub entry: AuditEntry,
    /// The hash over this entry and the hash before.
    pub hash: String,
}

/// What a check of the audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditReport {
    /// Entries read.
    pub entries: u64,
    /// The hash of the last one: keep it elsewhere, and a cut end can be seen too.
    pub head: Option<String>,
    /// What is wrong, one sentence each.
    pub problems: Vec<String>,
}
