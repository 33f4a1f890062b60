//! The log of tool calls: a view of the journal.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use sortie_core::event::{Event, JournalEntry};
use sortie_core::id::{CallId, RunId, SessionKey};
use sortie_core::inbox::InboxItem;
use sortie_core::message::{Arguments, Block, ResultStatus};
use sortie_core::time::Timestamp;

/// One tool call of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolCallLog {
    pub run_id: RunId,
    /// The session that the run belongs to.
    pub requester_session: SessionKey,
    pub call_id: CallId,
    /// The tool name, as the model spelled it.
    pub tool_name: String,
    /// When the completion with the call arrived.
    pub called_at: Timestamp,
    pub parameters: Value,
    /// How it ended; `None` while it is open, or if the run ended first.
    pub status: Option<ResultStatus>,
    /// The result that the model read.
    pub result: Option<String>,
    pub elapsed_ms: Option<u64>,
}

/// Returns the tool calls of a journal, in order.
pub(crate) fn tool_calls(entries: &[JournalEntry]) -> Vec<ToolCallLog> {
    let mut calls: Vec<ToolCallLog> = Vec::new();
    let mut places: BTreeMap<CallId, usize> = BTreeMap::new();
    let mut session = SessionKey::cli();
    for entry in entries {
        match &entry.event {
            Event::Admitted { spec } => session = spec.session.clone(),
            Event::Answered { blocks, .. } => {
                for block in blocks {
                    if let Block::Call(call) = block {
                        places.insert(call.id.clone(), calls.len());
                        calls.push(ToolCallLog {
                            run_id: entry.run,
                            requester_session: session.clone(),
                            call_id: call.id.clone(),
                            tool_name: call.name.clone(),
                            called_at: entry.at,
                            parameters: match &call.arguments {
                                Arguments::Json(value) => value.clone(),
                                Arguments::Malformed { raw, .. } => Value::String(raw.clone()),
                            },
                            status: None,
                            result: None,
                            elapsed_ms: None,
                        });
                    }
                }
            }
            Event::ToolFinished {
                result, elapsed_ms, ..
            } => {
                if let Some(log) = places.get(&result.call).and_then(|at| calls.get_mut(*at)) {
                    log.status = Some(result.status);
                    log.result = Some(result.text.clone());
                    log.elapsed_ms = Some(*elapsed_ms);
                }
            }
            Event::InboxTaken {
                items,
                unread: false,
            } => {
                for item in items {
                    if let InboxItem::Announcement(announcement) = item
                        && let Some(call) = &announcement.call
                        && let Some(log) = places.get(call).and_then(|at| calls.get_mut(*at))
                        && log.status.is_none()
                    {
                        log.status = Some(match announcement.outcome.error() {
                            None => ResultStatus::Ok,
                            Some(_) => ResultStatus::Error,
                        });
                        log.result = announcement.outcome.text().map(str::to_owned);
                        log.elapsed_ms = Some(announcement.elapsed_ms);
                    }
                }
            }
            Event::InboxTaken { unread: true, .. }
            | Event::Updated { .. }
            | Event::Paused
            | Event::Resumed
            | Event::Claimed { .. }
            | Event::ModelFailed { .. }
            | Event::Compacted { .. }
            | Event::Intended { .. }
            | Event::Asked { .. }
            | Event::Delegated { .. }
            | Event::BudgetLow { .. }
            | Event::BudgetSpent { .. }
            | Event::Isolated { .. }
            | Event::Collected { .. }
            | Event::Checked { .. }
            | Event::Finished { .. } => {}
        }
    }
    calls
}
