//! The audit: every tool call, the run that made it, and the decision about it.
//!
//! Lines are written in the transaction of the events they describe, in one hash chain for the
//! whole store. Deleting a transcript does not delete them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{CallId, EffectId, RunId};
use crate::message::ResultStatus;
use crate::policy::Ruling;
use crate::tenant::Tenant;
use crate::time::Timestamp;

/// One stage of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// The run that made the call.
    pub run: RunId,
    pub parent: Option<RunId>,
    /// The root run of the tree.
    pub root: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    pub depth: u32,
    pub agent: String,
    pub call: CallId,
    pub effect: EffectId,
    /// The tool's own name; the name in the call if no tool is known by it.
    pub tool: String,
    /// The arguments, redacted and truncated.
    pub parameters: Value,
    pub ruling: Option<Ruling>,
    /// The hash of the policy that was in force.
    pub policy: String,
    #[serde(flatten)]
    pub stage: AuditStage,
}

/// The stage of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "snake_case")]
pub enum AuditStage {
    /// The call is about to run. If no later stage follows, the process died during the call.
    Begun,
    /// The call waits for children, an approval or an answer.
    Waits,
    /// The call has its result.
    Ended {
        status: ResultStatus,
        duration_ms: u64,
        /// The SHA-256 of the text that the model reads; of the full text if that was truncated.
        result: String,
        /// The sandbox that its commands ran in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sandbox: Option<Value>,
    },
}

/// An audit entry with its position in the chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditLine {
    /// From 1, without gaps.
    pub seq: u64,
    pub at: Timestamp,
    #[serde(flatten)]
    pub entry: AuditEntry,
    /// The hash over this entry and the previous hash.
    pub hash: String,
}

/// The result of checking the audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditReport {
    /// The number of lines read.
    pub entries: u64,
    /// The hash of the last line. A copy kept outside the store also reveals a truncated tail.
    pub head: Option<String>,
    /// One sentence for each problem.
    pub problems: Vec<String>,
}
