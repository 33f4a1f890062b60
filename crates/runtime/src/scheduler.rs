//! The service loop: deliver, claim, execute; woken by hints, and by the clock where hints fail.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use sortie_core::{
    Claim, Claimed, Heartbeat, ListFilter, Recover, RecoverScope, StoreError, StoreResult,
};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::crash::{self, Point};
use crate::executor::{LetGo, execute};
use crate::live::Signals;
use crate::pen::PenError;
use crate::runtime::Shared;
use crate::{announce, runtime, setback};

/// How often old transcripts and records are looked for.
const JANITOR_INTERVAL: Duration = Duration::from_secs(3600);
/// The shortest wait between two looks at the store when nobody hints.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);

type Executors = JoinSet<()>;

/// Serves until told to stop, then gives every run back.
pub(crate) async fn serve(shared: Arc<Shared>, stop: CancellationToken) {
    let mut executors = Executors::new();
    let mut janitor_due = Instant::now();
    // A claim failed: its commit may have happened all the same.
    let mut unsure = false;
    loop {
        let mut wait = None;
        if let Err(error) = pass(&shared, &mut executors, &mut unsure).await {
            shared.store_failed("serve", &error);
            // A store that fails now will fail in a moment too.
            wait = Some(shared.planner.settings.poll_interval);
        }
        if Instant::now() >= janitor_due {
            janitor_due = Instant::now() + JANITOR_INTERVAL;
            if let Err(error) = tidy(&shared).await {
                shared.store_failed("tidy", &error);
            }
        }
        let wait = match wait {
            Some(wait) => wait,
            None => wait_until_due(&shared).await,
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(done) = executors.join_next() => let_go(&shared, done),
            () = shared.hint.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
        while let Some(done) = executors.try_join_next() {
            let_go(&shared, done);
        }
    }
    shared.live.release_all();
    while let Some(done) = executors.join_next().await {
        let_go(&shared, done);
    }
}

/// Renews the leases of everything under way, apart from the loop so that nothing delays it.
pub(crate) async fn keep_leases(shared: Arc<Shared>, stop: CancellationToken) {
    let interval = shared.planner.settings.lease / 3;
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
        if let Err(error) = heartbeat(&shared).await {
            shared.store_failed("renew leases", &error);
        }
    }
}

/// Delivers to places outside the store, apart from the loop because they may be slow.
pub(crate) async fn deliver_outside(shared: Arc<Shared>, stop: CancellationToken) {
    loop {
        if let Err(error) = announce::deliver_outside(&shared).await {
            shared.store_failed("deliver outside", &error);
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = shared.outside_hint.notified() => {}
            () = tokio::time::sleep(shared.planner.settings.poll_interval) => {}
        }
    }
}

/// One look at everything that may be due.
async fn pass(
    shared: &Arc<Shared>,
    executors: &mut Executors,
    unsure: &mut bool,
) -> StoreResult<()> {
    if *unsure {
        // Only this loop claims, so what no executor has is left from the claim that failed.
        let executed = shared.live.fences();
        shared.recover(RecoverScope::Orphans(executed)).await?;
        *unsure = false;
    }
    let now = shared.clock.now();
    // Polled in this order, so that one commit of the store carries all four, and what is replied
    // or delivered can be claimed at once.
    let (settled, delivered, expired, claimed) = futures::join!(
        shared.store.reconcile_requests(now),
        announce::deliver_due(shared),
        shared.store.expire_parked(now),
        shared.store.claim(Claim {
            owner: shared.planner.settings.owner.clone(),
            at: now,
            lease_until: shared.lease_until(),
            lanes: shared.planner.settings.lanes.limits(),
            per_parent: shared.planner.settings.lanes.per_parent,
            per_tree: shared.planner.settings.lanes.per_tree,
            deaths: shared.planner.settings.deaths,
        }),
    );
    *unsure = claimed.is_err();
    // What is claimed is started whatever became of the rest: a lease that nobody executes would
    // count as a death.
    for claimed in claimed? {
        crash::point(Point::AfterClaim);
        if claimed.alone {
            tracing::warn!(run = %claimed.fence.run, "claimed alone: its process died more than once");
        }
        let signals = shared.live.enter(claimed.fence, claimed.cancel.clone());
        let under_way = UnderWay {
            shared: Arc::clone(shared),
            fence: claimed.fence,
        };
        executors.spawn(carry_out(under_way, claimed, signals));
    }
    delivered?;
    for (run, request) in settled? {
        shared.replied(run, request).await;
    }
    let expired = expired?;
    let ended = expired.ended.iter().map(|ended| ended.run);
    shared.stop_leftovers(ended.collect()).await;
    shared.ended(expired);
    Ok(())
}

/// A claim under way. Also a panic ends it, so that its lease is not renewed for ever.
struct UnderWay {
    shared: Arc<Shared>,
    fence: sortie_core::Fence,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.shared.live.leave(self.fence);
    }
}

/// Executes a claim; gives the run back if its executor stops.
async fn carry_out(under_way: UnderWay, claimed: Claimed, signals: watch::Receiver<Signals>) {
    let (shared, fence) = (Arc::clone(&under_way.shared), under_way.fence);
    let executing = execute(Arc::clone(&shared), claimed, signals.clone());
    // What a panic leaves behind is dropped with the executor; the journal is whole.
    let what = match AssertUnwindSafe(executing).catch_unwind().await {
        Ok(Ok(LetGo::Ended | LetGo::Parked | LetGo::Released)) => {
            shared.setbacks.clear(fence.run);
            return;
        }
        Ok(Err(PenError::Store(StoreError::Fenced { .. }))) => {
            tracing::warn!(run = %fence.run, "the claim was lost to a newer one");
            return;
        }
        Ok(Err(error)) => sortie_core::with_causes(&error),
        Err(_) => "the executor panicked".to_owned(),
    };
    tracing::error!(run = %fence.run, error = %what, "an executor stopped");
    setback::give_back(&shared, fence, signals, &what).await;
}

fn let_go(shared: &Shared, done: Result<(), JoinError>) {
    if let Err(panic) = done {
        tracing::error!(%panic, "an executor died");
    }
    // Whatever it was, a slot is free.
    shared.hint.notify_one();
}

/// How long nothing will be due, as far as the store knows.
async fn wait_until_due(shared: &Shared) -> Duration {
    let poll = shared.planner.settings.poll_interval;
    match shared.store.next_due().await {
        Ok(Some(due)) => {
            let left = Duration::from_millis(due.ms_since(shared.clock.now()));
            left.clamp(SHORTEST_WAIT, poll)
        }
        Ok(None) => poll,
        Err(error) => {
            shared.store_failed("look ahead", &error);
            poll
        }
    }
}

async fn heartbeat(shared: &Shared) -> StoreResult<()> {
    let fences = shared.live.fences();
    if !fences.is_empty() {
        let report = shared
            .store
            .heartbeat(Heartbeat {
                fences,
                lease_until: shared.lease_until(),
            })
            .await?;
        for run in report.lost {
            shared.live.signal(run, |signals| signals.lost = true);
        }
        for (run, cancellation) in report.cancelled {
            shared
                .live
                .signal(run, |signals| signals.cancel = Some(cancellation));
        }
        for run in report.paused {
            shared.live.signal(run, |signals| signals.pause = true);
        }
        for run in report.inbox_waiting {
            shared.live.signal(run, |signals| signals.inbox = true);
        }
    }
    let report = shared.recover(RecoverScope::Expired).await?;
    if !report.resumed.is_empty() {
        shared.hint.notify_one();
    }
    for run in report.resumed {
        shared.record_changed(run).await;
    }
    Ok(())
}

async fn tidy(shared: &Shared) -> StoreResult<()> {
    let now = shared.clock.now();
    if let Some(age) = shared.planner.settings.archive_after {
        let before = now.plus_ms(-runtime::millis(age));
        shared.store.archive(before, now).await?;
    }
    sweep_worktrees(shared).await?;
    if let Some(age) = shared.planner.settings.clean_up_after {
        let before = now.plus_ms(-runtime::millis(age));
        let removed = shared.store.delete_before(before).await?;
        shared.deleted(removed);
    }
    Ok(())
}

/// Lets go of worktrees whose runs are gone.
async fn sweep_worktrees(shared: &Shared) -> StoreResult<()> {
    let all = ListFilter {
        archived: true,
        ..ListFilter::default()
    };
    let known: Vec<_> = shared
        .store
        .list(all)
        .await?
        .iter()
        .map(|record| record.run_id)
        .collect();
    if let Err(message) = shared.worktrees.sweep(&known).await {
        tracing::warn!(message, "old worktrees could not be tidied");
    }
    Ok(())
}

impl Shared {
    pub(crate) async fn recover(
        &self,
        scope: RecoverScope,
    ) -> StoreResult<sortie_core::RecoverReport> {
        let report = self
            .store
            .recover(Recover {
                scope,
                at: self.clock.now(),
                deaths: self.planner.settings.deaths,
            })
            .await?;
        let ended = report.given_up.ended.iter().map(|ended| ended.run);
        self.stop_leftovers(ended.collect()).await;
        self.ended(report.given_up.clone());
        Ok(report)
    }
}
