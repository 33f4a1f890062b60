//! The next step of a run: the one decision that everything else follows from.

use sortie_core::message::{ChildRef, SharedMessage};
use sortie_core::request::RequestKind;
use sortie_core::run::{Cancellation, Outcome, WaitingOn};
use sortie_core::time::Timestamp;

use crate::batch::{Batch, OpenCall};
use crate::compact::Compaction;
use crate::state::{Phase, RunState, unchecked};

/// What the driver has to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    CallModel(ModelCall),
    /// Shorten the history: append this event, with its texts.
    Compact(Box<Compaction>),
    /// Run or recover these calls.
    CallTools(Vec<OpenCall>),
    /// Wait for the inbox: these children have not reported, or a request is open.
    Wait(Vec<ChildRef>),
    /// Run the checks of the spec, and append what they found.
    Check,
    Finish(Outcome),
    /// The end is written.
    Done,
}

/// How to call the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCall {
    /// The number of the turn, from 1.
    pub turn: u32,
    pub messages: Vec<SharedMessage>,
    /// Whether the model may call tools; not in the last call before a limit, nor after the same
    /// call has returned the same several times.
    pub with_tools: bool,
    /// How long to wait first, after a failure.
    pub delay_ms: u64,
    /// The model to call.
    pub model: String,
    /// Whether another model is called if this one cannot reply.
    pub has_fallback: bool,
    /// Whether its last reply was a tool call written as text: the tools are described in the
    /// prompt.
    pub after_text_call: bool,
}

impl RunState {
    /// Decides the next step, given the time and a cancellation.
    ///
    /// A conclusion already in the journal takes precedence over a cancel and a deadline, also if
    /// the run continued after it: a result that exists is not thrown away.
    pub fn next_step(&self, now: Timestamp, cancel: Option<&Cancellation>) -> Step {
        match self.phase() {
            Phase::Ended(_) => return Step::Done,
            Phase::Concluding(outcome) => return Step::Finish(outcome.clone()),
            Phase::AwaitingModel
            | Phase::RunningCalls(_)
            | Phase::AwaitingChildren
            | Phase::Checking(_) => {}
        }
        if let Some(outcome) = self.stopped(now, cancel) {
            return Step::Finish(match self.phase() {
                // The answer exists, and no time is left to check it.
                Phase::Checking(text) if cancel.is_none() => unchecked(text.clone()),
                Phase::Checking(_) => outcome,
                Phase::AwaitingModel
                | Phase::RunningCalls(_)
                | Phase::AwaitingChildren
                | Phase::Concluding(_)
                | Phase::Ended(_) => self.result().cloned().unwrap_or(outcome),
            });
        }
        match self.phase() {
            Phase::AwaitingModel => self.call_model(),
            Phase::RunningCalls(batch) => self.run_calls(batch),
            Phase::AwaitingChildren => Step::Wait(self.open_children()),
            Phase::Checking(_) => Step::Check,
            Phase::Concluding(outcome) => Step::Finish(outcome.clone()),
            Phase::Ended(_) => Step::Done,
        }
    }

    /// Returns what the run waits for in its present phase.
    pub fn waiting_on(&self) -> Option<WaitingOn> {
        match self.phase() {
            Phase::AwaitingModel => Some(WaitingOn::Model),
            Phase::RunningCalls(batch) if batch.runnable().next().is_some() => {
                Some(WaitingOn::Tool)
            }
            Phase::RunningCalls(batch) => {
                Some(match batch.pending_request().map(|request| &request.kind) {
                    Some(RequestKind::Approval(_)) => WaitingOn::Approval,
                    Some(RequestKind::Question(_)) => WaitingOn::Question,
                    None => WaitingOn::Children,
                })
            }
            Phase::AwaitingChildren => Some(WaitingOn::Children),
            Phase::Checking(_) => Some(WaitingOn::Tool),
            Phase::Concluding(_) | Phase::Ended(_) => None,
        }
    }

    /// Returns the outcome of a run that has to stop now.
    pub(crate) fn stopped(&self, now: Timestamp, cancel: Option<&Cancellation>) -> Option<Outcome> {
        let cancelled = cancel.map(|cancellation| Outcome::Cancelled {
            cancellation: cancellation.clone(),
            partial: self.partial(),
        });
        cancelled.or_else(|| self.overdue(now))
    }

    fn overdue(&self, now: Timestamp) -> Option<Outcome> {
        let deadline = self.deadline()?;
        (deadline <= now).then(|| Outcome::Timeout {
            limit_ms: self
                .started_at()
                .map_or(0, |started| deadline.ms_since(started)),
            partial: self.partial(),
        })
    }

    fn call_model(&self) -> Step {
        if self.model_chain().must_shorten()
            && let Some(compaction) = self.compaction()
        {
            return Step::Compact(Box::new(compaction));
        }
        let wrap_up = self.must_wrap_up();
        let mut messages = self.messages().to_vec();
        if wrap_up {
            messages.push(self.wrap_up_notice());
        }
        Step::CallModel(ModelCall {
            turn: self.turn() + 1,
            messages,
            with_tools: !wrap_up && !self.must_answer(),
            delay_ms: self.model_chain().delay_ms(self.run()),
            model: self.next_model().to_owned(),
            has_fallback: self.model_chain().has_next(self.spec().fallbacks.len()),
            after_text_call: self.model_chain().after_text_call(),
        })
    }

    fn run_calls(&self, batch: &Batch) -> Step {
        let runnable: Vec<OpenCall> = batch.runnable().cloned().collect();
        if runnable.is_empty() {
            return Step::Wait(self.open_children());
        }
        Step::CallTools(runnable)
    }
}
