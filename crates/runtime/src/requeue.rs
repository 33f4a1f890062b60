//! Returns a run to the queue after its executor failed, so that it continues as soon as the store
//! accepts writes again.
//!
//! A failed write leaves the fold ahead of the journal. The executor stops, the run goes back to
//! the queue, and the next claim loads it from its journal: the same path as after a crash, but
//! without waiting for the lease to expire, and without counting as a death of the process.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sortie_core::id::{Fence, RunId, Seq};
use sortie_core::ports::store::{StoreError, StoreResult};
use tokio::sync::watch;

use crate::active_runs::Signals;
use crate::engine::{Engine, store_failed};
use crate::executor::finish;

/// The wait after the first failure, and after the first failed attempt to release the run.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// The longest wait between two attempts to release a run: a run continues this soon after the
/// store accepts writes again.
const LONGEST_TRY: Duration = Duration::from_secs(1);
/// The longest wait before a run that failed several times is claimed again.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Failures in a row without a new journal entry before the run ends. Each of them may repeat the
/// model call. While nothing at all can be written, none are counted.
const MAX_STOPS: u32 = 12;

/// What happens to a run whose executor failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// It returns to the queue after this wait.
    Requeue(Duration),
    End,
}

/// How often the executors of runs failed without progress in between. Has no more entries than
/// there are runs whose last executor failed.
#[derive(Debug, Default)]
pub(crate) struct ExecutorFailures {
    runs: Mutex<BTreeMap<RunId, Stops>>,
}

#[derive(Clone, Copy, Debug)]
struct Stops {
    count: u32,
    head: Seq,
}

impl ExecutorFailures {
    /// Resets the count of a run whose executor did not fail.
    pub(crate) fn clear(&self, run: RunId) {
        self.lock().remove(&run);
    }

    /// Counts a failure of a run whose journal ends at `head`.
    fn count_failure(&self, run: RunId, head: Seq) -> Next {
        let mut runs = self.lock();
        // The claim itself is an entry, and not progress.
        let earlier = runs.get(&run).filter(|stops| head <= stops.head.next());
        let count = earlier.map_or(1, |stops| stops.count + 1);
        if count >= MAX_STOPS {
            runs.remove(&run);
            return Next::End;
        }
        runs.insert(run, Stops { count, head });
        Next::Requeue(doubled(FIRST_WAIT, count - 1, LONGEST_WAIT))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<RunId, Stops>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first
        .saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX))
        .min(longest)
}

/// Returns the wait after so many attempts of a failed write.
pub(crate) fn wait_after(tries: u32) -> Duration {
    doubled(FIRST_WAIT, tries, LONGEST_TRY)
}

/// Releases a run whose executor failed. Repeats until the store accepts it, the claim is lost or
/// the runtime shuts down; the next process then recovers the run.
pub(crate) async fn requeue(
    engine: &Engine,
    fence: Fence,
    mut signals: watch::Receiver<Signals>,
    what: &str,
) {
    let mut next = None;
    for tries in 0.. {
        match step(engine, fence, &mut next, &mut signals, what).await {
            Ok(()) => return,
            // Also a run whose last commit was reported as failed but happened, and ended it.
            Err(StoreError::Fenced { .. }) => {
                engine.failures.clear(fence.run);
                engine.publisher.record_changed(fence.run).await;
                return;
            }
            Err(error) => store_failed("release a run", &error),
        }
        let is_over = wait(&mut signals, wait_after(tries)).await;
        if is_over {
            return;
        }
    }
}

async fn step(
    engine: &Engine,
    fence: Fence,
    next: &mut Option<Next>,
    signals: &mut watch::Receiver<Signals>,
    what: &str,
) -> StoreResult<()> {
    let decided = match *next {
        Some(next) => next,
        None => {
            let head = engine.store.get(fence.run).await?.head;
            let decided = engine.failures.count_failure(fence.run, head);
            if let Next::Requeue(delay) = decided {
                wait(signals, delay).await;
            }
            *next.insert(decided)
        }
    };
    match decided {
        Next::Requeue(_) => engine.store.release(fence, engine.clock.now()).await,
        Next::End => finish::end_failing(engine, fence, what).await,
    }
}

/// Waits; returns `true` if the runtime shuts down or the claim is lost meanwhile.
async fn wait(signals: &mut watch::Receiver<Signals>, time: Duration) -> bool {
    let over = signals.wait_for(|signals| signals.release || signals.lost);
    tokio::time::timeout(time, over).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_without_progress_back_off_and_end_the_run() {
        let failures = ExecutorFailures::default();
        let run = RunId::from_uuid(uuid::Uuid::from_u128(1));
        let mut waits = Vec::new();
        for head in 5.. {
            match failures.count_failure(run, Seq(head)) {
                Next::Requeue(wait) => waits.push(wait.as_millis()),
                Next::End => break,
            }
        }
        assert_eq!(
            waits,
            [
                50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000, 5_000
            ]
        );
    }

    #[test]
    fn progress_or_success_resets_the_failure_count() {
        let failures = ExecutorFailures::default();
        let run = RunId::from_uuid(uuid::Uuid::from_u128(1));
        let first = Next::Requeue(FIRST_WAIT);
        assert_eq!(failures.count_failure(run, Seq(5)), first);
        assert_eq!(
            failures.count_failure(run, Seq(6)),
            Next::Requeue(FIRST_WAIT * 2)
        );
        // The claim is one entry; two are progress.
        assert_eq!(failures.count_failure(run, Seq(8)), first);
        failures.clear(run);
        assert_eq!(failures.count_failure(run, Seq(9)), first);
    }
}
