//! What happens, told while it happens.
//!
//! One task hears the runtime, numbers what it hears without gaps, and turns each event into bytes
//! once. The last events are kept in one place, from which every client takes the next one when it can:
//! a client that is slow, or was gone for a moment, goes on where it was, and however slow clients are,
//! nothing is kept for one of them. Nobody waits for a client: one that is too slow misses events, and
//! gets a snapshot of what lives instead.

mod frame;
mod listener;
mod loop_;
mod ring;
mod snapshot;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sortie_runtime::Runtime;
use tokio::sync::{Notify, broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use frame::{Frame, Wanted};
pub(crate) use listener::{Listener, Out, Wish};
use ring::Ring;
use snapshot::Snapshots;

/// Events that a slow client may be behind before it misses some, and that are kept for those who
/// come back.
const KEPT: usize = 4_096;
/// Pieces of text that a slow client may be behind. They are small and soon old.
const TEXTS_KEPT: usize = 1_024;

/// The hub, as handlers see it.
#[derive(Clone, Debug)]
pub(crate) struct Hub(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Names this life of the server.
    epoch: String,
    /// The numbers and the last events.
    ring: Mutex<Ring>,
    /// Says that there is another event.
    news: watch::Sender<()>,
    texts: broadcast::Sender<Piece>,
    /// Somebody wants text, and the runtime need not have been asked for any yet.
    text_wanted: Notify,
    /// Somebody listens who may be owed records.
    somebody_came: Notify,
    snapshots: Snapshots,
}

/// A piece of what a model says, and where it belongs among the events.
#[derive(Clone, Debug)]
struct Piece {
    /// It was said after this event, and before the next one.
    after: u64,
    frame: Arc<Frame>,
}

impl Hub {
    /// Starts to listen to a runtime.
    pub(crate) fn start(
        runtime: &Arc<Runtime>,
        epoch: String,
        stop: &CancellationToken,
        tracker: &TaskTracker,
    ) -> Self {
        let hub = Self(Arc::new(Shared {
            epoch,
            ring: Mutex::new(Ring::new(KEPT)),
            news: watch::Sender::new(()),
            texts: broadcast::Sender::new(TEXTS_KEPT),
            text_wanted: Notify::new(),
            somebody_came: Notify::new(),
            snapshots: Snapshots::default(),
        }));
        // From here on nothing is missed, though the task may begin a little later.
        let notifications = runtime.subscribe();
        let listening = loop_::Loop::new(hub.clone(), Arc::clone(runtime), notifications);
        let stop = stop.clone();
        tracker.spawn(async move {
            tokio::select! {
                () = listening.run() => {}
                () = stop.cancelled() => {}
            }
        });
        hub
    }

    /// Names this life of the server.
    pub(crate) fn epoch(&self) -> &str {
        &self.0.epoch
    }

    /// The last number.
    pub(crate) fn seq(&self) -> u64 {
        self.ring().seq()
    }

    /// Gives an event its number, keeps it and says that it is there.
    fn publish(&self, make: impl FnOnce(u64) -> Frame) {
        let mut ring = self.ring();
        let frame = make(ring.seq() + 1);
        ring.push(Arc::new(frame));
        drop(ring);
        self.0.news.send_replace(());
    }

    /// Tells a piece of text. Nobody may be there who wants it.
    fn say(&self, frame: Frame) {
        let piece = Piece {
            after: self.seq(),
            frame: Arc::new(frame),
        };
        // An error means that nobody listens any more.
        self.0.texts.send(piece).ok();
    }

    /// Breaks the row of numbers: what is kept is forgotten, and everybody takes a snapshot.
    fn start_over(&self) {
        let mut ring = self.ring();
        let next = ring.seq() + 1;
        ring.start_over(next);
        drop(ring);
        self.0.news.send_replace(());
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
