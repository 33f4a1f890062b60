//! Executes a claimed run: reads the inbox into the journal, asks the machine for the next step,
//! acts, appends; until the run ends, waits for its inbox, or has to be released.

mod charge;
pub(crate) mod finish;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use sortie_agent::{CallStatus, Compaction, ModelCall, OpenCall, Step, with_workspace};
use sortie_core::{
    Amount, AnswerPart, Arguments, Asker, Blob, Block, CallId, Claimed, Event, Fault, Fence,
    Isolation, MAX_JSON_DEPTH, ModelAnswer, ModelError, ModelRequest, NotificationKind, Outcome,
    Park, Reason, RunSpec, StoreError, ToolCall, ToolSpec, TurnOptions, Unread, WaitingOn,
    is_too_deep,
};
use sortie_text::{first_chars, t};
use tokio::sync::watch;

use crate::active_runs::Signals;
use crate::audit::Auditor;
use crate::authority::Authority;
use crate::budget;
use crate::crash::{self, Point};
use crate::dispatch::{
    ApprovalOutcome, CallRecord, CheckedCall, Dispatch, ExclusiveStep, Prepared,
};
use crate::engine::Engine;
use crate::journal_load::{self, Unreadable};
use crate::journal_writer::{InboxRead, JournalWriteError, JournalWriter, NewEntries};
use crate::model_call::{CallOutcome, ImageCache, ModelCaller};
use crate::requests;
use charge::{Charge, Reservation};
use finish::FinishResult;

/// Characters that are kept of arguments that the journal cannot store.
const MAX_RAW_CHARS: usize = 2_000;
/// Calls of one completion that run at once.
const MAX_PARALLEL_CALLS: usize = 64;

/// Why an executor has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExecutorExit {
    Ended,
    /// The run waits for children or a reply; its inbox will wake it.
    Parked,
    /// The runtime shuts down, or the run is paused; it is back in the queue.
    Released,
}

/// Executes a claimed run until it ends, parks or is released.
pub(crate) async fn execute(
    engine: Arc<Engine>,
    claimed: Claimed,
    signals: watch::Receiver<Signals>,
) -> Result<ExecutorExit, JournalWriteError> {
    let fence = claimed.fence;
    let state = match journal_load::load(&engine, claimed.entries).await {
        Ok(state) => state,
        Err(Unreadable::Damaged(what)) => return finish::give_up(&engine, fence, &what).await,
        Err(Unreadable::Failed(error)) => return Err(error.into()),
    };
    let spec = Arc::clone(state.spec());
    let woken = fence.epoch.0 > 1;
    let inbox_waiting = woken || claimed.inbox_waiting;
    if fence.epoch.0 == 1 {
        engine.publisher.notify(
            fence.run,
            &spec,
            state.head(),
            NotificationKind::Started {
                agent: spec.agent.name.clone(),
                label: spec.label.clone(),
            },
        );
    }
    let executor = Executor {
        authority: Arc::new(Authority::of(Arc::clone(&spec), engine.policies.of(&spec))),
        system: with_workspace(&spec.agent.prompt, spec.lang, &spec.workspace).into(),
        tools: engine.planner.toolbox.specs(&spec.tools),
        journal: JournalWriter::new(
            Arc::clone(&engine.store),
            Arc::clone(&engine.clock),
            fence,
            state,
        ),
        engine,
        spec,
        fence,
        signals,
        album: ImageCache::default(),
        counts_calls: true,
        refund_wait: Duration::ZERO,
        // The claim has published this; a run that was woken has waited for something else.
        published_wait: (!woken).then_some(WaitingOn::Model),
    };
    executor.run(inbox_waiting).await
}

struct Executor {
    engine: Arc<Engine>,
    spec: Arc<RunSpec>,
    fence: Fence,
    journal: JournalWriter,
    system: Arc<str>,
    tools: Arc<[ToolSpec]>,
    signals: watch::Receiver<Signals>,
    album: ImageCache,
    authority: Arc<Authority>,
    /// Whether an account may limit its tool calls.
    counts_calls: bool,
    /// How long the run has waited for refunds of reservations by other runs.
    refund_wait: Duration,
    /// What the run waits for, as last published.
    published_wait: Option<WaitingOn>,
}

/// What can interrupt the work in progress.
struct Interruptions {
    signals: watch::Receiver<Signals>,
    grace: Duration,
    time_left: Option<Duration>,
}

impl Interruptions {
    /// Waits for `work` unless a signal or the deadline comes first; then `work` is dropped, and
    /// with it everything it started.
    async fn race<T>(mut self, work: impl Future<Output = T>) -> Raced<T> {
        tokio::select! {
            biased;
            done = work => Raced::Done(done),
            () = interrupted(&mut self.signals, self.grace) => Raced::Interrupted,
            () = sleep_if(self.time_left) => Raced::Interrupted,
        }
    }
}

/// Returns when the work in progress has to be dropped. A shutdown leaves it a grace period first.
async fn interrupted(signals: &mut watch::Receiver<Signals>, grace: Duration) {
    // The sender is in `ActiveRuns` as long as this claim is active; if it is gone, so is the
    // claim.
    let only_release = match signals.wait_for(Signals::interrupts).await {
        Ok(signals) => signals.cancel.is_none() && !signals.lost,
        Err(_) => false,
    };
    if only_release {
        tokio::time::sleep(grace).await;
    }
}

/// Whether tool calls ran to their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallProgress {
    /// All of them have their results; the calls after them may start.
    Finished,
    /// Some did not run, or were interrupted: no further call starts, and the next step is decided
    /// again.
    Stopped,
}

/// Whether a run that has to wait is parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParkResult {
    /// The store has parked it; its inbox will wake it.
    Parked,
    /// A message arrived first: the run reads its inbox instead.
    InboxFirst,
}

/// Whether the work completed before an interruption.
enum Raced<T> {
    Done(T),
    /// A cancel, the deadline or a shutdown came first: the next step is decided again.
    Interrupted,
}

impl Executor {
    async fn run(mut self, mut inbox_hint: bool) -> Result<ExecutorExit, JournalWriteError> {
        if let Some(outcome) = self.decided_outcome() {
            self.end(outcome, Unread::Kept).await?;
            return Ok(ExecutorExit::Ended);
        }
        if let Some(refused) = self.enter_workspace().await? {
            self.finish(refused).await?;
            return Ok(ExecutorExit::Ended);
        }
        loop {
            let signals = self.signals.borrow_and_update().clone();
            if signals.lost {
                return Err(StoreError::Fenced {
                    run: self.fence.run,
                }
                .into());
            }
            if signals.release {
                return self.release().await;
            }
            if signals.inbox {
                // Cleared before the inbox is read, so that a message that arrives after the read
                // is not missed.
                self.engine
                    .live
                    .signal(self.fence.run, |signals| signals.inbox = false);
            }
            self.take_inbox(inbox_hint || signals.inbox).await?;
            inbox_hint = false;
            let cancel = signals.cancel.or_else(|| self.journal.cancel().cloned());
            if cancel.is_none()
                && self.pause_requested()
                && self.journal.state().conclusion().is_none()
            {
                return self.release_paused().await;
            }
            self.publish_waiting();
            let now = self.engine.clock.now();
            match self.journal.state().next_step(now, cancel.as_ref()) {
                Step::CallModel(call) => self.call_model(call).await?,
                Step::Compact(compaction) => self.compact(*compaction).await?,
                Step::CallTools(calls) => self.call_tools(&calls).await?,
                Step::Wait(_children) => match self.park().await? {
                    ParkResult::Parked => return Ok(ExecutorExit::Parked),
                    ParkResult::InboxFirst => inbox_hint = true,
                },
                Step::Finish(outcome) => match self.finish(outcome).await? {
                    FinishResult::Written => return Ok(ExecutorExit::Ended),
                    FinishResult::InboxFirst => inbox_hint = true,
                },
                Step::Done => return Ok(ExecutorExit::Ended),
            }
        }
    }

    /// Reads messages into the journal, if there may be some.
    async fn take_inbox(&mut self, hinted: bool) -> Result<InboxRead, JournalWriteError> {
        let auditor = Auditor {
            run: self.fence.run,
            spec: &self.spec,
            redactor: &self.engine.redactor,
        };
        let taken = self.journal.take_inbox(hinted, |state, entry| {
            auditor.answered_by_children(state, entry)
        });
        let taken = taken.await?;
        if taken == InboxRead::Journaled {
            crash::point(Point::AfterTakeInbox);
        }
        Ok(taken)
    }

    /// Enters the folder that the run works in; creates its own worktree before anything else.
    async fn enter_workspace(&mut self) -> Result<Option<Outcome>, JournalWriteError> {
        if self.spec.isolation == Isolation::Worktree && self.journal.state().worktree().is_none() {
            let made = self
                .engine
                .worktrees
                .create(self.fence.run, &self.spec.workspace)
                .await;
            match made {
                Ok(worktree) => self.journal.write(Event::Isolated { worktree }).await?,
                Err(message) => {
                    return Ok(Some(Outcome::Failed {
                        reason: Reason::Error,
                        message: t!(self.spec.lang, "fail-worktree", message = message),
                        partial: None,
                    }));
                }
            }
        }
        if let Some(worktree) = self.journal.state().worktree() {
            let authority =
                Authority::of(Arc::clone(&self.spec), self.engine.policies.of(&self.spec));
            self.authority = Arc::new(authority.in_folder(&worktree.workspace));
            let prompt = &self.spec.agent.prompt;
            self.system = with_workspace(prompt, self.spec.lang, &worktree.workspace).into();
        }
        Ok(None)
    }

    async fn call_model(&mut self, call: ModelCall) -> Result<(), JournalWriteError> {
        let (turn, model, delay_ms) = (call.turn, call.model.clone(), call.delay_ms);
        let mut request = self.request(call).await?;
        let reserved = match self.reserve(&mut request).await? {
            Reservation::Retry => return Ok(()),
            reservation @ (Reservation::Unlimited | Reservation::Reserved(_)) => {
                reservation.amount()
            }
        };
        let caller = ModelCaller {
            engine: Arc::clone(&self.engine),
            fence: self.fence,
            spec: Arc::clone(&self.spec),
            head: self.journal.state().head(),
        };
        // An interrupted model call loses nothing: it is repeated.
        let called = self
            .interruptions(Duration::ZERO)
            .race(caller.call(request, delay_ms, self.signals.clone()))
            .await;
        crash::point(Point::AfterModelAnswer);
        self.journal.flush().await?;
        match called {
            Raced::Interrupted => Ok(()),
            Raced::Done(CallOutcome::Completed(Ok(answer))) => {
                self.record_completion(turn, answer, reserved).await
            }
            Raced::Done(CallOutcome::Completed(Err(error))) => {
                self.record_model_failure(model, error, reserved).await
            }
            Raced::Done(CallOutcome::NotSent) if reserved.is_none() => Ok(()),
            Raced::Done(CallOutcome::NotSent) => {
                let free_again = NewEntries {
                    spent: Some(Amount::default()),
                    ..NewEntries::default()
                };
                self.journal.write(free_again).await
            }
        }
    }

    async fn record_completion(
        &mut self,
        turn: u32,
        answer: ModelAnswer,
        reserved: Option<Amount>,
    ) -> Result<(), JournalWriteError> {
        let spent = reserved.map(|reserved| budget::charged(&answer.usage, reserved));
        self.journal
            .write(NewEntries {
                spent,
                ..answered(turn, answer).into()
            })
            .await?;
        if self.journal.state().awaits_children() {
            let words = self.journal.state().last_text().unwrap_or_default();
            self.notify(NotificationKind::Said { text: words });
        }
        Ok(())
    }

    async fn record_model_failure(
        &mut self,
        model: String,
        error: ModelError,
        reserved: Option<Amount>,
    ) -> Result<(), JournalWriteError> {
        let event = Event::ModelFailed {
            model,
            fault: error.fault,
            message: error.message.clone(),
            shown: error.shown,
        };
        // Only an explicit refusal by the provider is certain to cost nothing.
        let spent = reserved.map(|reserved| match error.fault {
            Fault::RateLimited { .. }
            | Fault::Auth
            | Fault::ContextOverflow
            | Fault::BadRequest
                if !error.shown =>
            {
                Amount::default()
            }
            Fault::TextCall { usage } => budget::charged(&usage, reserved),
            Fault::Transient
            | Fault::RateLimited { .. }
            | Fault::Auth
            | Fault::ContextOverflow
            | Fault::ContentFilter
            | Fault::BadRequest
            | Fault::Cancelled => reserved,
        });
        self.journal
            .write(NewEntries {
                spent,
                ..event.into()
            })
            .await?;
        // Subscribers learn of every retry.
        if let Step::CallModel(next) = self
            .journal
            .state()
            .next_step(self.engine.clock.now(), None)
        {
            self.notify(NotificationKind::Retrying {
                error: error.message,
                model: next.model,
                delay_ms: next.delay_ms,
                shown: error.shown,
            });
        }
        Ok(())
    }

    async fn compact(&mut self, compaction: Compaction) -> Result<(), JournalWriteError> {
        let Compaction { event, blobs } = compaction;
        if let Event::Compacted {
            chars_before,
            chars_after,
            ..
        } = &event
        {
            self.notify(NotificationKind::Compacted {
                chars_before: *chars_before,
                chars_after: *chars_after,
            });
        }
        let blobs = blobs.into_iter().map(Blob::from).collect();
        self.journal
            .write(NewEntries {
                blobs,
                ..event.into()
            })
            .await
    }

    async fn call_tools(&mut self, calls: &[OpenCall]) -> Result<(), JournalWriteError> {
        crash::tool_call(&self.spec.task);
        let engine = Arc::clone(&self.engine);
        let spec = Arc::clone(&self.spec);
        let authority = Arc::clone(&self.authority);
        let worktree = self.journal.state().worktree().cloned();
        let dispatch = Dispatch {
            engine: &engine,
            spec: &spec,
            fence: self.fence,
            authority: &authority,
            worktree: worktree.as_ref(),
            not_after: self.journal.state().tree_deadline(),
            head: self.journal.state().head(),
        };
        // Calls that may run concurrently, collected until a call has to run after them.
        let mut concurrent = Vec::new();
        // Set once a call waits for an approver: the calls behind it wait too, but their approval
        // requests are sent at once.
        let mut waits = false;
        for open in calls {
            if self.pause_requested() {
                break;
            }
            let mut prepared = dispatch.prepare(open);
            if let Prepared::NeedsApproval(ready) = prepared {
                if self.run_before(dispatch, &mut concurrent).await? == CallProgress::Stopped {
                    return Ok(());
                }
                prepared = match dispatch.request_approval(ready).await {
                    // Its turn comes later, and the grant is looked up again then.
                    ApprovalOutcome::Granted(_) if waits => continue,
                    ApprovalOutcome::Granted(prepared) => prepared,
                    ApprovalOutcome::Resolved(finished) => Prepared::Resolved(Box::new(finished)),
                    ApprovalOutcome::Requested(finished) => {
                        waits = true;
                        Prepared::Resolved(Box::new(finished))
                    }
                };
            } else if waits {
                continue;
            }
            let progress = match prepared {
                Prepared::Resolved(finished) => {
                    self.record_answered(&open.status, *finished).await?
                }
                // Replaced above by what came of the request.
                Prepared::NeedsApproval(_) => CallProgress::Finished,
                Prepared::Concurrent(ready) => {
                    let progress = if ready.runs_after_others() {
                        self.run_concurrent(dispatch, std::mem::take(&mut concurrent))
                            .await?
                    } else {
                        CallProgress::Finished
                    };
                    concurrent.push(ready);
                    progress
                }
                Prepared::Exclusive(ready) => {
                    match self.run_before(dispatch, &mut concurrent).await? {
                        CallProgress::Finished => self.run_exclusive(dispatch, &ready).await?,
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
    async fn record_answered(
        &mut self,
        status: &CallStatus,
        finished: CallRecord,
    ) -> Result<CallProgress, JournalWriteError> {
        if let Charge::Exhausted(balance) = self.charge_call(status).await? {
            self.end_on_budget(balance).await?;
            return Ok(CallProgress::Stopped);
        }
        self.record_results(vec![finished]).await?;
        Ok(CallProgress::Finished)
    }

    /// Runs calls concurrently.
    async fn run_concurrent<'a>(
        &mut self,
        dispatch: Dispatch<'a>,
        ready: Vec<CheckedCall<'a>>,
    ) -> Result<CallProgress, JournalWriteError> {
        let mut waiting = ready.into_iter();
        let mut running = FuturesUnordered::new();
        let mut exhausted = None;
        loop {
            while exhausted.is_none()
                && !self.pause_requested()
                && running.len() < MAX_PARALLEL_CALLS
                && let Some(ready) = waiting.next()
            {
                match self.charge_call(ready.status).await? {
                    Charge::Exhausted(balance) => exhausted = Some(balance),
                    Charge::Covered => {
                        self.publish_call(ready.call);
                        running.push(dispatch.run_concurrent(ready));
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
        ready: &CheckedCall<'a>,
    ) -> Result<CallProgress, JournalWriteError> {
        if let Charge::Exhausted(balance) = self.charge_call(ready.status).await? {
            self.end_on_budget(balance).await?;
            return Ok(CallProgress::Stopped);
        }
        let intent = match self
            .interruptions(self.engine.settings().shutdown_grace)
            .race(dispatch.prepare_exclusive(ready))
            .await
        {
            Raced::Interrupted => return Ok(CallProgress::Stopped),
            Raced::Done(ExclusiveStep::Resolved(finished)) => {
                self.record_results(vec![finished]).await?;
                return Ok(CallProgress::Finished);
            }
            Raced::Done(ExclusiveStep::Run(intent)) => intent,
        };
        self.journal.write(intent).await?;
        self.journal.flush().await?;
        self.publish_call(ready.call);
        match self
            .interruptions(self.engine.settings().shutdown_grace)
            .race(dispatch.run(ready))
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
    async fn record_results(&mut self, finished: Vec<CallRecord>) -> Result<(), JournalWriteError> {
        let before = self.journal.state().progress();
        let mut facts = NewEntries::default();
        for finished in finished {
            facts.events.push(finished.event);
            facts.blobs.extend(finished.blobs);
            facts.audit.extend(finished.audit);
        }
        let asked: Vec<_> = facts.events.iter().filter_map(request_of).collect();
        self.journal.write(facts).await?;
        for request in asked {
            // An approver who replies must find the request in the store.
            self.journal.flush().await?;
            let request = requests::open(self.fence, &self.spec, request, self.engine.clock.now());
            self.notify(NotificationKind::Asked {
                request: Box::new(request),
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

    async fn park(&mut self) -> Result<ParkResult, JournalWriteError> {
        self.journal.flush().await?;
        let parked = self
            .engine
            .store
            .park(Park {
                fence: self.fence,
                follows: self.journal.state().head(),
                at: self.engine.clock.now(),
                waiting_on: self
                    .journal
                    .state()
                    .waiting_on()
                    .unwrap_or(WaitingOn::Children),
            })
            .await?;
        if !parked {
            return Ok(ParkResult::InboxFirst);
        }
        self.notify(NotificationKind::Changed {
            waiting_on: self.journal.state().waiting_on(),
        });
        Ok(ParkResult::Parked)
    }

    /// Returns whether a pause was requested: the run starts nothing new then.
    fn pause_requested(&self) -> bool {
        self.signals.borrow().pause || self.journal.pause_requested()
    }

    /// Releases the run and publishes that it is paused, unless the store has resumed it meanwhile.
    async fn release_paused(self) -> Result<ExecutorExit, JournalWriteError> {
        let (engine, run) = (Arc::clone(&self.engine), self.fence.run);
        let slot_freed = self.release().await?;
        engine.publisher.paused(run).await;
        Ok(slot_freed)
    }

    /// Publishes what the run waits for, if that has changed.
    fn publish_waiting(&mut self) {
        let waiting_on = self.journal.state().waiting_on();
        // A run that waits for nothing is about to end, which is published anyway.
        if waiting_on.is_some() && self.published_wait != waiting_on {
            self.published_wait = waiting_on;
            self.notify(NotificationKind::Changed { waiting_on });
        }
    }

    async fn release(mut self) -> Result<ExecutorExit, JournalWriteError> {
        self.journal.flush().await?;
        self.engine
            .store
            .release(self.fence, self.engine.clock.now())
            .await?;
        Ok(ExecutorExit::Released)
    }

    /// Returns what can interrupt work that starts now.
    fn interruptions(&self, grace: Duration) -> Interruptions {
        let deadline = self.journal.state().deadline();
        Interruptions {
            signals: self.signals.clone(),
            grace,
            time_left: deadline
                .map(|deadline| Duration::from_millis(deadline.ms_since(self.engine.clock.now()))),
        }
    }

    async fn request(&mut self, call: ModelCall) -> Result<ModelRequest, JournalWriteError> {
        if self.album.lacks(&call.messages) {
            // The store may not have written yet the picture that a tool has just returned.
            self.journal.flush().await?;
        }
        let images = self
            .album
            .of(&self.engine, self.fence.run, &self.spec, &call.messages)
            .await;
        Ok(ModelRequest {
            asker: Asker {
                run: self.fence.run,
                root: self.spec.root,
                agent: self.spec.agent.name.clone(),
                label: self.spec.label.clone(),
                task: self.spec.task.clone(),
                depth: self.spec.depth,
                turn: call.turn,
            },
            model: call.model,
            system: Arc::clone(&self.system),
            tools: if call.with_tools {
                Arc::clone(&self.tools)
            } else {
                Arc::default()
            },
            messages: call.messages,
            images,
            options: TurnOptions {
                thinking: self.spec.thinking.clone(),
                sampling: self.spec.sampling,
                schema: self.spec.result_schema.clone(),
                has_fallback: call.has_fallback,
                in_words: call.in_words,
            },
        })
    }

    fn publish_call(&self, call: &ToolCall) {
        self.notify(NotificationKind::Tool {
            tool: call.name.clone(),
            tool_calls: self.journal.state().tool_calls(),
        });
    }

    fn notify(&self, kind: NotificationKind) {
        self.engine.publisher.notify(
            self.fence.run,
            &self.spec,
            self.journal.state().head(),
            kind,
        );
    }
}

fn request_of(event: &Event) -> Option<sortie_core::Request> {
    match event {
        Event::Asked { request, .. } => Some((**request).clone()),
        Event::Admitted { .. }
        | Event::Updated { .. }
        | Event::Paused
        | Event::Resumed
        | Event::Claimed { .. }
        | Event::InboxTaken { .. }
        | Event::Answered { .. }
        | Event::ModelFailed { .. }
        | Event::Compacted { .. }
        | Event::Intended { .. }
        | Event::Delegated { .. }
        | Event::ToolFinished { .. }
        | Event::BudgetLow { .. }
        | Event::BudgetSpent { .. }
        | Event::Isolated { .. }
        | Event::Collected { .. }
        | Event::Finished { .. } => None,
    }
}

async fn sleep_if(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// Makes the event of a completion, with Sortie's own id for each call. Leaves out what the journal
/// could not read back: a vendor's item, or arguments, which become an error for the model.
fn answered(turn: u32, answer: ModelAnswer) -> Event {
    let blocks = answer
        .parts
        .into_iter()
        .enumerate()
        .map(|(index, part)| match part {
            AnswerPart::Text(text) => Block::Text { text },
            AnswerPart::Reasoning { text, native } => Block::Reasoning {
                text,
                native: native.filter(|native| !is_too_deep(native)),
            },
            AnswerPart::Call {
                provider_id,
                name,
                arguments,
            } => Block::Call(ToolCall {
                id: CallId::new(turn, index),
                provider_id,
                name,
                arguments: readable(arguments),
            }),
        })
        .collect();
    Event::Answered {
        turn,
        blocks,
        stop: answer.stop,
        usage: answer.usage,
        model: answer.model,
        held_ms: answer.held_ms,
    }
}

fn readable(arguments: Arguments) -> Arguments {
    match arguments {
        Arguments::Json(value) if is_too_deep(&value) => Arguments::Malformed {
            raw: first_chars(&value.to_string(), MAX_RAW_CHARS).to_owned(),
            error: format!("the arguments are nested deeper than {MAX_JSON_DEPTH} levels"),
        },
        arguments @ (Arguments::Json(_) | Arguments::Malformed { .. }) => arguments,
    }
}
