//! The service loops: deliver, claim, execute. Woken by hints, and by the clock where hints fail.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt as _;
use sortie_core::hook::hook_receiver;
use sortie_core::id::Fence;
use sortie_core::ports::store::{
    Claim, Claimed, Heartbeat, HeartbeatReport, Reconciled, RecoverScope, RetentionRule,
    StoreError, StoreResult,
};
use sortie_core::time::Timestamp;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::active_runs::Signals;
use crate::crash::{self, Point};
use crate::engine::{Engine, store_failed};
use crate::executor::{ExecutorExit, execute};
use crate::journal_writer::JournalWriteError;
use crate::leftovers::stop_leftovers;
use crate::sinks::Sink;
use crate::{announce, engine, requeue};

/// Interval of retention: archiving and deleting old runs.
const JANITOR_INTERVAL: Duration = Duration::from_secs(3600);
/// The pause after some runs were archived, in which claims and deliveries continue.
const BETWEEN_ARCHIVES: Duration = Duration::from_secs(1);
/// Shortest wait between two polls of the store.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);

type Executors = JoinSet<()>;

/// Runs the scheduler until `stop`, then releases every run. `drained` is cancelled after the last one.
pub(crate) async fn serve(
    engine: Arc<Engine>,
    stop: CancellationToken,
    drained: CancellationToken,
) {
    // Also if this function panics.
    let _drained = drained.drop_guard();
    let mut executors = Executors::new();
    let mut janitor_due = Instant::now();
    let mut archive_due = janitor_due;
    // Set when a claim failed: its commit may have happened all the same.
    let mut unsure = false;
    loop {
        let mut wait = None;
        if let Err(error) = pass(&engine, &mut executors, &mut unsure).await {
            store_failed("schedule", &error);
            // A store that fails now will probably fail in a moment too.
            wait = Some(engine.settings().poll_interval);
        }
        if engine.wakeups.transcripts.swap(false, Ordering::Relaxed)
            && let Err(error) = engine.store.clean(engine.clock.now()).await
        {
            store_failed("delete transcripts", &error);
            // The janitor deletes them later.
        }
        if Instant::now() >= janitor_due {
            janitor_due = Instant::now() + JANITOR_INTERVAL;
            if let Err(error) = tidy(&engine).await {
                store_failed("apply retention", &error);
            }
        }
        if Instant::now() >= archive_due {
            let pause = match archive(&engine).await {
                Ok(0) => JANITOR_INTERVAL,
                Ok(_) => BETWEEN_ARCHIVES,
                Err(error) => {
                    store_failed("archive tasks", &error);
                    JANITOR_INTERVAL
                }
            };
            archive_due = Instant::now() + pause;
        }
        let wait = match wait {
            Some(wait) => wait,
            None => wait_until_due(&engine).await,
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(done) = executors.join_next() => slot_freed(&engine, done),
            () = engine.wakeups.scheduler.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
        while let Some(done) = executors.try_join_next() {
            slot_freed(&engine, done);
        }
    }
    engine.active_runs.release_all();
    while let Some(done) = executors.join_next().await {
        slot_freed(&engine, done);
    }
}

/// Renews the leases of all active claims, in a loop of its own so that nothing delays it. `stop` is the
/// end of the last executor: until then the runs that it releases are its own.
pub(crate) async fn keep_leases(engine: Arc<Engine>, stop: CancellationToken) {
    let interval = engine.settings().lease / 3;
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
        if let Err(error) = heartbeat(&engine).await {
            store_failed("renew leases", &error);
            if matches!(error, StoreError::Locked { .. }) {
                stop_all(&engine);
            }
        }
    }
}

/// Stops every executor: another process owns the store now and runs the same tasks.
fn stop_all(engine: &Engine) {
    for fence in engine.active_runs.fences() {
        engine.active_runs.lose(fence);
    }
}

/// Delivers to sinks, in a loop of its own because they may be slow.
pub(crate) async fn deliver_outside(
    engine: Arc<Engine>,
    sinks: Vec<Arc<dyn Sink>>,
    stop: CancellationToken,
) {
    loop {
        if let Err(error) = announce::deliver_outside(&engine, &sinks).await {
            store_failed("deliver to sinks", &error);
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = engine.wakeups.outside.notified() => {}
            () = tokio::time::sleep(engine.settings().poll_interval) => {}
        }
    }
}

/// Delivers, expires and claims what is due.
async fn pass(
    engine: &Arc<Engine>,
    executors: &mut Executors,
    unsure: &mut bool,
) -> StoreResult<()> {
    if *unsure {
        // Only this loop claims, so a claim without an executor is left from the claim that failed.
        let executed = engine.active_runs.fences();
        let owner = engine.worker.id.clone();
        engine
            .recover(RecoverScope::Orphans { owner, executed })
            .await?;
        *unsure = false;
    }
    let now = engine.clock.now();
    // Polled in this order, so that one commit of the store includes all four, and a run that gets
    // a reply or a delivery can be claimed at once.
    let (reconciled, delivered, expired, claimed) = futures::join!(
        engine.store.reconcile(now),
        announce::deliver_due(engine),
        engine.store.expire_parked(now),
        engine.store.claim(Claim {
            owner: engine.worker.id.clone(),
            at: now,
            lease_until: engine.lease_until(),
            lanes: engine.settings().lanes.limits(),
            labels: engine.worker.labels.clone(),
            per_parent: engine.settings().lanes.per_parent,
            per_tree: engine.settings().lanes.per_tree,
            deaths: engine.settings().deaths,
        }),
    );
    *unsure = claimed.is_err();
    // Claimed runs are started even if the other transitions failed: a lease without an executor
    // would count as a death.
    for claimed in claimed? {
        crash::point(Point::AfterClaim);
        if claimed.alone {
            tracing::warn!(run = %claimed.fence.run, "claimed alone: its process died more than once");
        }
        let signals = engine
            .active_runs
            .enter(claimed.fence, claimed.cancel.clone());
        let in_flight = ActiveClaim {
            engine: Arc::clone(engine),
            fence: claimed.fence,
        };
        executors.spawn(execute_claim(in_flight, claimed, signals));
    }
    delivered?;
    take_in(engine, reconciled?).await;
    let expired = expired?;
    let ended = expired.ended.iter().map(|ended| ended.run);
    stop_leftovers(engine, ended.collect()).await;
    engine.publish_end(expired);
    Ok(())
}

/// Applies what other processes have left for this one while it starts: what a command asks for now must
/// not be undone by something older. If the store fails, the first pass tries again.
pub(crate) async fn reconcile_at_start(engine: &Arc<Engine>) {
    match engine.store.reconcile(engine.clock.now()).await {
        Ok(reconciled) => take_in(engine, reconciled).await,
        Err(error) => store_failed("apply the mailbox", &error),
    }
}

/// Informs executors and subscribers about operations of other processes.
async fn take_in(engine: &Arc<Engine>, reconciled: Reconciled) {
    for (run, request) in reconciled.replied {
        engine.wake_replied(run, request).await;
    }
    for (run, controlled) in reconciled.controlled {
        engine.controlled(run, controlled).await;
    }
}

/// An active claim. A panic ends it too, so that its lease is not renewed for ever.
struct ActiveClaim {
    engine: Arc<Engine>,
    fence: Fence,
}

impl Drop for ActiveClaim {
    fn drop(&mut self) {
        self.engine.active_runs.leave(self.fence);
    }
}

/// Executes a claim; returns the run to the queue if its executor fails.
async fn execute_claim(
    in_flight: ActiveClaim,
    claimed: Claimed,
    signals: watch::Receiver<Signals>,
) {
    let (engine, fence) = (Arc::clone(&in_flight.engine), in_flight.fence);
    let executing = execute(Arc::clone(&engine), claimed, signals.clone());
    // What a panic leaves behind is dropped with the executor; the journal is consistent.
    let what = match AssertUnwindSafe(executing).catch_unwind().await {
        Ok(Ok(ExecutorExit::Ended | ExecutorExit::Parked | ExecutorExit::Released)) => {
            engine.failures.clear(fence.run);
            return;
        }
        Ok(Err(JournalWriteError::Store(StoreError::Fenced { .. }))) => {
            tracing::warn!(run = %fence.run, "a newer claim has replaced this one");
            return;
        }
        Ok(Err(error)) => sortie_core::error::with_causes(&error),
        Err(_) => "the executor panicked".to_owned(),
    };
    tracing::error!(run = %fence.run, error = %what, "the executor failed");
    Box::pin(requeue::requeue(&engine, fence, signals, &what)).await;
}

fn slot_freed(engine: &Engine, done: Result<(), JoinError>) {
    if let Err(panic) = done {
        tracing::error!(%panic, "an executor task was aborted");
    }
    // However the executor ended, a slot is free.
    engine.wakeups.scheduler.notify_one();
}

/// Returns how long nothing will be due, as far as the store knows.
async fn wait_until_due(engine: &Engine) -> Duration {
    let poll = engine.settings().poll_interval;
    match engine.store.next_due().await {
        Ok(Some(due)) => {
            let left = Duration::from_millis(due.ms_since(engine.clock.now()));
            left.clamp(SHORTEST_WAIT, poll)
        }
        Ok(None) => poll,
        Err(error) => {
            store_failed("read the next due time", &error);
            poll
        }
    }
}

/// Renews the leases, then frees those that have expired. Frees none after a renewal that waited
/// for the store for longer than a lease: the leases of all active runs have expired meanwhile,
/// and the next heartbeat renews them.
async fn heartbeat(engine: &Engine) -> StoreResult<()> {
    if engine.store.is_shared() {
        engine.read_store_clock().await;
        engine.join().await?;
    }
    let lease_until = engine.lease_until();
    renew_leases(engine, lease_until).await?;
    if engine.lease_now() >= lease_until {
        return renew_leases(engine, engine.lease_until()).await;
    }
    let report = engine.recover(RecoverScope::Expired).await?;
    if !report.resumed.is_empty() {
        engine.wakeups.scheduler.notify_one();
    }
    for run in report.resumed {
        engine.publisher.record_changed(run).await;
    }
    Ok(())
}

async fn renew_leases(engine: &Engine, lease_until: Timestamp) -> StoreResult<()> {
    let fences = engine.active_runs.fences();
    if !fences.is_empty() {
        let report = engine
            .store
            .heartbeat(Heartbeat {
                fences: fences.clone(),
                lease_until,
            })
            .await?;
        signal_executors(engine, &fences, report);
    }
    Ok(())
}

/// Signals to the executors of these claims what the store reports about them.
pub(crate) fn signal_executors(engine: &Engine, fences: &[Fence], report: HeartbeatReport) {
    for fence in fences {
        if report.lost.contains(&fence.run) {
            engine.active_runs.lose(*fence);
        }
    }
    for (run, cancellation) in report.cancelled {
        engine
            .active_runs
            .signal(run, |signals| signals.cancel = Some(cancellation));
    }
    for run in report.paused {
        engine
            .active_runs
            .signal(run, |signals| signals.pause = true);
    }
    for run in report.inbox_waiting {
        engine
            .active_runs
            .signal(run, |signals| signals.inbox = true);
    }
}

async fn tidy(engine: &Engine) -> StoreResult<()> {
    let now = engine.clock.now();
    if !engine.worker.is_front {
        return sweep_worktrees(engine).await;
    }
    engine.store.clean(now).await?;
    let hooks = engine.settings().hooks.iter();
    let receivers = hooks.map(|hook| hook_receiver(&hook.name)).collect();
    engine.store.tidy_letters(receivers, now).await?;
    sweep_worktrees(engine).await?;
    if let Some(age) = engine.settings().clean_up_after {
        let before = now.plus_ms(-engine::millis(age));
        let removed = engine
            .store
            .delete_ended(RetentionRule::before(before))
            .await?;
        engine.publisher.deleted(removed);
    }
    Ok(())
}

/// Archives some of the runs that are old enough. Returns how many.
async fn archive(engine: &Engine) -> StoreResult<u64> {
    let Some(age) = engine.settings().archive_after else {
        return Ok(0);
    };
    if !engine.worker.is_front {
        return Ok(0);
    }
    let now = engine.clock.now();
    let before = now.plus_ms(-engine::millis(age));
    engine.store.archive(before, now).await
}

/// Removes worktrees whose runs were deleted. A run exists before its worktree and never returns,
/// so a worktree that is found first and has no run then is left over.
async fn sweep_worktrees(engine: &Engine) -> StoreResult<()> {
    let with_worktree = engine.worktrees.runs().await.unwrap_or_else(|message| {
        tracing::warn!(message, "cannot list worktrees");
        Vec::new()
    });
    let gone = engine.store.missing(with_worktree).await?;
    if let Err(message) = engine.worktrees.sweep(&gone).await {
        tracing::warn!(message, "cannot remove old worktrees");
    }
    Ok(())
}
