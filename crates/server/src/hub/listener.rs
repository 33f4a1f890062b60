//! One client of the hub: what it wants, and where it is.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sortie_core::RunId;
use sortie_protocol::{Control, Resume, Scope, Subscribe};
use sortie_runtime::RuntimeError;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::frame::json;
use super::snapshot::Key;
use super::{Frame, Wanted};
use crate::access;
use crate::app::App;
use crate::guard::Caller;
use crate::problem::Problem;

/// Subscriptions of one client.
const MAX_SUBSCRIPTIONS: usize = 32;
/// The longest name of one.
const MAX_ID_CHARS: usize = 64;

/// A client of the hub.
#[derive(Debug)]
pub(crate) struct Listener {
    app: Arc<App>,
    caller: Caller,
    events: broadcast::Receiver<Arc<Frame>>,
    texts: Option<broadcast::Receiver<Arc<Frame>>>,
    /// The number up to which `events` was taken.
    position: u64,
    wishes: Vec<Subscription>,
    /// What goes out before anything new is heard.
    queue: VecDeque<Out>,
    /// Wishes that need a snapshot, with how much they missed.
    behind: VecDeque<(String, Option<u64>)>,
}

#[derive(Debug)]
struct Subscription {
    id: String,
    wanted: Wanted,
    text: bool,
    /// Everything up to here is known to the client.
    from: u64,
}

/// A wish, understood.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) id: String,
    pub(crate) wanted: Wanted,
    pub(crate) text: bool,
    pub(crate) resume: Option<Resume>,
}

/// Something for a client.
#[derive(Debug)]
pub(crate) enum Out {
    /// Something happened.
    Frame(Arc<Frame>),
    /// Everything that lives.
    Snapshot {
        /// As of this number.
        seq: u64,
        /// The message.
        bytes: Utf8Bytes,
    },
    /// About the connection.
    Control(Utf8Bytes),
}

impl Out {
    /// The JSON.
    pub(crate) fn bytes(&self) -> &Utf8Bytes {
        match self {
            Self::Frame(frame) => &frame.bytes,
            Self::Snapshot { bytes, .. } | Self::Control(bytes) => bytes,
        }
    }

    /// The word in `type`.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Frame(frame) => frame.name,
            Self::Snapshot { .. } => "snapshot",
            Self::Control(_) => "control",
        }
    }

    /// Its number, where it has one.
    pub(crate) fn seq(&self) -> Option<u64> {
        match self {
            Self::Frame(frame) => (frame.seq > 0).then_some(frame.seq),
            Self::Snapshot { seq, .. } => Some(*seq),
            Self::Control(_) => None,
        }
    }
}

impl Listener {
    pub(crate) fn new(app: &Arc<App>, caller: Caller) -> Self {
        let (events, position) = app.hub.listen();
        Self {
            app: Arc::clone(app),
            caller,
            events,
            texts: None,
            position,
            wishes: Vec::new(),
            queue: VecDeque::new(),
            behind: VecDeque::new(),
        }
    }

    /// Understands a wish. Tasks that the client may not see are not there.
    pub(crate) async fn understand(&self, wish: Subscribe) -> Result<Wish, Problem> {
        if wish.id.is_empty() || wish.id.chars().count() > MAX_ID_CHARS {
            return Err(Problem::bad(format!(
                "the id of a subscription has 1 to {MAX_ID_CHARS} characters"
            )));
        }
        let is_new = self.wishes.iter().all(|other| other.id != wish.id);
        if is_new && self.wishes.len() >= MAX_SUBSCRIPTIONS {
            return Err(Problem::bad(format!(
                "there are at most {MAX_SUBSCRIPTIONS} subscriptions; end one first"
            )));
        }
        let task = async || {
            let id = wish.task_id.as_deref().unwrap_or_default();
            self.app.task(&self.caller, id).await
        };
        let wanted = match wish.scope {
            Scope::All => Wanted::All,
            Scope::Session => Wanted::Session(match wish.session_id.as_deref() {
                Some(session) => access::session(&self.caller, Some(session))?,
                None => return Err(Problem::bad("say which session, in `session_id`")),
            }),
            Scope::Task => Wanted::Task(task().await?.run_id),
            Scope::Tree => Wanted::Tree(task().await?.root),
        };
        Ok(Wish {
            id: wish.id,
            wanted,
            text: wish.text,
            resume: wish.resume,
        })
    }

    /// Begins to hear of something. What was missed comes first, or a snapshot.
    pub(crate) fn subscribe(&mut self, wish: Wish) -> bool {
        self.unsubscribe(&wish.id);
        let hub = self.app.hub.clone();
        let resumed = wish.resume.and_then(|resume| {
            let ring = hub.ring();
            let is_ours = resume.epoch == hub.epoch() && resume.seq <= ring.seq();
            let frames = is_ours.then(|| ring.between(resume.seq, self.position));
            frames.flatten().map(|frames| (resume.seq, frames))
        });
        let is_resumed = resumed.is_some();
        let said = Control::Subscribed {
            id: wish.id.clone(),
            resumed: is_resumed,
        };
        self.queue.push_back(Out::Control(json(&said)));
        let from = match resumed {
            Some((from, frames)) => {
                self.catch_up(&wish.wanted, frames);
                from
            }
            None => {
                self.behind.push_back((wish.id.clone(), None));
                // Nothing until the snapshot says from where.
                u64::MAX
            }
        };
        self.wishes.push(Subscription {
            id: wish.id,
            wanted: wish.wanted,
            text: wish.text,
            from,
        });
        self.update_text();
        hub.0.somebody_came.notify_one();
        is_resumed
    }

    /// Hears no more of something.
    pub(crate) fn unsubscribe(&mut self, id: &str) {
        // What waits in the queue may be for other wishes too, so it goes out.
        self.wishes.retain(|wish| wish.id != id);
        self.behind.retain(|(behind, _)| behind != id);
        self.update_text();
    }

    fn update_text(&mut self) {
        let wants_text = self.wishes.iter().any(|wish| wish.text);
        if wants_text && self.texts.is_none() {
            self.texts = Some(self.app.hub.0.texts.subscribe());
            self.app.hub.0.text_wanted.notify_one();
        } else if !wants_text {
            self.texts = None;
        }
    }

    /// Whether nothing waits for this client that it asked for before.
    pub(crate) fn has_said_all(&self) -> bool {
        self.queue.is_empty()
    }

    /// The next thing for this client. May be dropped at any moment: nothing is lost by it.
    pub(crate) async fn next(&mut self) -> Result<Out, RuntimeError> {
        loop {
            if let Some(out) = self.queue.pop_front() {
                return Ok(out);
            }
            if let Some((id, missed)) = self.behind.front().cloned() {
                self.snapshot(&id, missed).await?;
                self.behind.pop_front();
                continue;
            }
            let text = async {
                match &mut self.texts {
                    Some(texts) => texts.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                text = text => {
                    // A piece that was missed is in the record later.
                    if let Ok(frame) = text && self.wants_text(&frame) {
                        return Ok(Out::Frame(frame));
                    }
                }
                event = self.events.recv() => {
                    if let Some(out) = self.heard(event) {
                        return Ok(out);
                    }
                }
            }
        }
    }

    fn heard(&mut self, event: Result<Arc<Frame>, RecvError>) -> Option<Out> {
        match event {
            Ok(frame) if frame.is_gap() => {
                self.fell_behind();
                None
            }
            Ok(frame) => {
                self.position = frame.seq;
                self.wants(&frame).then(|| Out::Frame(frame))
            }
            Err(RecvError::Lagged(_)) => {
                self.fell_behind();
                None
            }
            // The hub lives as long as the server.
            Err(RecvError::Closed) => None,
        }
    }

    /// Starts again from here, with snapshots.
    fn fell_behind(&mut self) {
        let before = self.position;
        (self.events, self.position) = self.app.hub.listen();
        let missed = self.position.saturating_sub(before);
        self.app.metrics.missed.fetch_add(missed, Ordering::Relaxed);
        self.behind = self
            .wishes
            .iter()
            .map(|wish| (wish.id.clone(), Some(missed)))
            .collect();
        for wish in &mut self.wishes {
            wish.from = u64::MAX;
        }
    }

    /// Puts a snapshot for a wish into the queue, and what happened since it was made.
    async fn snapshot(&mut self, id: &str, missed: Option<u64>) -> Result<(), RuntimeError> {
        let Some(index) = self.wishes.iter().position(|wish| wish.id == id) else {
            return Ok(());
        };
        let app = Arc::clone(&self.app);
        let key = Key {
            tenant: self.caller.tenant().cloned(),
            wanted: self.wishes[index].wanted.clone(),
        };
        let mut fresh = false;
        let (snapshot, frames) = loop {
            let snapshot = app
                .hub
                .0
                .snapshots
                .get(&app.hub, &app.runtime, &key, fresh)
                .await?;
            let frames = app.hub.ring().between(snapshot.seq, self.position);
            match frames {
                Some(frames) => break (snapshot, frames),
                // So much has happened since that it is of no use; one that begins now is.
                None => fresh = true,
            }
        };
        self.queue.push_back(Out::Snapshot {
            seq: snapshot.seq,
            bytes: snapshot.message(id, missed),
        });
        self.catch_up(&key.wanted, frames);
        if let Some(wish) = self.wishes.get_mut(index) {
            wish.from = snapshot.seq;
        }
        Ok(())
    }

    /// Puts what passed by before a wish was there into the queue.
    fn catch_up(&mut self, wanted: &Wanted, frames: Vec<Arc<Frame>>) {
        for frame in frames {
            let is_new =
                frame.is_for(&self.caller) && frame.is_about(wanted) && !self.wants(&frame);
            if is_new {
                self.queue.push_back(Out::Frame(frame));
            }
        }
    }

    fn wants(&self, frame: &Frame) -> bool {
        frame.is_for(&self.caller)
            && self
                .wishes
                .iter()
                .any(|wish| wish.from < frame.seq && frame.is_about(&wish.wanted))
    }

    fn wants_text(&self, frame: &Frame) -> bool {
        frame.is_for(&self.caller)
            && self
                .wishes
                .iter()
                .any(|wish| wish.text && frame.is_about(&wish.wanted))
    }

    /// Whether something is about this run.
    pub(crate) fn is_about(out: &Out, run: RunId) -> bool {
        match out {
            Out::Frame(frame) => frame.is_about(&Wanted::Task(run)),
            Out::Snapshot { .. } | Out::Control(_) => false,
        }
    }
}
