//! Makes the audit entries of tool calls.

use std::collections::BTreeMap;

use serde_json::Value;
use sortie_agent::{FanOut, RunState};
use sortie_base::redact::Redactor;
use sortie_core::audit::{AuditEntry, AuditStage};
use sortie_core::event::{Event, JournalEntry};
use sortie_core::id::{BlobId, CallId, EffectId, RunId};
use sortie_core::inbox::{Announcement, InboxItem};
use sortie_core::message::{Arguments, ResultStatus, ToolCall, ToolResult};
use sortie_core::policy::Ruling;
use sortie_core::run::{EdgeMode, RunSpec, Status};
use sortie_text::truncate_middle;

/// Characters of one string in the arguments; the journal has all of it.
const MAX_STRING_CHARS: usize = 2_000;
/// Bytes of all arguments.
const MAX_PARAMETER_BYTES: usize = 16 * 1024;

/// Makes the audit entries of one run.
#[derive(Clone, Copy)]
pub(crate) struct Auditor<'a> {
    pub(crate) run: RunId,
    pub(crate) spec: &'a RunSpec,
    pub(crate) redactor: &'a Redactor,
}

impl Auditor<'_> {
    /// Returns the entry of a call. `tool` is the registered name of the tool, whichever alias the
    /// model used.
    pub(crate) fn entry(
        self,
        call: &ToolCall,
        tool: &str,
        ruling: Option<&Ruling>,
        stage: AuditStage,
    ) -> AuditEntry {
        let parameters = match &call.arguments {
            Arguments::Json(value) => value.clone(),
            Arguments::Malformed { raw, .. } => Value::String(raw.clone()),
        };
        AuditEntry {
            run: self.run,
            parent: self.spec.parent.as_ref().map(|parent| parent.run),
            root: self.spec.root,
            tenant: self.spec.tenant.clone(),
            depth: self.spec.depth,
            agent: self.spec.agent.name.clone(),
            call: call.id.clone(),
            effect: EffectId::new(self.run, &call.id),
            tool: tool.to_owned(),
            parameters: bounded(self.redactor.redact_json(&parameters)),
            ruling: ruling.cloned(),
            policy: self.spec.policy_hash.clone(),
            stage,
        }
    }
}

impl Auditor<'_> {
    /// Returns the entries of calls that children have answered.
    pub(crate) fn answered_by_children(
        self,
        before: &RunState,
        taken: &JournalEntry,
    ) -> Vec<AuditEntry> {
        let Event::InboxTaken { items, .. } = &taken.event else {
            return Vec::new();
        };
        let reported = items.iter().filter_map(|item| match item {
            InboxItem::Announcement(announcement) => Some(announcement),
            InboxItem::Steer { .. } | InboxItem::Reply { .. } | InboxItem::Question { .. } => None,
        });
        let answered = reported.filter(|it| it.mode == EdgeMode::Blocking);
        let mut fan_outs: BTreeMap<CallId, FanOut> = BTreeMap::new();
        let mut entries = Vec::new();
        for announcement in answered {
            let Some(id) = &announcement.call else {
                continue;
            };
            let ended = match id.item() {
                None => Some(id.clone()),
                // The line about a fan-out comes with its last result.
                Some((id, item, attempt)) => {
                    let known = || before.find_fan_out(&id).cloned().unwrap_or_default();
                    let fan_out = fan_outs.entry(id.clone()).or_insert_with(known);
                    fan_out.reported((item, attempt), (**announcement).clone());
                    fan_out.is_over().then_some(id)
                }
            };
            if let Some(call) = ended.and_then(|id| before.find_open_call(&id)) {
                entries.push(self.entry(call, &call.name, None, reported_stage(announcement)));
            }
        }
        entries
    }
}

fn reported_stage(announcement: &Announcement) -> AuditStage {
    let outcome = &announcement.outcome;
    let text = outcome
        .text()
        .map(str::to_owned)
        .or_else(|| outcome.error());
    AuditStage::Ended {
        status: match outcome.status() {
            Status::Completed => ResultStatus::Ok,
            Status::Pending
            | Status::Running
            | Status::Failed
            | Status::Timeout
            | Status::Cancelled => ResultStatus::Error,
        },
        duration_ms: announcement.elapsed_ms,
        result: BlobId::of(text.unwrap_or_default().as_bytes())
            .as_str()
            .to_owned(),
        sandbox: None,
    }
}

/// Returns the final stage of a call.
pub(crate) fn ended(result: &ToolResult, duration_ms: u64, sandbox: Option<Value>) -> AuditStage {
    AuditStage::Ended {
        status: result.status,
        duration_ms,
        result: match &result.full {
            Some(blob) => blob.as_str().to_owned(),
            None => BlobId::of(result.text.as_bytes()).as_str().to_owned(),
        },
        sandbox,
    }
}

fn bounded(value: Value) -> Value {
    let short = shortened(value);
    let text = short.to_string();
    if text.len() <= MAX_PARAMETER_BYTES {
        return short;
    }
    Value::String(truncate_middle(&text, MAX_PARAMETER_BYTES / 4, "…").text)
}

fn shortened(value: Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
        Value::String(text) => Value::String(truncate_middle(&text, MAX_STRING_CHARS, "…").text),
        Value::Array(items) => items.into_iter().map(shortened).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, field)| (name, shortened(field)))
            .collect(),
    }
}
