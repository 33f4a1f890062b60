//! The tool calls of a run: which of them run, in which order, and what is written of them.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use sortie_agent::{CallStatus, OpenCall};
use sortie_core::event::Event;
use sortie_core::message::ToolCall;
use sortie_core::notification::NotificationKind;
use sortie_core::request_view::RequestView;

use super::charge::Charge;
use super::{Executor, Raced};
use crate::crash::{self, Point};
use crate::dispatch::{
    ApprovalOutcome, CallRecord, CheckedCall, Dispatch, ExclusiveStep, Prepared, Runnable,
};
use crate::journal_writer::{JournalWriteError, NewEntries};
use crate::requests::open as open_request;

/// Calls of one completion that run at once.
const MAX_PARALLEL_CALLS: usize = 64;

/// Whether tool calls ran to their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallProgress {
    /// All of them have their results; the calls after them may start.
    Finished,
    /// Some did not run, or were interrupted: no further call starts, and the next step is decided
    /// again.
    Stopped,
}

/// What a call needs next.
enum Next<'a> {
    /// Its entries are written; no tool runs.
    Record(Box<CallRecord>),
    Run(Runnable<'a>),
}

impl Executor {
    /// Runs or recovers the open calls of the last completion, in their order.
    pub(super) async fn call_tools(&mut self, calls: &[OpenCall]) -> Result<(), JournalWriteError> {
        crash::tool_call(&self.spec.task);
        let engine = Arc::clone(&self.engine);
        let spec = Arc::clone(&self.spec);
        let authority = Arc::clone(&self.authority);
        let worktree = self.journal.state().worktree().cloned();
        let messages = self.journal.state().messages().to_vec();
        let model = self.journal.state().next_model().to_owned();
        let dispatch = Dispatch {
            engine: &engine,
            spec: &spec,
            fence: self.fence,
            authority: &authority,
            worktree: worktree.as_ref(),
            not_after: self.journal.state().tree_deadline(),
            head: self.journal.state().head(),
            messages: &messages,
            model: &model,
        };
        // Calls that may run concurrently, collected until a call has to run after them.
        let mut concurrent = Vec::new();
        // Set once a call waits for an approver: the calls behind it wait too, but their approval
        // requests are opened at once.
        let mut waits = false;
        for open in calls {
            if self.pause_requested() {
                break;
            }
            let mut prepared = dispatch.prepare(open);
            // A call that only waits behind an approval is prepared again when its turn comes.
            if !waits || matches!(prepared, Prepared::NeedsApproval(_)) {
                let interruptions = self.interruptions(engine.settings().shutdown_grace);
                // Boxed: a run that waits for its model must not keep the memory for it.
                let consulting = Box::pin(dispatch.consult_before(prepared));
                match interruptions.race(consulting).await {
                    Raced::Done(consulted) => prepared = consulted,
                    Raced::Interrupted => return Ok(()),
                }
            }
            let next = match prepared {
                Prepared::NeedsApproval(call) => {
                    if self.run_before(dispatch, &mut concurrent).await? == CallProgress::Stopped {
                        return Ok(());
                    }
                    match dispatch.request_approval(call).await {
                        // Its turn comes later, and the grant is looked up again then.
                        ApprovalOutcome::Granted(_) if waits => continue,
                        ApprovalOutcome::Granted(runnable) => Next::Run(runnable),
                        ApprovalOutcome::Denied(record) => Next::Record(Box::new(record)),
                        ApprovalOutcome::Requested(record) => {
                            waits = true;
                            Next::Record(Box::new(record))
                        }
                    }
                }
                Prepared::Resolved(_) | Prepared::Run(_) if waits => continue,
                Prepared::Resolved(record) => Next::Record(record),
                Prepared::Run(runnable) => Next::Run(runnable),
            };
            let progress = match next {
                Next::Record(record) => self.record_unrun(&open.status, *record).await?,
                Next::Run(Runnable::Concurrent(call)) => {
                    let progress = if call.runs_after_others() {
                        self.run_concurrent(dispatch, std::mem::take(&mut concurrent))
                            .await?
                    } else {
                        CallProgress::Finished
                    };
                    concurrent.push(call);
                    progress
                }
                Next::Run(Runnable::Exclusive(call)) => {
                    match self.run_before(dispatch, &mut concurrent).await? {
                        CallProgress::Finished => self.run_exclusive(dispatch, &call).await?,
                        CallProgress::Stopped => CallProgress::Stopped,
                    }
                }
            };
            if progress == CallProgress::Stopped {
                return Ok(());
            }
        }
        self.run_concurrent(dispatch, concurrent).await?;
        Ok(())
    }

    /// Runs the collected calls before a call that must come after them. `Stopped` also if the run
    /// is to pause, so that nothing new starts.
    async fn run_before<'a>(
        &mut self,
        dispatch: Dispatch<'a>,
        concurrent: &mut Vec<CheckedCall<'a>>,
    ) -> Result<CallProgress, JournalWriteError> {
        let progress = self
            .run_concurrent(dispatch, std::mem::take(concurrent))
            .await?;
        Ok(if self.pause_requested() {
            CallProgress::Stopped
        } else {
            progress
        })
    }

    /// Writes the result of a call that needs no tool to run.
    async fn record_unrun(
        &mut self,
        status: &CallStatus,
        record: CallRecord,
    ) -> Result<CallProgress, JournalWriteError> {
        if let Charge::Exhausted(balance) = self.charge_call(status).await? {
            self.end_on_budget(balance).await?;
            return Ok(CallProgress::Stopped);
        }
        self.record_results(vec![record]).await?;
        Ok(CallProgress::Finished)
    }

    async fn run_concurrent<'a>(
        &mut self,
        dispatch: Dispatch<'a>,
        calls: Vec<CheckedCall<'a>>,
    ) -> Result<CallProgress, JournalWriteError> {
        let mut waiting = calls.into_iter();
        let mut running = FuturesUnordered::new();
        let mut exhausted = None;
        loop {
            while exhausted.is_none()
                && !self.pause_requested()
                && running.len() < MAX_PARALLEL_CALLS
                && let Some(call) = waiting.next()
            {
                match self.charge_call(call.status).await? {
                    Charge::Exhausted(balance) => exhausted = Some(balance),
                    Charge::Covered => {
                        self.publish_call(call.call);
                        running.push(dispatch.run_concurrent(call));
                    }
                }
            }
            let mut finished = Vec::new();
            match self
                .interruptions(self.engine.settings().shutdown_grace)
                .race(running.next())
                .await
            {
                Raced::Done(Some(first)) => finished.push(first),
                Raced::Done(None) => break,
                Raced::Interrupted => return Ok(CallProgress::Stopped),
            }
            while let std::task::Poll::Ready(Some(more)) = futures::poll!(running.next()) {
                finished.push(more);
            }
            crash::point(Point::AfterTool);
            self.record_results(finished).await?;
        }
        if let Some(balance) = exhausted {
            // Only now that the calls that were charged are done: this ends the run.
            self.end_on_budget(balance).await?;
            return Ok(CallProgress::Stopped);
        }
        Ok(if waiting.as_slice().is_empty() {
            CallProgress::Finished
        } else {
            CallProgress::Stopped
        })
    }

    /// Runs one call alone, after its intent is durable.
    async fn run_exclusive<'a>(
        &mut self,
        dispatch: Dispatch<'a>,
        call: &CheckedCall<'a>,
    ) -> Result<CallProgress, JournalWriteError> {
        if let Charge::Exhausted(balance) = self.charge_call(call.status).await? {
            self.end_on_budget(balance).await?;
            return Ok(CallProgress::Stopped);
        }
        let intent = match self
            .interruptions(self.engine.settings().shutdown_grace)
            .race(dispatch.prepare_exclusive(call))
            .await
        {
            Raced::Interrupted => return Ok(CallProgress::Stopped),
            Raced::Done(ExclusiveStep::Recovered(finished)) => {
                self.record_results(vec![finished]).await?;
                return Ok(CallProgress::Finished);
            }
            Raced::Done(ExclusiveStep::Run(intent)) => intent,
        };
        self.journal.write(intent).await?;
        self.journal.flush().await?;
        self.publish_call(call.call);
        match self
            .interruptions(self.engine.settings().shutdown_grace)
            .race(dispatch.run(call))
            .await
        {
            Raced::Interrupted => Ok(CallProgress::Stopped),
            Raced::Done(finished) => {
                crash::point(Point::AfterTool);
                self.record_results(vec![finished]).await?;
                Ok(CallProgress::Finished)
            }
        }
    }

    /// Appends the results of calls, and publishes their requests and the progress.
    async fn record_results(&mut self, records: Vec<CallRecord>) -> Result<(), JournalWriteError> {
        let before = self.journal.state().progress();
        let mut entries = NewEntries::default();
        for record in records {
            entries.events.push(record.event);
            entries.blobs.extend(record.blobs);
            entries.audit.extend(record.audit);
            entries.letters.extend(record.letters);
        }
        let has_letters = !entries.letters.is_empty();
        let requests: Vec<_> = entries.events.iter().filter_map(request_of).collect();
        self.journal.write(entries).await?;
        if has_letters {
            self.engine.wakeups.letters.notify_one();
        }
        for request in requests {
            // An approver who replies must find the request in the store.
            self.journal.flush().await?;
            let request = open_request(self.fence, &self.spec, request, self.engine.clock.now());
            self.notify(NotificationKind::Asked {
                request: Box::new(RequestView::from(&request).summary()),
            });
        }
        let state = self.journal.state();
        if state.progress() > before {
            let kind = NotificationKind::Progress {
                progress: state.progress(),
                tool_calls: state.tool_calls(),
            };
            self.notify(kind);
        }
        Ok(())
    }

    fn publish_call(&self, call: &ToolCall) {
        self.notify(NotificationKind::Tool {
            tool: call.name.clone(),
            tool_calls: self.journal.state().tool_calls(),
        });
    }
}

fn request_of(event: &Event) -> Option<sortie_core::request::Request> {
    let Event::Asked { request, .. } = event else {
        return None;
    };
    Some((**request).clone())
}
