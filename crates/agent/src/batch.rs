//! The calls of one answer, until each has its one result.

use serde_json::Value;
use sortie_core::{ChildWait, ResultStatus, RunId, ToolCall, ToolResult};

/// A call of the last answer.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenCall {
    /// The call.
    pub call: ToolCall,
    /// How far it is.
    pub status: CallStatus,
}

/// How far a call is.
#[derive(Clone, Debug, PartialEq)]
pub enum CallStatus {
    /// The model asked for it; nothing has run.
    Requested,
    /// It is about to run, or runs.
    Intended {
        /// What its tool wanted to remember.
        fingerprint: Value,
    },
    /// It was about to run, or ran, when the process died.
    Interrupted {
        /// What its tool wanted to remember.
        fingerprint: Value,
    },
    /// It waits for children.
    Waiting(ChildWait),
    /// It has its result.
    Answered(ToolResult),
}

/// The calls of one answer, in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Batch {
    calls: Vec<OpenCall>,
}

impl Batch {
    pub(crate) fn new(calls: impl IntoIterator<Item = ToolCall>) -> Self {
        Self {
            calls: calls
                .into_iter()
                .map(|call| OpenCall {
                    call,
                    status: CallStatus::Requested,
                })
                .collect(),
        }
    }

    pub(crate) fn get_mut(&mut self, id: &sortie_core::CallId) -> Option<&mut OpenCall> {
        self.calls.iter_mut().find(|open| &open.call.id == id)
    }

    /// Calls that a driver has to do something about.
    pub(crate) fn runnable(&self) -> impl Iterator<Item = &OpenCall> {
        self.calls.iter().filter(|open| match open.status {
            CallStatus::Requested
            | CallStatus::Intended { .. }
            | CallStatus::Interrupted { .. } => true,
            CallStatus::Waiting(_) | CallStatus::Answered(_) => false,
        })
    }

    /// Marks what was under way as interrupted: its executor is gone.
    pub(crate) fn interrupt(&mut self) {
        for open in &mut self.calls {
            if let CallStatus::Intended { fingerprint } = &mut open.status {
                let fingerprint = std::mem::take(fingerprint);
                open.status = CallStatus::Interrupted { fingerprint };
            }
        }
    }

    /// Calls that wait for children started earlier, none of which is still open.
    pub(crate) fn waits_that_are_over(&self, is_open: impl Fn(&RunId) -> bool) -> Vec<ToolCall> {
        self.calls
            .iter()
            .filter(|open| match &open.status {
                CallStatus::Waiting(ChildWait::Finished { children }) => {
                    !children.iter().any(&is_open)
                }
                CallStatus::Waiting(ChildWait::Result { .. })
                | CallStatus::Requested
                | CallStatus::Intended { .. }
                | CallStatus::Interrupted { .. }
                | CallStatus::Answered(_) => false,
            })
            .map(|open| open.call.clone())
            .collect()
    }

    /// The results in order of the calls, once each has one.
    pub(crate) fn results(&self) -> Option<Vec<ToolResult>> {
        self.calls
            .iter()
            .map(|open| match &open.status {
                CallStatus::Answered(result) => Some(result.clone()),
                CallStatus::Requested
                | CallStatus::Intended { .. }
                | CallStatus::Interrupted { .. }
                | CallStatus::Waiting(_) => None,
            })
            .collect()
    }

    /// The results, with `text` for every call that has none: the run is ending.
    pub(crate) fn close(self, text: &str) -> Vec<ToolResult> {
        self.calls
            .into_iter()
            .map(|open| match open.status {
                CallStatus::Answered(result) => result,
                CallStatus::Requested
                | CallStatus::Intended { .. }
                | CallStatus::Interrupted { .. }
                | CallStatus::Waiting(_) => {
                    ToolResult::not_run(&open.call, ResultStatus::Interrupted, text)
                }
            })
            .collect()
    }
}
