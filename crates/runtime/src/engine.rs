//! What the services of a runtime and its public operations share, and the transitions that both
//! of them start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sortie_base::redact::Redactor;
use sortie_core::id::RunId;
use sortie_core::inbox::InboxItem;
use sortie_core::notification::NotificationKind;
use sortie_core::ports::hooks::Hooks;
use sortie_core::ports::model::ModelDirectory;
use sortie_core::ports::store::{
    CancelReport, Controlled, EndReport, Join, PauseReport, Recover, RecoverReport, RecoverScope,
    Replied, ReplyTo, RunRef, Store, StoreError, StoreResult,
};
use sortie_core::ports::workspace::Worktrees;
use sortie_core::request::{Reply, RequestId};
use sortie_core::run::{Cancellation, CancelledBy, Cleanup, RunSpec};
use sortie_core::time::{Clock, Timestamp};
use sortie_core::words::Lang;
use sortie_core::worker::Worker;
use tokio::sync::Notify;

use crate::active_runs::ActiveRuns;
use crate::authority::PolicyCache;
use crate::clock::StoreClock;
use crate::leftovers::stop_leftovers;
use crate::planner::Planner;
use crate::publish::Publisher;
use crate::requeue::ExecutorFailures;
use crate::session_locks::SessionLocks;
use crate::settings::Settings;

/// What the services of a runtime and its public operations share.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) models: Arc<dyn ModelDirectory>,
    pub(crate) worktrees: Arc<dyn Worktrees>,
    pub(crate) hooks: Arc<dyn Hooks>,
    pub(crate) redactor: Redactor,
    /// Decides about new runs; has the settings, the tools and the agents.
    pub(crate) planner: Planner,
    pub(crate) policies: PolicyCache,
    /// The runs that this process executes.
    pub(crate) active_runs: ActiveRuns,
    /// Runs whose executors failed.
    pub(crate) failures: ExecutorFailures,
    pub(crate) publisher: Publisher,
    pub(crate) wakeups: Wakeups,
    /// Orders the messages and turns of each conversation.
    pub(crate) session_locks: SessionLocks,
    /// This process, as others that share the store see it.
    pub(crate) worker: Worker,
    /// The same clock as `clock`, to correct it.
    pub(crate) store_clock: Arc<StoreClock>,
    /// Whether this process claims no more runs and is about to end.
    pub(crate) is_draining: AtomicBool,
}

/// Wakes the service loops before their next poll.
#[derive(Debug, Default)]
pub(crate) struct Wakeups {
    /// A run may be claimable, or an announcement deliverable inside the store.
    pub(crate) scheduler: Notify,
    /// An announcement may be deliverable outside the store.
    pub(crate) outside: Notify,
    /// A letter may be deliverable.
    pub(crate) letters: Notify,
    /// A result may wait for a turn of its session.
    pub(crate) sessions: Notify,
    /// A transcript may have to be deleted, because its run does not keep it.
    pub(crate) transcripts: AtomicBool,
}

impl Engine {
    pub(crate) const fn settings(&self) -> &Settings {
        &self.planner.settings
    }

    pub(crate) const fn lang(&self) -> Lang {
        self.planner.settings.lang
    }

    /// Publishes that a run was admitted, and wakes the scheduler.
    pub(crate) fn publish_admission(&self, run: RunId, spec: &RunSpec) {
        self.publisher.admitted(run, spec);
        self.wakeups.scheduler.notify_one();
        if !spec.hooks.is_empty() {
            self.wakeups.letters.notify_one();
        }
    }

    pub(crate) async fn cancel(
        &self,
        run: RunId,
        cancellation: Cancellation,
    ) -> StoreResult<CancelReport> {
        let report = self
            .store
            .cancel(run, cancellation.clone(), self.clock.now())
            .await?;
        self.cancelled(run, cancellation, &report).await;
        Ok(report)
    }

    /// Signals and publishes a cancellation that the store has recorded.
    async fn cancelled(&self, run: RunId, cancellation: Cancellation, report: &CancelReport) {
        if report.signalled.contains(&run) {
            // Its own cancellation; the signals below name the end of the parent.
            self.active_runs
                .signal(run, |signals| signals.cancel = Some(cancellation));
        }
        self.publish_end(EndReport {
            ended: report.ended.clone(),
            signalled: report.signalled.clone(),
        });
        // Runs that the store ended had no executor; a crash may have left their commands running.
        // A run that had ended before is checked too: an earlier process may have died at this
        // point.
        let ended = report.ended.iter().map(|ended| ended.run);
        let before = report.already_ended.is_some().then_some(run);
        stop_leftovers(self, ended.chain(before).collect()).await;
    }

    /// Signals and publishes an operation of another process that the store has applied.
    pub(crate) async fn controlled(&self, run: RunId, controlled: Controlled) {
        match controlled {
            Controlled::Cancelled {
                cancellation,
                report,
            } => self.cancelled(run, cancellation, &report).await,
            Controlled::Paused(report) => drop(self.paused(report)),
            Controlled::Resumed(report) => drop(self.resumed(report)),
            Controlled::Steered => self.steered(run).await,
        }
    }

    /// Signals and publishes a pause; returns the runs.
    pub(crate) fn paused(&self, report: PauseReport) -> Vec<RunId> {
        self.pause_changed(report, true)
    }

    /// Signals and publishes the end of a pause; returns the runs.
    pub(crate) fn resumed(&self, report: PauseReport) -> Vec<RunId> {
        let runs = self.pause_changed(report, false);
        self.wakeups.scheduler.notify_one();
        runs
    }

    fn pause_changed(&self, report: PauseReport, pause: bool) -> Vec<RunId> {
        for run in report.leased {
            self.active_runs
                .signal(run, |signals| signals.pause = pause);
        }
        let publish = |about: RunRef| {
            let run = about.run;
            let kind = match pause {
                true => NotificationKind::Paused,
                false => NotificationKind::Resumed,
            };
            self.publisher.publish_about(about, kind);
            run
        };
        report.changed.into_iter().map(publish).collect()
    }

    pub(crate) async fn steer(&self, run: RunId, item: InboxItem) -> StoreResult<()> {
        self.store.send(run, item, self.clock.now()).await?;
        self.steered(run).await;
        Ok(())
    }

    /// Wakes a run that got a message, and publishes it.
    async fn steered(&self, run: RunId) {
        self.active_runs.signal(run, |signals| signals.inbox = true);
        self.wakeups.scheduler.notify_one();
        self.publisher.record_changed(run).await;
    }

    pub(crate) async fn reply(&self, request: &RequestId, reply: Reply) -> StoreResult<Replied> {
        let replied = self
            .store
            .reply(ReplyTo {
                request: request.clone(),
                reply,
                at: self.clock.now(),
            })
            .await?;
        if let Replied::Accepted { run } = replied {
            self.wake_replied(run, request.clone()).await;
        }
        Ok(replied)
    }

    /// Wakes a run that got a reply, and publishes it.
    pub(crate) async fn wake_replied(&self, run: RunId, request: RequestId) {
        self.active_runs.signal(run, |signals| signals.inbox = true);
        self.wakeups.scheduler.notify_one();
        self.publisher
            .publish_record(run, |_record| NotificationKind::Replied { request })
            .await;
    }

    /// Publishes what ended, and signals the executors of descendants to stop.
    pub(crate) fn publish_end(&self, report: EndReport) {
        if report == EndReport::default() {
            return;
        }
        for run in report.signalled {
            // The cancellation is durable in the store; the signal only makes it faster.
            self.active_runs.signal(run, |signals| {
                signals.cancel.get_or_insert_with(|| Cancellation {
                    by: CancelledBy::ParentEnded,
                    reason: "its parent ended".to_owned(),
                });
            });
        }
        for ended in report.ended {
            self.transcript_is_due(ended.cleanup);
            self.publisher.ended(ended);
        }
        self.wakeups.scheduler.notify_one();
        self.wakeups.outside.notify_one();
        self.wakeups.letters.notify_one();
    }

    /// Recovers what processes that have ended left behind. Beside other processes that share the
    /// store, these are the runs of an earlier front process, and those whose leases have expired.
    pub(crate) async fn recover_at_start(&self) -> StoreResult<RecoverReport> {
        let shared = match self.recover(RecoverScope::All).await {
            Err(StoreError::Locked { .. }) if self.store.is_shared() => {
                self.recover(RecoverScope::Expired).await?
            }
            recovered => return recovered,
        };
        if !self.worker.is_front {
            return Ok(shared);
        }
        let owner = self.worker.id.clone();
        let mut report = self.recover(RecoverScope::Predecessors { owner }).await?;
        report.resumed.extend(shared.resumed);
        Ok(report)
    }

    /// Enters this process into the list of workers, or renews its entry.
    pub(crate) async fn join(&self) -> StoreResult<()> {
        self.store
            .join(Join {
                worker: self.worker.clone(),
                draining: self.is_draining.load(Ordering::Relaxed),
                at: self.lease_now(),
                lease_until: self.lease_until(),
            })
            .await
    }

    /// Reads the clock of the database, which this process follows.
    pub(crate) async fn read_store_clock(&self) {
        match self.store.clock(self.store_clock.own()).await {
            Ok(now) => self.store_clock.follow(now),
            Err(error) => store_failed("read the clock of the database", &error),
        }
    }

    /// Returns the present time of the clock of leases.
    pub(crate) fn lease_now(&self) -> Timestamp {
        self.store_clock.of_leases()
    }

    pub(crate) async fn recover(&self, scope: RecoverScope) -> StoreResult<RecoverReport> {
        let at = match scope {
            RecoverScope::Expired => self.lease_now(),
            RecoverScope::All
            | RecoverScope::Predecessors { .. }
            | RecoverScope::Orphans { .. } => self.clock.now(),
        };
        let report = self
            .store
            .recover(Recover {
                scope,
                at,
                deaths: self.settings().deaths,
            })
            .await?;
        let ended = report.given_up.ended.iter().map(|ended| ended.run);
        stop_leftovers(self, ended.collect()).await;
        self.publish_end(report.given_up.clone());
        Ok(report)
    }

    /// Lets the scheduler look for transcripts to delete, after the end or the delivery of a run.
    pub(crate) fn transcript_is_due(&self, cleanup: Cleanup) {
        if cleanup == Cleanup::Delete {
            self.wakeups.transcripts.store(true, Ordering::Relaxed);
            self.wakeups.scheduler.notify_one();
        }
    }

    pub(crate) fn lease_until(&self) -> Timestamp {
        self.lease_now().plus_ms(millis(self.settings().lease))
    }
}

/// Logs a failure of the store that its caller survives.
pub(crate) fn store_failed(doing: &str, error: &StoreError) {
    tracing::error!(doing, error = %sortie_core::error::with_causes(error), "the store failed");
}

pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
