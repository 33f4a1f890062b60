//! Processes foreign pages on separate threads, outside of the async runtime.

use std::sync::Arc;

use tokio::sync::{Semaphore, oneshot};

/// Limit of pages that are processed at once: a few slow ones must not occupy the machine.
const MAX_AT_ONCE: usize = 2;
/// Stack size of such a thread. Nesting is limited, and each level takes a few frames of third-party
/// parsers.
const STACK_BYTES: usize = 32 * 1024 * 1024;

/// Runs the processing with limited concurrency.
#[derive(Clone, Debug)]
pub(crate) struct Aside(Arc<Semaphore>);

impl Default for Aside {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_AT_ONCE)))
    }
}

impl Aside {
    /// Runs a function on its own thread; returns `None` if it panics. Its slot is released only when the
    /// thread ends, even if the caller has gone.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let place = Arc::clone(&self.0).acquire_owned().await.ok()?;
        let (send, receive) = oneshot::channel();
        std::thread::Builder::new()
            .name("web-page".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                // Fails if the caller has gone, which needs no handling.
                send.send(work()).ok();
                drop(place);
            })
            .ok()?;
        receive.await.ok()
    }
}
