//! Work on somebody else's page, beside the async threads.

use std::sync::Arc;

use tokio::sync::{Semaphore, oneshot};

/// Pages that are worked on at once: a few slow ones must not take the machine.
const MAX_AT_ONCE: usize = 2;
/// The stack of such a thread. Nesting is bounded, and each level takes a few frames of parsers that
/// are not ours.
const STACK_BYTES: usize = 32 * 1024 * 1024;

/// A place to do such work.
#[derive(Clone, Debug)]
pub(crate) struct Aside(Arc<Semaphore>);

impl Default for Aside {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_AT_ONCE)))
    }
}

impl Aside {
    /// Does bounded work; `None` if it broke down. The place is taken until the work really ends,
    /// also if nobody waits for it any more.
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
                // Fails where nobody waits any more, which is fine.
                send.send(work()).ok();
                drop(place);
            })
            .ok()?;
        receive.await.ok()
    }
}
