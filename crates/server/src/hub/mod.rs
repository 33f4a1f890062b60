//! Live events for clients.
//!
//! One task subscribes to the runtime, numbers the events without gaps, and serialises each event
//! once. A ring has the last events; every client reads its next event from there when it can. So a
//! slow client, or one that was disconnected for a moment, continues where it was, and nothing is
//! buffered for a single client. The runtime never waits for a client: one that is too slow misses
//! events and gets a snapshot of the active tasks instead.

mod frame;
mod publisher;
mod ring;
mod snapshot;
mod subscriber;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sortie_runtime::Runtime;
use tokio::sync::{Notify, broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use frame::{Frame, Topic};
use ring::Ring;
use snapshot::Snapshots;
pub(crate) use subscriber::{NewSubscription, Outgoing, Subscriber};

/// The events that the ring has: how far a client may fall behind before it misses some.
const KEPT: usize = 4_096;
/// Pieces of text that a slow client may be behind. They are small and soon outdated.
const TEXTS_KEPT: usize = 1_024;

/// The handle of the hub.
#[derive(Clone, Debug)]
pub(crate) struct Hub(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Identifies this start of the server.
    epoch: String,
    /// The sequence number and the last events.
    ring: Mutex<Ring>,
    /// Signals a new event.
    event_added: watch::Sender<()>,
    texts: broadcast::Sender<Piece>,
    /// Signals that a client subscribed to text.
    text_wanted: Notify,
    /// Signals that a client subscribed, so pending records have to be published.
    listener_joined: Notify,
    snapshots: Snapshots,
}

/// A piece of a completion, with its position among the events.
#[derive(Clone, Debug)]
struct Piece {
    /// The sequence number of the last event before the piece.
    after: u64,
    frame: Arc<Frame>,
}

impl Hub {
    /// Subscribes to a runtime.
    pub(crate) fn start(
        runtime: &Arc<Runtime>,
        epoch: String,
        stop: &CancellationToken,
        tracker: &TaskTracker,
    ) -> Self {
        let hub = Self(Arc::new(Shared {
            epoch,
            ring: Mutex::new(Ring::new(KEPT)),
            event_added: watch::Sender::new(()),
            texts: broadcast::Sender::new(TEXTS_KEPT),
            text_wanted: Notify::new(),
            listener_joined: Notify::new(),
            snapshots: Snapshots::default(),
        }));
        // Subscribed here: no event is lost although the task starts later.
        let notifications = runtime.subscribe();
        let listening =
            publisher::HubPublisher::new(hub.clone(), Arc::clone(runtime), notifications);
        let stop = stop.clone();
        tracker.spawn(async move {
            tokio::select! {
                () = listening.run() => {}
                () = stop.cancelled() => {}
            }
        });
        hub
    }

    /// Returns the id of this start of the server.
    pub(crate) fn epoch(&self) -> &str {
        &self.0.epoch
    }

    /// Returns the last sequence number.
    pub(crate) fn seq(&self) -> u64 {
        self.ring().seq()
    }

    /// Gives an event its number, adds it to the ring, and signals the clients.
    fn publish(&self, make: impl FnOnce(u64) -> Frame) {
        let mut ring = self.ring();
        let frame = make(ring.seq() + 1);
        ring.push(Arc::new(frame));
        drop(ring);
        self.0.event_added.send_replace(());
    }

    /// Publishes a piece of text to the clients that subscribed to text.
    fn publish_text(&self, frame: Frame) {
        let piece = Piece {
            after: self.seq(),
            frame: Arc::new(frame),
        };
        // An error means that there is no subscriber.
        self.0.texts.send(piece).ok();
    }

    /// Skips a sequence number and clears the ring, so that every client takes a snapshot.
    fn reset(&self) {
        let mut ring = self.ring();
        let next = ring.seq() + 1;
        ring.reset(next);
        drop(ring);
        self.0.event_added.send_replace(());
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
