//! How a run runs: take the inbox into the journal, ask the machine, act, append; until it ends,
//! waits for its children, or has to be given back.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use sortie_agent::{Compaction, ModelCall, OpenCall, Step};
use sortie_core::{
    AnswerPart, Arguments, Asker, Blob, Block, CallId, Claimed, Event, Fence, Finish,
    MAX_JSON_DEPTH, ModelAnswer, ModelError, ModelRequest, NotificationKind, Outcome, Park, Reason,
    RunSpec, StoreError, Summary, ToolCall, ToolSpec, TurnOptions, WaitingOn, is_too_deep,
};
use sortie_text::{first_chars, text};
use tokio::sync::watch;

use crate::ask::{Album, Asking};
use crate::crash::{self, Point};
use crate::dispatch::{Dispatch, Finished, Prepared, Ready, Settled};
use crate::live::Signals;
use crate::past::{self, Unreadable};
use crate::pen::{Pen, PenError};
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
    /// The runtime shuts down; it is back in the queue.
    Released,
}

/// Executes a claimed run until it can be let go of.
pub(crate) async fn execute(
    shared: Arc<Shared>,
    claimed: Claimed,
    signals: watch::Receiver<Signals>,
) -> Result<LetGo, PenError> {
    let fence = claimed.fence;
    let state = match past::load(&shared, &claimed).await {
        Ok(state) => state,
        Err(Unreadable(what)) => return give_up(&shared, fence, &what).await,
    };
    let spec = Arc::clone(state.spec());
    let woken = fence.epoch.0 > 1;
    if fence.epoch.0 == 1 {
        shared.notify(
            fence.run,
            &spec,
            state.head(),
            NotificationKind::Started {
                agent: spec.agent.name.clone(),
                label: spec.label.clone(),
                parent_id: spec.parent.as_ref().map(|parent| parent.run),
            },
        );
    }
    let executor = Executor {
        system: spec.agent.prompt.as_str().into(),
        tools: shared.toolbox.specs(&spec.tools),
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
    };
    executor.run(woken).await
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
    async fn run(mut self, woken: bool) -> Result<LetGo, PenError> {
        let mut inbox_hint = woken;
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
            if self.pen.take_inbox(inbox_hint || signals.inbox).await? {
                crash::point(Point::AfterTakeInbox);
            }
            inbox_hint = false;
            let now = self.shared.clock.now();
            let cancel = signals.cancel.as_ref().or_else(|| self.pen.cancel());
            match self.pen.state().next_step(now, cancel) {
                Step::CallModel(call) => self.call_model(call).await?,
                Step::Compact(compaction) => self.compact(*compaction).await?,
                Step::CallTools(calls) => self.call_tools(&calls).await?,
                Step::Wait(_children) => {
                    if self.park().await? {
                        return Ok(LetGo::Parked);
                    }
                    inbox_hint = true;
                }
                Step::Finish(outcome) => return self.finish(outcome).await,
                Step::Done => return Ok(LetGo::Ended),
            }
        }
    }

    async fn call_model(&mut self, call: ModelCall) -> Result<(), PenError> {
        let (turn, model, delay_ms) = (call.turn, call.model.clone(), call.delay_ms);
        let request = self.request(call).await?;
        let asking = Asking {
            shared: Arc::clone(&self.shared),
            fence: self.fence,
            spec: Arc::clone(&self.spec),
            head: self.pen.state().head(),
        };
        // Nothing is lost with a question: it is asked again.
        let asked = self
            .interruptions(Duration::ZERO)
            .race(asking.ask(request, delay_ms))
            .await;
        crash::point(Point::AfterModelAnswer);
        self.pen.settle().await?;
        match asked {
            Went::Interrupted => Ok(()),
            Went::Through(Ok(answer)) => self.note_answer(turn, answer).await,
            Went::Through(Err(error)) => self.note_failure(model, error).await,
        }
    }

    async fn note_answer(&mut self, turn: u32, answer: ModelAnswer) -> Result<(), PenError> {
        self.pen
            .write(vec![answered(turn, answer)], Vec::new())
            .await?;
        if self.pen.state().is_resting() {
            let words = self.pen.state().last_text().unwrap_or_default();
            self.notify(NotificationKind::Said { text: words });
        }
        Ok(())
    }

    async fn note_failure(&mut self, model: String, error: ModelError) -> Result<(), PenError> {
        let event = Event::ModelFailed {
            model,
            fault: error.fault,
            message: error.message.clone(),
            shown: error.shown,
        };
        self.pen.write(vec![event], Vec::new()).await?;
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
        self.pen.write(vec![event], blobs).await
    }

    async fn call_tools(&mut self, calls: &[OpenCall]) -> Result<(), PenError> {
        let shared = Arc::clone(&self.shared);
        let spec = Arc::clone(&self.spec);
        let dispatch = Dispatch {
            shared: &shared,
            spec: &spec,
            fence: self.fence,
        };
        let mut free = Vec::new();
        for open in calls {
            match dispatch.prepare(open) {
                Prepared::Answered(finished) => self.note(vec![finished]).await?,
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

    /// Runs calls beside each other; `false` if they were interrupted.
    async fn run_free<'a>(
        &mut self,
        dispatch: Dispatch<'a>,
        ready: Vec<Ready<'a>>,
    ) -> Result<bool, PenError> {
        let mut waiting = ready.into_iter();
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < MAX_PARALLEL_CALLS
                && let Some(ready) = waiting.next()
            {
                self.announce_call(ready.call);
                running.push(dispatch.run_free(ready));
            }
            let mut finished = Vec::new();
            match self
                .interruptions(self.shared.settings.shutdown_grace)
                .race(running.next())
                .await
            {
                Went::Through(Some(first)) => finished.push(first),
                Went::Through(None) => return Ok(true),
                Went::Interrupted => return Ok(false),
            }
            while let std::task::Poll::Ready(Some(more)) = futures::poll!(running.next()) {
                finished.push(more);
            }
            crash::point(Point::AfterTool);
            self.note(finished).await?;
        }
    }

    /// Runs one call alone, its intent first; `false` if it was interrupted.
    async fn run_guarded<'a>(
        &mut self,
        dispatch: Dispatch<'a>,
        ready: &Ready<'a>,
    ) -> Result<bool, PenError> {
        let intent = match self
            .interruptions(self.shared.settings.shutdown_grace)
            .race(dispatch.settle(ready))
            .await
        {
            Went::Interrupted => return Ok(false),
            Went::Through(Settled::Answered(finished)) => {
                self.note(vec![finished]).await?;
                return Ok(true);
            }
            Went::Through(Settled::Run { intent }) => intent,
        };
        self.pen.write(vec![intent], Vec::new()).await?;
        self.pen.settle().await?;
        self.announce_call(ready.call);
        match self
            .interruptions(self.shared.settings.shutdown_grace)
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
        let mut events = Vec::with_capacity(finished.len());
        let mut blobs = Vec::new();
        for finished in finished {
            events.push(finished.event);
            blobs.extend(finished.blobs);
        }
        self.pen.write(events, blobs).await?;
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
                at: self.shared.clock.now(),
                waiting_on: WaitingOn::Children,
            })
            .await?;
        Ok(parked)
    }

    async fn release(mut self) -> Result<LetGo, PenError> {
        self.pen.settle().await?;
        self.shared
            .store
            .release(self.fence, self.shared.clock.now())
            .await?;
        Ok(LetGo::Released)
    }

    async fn finish(mut self, outcome: Outcome) -> Result<LetGo, PenError> {
        let finishing = self.shared.store.finish(Finish {
            fence: self.fence,
            at: self.shared.clock.now(),
            events: Vec::new(),
            blobs: Vec::new(),
            summary: self.pen.state().summary(),
            outcome,
        });
        // The store keeps the order, so the end need not wait for what was written before it to be
        // durable; but a failure of either is a failure.
        let (finished, settled) = futures::join!(finishing, self.pen.settle());
        settled?;
        let report = finished?;
        crash::point(Point::AfterFinish);
        self.shared.ended(report);
        Ok(LetGo::Ended)
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

/// Ends a run whose journal cannot be read, with what its record still says.
async fn give_up(shared: &Shared, fence: Fence, what: &str) -> Result<LetGo, PenError> {
    tracing::error!(run = %fence.run, what, "a journal cannot be read");
    let record = shared.store.get(fence.run).await?;
    let partial = record.summary.last_text.clone();
    let report = shared
        .store
        .finish(Finish {
            fence,
            at: shared.clock.now(),
            events: Vec::new(),
            blobs: Vec::new(),
            summary: Summary {
                waiting_on: None,
                ..record.summary
            },
            outcome: Outcome::Failed {
                reason: Reason::Error,
                message: text(
                    shared.settings_lang(),
                    "fail-damaged",
                    &[("what", what.into())],
                ),
                partial,
            },
        })
        .await?;
    shared.ended(report);
    Ok(LetGo::Ended)
}
