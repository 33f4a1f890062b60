//! Runs file work on blocking threads. The work stops soon after its call is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sortie_core::ports::tool::{Permits, ToolContext, ToolFailure};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinError;

use crate::confine::{Kept, Workspace};
use crate::gate::PathGate;

/// The longest time that one walk or search may take before it returns what it has found.
const MAX_WORK_TIME: Duration = Duration::from_secs(20);
/// The most calls whose file work runs at once; others wait. Without a limit a hundred children
/// that read a file make a hundred threads, which cost more than the reading.
const MAX_WORKERS: usize = 16;

/// The longest wait for a place: longer than the longest walk.
const MAX_WAIT: Duration = Duration::from_secs(60);

static WORKERS: Semaphore = Semaphore::const_new(MAX_WORKERS);

/// Signals blocking work to end.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    dropped: Arc<AtomicBool>,
    deadline: Instant,
}

impl Stop {
    fn new() -> Self {
        Self {
            dropped: Arc::new(AtomicBool::new(false)),
            deadline: Instant::now() + MAX_WORK_TIME,
        }
    }

    /// Returns whether the caller has stopped waiting for the result.
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Returns whether the work should stop and return what it has found.
    pub(crate) fn is_due(&self) -> bool {
        self.is_dropped() || Instant::now() >= self.deadline
    }
}

struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.dropped.store(true, Ordering::Relaxed);
    }
}

/// Runs blocking work on its own thread.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&Stop) -> Result<T, ToolFailure> + Send + 'static,
) -> Result<T, ToolFailure> {
    let guard = StopOnDrop(Stop::new());
    let stop = guard.0.clone();
    flatten(tokio::task::spawn_blocking(move || work(&stop)).await)
}

/// Runs blocking work on the files of a call's workspace. The policy of the call decides about each
/// file; some files are never accessed, whatever the policy permits.
pub(crate) async fn in_workspace<T: Send + 'static>(
    context: &ToolContext<'_>,
    kept: &Arc<Kept>,
    work: impl FnOnce(&Workspace, &Stop) -> Result<T, ToolFailure> + Send + 'static,
) -> Result<T, ToolFailure> {
    let root = context.workspace.to_owned();
    let kept = Arc::clone(kept);
    let permits = Arc::clone(context.permits);
    let place = place(MAX_WAIT).await?;
    blocking(move |stop| {
        // Kept until the work ends: dropping the call does not end its thread.
        let _place = place;
        let workspace = Workspace::open(&root)?.keeping(&kept)?;
        work(&workspace.behind(gate(permits, stop.clone())), stop)
    })
    .await
}

/// Waits for a place among the calls that do file work. The wait is bounded: work on a file system
/// that hangs keeps its place for ever.
async fn place(max_wait: Duration) -> Result<SemaphorePermit<'static>, ToolFailure> {
    match tokio::time::timeout(max_wait, WORKERS.acquire()).await {
        Ok(Ok(place)) => Ok(place),
        Ok(Err(_)) | Err(_) => Err(ToolFailure::new(format!(
            "Error: {MAX_WORKERS} other calls are using files and none has ended within {} s. Nothing was done; try again later, or report this.",
            max_wait.as_secs()
        ))),
    }
}

/// Returns the gate of a call; it denies everything once the call is dropped.
fn gate(permits: Arc<dyn Permits>, stop: Stop) -> PathGate {
    PathGate::deciding(move |path| {
        if stop.is_dropped() {
            return Err("the call was stopped".to_owned());
        }
        permits.path(path)
    })
}

fn flatten<T>(joined: Result<Result<T, ToolFailure>, JoinError>) -> Result<T, ToolFailure> {
    match joined {
        Ok(result) => result,
        Err(error) => Err(ToolFailure::new(format!(
            "Error: the tool failed ({error}). Check whether it had an effect before you retry."
        ))),
    }
}

#[cfg(test)]
pub(crate) fn never() -> Stop {
    Stop::new()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::testing::Rules;

    #[tokio::test]
    async fn dropping_a_call_stops_its_work() {
        let (ended, end) = mpsc::channel();
        let (began, begin) = mpsc::channel();
        let mut call = Box::pin(blocking(move |stop| {
            began.send(()).unwrap();
            while !stop.is_dropped() {
                std::thread::yield_now();
            }
            ended.send(()).unwrap();
            Ok(())
        }));
        tokio::select! {
            biased;
            _ = &mut call => unreachable!("the work ends only when its call is dropped"),
            () = std::future::ready(()) => {}
        }
        begin.recv().unwrap();
        drop(call);
        end.recv_timeout(Duration::from_secs(10)).unwrap();
    }

    #[tokio::test]
    async fn a_call_waits_for_a_place_only_so_long() {
        let mut taken = Vec::new();
        for _ in 0..MAX_WORKERS {
            taken.push(place(MAX_WAIT).await.unwrap());
        }
        let refused = place(Duration::ZERO).await.unwrap_err().to_string();
        assert!(refused.contains("try again later"), "{refused}");
        taken.pop();
        assert!(place(Duration::ZERO).await.is_ok());
    }

    #[test]
    fn gate_denies_everything_once_the_call_is_gone() {
        let guard = StopOnDrop(Stop::new());
        let gate = gate(Arc::new(Rules::default()), guard.0.clone());
        let path = std::path::Path::new("f");
        assert_eq!(gate.judge(path), Ok(()));
        drop(guard);
        let verdict = gate.judge(path);
        assert_eq!(verdict, Err("the call was stopped".to_owned()));
    }
}
