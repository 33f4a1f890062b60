//! Runs file work on blocking threads. The work stops soon after its call is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sortie_core::ports::tool::{Permits, ToolContext, ToolFailure};
use tokio::sync::mpsc;
use tokio::task::JoinError;

use crate::confine::{Kept, Workspace};
use crate::gate::{PathCheck, PathGate};

/// The longest time that one walk or search may take before it returns what it has found.
const MAX_WORK_TIME: Duration = Duration::from_secs(20);
/// The most policy checks in flight: the work sends one and waits for its verdicts.
const MAX_PATH_CHECKS: usize = 1;

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
    let (sender, mut checks) = mpsc::channel(MAX_PATH_CHECKS);
    let work = blocking(move |stop| {
        let workspace = Workspace::open(&root)?.keeping(&kept)?;
        let workspace = workspace.behind(PathGate::over_channel(sender));
        work(&workspace, stop)
    });
    tokio::pin!(work);
    loop {
        tokio::select! {
            biased;
            Some(check) = checks.recv() => reply(context.permits, check),
            done = &mut work => return done,
        }
    }
}

fn reply(permits: &dyn Permits, check: PathCheck) {
    let verdicts = check.paths.iter().map(|path| permits.path(path));
    // A receiver that is gone also stops the work.
    check.answer.send(verdicts.collect()).ok();
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

    #[test]
    fn gate_denies_everything_once_the_call_is_gone() {
        let (sender, checks) = tokio::sync::mpsc::channel(1);
        let gate = PathGate::over_channel(sender);
        drop(checks);
        let verdict = gate.judge(std::path::Path::new("f"));
        assert_eq!(verdict, Err("the call was stopped".to_owned()));
    }
}
