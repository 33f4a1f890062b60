//! Entries of the audit log.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sortie_core::audit::AuditStage;
use sortie_core::id::RunId;
use sortie_core::message::ResultStatus;
use sortie_core::policy::{ApprovedBy, Decision, Layer};
use utoipa::ToSchema;

use crate::time;

/// The policy decision about a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ruling {
    /// The decision.
    pub decision: Decision,
    /// The layer that decided.
    pub layer: Layer,
    /// The rule of that layer.
    #[schema(required)]
    pub rule: Option<String>,
    /// The reason, as a short sentence.
    pub why: String,
    /// How the call was approved, if an approval was needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<ApprovedView>,
}

/// How a tool call was approved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ApprovedView {
    /// An approver decided about this call.
    Person {
        /// The id of the approval request.
        request: String,
        /// The approver.
        name: String,
    },
    /// A grant of the session covered the call.
    Grant {
        /// The rule of the grant.
        rule: String,
    },
}

impl From<&sortie_core::policy::Ruling> for Ruling {
    fn from(ruling: &sortie_core::policy::Ruling) -> Self {
        Self {
            decision: ruling.decision,
            layer: ruling.layer,
            rule: ruling.rule.clone(),
            why: ruling.why.clone(),
            approved: ruling.approved.as_ref().map(|approved| match approved {
                ApprovedBy::Person { request, name } => ApprovedView::Person {
                    request: request.to_string(),
                    name: name.clone(),
                },
                ApprovedBy::Grant { rule } => ApprovedView::Grant { rule: rule.clone() },
            }),
        }
    }
}

/// One entry of the audit log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditLine {
    /// The position in the hash chain of the whole server, from 1. A key that sees only a tenant sees
    /// gaps.
    pub seq: u64,
    /// When the entry was written.
    pub at: String,
    /// The run that made the call.
    #[schema(value_type = String)]
    pub task_id: RunId,
    /// The parent of that run; null for a root.
    #[schema(value_type = Option<String>, required)]
    pub parent_id: Option<RunId>,
    /// The root of its tree.
    #[schema(value_type = String)]
    pub root_id: RunId,
    /// The depth of the run below the root.
    pub depth: u32,
    /// The agent of the run.
    pub agent: String,
    /// The id of the tool call.
    pub call: String,
    /// The name of the tool.
    pub tool: String,
    /// The arguments, redacted and truncated.
    pub parameters: Value,
    /// The policy decision.
    #[schema(required)]
    pub ruling: Option<Ruling>,
    /// The hash of the policy that applied.
    pub policy: String,
    /// `begun`, `waits` or `ended`.
    pub stage: String,
    /// The status of the result, for `ended`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// How long the call took, for `ended`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The SHA-256 of the result that the model reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The sandbox in which its commands ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub sandbox: Option<Value>,
    /// The hash over this entry and the hash of the previous one.
    pub hash: String,
}

impl From<sortie_core::audit::AuditLine> for AuditLine {
    fn from(line: sortie_core::audit::AuditLine) -> Self {
        let entry = line.entry;
        let (stage, status, duration_ms, result, sandbox) = match entry.stage {
            AuditStage::Begun => ("begun", None, None, None, None),
            AuditStage::Waits => ("waits", None, None, None, None),
            AuditStage::Ended {
                status,
                duration_ms,
                result,
                sandbox,
            } => (
                "ended",
                Some(result_status(status).to_owned()),
                Some(duration_ms),
                Some(result),
                sandbox,
            ),
        };
        Self {
            seq: line.seq,
            at: time(line.at),
            task_id: entry.run,
            parent_id: entry.parent,
            root_id: entry.root,
            depth: entry.depth,
            agent: entry.agent,
            call: entry.call.to_string(),
            tool: entry.tool,
            parameters: entry.parameters,
            ruling: entry.ruling.as_ref().map(Ruling::from),
            policy: entry.policy,
            stage: stage.to_owned(),
            status,
            duration_ms,
            result,
            sandbox,
            hash: line.hash,
        }
    }
}

/// Returns the API's word for the status of a result.
pub(crate) const fn result_status(status: ResultStatus) -> &'static str {
    match status {
        ResultStatus::Ok => "ok",
        ResultStatus::Error => "error",
        ResultStatus::Denied => "denied",
        ResultStatus::Interrupted => "interrupted",
    }
}

/// The result of verifying the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditVerdict {
    /// Whether the chain is intact.
    pub ok: bool,
    /// The number of entries read.
    pub entries: u64,
    /// The hash of the last entry. Keep it elsewhere to detect a truncated log.
    #[schema(required)]
    pub head: Option<String>,
    /// The defects found, one sentence each.
    pub problems: Vec<String>,
}

impl From<sortie_core::audit::AuditReport> for AuditVerdict {
    fn from(report: sortie_core::audit::AuditReport) -> Self {
        Self {
            ok: report.problems.is_empty(),
            entries: report.entries,
            head: report.head,
            problems: report.problems,
        }
    }
}
