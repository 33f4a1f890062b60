//! An executor that stopped gives its run back, so that the run goes on as soon as the store accepts
//! writes again.
//!
//! A failed write leaves the fold ahead of the journal. The executor stops, the run goes back to
//! the queue, and the next claim loads it from its journal: the same path as after a crash, but
//! without waiting for the lease to end, and without counting as a death of the process.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sortie_core::{Fence, RunId, Seq, StoreError, StoreResult};
use tokio::sync::watch;

use crate::active_runs::Signals;
use crate::engine::{Engine, store_failed};
use crate::executor::finish;

/// The wait after the first stop, and after the first failure to give a run back.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// The longest wait between two tries to give a run back: a run goes on this soon after the store
/// accepts writes again.
const LONGEST_TRY: Duration = Duration::from_secs(1);
/// The longest wait before a run that stopped several times is claimed again.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Stops in a row without a new journal entry before the run ends. Each of them may ask the model
/// again. While nothing at all can be written, none are counted.
const MAX_STOPS: u32 = 12;

/// What is done about a run whose executor stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// It goes back to the queue after a while.
    Requeue(Duration),
    /// It ends.
    End,
}

/// How often the executors of runs stopped without progress in between. Has no more entries than
/// there are runs whose last executor stopped.
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
    /// Forgets a run whose executor did not stop.
    pub(crate) fn clear(&self, run: RunId) {
        self.lock().remove(&run);
    }

    /// Counts a stop of a run whose journal ends at `head`.
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

/// The wait after so many tries of a write that the store failed.
pub(crate) fn wait_after(tries: u32) -> Duration {
    doubled(FIRST_WAIT, tries, LONGEST_TRY)
}

/// Gives back a run whose executor stopped. Tries until the store accepts it, the claim is lost or
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
            // Also the end of a run whose last commit was reported as failed and did happen.
            Err(StoreError::Fenced { .. }) => {
                engine.failures.clear(fence.run);
                engine.publisher.record_changed(fence.run).await;
                return;
            }
            Err(error) => store_failed("give a task back", &error),
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

/// Waits; `true` if the runtime shuts down or the claim is lost meanwhile.
async fn wait(signals: &mut watch::Receiver<Signals>, time: Duration) -> bool {
    let over = signals.wait_for(|signals| signals.release || signals.lost);
    tokio::time::timeout(time, over).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_without_progress_wait_longer_and_end_the_run() {
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
    fn progress_and_a_good_end_start_the_count_again() {
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
