//! The calls of one completion, until each has its one result.

use crate::fan_out::FanOut;
use serde_json::Value;
use sortie_core::event::ChildWait;
use sortie_core::id::{CallId, RunId};
use sortie_core::message::{ResultStatus, ToolCall, ToolResult};
use sortie_core::request::{Reply, Request, RequestId, RequestKind};

/// A call of the last completion.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenCall {
    pub call: ToolCall,
    pub status: CallStatus,
}

impl OpenCall {
    /// Returns the request whose reply it waits for.
    fn awaited(&self) -> Option<&Request> {
        if let CallStatus::AwaitingReply(request) = &self.status {
            Some(request)
        } else {
            None
        }
    }

    fn awaits_approval(&self) -> bool {
        let is_approval = |request: &Request| matches!(request.kind, RequestKind::Approval(_));
        self.awaited().is_some_and(is_approval)
    }

    fn result(&self) -> Option<&ToolResult> {
        if let CallStatus::Answered(result) = &self.status {
            Some(result)
        } else {
            None
        }
    }
}

/// The progress of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallStatus {
    /// The model requested it; nothing has run.
    Requested,
    /// It is about to run, or runs.
    Intended {
        /// State that its tool needs for recovery.
        fingerprint: Value,
    },
    /// It was about to run, or ran, when the process died.
    Interrupted {
        /// State that its tool needs for recovery.
        fingerprint: Value,
    },
    /// Blocked until the request is decided or expires.
    AwaitingReply(Box<Request>),
    /// The request was decided, or has expired.
    Replied { request: Box<Request>, reply: Reply },
    /// Blocked until children report.
    Waiting(ChildWait),
    /// Some of its children have reported, or there are more to start.
    FanningOut(Box<FanOut>),
    /// It has its result.
    Answered(ToolResult),
}

/// The calls of one completion, in order.
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

    /// Returns the calls that can proceed. Effects keep the order of the model's calls, so none
    /// that follows a call whose approval is awaited.
    pub(crate) fn runnable(&self) -> impl Iterator<Item = &OpenCall> {
        self.calls
            .iter()
            .take_while(|open| !open.awaits_approval())
            .filter(|open| match open.status {
                CallStatus::Requested
                | CallStatus::Intended { .. }
                | CallStatus::Interrupted { .. }
                | CallStatus::Replied { .. } => true,
                CallStatus::FanningOut(ref fan_out) => fan_out.is_runnable(),
                CallStatus::AwaitingReply(_) | CallStatus::Waiting(_) | CallStatus::Answered(_) => {
                    false
                }
            })
    }

    /// Returns the request that the first blocked call waits for.
    pub(crate) fn pending_request(&self) -> Option<&Request> {
        self.calls.iter().find_map(OpenCall::awaited)
    }

    /// Records a reply. Ignores it if the call does not wait for that request any more.
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

    /// Returns the progress of a fan-out.
    pub(crate) fn fan_out(&self, id: &CallId) -> Option<&FanOut> {
        let open = self.calls.iter().find(|open| open.call.id == *id)?;
        match &open.status {
            CallStatus::FanningOut(fan_out) => Some(fan_out),
            CallStatus::Requested
            | CallStatus::Intended { .. }
            | CallStatus::Interrupted { .. }
            | CallStatus::AwaitingReply(_)
            | CallStatus::Replied { .. }
            | CallStatus::Waiting(_)
            | CallStatus::Answered(_) => None,
        }
    }

    /// Returns a call that has no result yet.
    pub(crate) fn open_call(&self, id: &CallId) -> Option<&ToolCall> {
        let open = self.calls.iter().find(|open| open.call.id == *id)?;
        open.result().is_none().then_some(&open.call)
    }

    /// Returns the calls that were running when an earlier process died.
    pub(crate) fn interrupted(&self) -> Vec<CallId> {
        let interrupted = |open: &&OpenCall| matches!(open.status, CallStatus::Interrupted { .. });
        let calls = self.calls.iter().filter(interrupted);
        calls.map(|open| open.call.id.clone()).collect()
    }

    /// Marks running calls as interrupted: their executor is gone.
    pub(crate) fn interrupt(&mut self) {
        for open in &mut self.calls {
            if let CallStatus::Intended { fingerprint } = &mut open.status {
                let fingerprint = std::mem::take(fingerprint);
                open.status = CallStatus::Interrupted { fingerprint };
            }
        }
    }

    /// Returns the calls that wait for children started earlier, none of which is still open.
    pub(crate) fn finished_waits(&self, is_open: impl Fn(&RunId) -> bool) -> Vec<ToolCall> {
        self.calls
            .iter()
            .filter(|open| {
                matches!(&open.status, CallStatus::Waiting(ChildWait::Finished { children })
                    if !children.iter().any(&is_open))
            })
            .map(|open| open.call.clone())
            .collect()
    }

    /// Returns the results in order of the calls, once each has one.
    pub(crate) fn results(&self) -> Option<Vec<ToolResult>> {
        self.calls
            .iter()
            .map(|open| open.result().cloned())
            .collect()
    }

    /// Returns the results, with `text` for every call that has none: the run is ending.
    pub(crate) fn close(self, text: &str) -> Vec<ToolResult> {
        self.calls
            .into_iter()
            .map(|open| {
                let missing = || ToolResult::not_run(&open.call, ResultStatus::Interrupted, text);
                open.result().cloned().unwrap_or_else(missing)
            })
            .collect()
    }
}
