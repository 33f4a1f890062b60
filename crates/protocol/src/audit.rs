//! The audit as people read it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sortie_core::{ApprovedBy, AuditStage, Decision, Layer, ResultStatus, RunId};
use utoipa::ToSchema;

use crate::time;

/// What was decided about a call, and by whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ruling {
    /// What.
    pub decision: Decision,
    /// By which layer.
    pub layer: Layer,
    /// By which of its rules.
    #[schema(required)]
    pub rule: Option<String>,
    /// Why, as a short sentence.
    pub why: String,
    /// Who said yes, where somebody was asked: a name, or the rule that was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<ApprovedView>,
}

/// Who said yes to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ApprovedView {
    /// Somebody who was asked about this very call.
    Person {
        /// The request.
        request: String,
        /// Who.
        name: String,
    },
    /// Somebody who had allowed it for the whole session.
    Grant {
        /// What was allowed.
        rule: String,
    },
}

impl From<&sortie_core::Ruling> for Ruling {
    fn from(ruling: &sortie_core::Ruling) -> Self {
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

/// One thing that happened to a call, in its place in the chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditLine {
    /// Its place in the chain of the whole server, from 1. A key that sees a part of it sees gaps.
    pub seq: u64,
    /// When.
    pub at: String,
    /// The run that made the call.
    #[schema(value_type = String)]
    pub task_id: RunId,
    /// The run that asked for that one.
    #[schema(value_type = Option<String>, required)]
    pub parent_id: Option<RunId>,
    /// The first run of the tree.
    #[schema(value_type = String)]
    pub root_id: RunId,
    /// How far below the root.
    pub depth: u32,
    /// Its agent.
    pub agent: String,
    /// The call.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// The arguments, without secrets, bounded.
    pub parameters: Value,
    /// What was decided, and by whom.
    #[schema(required)]
    pub ruling: Option<Ruling>,
    /// What the rules were, by their hash.
    pub policy: String,
    /// `begun`, `waits` or `ended`.
    pub stage: String,
    /// How it went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The SHA-256 of what the model reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// What its commands ran in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub sandbox: Option<Value>,
    /// The hash over this entry and the hash before.
    pub hash: String,
}

impl From<sortie_core::AuditLine> for AuditLine {
    fn from(line: sortie_core::AuditLine) -> Self {
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

/// The word for how a call went.
pub(crate) const fn result_status(status: ResultStatus) -> &'static str {
    match status {
        ResultStatus::Ok => "ok",
        ResultStatus::Error => "error",
        ResultStatus::Denied => "denied",
        ResultStatus::Interrupted => "interrupted",
    }
}

/// What a check of the audit found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditVerdict {
    /// Whether nothing is wrong.
    pub ok: bool,
    /// Entries read.
    pub entries: u64,
    /// The hash of the last one: keep it elsewhere, and a cut end can be seen too.
    #[schema(required)]
    pub head: Option<String>,
    /// What is wrong, one sentence each.
    pub problems: Vec<String>,
}

impl From<sortie_core::AuditReport> for AuditVerdict {
    fn from(report: sortie_core::AuditReport) -> Self {
        Self {
            ok: report.problems.is_empty(),
            entries: report.entries,
            head: report.head,
            problems: report.problems,
        }
    }
}
