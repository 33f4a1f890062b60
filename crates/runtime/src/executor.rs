//! Executes a claimed run: reads the inbox into the journal, asks the machine for the next step,
//! acts, appends; until the run ends, waits for its inbox, or has to be released.

mod charge;
mod checks;
pub(crate) mod finish;
mod model_turn;
mod tool_calls;

use std::sync::Arc;
use std::time::Duration;

use finish::FinishResult;
use sortie_agent::Step;
use sortie_core::event::Event;
use sortie_core::id::Fence;
use sortie_core::notification::NotificationKind;
use sortie_core::ports::store::{Claimed, Park, StoreError, Unread};
use sortie_core::ports::tool::ToolSpec;
use sortie_core::run::{Isolation, Outcome, Reason, RunSpec, WaitingOn};
use sortie_text::t;
use tokio::sync::watch;

use crate::active_runs::Signals;
use crate::audit::Auditor;
use crate::authority::Authority;
use crate::crash::{self, Point};
use crate::engine::Engine;
use crate::journal_load::{self, Unreadable};
use crate::journal_writer::{InboxRead, JournalWriteError, JournalWriter};
use crate::model_call::ImageCache;
use crate::planner::{offered_of, system_of};

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
    let state = match Box::pin(journal_load::load(&engine, claimed.entries)).await {
        Ok(state) => state,
        Err(Unreadable::Damaged(what)) => {
            return Box::pin(finish::give_up(&engine, fence, &what)).await;
        }
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
    // Boxed: every async function that it passes through would keep a place for it.
    let executor = Box::new(Executor {
        authority: Arc::new(Authority::of(Arc::clone(&spec), engine.policies.of(&spec))),
        system: system_of(&spec, &spec.workspace).into(),
        tools: engine.planner.toolbox.specs(offered_of(&spec)),
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
        images: ImageCache::default(),
        counts_calls: true,
        refund_wait: Duration::ZERO,
        // The claim has published this; a run that was woken has waited for something else.
        published_wait: (!woken).then_some(WaitingOn::Model),
    });
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
    images: ImageCache,
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
    async fn run(
        mut self: Box<Self>,
        mut inbox_hint: bool,
    ) -> Result<ExecutorExit, JournalWriteError> {
        if let Some(outcome) = self.decided_outcome() {
            Box::pin(self.end(outcome, Unread::Kept)).await?;
            return Ok(ExecutorExit::Ended);
        }
        if let Some(refused) = Box::pin(self.enter_workspace()).await? {
            Box::pin(self.finish(refused)).await?;
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
                return Box::pin(self.release()).await;
            }
            if signals.inbox {
                // Cleared before the inbox is read, so that a message that arrives after the read
                // is not missed.
                self.engine
                    .active_runs
                    .signal(self.fence.run, |signals| signals.inbox = false);
            }
            self.take_inbox(inbox_hint || signals.inbox).await?;
            inbox_hint = false;
            let cancel = signals.cancel.or_else(|| self.journal.cancel().cloned());
            if cancel.is_none() && self.journal.state().conclusion().is_none() {
                if self.pause_requested() {
                    return Box::pin(self.release_paused()).await;
                }
                if self.journal.is_over_quota() {
                    return Box::pin(self.release_over_quota()).await;
                }
            }
            self.publish_waiting();
            let now = self.engine.clock.now();
            // All but the first are boxed, so that a run that waits for its model does not keep the memory
            // that the other steps would need: thousands of them wait at once.
            match self.journal.state().next_step(now, cancel.as_ref()) {
                Step::CallModel(call) => {
                    if !self.has_learnt_of_quota().await? {
                        self.call_model(call).await?;
                    }
                }
                Step::Compact(compaction) => Box::pin(self.compact(*compaction)).await?,
                Step::CallTools(calls) => Box::pin(self.call_tools(&calls)).await?,
                Step::Check => Box::pin(self.check()).await?,
                Step::Wait(_children) => match self.park().await? {
                    ParkResult::Parked => return Ok(ExecutorExit::Parked),
                    ParkResult::InboxFirst => inbox_hint = true,
                },
                Step::Finish(outcome) => match Box::pin(self.finish(outcome)).await? {
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
            self.system = system_of(&self.spec, &worktree.workspace).into();
        }
        Ok(None)
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
    async fn release_paused(self: Box<Self>) -> Result<ExecutorExit, JournalWriteError> {
        let (engine, run) = (Arc::clone(&self.engine), self.fence.run);
        let exit = self.release().await?;
        engine.publisher.paused(run).await;
        Ok(exit)
    }

    /// Waits for the store's reports about what was spent, so that no prompt is sent after the last one
    /// that the tenant's quota allows. Returns whether they say for the first time that it is used up.
    async fn has_learnt_of_quota(&mut self) -> Result<bool, JournalWriteError> {
        if self.spec.tenant.is_none() || self.journal.is_over_quota() {
            return Ok(false);
        }
        self.journal.flush().await?;
        Ok(self.journal.is_over_quota())
    }

    /// Releases the run into the queue, where it stays until the quota of its tenant allows more.
    async fn release_over_quota(self: Box<Self>) -> Result<ExecutorExit, JournalWriteError> {
        let (engine, run) = (Arc::clone(&self.engine), self.fence.run);
        tracing::info!(%run, "a quota of the tenant is used up; the run waits in the queue");
        let exit = self.release().await?;
        engine.publisher.record_changed(run).await;
        Ok(exit)
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

    async fn release(mut self: Box<Self>) -> Result<ExecutorExit, JournalWriteError> {
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

    fn notify(&self, kind: NotificationKind) {
        self.engine.publisher.notify(
            self.fence.run,
            &self.spec,
            self.journal.state().head(),
            kind,
        );
    }
}

async fn sleep_if(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}
