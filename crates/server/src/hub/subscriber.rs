//! One client of the hub: its subscriptions and its position.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sortie_core::id::RunId;
use sortie_protocol::{Control, Resume, Scope, Subscribe};
use sortie_runtime::RuntimeError;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::sync::{broadcast, watch};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::frame::json;
use super::ring::After;
use super::snapshot::Key;
use super::{Frame, Piece, Topic};
use crate::access;
use crate::app::App;
use crate::guard::Caller;
use crate::problem::Problem;

/// Maximum number of subscriptions of one client.
const MAX_SUBSCRIPTIONS: usize = 32;
/// Maximum number of characters of a subscription's id.
const MAX_ID_CHARS: usize = 64;

/// A client of the hub.
#[derive(Debug)]
pub(crate) struct Subscriber {
    app: Arc<App>,
    caller: Caller,
    /// Signals a new event.
    event_added: watch::Receiver<()>,
    texts: Option<broadcast::Receiver<Piece>>,
    /// The next piece of text, until the events before it were sent.
    piece: Option<Piece>,
    /// Pieces from before this sequence number are outdated by a snapshot.
    pieces_from: u64,
    /// The sequence number of the last event that was examined.
    position: u64,
    subscriptions: Vec<Subscription>,
    /// Messages to send before any new event.
    queue: VecDeque<Outgoing>,
    /// The subscription that resumes from an earlier sequence number.
    catching_up: Option<CatchingUp>,
    /// Subscriptions that need a snapshot, with the number of events that they missed.
    behind: VecDeque<(String, Option<u64>)>,
}

#[derive(Debug)]
struct Subscription {
    id: String,
    topic: Topic,
    text: bool,
    /// The client has everything up to this sequence number.
    from: u64,
}

/// A subscription that is sent earlier events.
#[derive(Debug)]
struct CatchingUp {
    id: String,
    /// The next event to send.
    next: Arc<Frame>,
    /// The sequence number of the last earlier event.
    until: u64,
}

/// An event was evicted from the ring.
#[derive(Debug)]
struct Gone;

/// A subscription that passed validation.
#[derive(Debug)]
pub(crate) struct NewSubscription {
    pub(crate) id: String,
    pub(crate) topic: Topic,
    pub(crate) text: bool,
    pub(crate) resume: Option<Resume>,
}

/// A message for a client.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// An event, records or text.
    Frame(Arc<Frame>),
    /// The active tasks.
    Snapshot {
        /// The sequence number of the snapshot.
        seq: u64,
        /// The JSON.
        bytes: Utf8Bytes,
    },
    /// A message about the connection.
    Control(Utf8Bytes),
}

impl Outgoing {
    /// Returns the JSON.
    pub(crate) fn bytes(&self) -> &Utf8Bytes {
        match self {
            Self::Frame(frame) => &frame.bytes,
            Self::Snapshot { bytes, .. } | Self::Control(bytes) => bytes,
        }
    }

    /// Returns the value of `type`.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Frame(frame) => frame.name,
            Self::Snapshot { .. } => "snapshot",
            Self::Control(_) => "control",
        }
    }

    /// Returns the sequence number, if the message has one.
    pub(crate) fn seq(&self) -> Option<u64> {
        match self {
            Self::Frame(frame) => (frame.seq > 0).then_some(frame.seq),
            Self::Snapshot { seq, .. } => Some(*seq),
            Self::Control(_) => None,
        }
    }
}

impl Subscriber {
    pub(crate) fn new(app: &Arc<App>, caller: Caller) -> Self {
        let event_added = app.hub.0.event_added.subscribe();
        Self {
            app: Arc::clone(app),
            caller,
            event_added,
            texts: None,
            piece: None,
            pieces_from: 0,
            position: app.hub.seq(),
            subscriptions: Vec::new(),
            queue: VecDeque::new(),
            catching_up: None,
            behind: VecDeque::new(),
        }
    }

    /// Validates a subscription. A task that the caller may not see is reported as missing.
    pub(crate) async fn validate(
        &self,
        subscription: Subscribe,
    ) -> Result<NewSubscription, Problem> {
        if subscription.id.is_empty() || subscription.id.chars().count() > MAX_ID_CHARS {
            return Err(Problem::bad(format!(
                "`id` must have 1 to {MAX_ID_CHARS} characters"
            )));
        }
        let is_new = self
            .subscriptions
            .iter()
            .all(|other| other.id != subscription.id);
        if is_new && self.subscriptions.len() >= MAX_SUBSCRIPTIONS {
            return Err(Problem::bad(format!(
                "a connection has at most {MAX_SUBSCRIPTIONS} subscriptions; unsubscribe from one first"
            )));
        }
        let task = async || {
            let id = subscription.task_id.as_deref().unwrap_or_default();
            self.app.task(&self.caller, id).await
        };
        let topic = match subscription.scope {
            Scope::All => Topic::All,
            Scope::Session => Topic::Session(match subscription.session_id.as_deref() {
                Some(session) => access::session(&self.caller, Some(session))?,
                None => return Err(Problem::bad("name the session in `session_id`")),
            }),
            Scope::Task => Topic::Task(task().await?.run_id),
            Scope::Tree => Topic::Tree(task().await?.root),
        };
        Ok(NewSubscription {
            id: subscription.id,
            topic,
            text: subscription.text,
            resume: subscription.resume,
        })
    }

    /// Starts a subscription. Missed events come first, or a snapshot.
    pub(crate) fn subscribe(&mut self, subscription: NewSubscription) -> bool {
        self.unsubscribe(&subscription.id);
        let hub = self.app.hub.clone();
        let resumed = subscription
            .resume
            .filter(|resume| resume.epoch == hub.epoch() && hub.ring().can_resume_from(resume.seq));
        let is_resumed = resumed.is_some();
        let message = Control::Subscribed {
            id: subscription.id.clone(),
            resumed: is_resumed,
        };
        self.queue.push_back(Outgoing::Control(json(&message)));
        self.subscriptions.push(Subscription {
            id: subscription.id.clone(),
            topic: subscription.topic,
            text: subscription.text,
            // Receives nothing until its start is known.
            from: u64::MAX,
        });
        match resumed {
            Some(resume) => self.continue_from(&subscription.id, resume.seq),
            None => self.behind.push_back((subscription.id, None)),
        }
        self.update_text();
        hub.0.listener_joined.notify_one();
        is_resumed
    }

    /// Ends the subscription with this id.
    pub(crate) fn unsubscribe(&mut self, id: &str) {
        // Queued messages may belong to other subscriptions too, so they are sent.
        self.subscriptions
            .retain(|subscription| subscription.id != id);
        self.behind.retain(|(behind, _)| behind != id);
        self.catching_up.take_if(|catching_up| catching_up.id == id);
        self.update_text();
    }

    fn update_text(&mut self) {
        let wants_text = self
            .subscriptions
            .iter()
            .any(|subscription| subscription.text);
        if wants_text && self.texts.is_none() {
            self.texts = Some(self.app.hub.0.texts.subscribe());
            self.app.hub.0.text_wanted.notify_one();
        } else if !wants_text {
            self.texts = None;
            self.piece = None;
        }
    }

    /// Returns whether everything that the client requested before was sent.
    pub(crate) fn is_drained(&self) -> bool {
        self.queue.is_empty() && self.catching_up.is_none()
    }

    /// Returns the next message. Cancel-safe: no message is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<Outgoing, RuntimeError> {
        loop {
            if let Some(out) = self.queue.pop_front() {
                return Ok(out);
            }
            if let Some(frame) = self.next_missed() {
                return Ok(Outgoing::Frame(frame));
            }
            if let Some((id, missed)) = self.behind.front().cloned() {
                self.snapshot(&id, missed).await?;
                continue;
            }
            let Ok(event) = self.peek_event() else {
                self.restart_with_snapshots();
                continue;
            };
            // After the look at the events: the text before an event has arrived by then.
            self.poll_text();
            let text_is_first = match (&event, &self.piece) {
                (Some(event), Some(piece)) => piece.after < event.seq,
                (None, Some(_)) => true,
                (_, None) => false,
            };
            if text_is_first && let Some(piece) = self.piece.take() {
                return Ok(Outgoing::Frame(piece.frame));
            }
            if let Some(event) = event {
                self.position = event.seq;
                return Ok(Outgoing::Frame(event));
            }
            let text = async {
                match &mut self.texts {
                    Some(texts) => texts.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = self.event_added.changed() => {
                    // The hub lives as long as the app, to which this client has a reference.
                    changed.ok();
                }
                piece = text => {
                    // The record has the text of a lost piece later.
                    self.piece = piece.ok().filter(|piece| self.wants_text(piece));
                }
            }
        }
    }

    /// Returns the next event of the client's topics, if there is one. The position stays before it
    /// until the caller moves it.
    fn peek_event(&mut self) -> Result<Option<Arc<Frame>>, Gone> {
        let hub = self.app.hub.clone();
        let ring = hub.ring();
        loop {
            match ring.after(self.position) {
                After::Frame(frame) if self.wants(frame) => return Ok(Some(Arc::clone(frame))),
                After::Frame(frame) => self.position = frame.seq,
                After::Nothing => return Ok(None),
                After::Gone => return Err(Gone),
            }
        }
    }

    /// Fetches the next piece of text, if there is one. The channel drops old pieces for new ones, so
    /// an event waits behind a bounded number of older pieces.
    fn poll_text(&mut self) {
        while self.piece.is_none()
            && let Some(texts) = &mut self.texts
        {
            match texts.try_recv() {
                Ok(piece) if self.wants_text(&piece) => self.piece = Some(piece),
                // The record has the text of a lost piece later.
                Ok(_) | Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    /// Moves to the present and requests snapshots for all subscriptions, after the client fell
    /// behind.
    fn restart_with_snapshots(&mut self) {
        let before = self.position;
        self.position = self.app.hub.seq();
        let missed = self.position.saturating_sub(before);
        self.app.metrics.missed.fetch_add(missed, Ordering::Relaxed);
        self.catching_up = None;
        self.piece = None;
        self.pieces_from = self.position;
        self.behind = self
            .subscriptions
            .iter()
            .map(|subscription| (subscription.id.clone(), Some(missed)))
            .collect();
        for subscription in &mut self.subscriptions {
            subscription.from = u64::MAX;
        }
    }

    /// Queues a snapshot for a subscription, and continues from its sequence number.
    async fn snapshot(&mut self, id: &str, missed: Option<u64>) -> Result<(), RuntimeError> {
        let Some(index) = self
            .subscriptions
            .iter()
            .position(|subscription| subscription.id == id)
        else {
            self.behind.pop_front();
            return Ok(());
        };
        let app = Arc::clone(&self.app);
        let key = Key {
            tenant: self.caller.tenant().cloned(),
            topic: self.subscriptions[index].topic.clone(),
        };
        let mut fresh = false;
        let snapshot = loop {
            let snapshot = app
                .hub
                .0
                .snapshots
                .get(&app.hub, &app.runtime, &key, fresh)
                .await?;
            if app.hub.ring().can_resume_from(snapshot.seq) {
                break snapshot;
            }
            // Too many events happened since then, so a new snapshot is needed.
            fresh = true;
        };
        self.behind.pop_front();
        self.queue.push_back(Outgoing::Snapshot {
            seq: snapshot.seq,
            bytes: snapshot.message(id, missed),
        });
        self.continue_from(id, snapshot.seq);
        Ok(())
    }

    /// Continues a subscription after a sequence number, starting with the events that were already
    /// examined.
    fn continue_from(&mut self, id: &str, from: u64) {
        self.set_start(id, from);
        self.set_next_missed(id, from, self.position);
    }

    fn set_start(&mut self, id: &str, from: u64) {
        if let Some(subscription) = self
            .subscriptions
            .iter_mut()
            .find(|subscription| subscription.id == id)
        {
            subscription.from = from;
        }
    }

    /// Returns the next earlier event of the subscription that catches up.
    fn next_missed(&mut self) -> Option<Arc<Frame>> {
        let CatchingUp { id, next, until } = self.catching_up.take()?;
        self.set_next_missed(&id, next.seq, until);
        Some(next)
    }

    /// Finds the next earlier event of a subscription.
    fn set_next_missed(&mut self, id: &str, after: u64, until: u64) {
        match self.next_unsent(id, after, until) {
            Ok(next) => {
                let id = id.to_owned();
                self.catching_up = next.map(|next| CatchingUp { id, next, until });
            }
            Err(Gone) => self.restart_with_snapshots(),
        }
    }

    /// Returns the first event after a sequence number that belongs to a subscription and that no
    /// other subscription has brought.
    fn next_unsent(
        &self,
        id: &str,
        mut after: u64,
        until: u64,
    ) -> Result<Option<Arc<Frame>>, Gone> {
        let ring = self.app.hub.ring();
        while after < until {
            match ring.after(after) {
                After::Frame(frame) => {
                    after = frame.seq;
                    let mut wanting = self.subscriptions.iter().filter(|subscription| {
                        subscription.from < frame.seq && frame.is_about(&subscription.topic)
                    });
                    let is_new = match (wanting.next(), wanting.next()) {
                        (Some(only), None) => only.id == id,
                        (_, _) => false,
                    };
                    if is_new && frame.is_for(&self.caller) {
                        return Ok(Some(Arc::clone(frame)));
                    }
                }
                After::Nothing => break,
                After::Gone => return Err(Gone),
            }
        }
        Ok(None)
    }

    fn wants(&self, frame: &Frame) -> bool {
        frame.is_for(&self.caller)
            && self.subscriptions.iter().any(|subscription| {
                subscription.from < frame.seq && frame.is_about(&subscription.topic)
            })
    }

    fn wants_text(&self, piece: &Piece) -> bool {
        let mut subscriptions = self
            .subscriptions
            .iter()
            .filter(|subscription| subscription.text);
        piece.after >= self.pieces_from
            && piece.frame.is_for(&self.caller)
            && subscriptions.any(|subscription| piece.frame.is_about(&subscription.topic))
    }

    /// Returns whether a message is about this run.
    pub(crate) fn is_about(out: &Outgoing, run: RunId) -> bool {
        match out {
            Outgoing::Frame(frame) => frame.is_about(&Topic::Task(run)),
            Outgoing::Snapshot { .. } | Outgoing::Control(_) => false,
        }
    }
}
