//! How a run runs: take the inbox into the journal, ask the machine, act, append; until it ends,
//! waits for its children, or has to be given back.

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
use crate::dispatch::{Asked, Dispatch, Finished, Prepared, Ready, Settled};
use crate::engine::Engine;
use crate::journal_load::{self, Unreadable};
use crate::journal_writer::{Facts, InboxRead, Pen, PenError};
use crate::model_call::{Album, Asking, Reply};
use crate::requests;
use charge::{Charge, Reservation};
use finish::FinishResult;

/// How much of arguments that cannot be kept is kept.
const MAX_RAW_CHARS: usize = 2_000;
/// How many calls of one answer run at once.
const MAX_PARALLEL_CALLS: usize = 64;

/// How an executor let go of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LetGo {
    /// It ended.
    Ended,
    /// It waits for its children; its inbox will wake it.
    Parked,
    /// The runtime shuts down, or the run is to rest; it is back in the queue.
    Released,
}

/// Executes a claimed run until it can be let go of.
pub(crate) async fn execute(
    engine: Arc<Engine>,
    claimed: Claimed,
    signals: watch::Receiver<Signals>,
) -> Result<LetGo, PenError> {
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
        pen: Pen::new(
            Arc::clone(&engine.store),
            Arc::clone(&engine.clock),
            fence,
            state,
        ),
        engine,
        spec,
        fence,
        signals,
        album: Album::default(),
        counts_calls: true,
        waited_for_refund: Duration::ZERO,
        // As the claim says it; who is woken has waited for something else.
        told: (!woken).then_some(WaitingOn::Model),
    };
    executor.run(inbox_waiting).await
}

struct Executor {
    engine: Arc<Engine>,
    spec: Arc<RunSpec>,
    fence: Fence,
    pen: Pen,
    system: Arc<str>,
    tools: Arc<[ToolSpec]>,
    signals: watch::Receiver<Signals>,
    album: Album,
    authority: Arc<Authority>,
    /// Whether an account may limit its tool calls.
    counts_calls: bool,
    /// How long it has waited for others to give back what they had set aside.
    waited_for_refund: Duration,
    /// What it was last said to wait for.
    told: Option<WaitingOn>,
}

/// What may come before the work under way is done.
struct Interruptions {
    signals: watch::Receiver<Signals>,
    grace: Duration,
    time_left: Option<Duration>,
}

impl Interruptions {
    /// Waits for `work` unless a signal or the deadline comes first; then `work` is dropped, and
    /// with it everything it started.
    async fn race<T>(mut self, work: impl Future<Output = T>) -> Went<T> {
        tokio::select! {
            biased;
            done = work => Went::Through(done),
            () = interrupted(&mut self.signals, self.grace) => Went::Interrupted,
            () = sleep_if(self.time_left) => Went::Interrupted,
        }
    }
}

/// Returns when what is under way has to be dropped. A shutdown leaves it some time first.
async fn interrupted(signals: &mut watch::Receiver<Signals>, grace: Duration) {
    // The sender lives in `Live` as long as this claim does; if it is gone, so is the claim.
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

/// Whether what was under way came to its end.
enum Went<T> {
    /// It did.
    Through(T),
    /// A cancel, the deadline or a shutdown came first: ask the machine again.
    Interrupted,
}

impl Executor {
    async fn run(mut self, mut inbox_hint: bool) -> Result<LetGo, PenError> {
        if let Some(outcome) = self.begun_end() {
            self.end(outcome, Unread::Kept).await?;
            return Ok(LetGo::Ended);
        }
        if let Some(refused) = self.settle_in().await? {
            self.finish(refused).await?;
            return Ok(LetGo::Ended);
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
                // Before the look, so that what comes after it is not forgotten.
                self.engine
                    .live
                    .signal(self.fence.run, |signals| signals.inbox = false);
            }
            self.take_inbox(inbox_hint || signals.inbox).await?;
            inbox_hint = false;
            let cancel = signals.cancel.or_else(|| self.pen.cancel().cloned());
            if cancel.is_none() && self.is_to_rest() && self.pen.state().conclusion().is_none() {
                return self.rest().await;
            }
            self.tell_waiting();
            let now = self.engine.clock.now();
            match self.pen.state().next_step(now, cancel.as_ref()) {
                Step::CallModel(call) => self.call_model(call).await?,
                Step::Compact(compaction) => self.compact(*compaction).await?,
                Step::CallTools(calls) => self.call_tools(&calls).await?,
                Step::Wait(_children) => match self.park().await? {
                    ParkResult::Parked => return Ok(LetGo::Parked),
                    ParkResult::InboxFirst => inbox_hint = true,
                },
                Step::Finish(outcome) => match self.finish(outcome).await? {
                    FinishResult::Written => return Ok(LetGo::Ended),
                    FinishResult::InboxFirst => inbox_hint = true,
                },
                Step::Done => return Ok(LetGo::Ended),
            }
        }
    }

    /// Reads messages into the journal, if there may be some.
    async fn take_inbox(&mut self, hinted: bool) -> Result<InboxRead, PenError> {
        let auditor = Auditor {
            run: self.fence.run,
            spec: &self.spec,
            redactor: &self.engine.redactor,
        };
        let taken = self.pen.take_inbox(hinted, |state, entry| {
            auditor.answered_by_children(state, entry)
        });
        let taken = taken.await?;
        if taken == InboxRead::Journaled {
            crash::point(Point::AfterTakeInbox);
        }
        Ok(taken)
    }

    /// Goes to the place where the run works: a worktree of its own is made before anything else.
    async fn settle_in(&mut self) -> Result<Option<Outcome>, PenError> {
        if self.spec.isolation == Isolation::Worktree && self.pen.state().worktree().is_none() {
            let made = self
                .engine
                .worktrees
                .create(self.fence.run, &self.spec.workspace)
                .await;
            match made {
                Ok(worktree) => self.pen.write(Event::Isolated { worktree }).await?,
                Err(message) => {
                    return Ok(Some(Outcome::Failed {
                        reason: Reason::Error,
                        message: t!(self.spec.lang, "fail-worktree", message = message),
                        partial: None,
                    }));
                }
            }
        }
        if let Some(worktree) = self.pen.state().worktree() {
            let authority =
                Authority::of(Arc::clone(&self.spec), self.engine.policies.of(&self.spec));
            self.authority = Arc::new(authority.in_folder(&worktree.workspace));
            let prompt = &self.spec.agent.prompt;
            self.system = with_workspace(prompt, self.spec.lang, &worktree.workspace).into();
        }
        Ok(None)
    }

    async fn call_model(&mut self, call: ModelCall) -> Result<(), PenError> {
        let (turn, model, delay_ms) = (call.turn, call.model.clone(), call.delay_ms);
        let mut request = self.request(call).await?;
        let reserved = match self.provide(&mut request).await? {
            Reservation::Retry => return Ok(()),
            reservation @ (Reservation::Unlimited | Reservation::Reserved(_)) => {
                reservation.amount()
            }
        };
        let asking = Asking {
            engine: Arc::clone(&self.engine),
            fence: self.fence,
            spec: Arc::clone(&self.spec),
            head: self.pen.state().head(),
        };
        // Nothing is lost with a question: it is asked again.
        let asked = self
            .interruptions(Duration::ZERO)
            .race(asking.ask(request, delay_ms, self.signals.clone()))
            .await;
        crash::point(Point::AfterModelAnswer);
        self.pen.settle().await?;
        match asked {
            Went::Interrupted => Ok(()),
            Went::Through(Reply::Said(Ok(answer))) => {
                self.note_answer(turn, answer, reserved).await
            }
            Went::Through(Reply::Said(Err(error))) => {
                self.note_failure(model, error, reserved).await
            }
            Went::Through(Reply::NotAsked) if reserved.is_none() => Ok(()),
            Went::Through(Reply::NotAsked) => {
                let free_again = Facts {
                    spent: Some(Amount::default()),
                    ..Facts::default()
                };
                self.pen.write(free_again).await
            }
        }
    }

    async fn note_answer(
        &mut self,
        turn: u32,
        answer: ModelAnswer,
        reserved: Option<Amount>,
    ) -> Result<(), PenError> {
        let spent = reserved.map(|reserved| budget::settled(&answer.usage, reserved));
        self.pen
            .write(Facts {
                spent,
                ..answered(turn, answer).into()
            })
            .await?;
        if self.pen.state().is_resting() {
            let words = self.pen.state().last_text().unwrap_or_default();
            self.notify(NotificationKind::Said { text: words });
        }
        Ok(())
    }

    async fn note_failure(
        &mut self,
        model: String,
        error: ModelError,
        reserved: Option<Amount>,
    ) -> Result<(), PenError> {
        let event = Event::ModelFailed {
            model,
            fault: error.fault,
            message: error.message.clone(),
            shown: error.shown,
        };
        // Only who refuses in so many words charges nothing for sure.
        let spent = reserved.map(|reserved| match error.fault {
            Fault::RateLimited { .. }
            | Fault::Auth
            | Fault::ContextOverflow
            | Fault::BadRequest
                if !error.shown =>
            {
                Amount::default()
            }
            Fault::TextCall { usage } => budget::settled(&usage, reserved),
            Fault::Transient
            | Fault::RateLimited { .. }
            | Fault::Auth
            | Fault::ContextOverflow
            | Fault::ContentFilter
            | Fault::BadRequest
            | Fault::Cancelled => reserved,
        });
        self.pen
            .write(Facts {
                spent,
                ..event.into()
            })
            .await?;
        // Nobody is asked again without saying so.
        if let Step::CallModel(next) = self.pen.state().next_step(self.engine.clock.now(), None) {
            self.notify(NotificationKind::Retrying {
                error: error.message,
                model: next.model,
                delay_ms: next.delay_ms,
                shown: error.shown,
            });
        }
        Ok(())
    }

    async fn compact(&mut self, compaction: Compaction) -> Result<(), PenError> {
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
        self.pen
            .write(Facts {
                blobs,
                ..event.into()
            })
            .await
    }

    async fn call_tools(&mut self, calls: &[OpenCall]) -> Result<(), PenError> {
        crash::tool_call(&self.spec.task);
        let engine = Arc::clone(&self.engine);
        let spec = Arc::clone(&self.spec);
        let authority = Arc::clone(&self.authority);
        let worktree = self.pen.state().worktree().cloned();
        let dispatch = Dispatch {
            engine: &engine,
            spec: &spec,
            fence: self.fence,
            authority: &authority,
            worktree: worktree.as_ref(),
            not_after: self.pen.state().tree_deadline(),
            head: self.pen.state().head(),
        };
        // Calls that may run concurrently, collected until a call has to run after them.
        let mut free = Vec::new();
        // Set once a call waits for an approver: the calls behind it wait too, but their approval
        // requests are sent at once.
        let mut waits = false;
        for open in calls {
            if self.is_to_rest() {
                break;
            }
            let mut prepared = dispatch.prepare(open);
            if let Prepared::Asks(ready) = prepared {
                if self.run_before(dispatch, &mut free).await? == CallProgress::Stopped {
                    return Ok(());
                }
                prepared = match dispatch.ask(ready).await {
                    // Its turn comes later, and the grant is looked up again then.
                    Asked::Allowed(_) if waits => continue,
                    Asked::Allowed(prepared) => prepared,
                    Asked::Answered(finished) => Prepared::Answered(Box::new(finished)),
                    Asked::Waits(finished) => {
                        waits = true;
                        Prepared::Answered(Box::new(finished))
                    }
                };
            } else if waits {
                continue;
            }
            let progress = match prepared {
                Prepared::Answered(finished) => {
                    self.record_answered(&open.status, *finished).await?
                }
                // Replaced above by what came of the request.
                Prepared::Asks(_) => CallProgress::Finished,
                Prepared::Free(ready) => {
                    let progress = if ready.follows_the_others() {
                        self.run_free(dispatch, std::mem::take(&mut free)).await?
                    } else {
                        CallProgress::Finished
                    };
                    free.push(ready);
                    progress
                }
                Prepared::Guarded(ready) => match self.run_before(dispatch, &mut free).await? {
                    CallProgress::Finished => self.run_guarded(dispatch, &ready).await?,
                    CallProgress::Stopped => CallProgress::Stopped,
                },
            };
            if progress == CallProgress::Stopped {
                return Ok(());
            }
        }
        self.run_free(dispatch, free).await?;
        Ok(())
    }

    /// Runs the collected calls before a call that must come after them. `Stopped` also if the run
    /// is to pause, so that nothing new starts.
    async fn run_before<'a>(
        &mut self,
        dispatch: Dispatch<'a>,
        free: &mut Vec<Ready<'a>>,
    ) -> Result<CallProgress, PenError> {
        let progress = self.run_free(dispatch, std::mem::take(free)).await?;
        Ok(if self.is_to_rest() {
            CallProgress::Stopped
        } else {
            progress
        })
    }

    /// Writes the result of a call that needs no tool to run.
    async fn record_answered(
        &mut self,
        status: &CallStatus,
        finished: Finished,
    ) -> Result<CallProgress, PenError> {
        if let Charge::Exhausted(balance) = self.charge_call(status).await? {
            self.spent_up(balance).await?;
            return Ok(CallProgress::Stopped);
        }
        self.note(vec![finished]).await?;
        Ok(CallProgress::Finished)
    }

    /// Runs calls concurrently.
    async fn run_free<'a>(
        &mut self,
        dispatch: Dispatch<'a>,
        ready: Vec<Ready<'a>>,
    ) -> Result<CallProgress, PenError> {
        let mut waiting = ready.into_iter();
        let mut running = FuturesUnordered::new();
        let mut exhausted = None;
        loop {
            while exhausted.is_none()
                && !self.is_to_rest()
                && running.len() < MAX_PARALLEL_CALLS
                && let Some(ready) = waiting.next()
            {
                match self.charge_call(ready.status).await? {
                    Charge::Exhausted(balance) => exhausted = Some(balance),
                    Charge::Covered => {
                        self.announce_call(ready.call);
                        running.push(dispatch.run_free(ready));
                    }
                }
            }
            let mut finished = Vec::new();
            match self
                .interruptions(self.engine.settings().shutdown_grace)
                .race(running.next())
                .await
            {
                Went::Through(Some(first)) => finished.push(first),
                Went::Through(None) => break,
                Went::Interrupted => return Ok(CallProgress::Stopped),
            }
            while let std::task::Poll::Ready(Some(more)) = futures::poll!(running.next()) {
                finished.push(more);
            }
            crash::point(Point::AfterTool);
            self.note(finished).await?;
        }
        if let Some(balance) = exhausted {
            // Only now that the calls that were charged are done: this ends the run.
            self.spent_up(balance).await?;
            return Ok(CallProgress::Stopped);
        }
        Ok(if waiting.as_slice().is_empty() {
            CallProgress::Finished
        } else {
            CallProgress::Stopped
        })
    }

    /// Runs one call alone, after its intent is durable.
    async fn run_guarded<'a>(
        &mut self,
        dispatch: Dispatch<'a>,
        ready: &Ready<'a>,
    ) -> Result<CallProgress, PenError> {
        if let Charge::Exhausted(balance) = self.charge_call(ready.status).await? {
            self.spent_up(balance).await?;
            return Ok(CallProgress::Stopped);
        }
        let intent = match self
            .interruptions(self.engine.settings().shutdown_grace)
            .race(dispatch.settle(ready))
            .await
        {
            Went::Interrupted => return Ok(CallProgress::Stopped),
            Went::Through(Settled::Answered(finished)) => {
                self.note(vec![finished]).await?;
                return Ok(CallProgress::Finished);
            }
            Went::Through(Settled::Run(intent)) => intent,
        };
        self.pen.write(intent).await?;
        self.pen.settle().await?;
        self.announce_call(ready.call);
        match self
            .interruptions(self.engine.settings().shutdown_grace)
            .race(dispatch.run(ready))
            .await
        {
            Went::Interrupted => Ok(CallProgress::Stopped),
            Went::Through(finished) => {
                crash::point(Point::AfterTool);
                self.note(vec![finished]).await?;
                Ok(CallProgress::Finished)
            }
        }
    }

    /// Writes what came of calls.
    async fn note(&mut self, finished: Vec<Finished>) -> Result<(), PenError> {
        let before = self.pen.state().progress();
        let mut facts = Facts::default();
        for finished in finished {
            facts.events.push(finished.event);
            facts.blobs.extend(finished.blobs);
            facts.audit.extend(finished.audit);
        }
        let asked: Vec<_> = facts.events.iter().filter_map(request_of).collect();
        self.pen.write(facts).await?;
        for request in asked {
            // Whoever answers must find the request in the store.
            self.pen.settle().await?;
            let request = requests::open(self.fence, &self.spec, request, self.engine.clock.now());
            self.notify(NotificationKind::Asked {
                request: Box::new(request),
            });
        }
        let state = self.pen.state();
        if state.progress() > before {
            let kind = NotificationKind::Progress {
                progress: state.progress(),
                tool_calls: state.tool_calls(),
            };
            self.notify(kind);
        }
        Ok(())
    }

    async fn park(&mut self) -> Result<ParkResult, PenError> {
        self.pen.settle().await?;
        let parked = self
            .engine
            .store
            .park(Park {
                fence: self.fence,
                follows: self.pen.state().head(),
                at: self.engine.clock.now(),
                waiting_on: self.pen.state().waiting_on().unwrap_or(WaitingOn::Children),
            })
            .await?;
        if !parked {
            return Ok(ParkResult::InboxFirst);
        }
        self.notify(NotificationKind::Changed {
            waiting_on: self.pen.state().waiting_on(),
        });
        Ok(ParkResult::Parked)
    }

    /// Whether somebody wants the run to rest: nothing new is begun then.
    fn is_to_rest(&self) -> bool {
        self.signals.borrow().pause || self.pen.is_to_rest()
    }

    /// Gives the run back; the store knows whether it still is to rest.
    async fn rest(self) -> Result<LetGo, PenError> {
        let (engine, run) = (Arc::clone(&self.engine), self.fence.run);
        let let_go = self.release().await?;
        engine.publisher.rested(run).await;
        Ok(let_go)
    }

    /// Says what the run waits for, if it is something new.
    fn tell_waiting(&mut self) {
        let waiting_on = self.pen.state().waiting_on();
        // Whoever waits for nothing is about to end, which is told anyway.
        if waiting_on.is_some() && self.told != waiting_on {
            self.told = waiting_on;
            self.notify(NotificationKind::Changed { waiting_on });
        }
    }

    async fn release(mut self) -> Result<LetGo, PenError> {
        self.pen.settle().await?;
        self.engine
            .store
            .release(self.fence, self.engine.clock.now())
            .await?;
        Ok(LetGo::Released)
    }

    /// What may come before the work under way is done.
    fn interruptions(&self, grace: Duration) -> Interruptions {
        let deadline = self.pen.state().deadline();
        Interruptions {
            signals: self.signals.clone(),
            grace,
            time_left: deadline
                .map(|deadline| Duration::from_millis(deadline.ms_since(self.engine.clock.now()))),
        }
    }

    async fn request(&mut self, call: ModelCall) -> Result<ModelRequest, PenError> {
        if self.album.lacks(&call.messages) {
            // A picture that a tool has just found may still be on its way to the store.
            self.pen.settle().await?;
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

    fn announce_call(&self, call: &ToolCall) {
        self.notify(NotificationKind::Tool {
            tool: call.name.clone(),
            tool_calls: self.pen.state().tool_calls(),
        });
    }

    fn notify(&self, kind: NotificationKind) {
        self.engine
            .publisher
            .notify(self.fence.run, &self.spec, self.pen.state().head(), kind);
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

/// Gives each call of an answer Sortie's own id. What a journal could not be read back with is left
/// out: a vendor's item, or arguments, which the model is told of.
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
