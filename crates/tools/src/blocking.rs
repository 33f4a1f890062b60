//! File work off the async threads, which stops soon after its call is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sortie_core::ToolFailure;

/// How long one walk or search may take before it answers with what it has.
const MAX_WORK_TIME: Duration = Duration::from_secs(20);

/// Tells blocking work when to end.
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

    /// Whether nobody waits for the answer any more.
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Whether the work should answer with what it has.
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

/// Does blocking work on its own thread.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&Stop) -> Result<T, ToolFailure> + Send + 'static,
) -> Result<T, ToolFailure> {
    let guard = StopOnDrop(Stop::new());
    let stop = guard.0.clone();
    match tokio::task::spawn_blocking(move || work(&stop)).await {
        Ok(result) => result,
        Err(error) => Err(ToolFailure::new(format!(
            "The tool broke down ({error}). Look whether it had an effect before trying again."
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
}
