//! How a run runs: take the inbox into the journal, ask the machine, act, append; until it ends,
//! waits for its children, or has to be given back.

pub(crate) mod ending;
mod paying;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use sortie_agent::{Compaction, ModelCall, OpenCall, Step};
use sortie_core::{
    Amount, AnswerPart, Arguments, Asker, Blob, Block, CallId, Claimed, Event, Fault, Fence,
    Isolation, MAX_JSON_DEPTH, ModelAnswer, ModelError, ModelRequest, NotificationKind, Outcome,
    Park, Reason, RequestView, RunSpec, StoreError, ToolCall, ToolSpec, TurnOptions, Unread,
    WaitingOn, is_too_deep,
};
use sortie_text::{first_chars, t};
use tokio::sync::watch;

use crate::ask::{Album, Asking, Reply};
use crate::audit::Auditor;
use crate::authority::Authority;
use crate::budget;
use crate::crash::{self, Point};
use crate::dispatch::{Asked, Dispatch, Finished, Prepared, Ready, Settled};
use crate::inquiry;
use crate::live::Signals;
use crate::past::{self, Unreadable};
use crate::pen::{Facts, Pen, PenError};
use crate::runtime::Shared;

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
    shared: Arc<Shared>,
    claimed: Claimed,
    signals: watch::Receiver<Signals>,
) -> Result<LetGo, PenError> {
    let fence = claimed.fence;
    let state = match past::load(&shared, claimed.entries).await {
        Ok(state) => state,
        Err(Unreadable::Damaged(what)) => return ending::give_up(&shared, fence, &what).await,
        Err(Unreadable::Failed(error)) => return Err(error.into()),
    };
    let spec = Arc::clone(state.spec());
    let woken = fence.epoch.0 > 1;
    let inbox_waiting = woken || claimed.inbox_waiting;
    if fence.epoch.0 == 1 {
        shared.notify(
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
        authority: Arc::new(Authority::of(Arc::clone(&spec), shared.policies.of(&spec))),
        system: spec.agent.prompt.as_str().into(),
        tools: shared.planner.toolbox.specs(&spec.tools),
        pen: Pen::new(
            Arc::clone(&shared.store),
            Arc::clone(&shared.clock),
            fence,
            state,
        ),
        shared,
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
    shared: Arc<Shared>,
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
                self.shared
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
            let now = self.shared.clock.now();
            match self.pen.state().next_step(now, cancel.as_ref()) {
                Step::CallModel(call) => self.call_model(call).await?,
                Step::Compact(compaction) => self.compact(*compaction).await?,
                Step::CallTools(calls) => self.call_tools(&calls).await?,
                Step::Wait(_children) => {
                    if self.park().await? {
                        return Ok(LetGo::Parked);
                    }
                    inbox_hint = true;
                }
                Step::Finish(outcome) => {
                    if self.finish(outcome).await? {
                        return Ok(LetGo::Ended);
                    }
                    inbox_hint = true;
                }
                Step::Done => return Ok(LetGo::Ended),
            }
        }
    }

    /// Takes messages into the journal, if there may be some; `true` if there were.
    async fn take_inbox(&mut self, hinted: bool) -> Result<bool, PenError> {
        let auditor = Auditor {
            run: self.fence.run,
            spec: &self.spec,
            redactor: &self.shared.redactor,
        };
        let taken = self.pen.take_inbox(hinted, |state, entry| {
            auditor.answered_by_children(state, entry)
        });
        let taken = taken.await?;
        if taken {
            crash::point(Point::AfterTakeInbox);
        }
        Ok(taken)
    }

    /// Goes to the place where the run works: a worktree of its own is made before anything else.
    async fn settle_in(&mut self) -> Result<Option<Outcome>, PenError> {
        if self.spec.isolation == Isolation::Worktree && self.pen.state().worktree().is_none() {
            let made = self
                .shared
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
                Authority::of(Arc::clone(&self.spec), self.shared.policies.of(&self.spec));
            self.authority = Arc::new(authority.in_folder(&worktree.workspace));
            self.system = self
                .system
                .replace(
                    &*self.spec.workspace.to_string_lossy(),
                    &worktree.workspace.to_string_lossy(),
                )
                .into();
        }
        Ok(None)
    }

    async fn call_model(&mut self, call: ModelCall) -> Result<(), PenError> {
        let (turn, model, delay_ms) = (call.turn, call.model.clone(), call.delay_ms);
        let mut request = self.request(call).await?;
        let Some(reserved) = self.provide(&mut request).await? else {
            return Ok(());
        };
        let asking = Asking {
            shared: Arc::clone(&self.shared),
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
        if let Step::CallModel(next) = self.pen.state().next_step(self.shared.clock.now(), None) {
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
        let shared = Arc::clone(&self.shared);
        let spec = Arc::clone(&self.spec);
        let authority = Arc::clone(&self.authority);
        let worktree = self.pen.state().worktree().cloned();
        let dispatch = Dispatch {
            shared: &shared,
            spec: &spec,
            fence: self.fence,
            authority: &authority,
            worktree: worktree.as_ref(),
            not_after: self.pen.state().tree_deadline(),
            head: self.pen.state().head(),
        };
        let mut free = Vec::new();
        // Once a call waits for somebody's word, those behind it wait too; but what they will ask
        // is asked at once.
        let mut waits = false;
        for open in calls {
            if self.is_to_rest() {
                break;
            }
            let mut prepared = dispatch.prepare(open);
            if waits && !matches!(prepared, Prepared::Asks(_)) {
                continue;
            }
            if let Prepared::Asks(ready) = prepared {
                if !self.run_free(dispatch, std::mem::take(&mut free)).await? || self.is_to_rest() {
                    return Ok(());
                }
                prepared = match dispatch.ask(ready).await {
                    Asked::Allowed(prepared) if !waits => prepared,
                    // It will be asked about again when its turn has come, and be allowed again.
                    Asked::Allowed(_) => continue,
                    Asked::Answered(finished) => Prepared::Answered(Box::new(finished)),
                    Asked::Waits(finished) => {
                        waits = true;
                        Prepared::Answered(Box::new(finished))
                    }
                };
            }
            match prepared {
                Prepared::Answered(finished) => {
                    if let Some(empty) = self.pay_for(&open.status).await? {
                        return self.spent_up(empty).await;
                    }
                    self.note(vec![*finished]).await?;
                }
                // Whoever was asked has answered above.
                Prepared::Asks(_) => {}
                Prepared::Free(ready) => {
                    if ready.follows_the_others()
                        && !self.run_free(dispatch, std::mem::take(&mut free)).await?
                    {
                        return Ok(());
                    }
                    free.push(ready);
                }
                Prepared::Guarded(ready) => {
                    // Order matters to whoever changes something: what was asked for before runs
                    // before.
                    if !self.run_free(dispatch, std::mem::take(&mut free)).await?
                        || self.is_to_rest()
                        || !self.run_guarded(dispatch, &ready).await?
                    {
                        return Ok(());
                    }
                }
            }
        }
        self.run_free(dispatch, free).await?;
        Ok(())
    }

    /// Runs calls beside each other; `false` if some of them did not run, or not to their end.
    async fn run_free<'a>(
        &mut self,
        dispatch: Dispatch<'a>,
        ready: Vec<Ready<'a>>,
    ) -> Result<bool, PenError> {
        let mut waiting = ready.into_iter();
        let mut running = FuturesUnordered::new();
        let mut empty = None;
        loop {
            while empty.is_none()
                && !self.is_to_rest()
                && running.len() < MAX_PARALLEL_CALLS
                && let Some(ready) = waiting.next()
            {
                empty = self.pay_for(ready.status).await?;
                if empty.is_none() {
                    self.announce_call(ready.call);
                    running.push(dispatch.run_free(ready));
                }
            }
            let mut finished = Vec::new();
            match self
                .interruptions(self.shared.planner.settings.shutdown_grace)
                .race(running.next())
                .await
            {
                Went::Through(Some(first)) => finished.push(first),
                Went::Through(None) => break,
                Went::Interrupted => return Ok(false),
            }
            while let std::task::Poll::Ready(Some(more)) = futures::poll!(running.next()) {
                finished.push(more);
            }
            crash::point(Point::AfterTool);
            self.note(finished).await?;
        }
        if let Some(empty) = empty {
            // Only now that those that were paid for are done: this ends the run.
            self.spent_up(empty).await?;
            return Ok(false);
        }
        Ok(waiting.as_slice().is_empty())
    }

    /// Runs one call alone, its intent first; `false` if it did not run to its end.
    async fn run_guarded<'a>(
        &mut self,
        dispatch: Dispatch<'a>,
        ready: &Ready<'a>,
    ) -> Result<bool, PenError> {
        if let Some(empty) = self.pay_for(ready.status).await? {
            self.spent_up(empty).await?;
            return Ok(false);
        }
        let intent = match self
            .interruptions(self.shared.planner.settings.shutdown_grace)
            .race(dispatch.settle(ready))
            .await
        {
            Went::Interrupted => return Ok(false),
            Went::Through(Settled::Answered(finished)) => {
                self.note(vec![finished]).await?;
                return Ok(true);
            }
            Went::Through(Settled::Run(intent)) => intent,
        };
        self.pen.write(intent).await?;
        self.pen.settle().await?;
        self.announce_call(ready.call);
        match self
            .interruptions(self.shared.planner.settings.shutdown_grace)
            .race(dispatch.run(ready))
            .await
        {
            Went::Interrupted => Ok(false),
            Went::Through(finished) => {
                crash::point(Point::AfterTool);
                self.note(vec![finished]).await?;
                Ok(true)
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
            let request = inquiry::open(self.fence, &self.spec, request, self.shared.clock.now());
            self.notify(NotificationKind::Asked {
                request: Box::new(RequestView::from(&request).summary()),
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

    async fn park(&mut self) -> Result<bool, PenError> {
        self.pen.settle().await?;
        let parked = self
            .shared
            .store
            .park(Park {
                fence: self.fence,
                follows: self.pen.state().head(),
                at: self.shared.clock.now(),
                waiting_on: self.pen.state().waiting_on().unwrap_or(WaitingOn::Children),
            })
            .await?;
        if parked {
            self.notify(NotificationKind::Changed {
                waiting_on: self.pen.state().waiting_on(),
            });
        }
        Ok(parked)
    }

    /// Whether somebody wants the run to rest: nothing new is begun then.
    fn is_to_rest(&self) -> bool {
        self.signals.borrow().pause || self.pen.is_to_rest()
    }

    /// Gives the run back; the store knows whether it still is to rest.
    async fn rest(self) -> Result<LetGo, PenError> {
        let (shared, run) = (Arc::clone(&self.shared), self.fence.run);
        let let_go = self.release().await?;
        shared.rested(run).await;
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
        self.shared
            .store
            .release(self.fence, self.shared.clock.now())
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
                .map(|deadline| Duration::from_millis(deadline.ms_since(self.shared.clock.now()))),
        }
    }

    async fn request(&mut self, call: ModelCall) -> Result<ModelRequest, PenError> {
        if self.album.lacks(&call.messages) {
            // A picture that a tool has just found may still be on its way to the store.
            self.pen.settle().await?;
        }
        let images = self
            .album
            .of(&self.shared, self.fence.run, &self.spec, &call.messages)
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
        self.shared
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
