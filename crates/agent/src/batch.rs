//! The calls of one answer, until each has its one result.

use serde_json::Value;
use sortie_core::{
    CallId, ChildWait, Reply, Request, RequestId, RequestKind, ResultStatus, RunId, ToolCall,
    ToolResult,
};

/// A call of the last answer.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenCall {
    /// The call.
    pub call: ToolCall,
    /// How far it is.
    pub status: CallStatus,
}

impl OpenCall {
    fn awaits_approval(&self) -> bool {
        match &self.status {
            CallStatus::AwaitingReply(request) => match request.kind {
                RequestKind::Approval(_) => true,
                RequestKind::Question(_) => false,
            },
            CallStatus::Requested
            | CallStatus::Intended { .. }
            | CallStatus::Interrupted { .. }
            | CallStatus::Replied { .. }
            | CallStatus::Waiting(_)
            | CallStatus::Answered(_) => false,
        }
    }
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
    /// It waits until somebody has said something about it.
    AwaitingReply(Box<Request>),
    /// Somebody has said something about it, or nobody did in time.
    Replied {
        /// What was asked.
        request: Box<Request>,
        /// What was said.
        reply: Reply,
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

    pub(crate) fn get_mut(&mut self, id: &CallId) -> Option<&mut OpenCall> {
        self.calls.iter_mut().find(|open| &open.call.id == id)
    }

    /// Calls that a driver has to do something about. Order matters to whoever changes something,
    /// so none that follows a call whose approval is awaited.
    pub(crate) fn runnable(&self) -> impl Iterator<Item = &OpenCall> {
        self.calls
            .iter()
            .take_while(|open| !open.awaits_approval())
            .filter(|open| match open.status {
                CallStatus::Requested
                | CallStatus::Intended { .. }
                | CallStatus::Interrupted { .. }
                | CallStatus::Replied { .. } => true,
                CallStatus::AwaitingReply(_) | CallStatus::Waiting(_) | CallStatus::Answered(_) => {
                    false
                }
            })
    }

    /// What the first call waits for that waits for somebody's word.
    pub(crate) fn pending_request(&self) -> Option<&Request> {
        self.calls.iter().find_map(|open| match &open.status {
            CallStatus::AwaitingReply(request) => Some(&**request),
            CallStatus::Requested
            | CallStatus::Intended { .. }
            | CallStatus::Interrupted { .. }
            | CallStatus::Replied { .. }
            | CallStatus::Waiting(_)
            | CallStatus::Answered(_) => None,
        })
    }

    /// Notes what was said about a call; what nobody waits for any more is of no use.
    pub(crate) fn replied(&mut self, call: &CallId, to: &RequestId, reply: &Reply) {
        let Some(open) = self.get_mut(call) else {
            return;
        };
        if let CallStatus::AwaitingReply(request) = &open.status
            && request.id == *to
        {
            open.status = CallStatus::Replied {
                request: request.clone(),
                reply: reply.clone(),
            };
        }
    }

    /// A call that has no result yet.
    pub(crate) fn open_call(&self, id: &CallId) -> Option<&ToolCall> {
        let open = self.calls.iter().find(|open| open.call.id == *id)?;
        match open.status {
            CallStatus::Answered(_) => None,
            CallStatus::Requested
            | CallStatus::Intended { .. }
            | CallStatus::Interrupted { .. }
            | CallStatus::AwaitingReply(_)
            | CallStatus::Replied { .. }
            | CallStatus::Waiting(_) => Some(&open.call),
        }
    }

    /// Calls that were under way when an earlier process died.
    pub(crate) fn interrupted(&self) -> Vec<CallId> {
        let interrupted = |open: &&OpenCall| matches!(open.status, CallStatus::Interrupted { .. });
        let calls = self.calls.iter().filter(interrupted);
        calls.map(|open| open.call.id.clone()).collect()
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
    pub(crate) fn finished_waits(&self, is_open: impl Fn(&RunId) -> bool) -> Vec<ToolCall> {
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
                | CallStatus::AwaitingReply(_)
                | CallStatus::Replied { .. }
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
                | CallStatus::AwaitingReply(_)
                | CallStatus::Replied { .. }
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
                | CallStatus::AwaitingReply(_)
                | CallStatus::Replied { .. }
                | CallStatus::Waiting(_) => {
                    ToolResult::not_run(&open.call, ResultStatus::Interrupted, text)
                }
            })
            .collect()
    }
}
