//! One client of the hub: what it wants, and where it is.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sortie_core::RunId;
use sortie_protocol::{Control, Resume, Scope, Subscribe};
use sortie_runtime::RuntimeError;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::sync::{broadcast, watch};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::frame::json;
use super::ring::After;
use super::snapshot::Key;
use super::{Frame, Piece, Wanted};
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
    /// Says that there is another event.
    news: watch::Receiver<()>,
    texts: Option<broadcast::Receiver<Piece>>,
    /// The next piece of text, until the events before it were taken.
    piece: Option<Piece>,
    /// Pieces from before this event are old: a snapshot has come since.
    pieces_from: u64,
    /// The number up to which events were taken.
    position: u64,
    wishes: Vec<Subscription>,
    /// What goes out before anything new is heard.
    queue: VecDeque<Out>,
    /// What goes out next: a wish that began at an earlier number.
    catching_up: Option<CatchingUp>,
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

/// A wish that is told what passed by before it was there.
#[derive(Debug)]
struct CatchingUp {
    id: String,
    /// The next that it is told. There always is one: whoever has said all is heard again.
    next: Arc<Frame>,
    /// The last that passed by.
    until: u64,
}

/// Something that was to be taken is no longer kept.
#[derive(Debug)]
struct Gone;

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
        let news = app.hub.0.news.subscribe();
        Self {
            app: Arc::clone(app),
            caller,
            news,
            texts: None,
            piece: None,
            pieces_from: 0,
            position: app.hub.seq(),
            wishes: Vec::new(),
            queue: VecDeque::new(),
            catching_up: None,
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
        let resumed = wish
            .resume
            .filter(|resume| resume.epoch == hub.epoch() && hub.ring().goes_on_from(resume.seq));
        let is_resumed = resumed.is_some();
        let said = Control::Subscribed {
            id: wish.id.clone(),
            resumed: is_resumed,
        };
        self.queue.push_back(Out::Control(json(&said)));
        self.wishes.push(Subscription {
            id: wish.id.clone(),
            wanted: wish.wanted,
            text: wish.text,
            // Nothing until it is known from where.
            from: u64::MAX,
        });
        match resumed {
            Some(resume) => self.go_on(&wish.id, resume.seq),
            None => self.behind.push_back((wish.id, None)),
        }
        self.update_text();
        hub.0.somebody_came.notify_one();
        is_resumed
    }

    /// Hears no more of something.
    pub(crate) fn unsubscribe(&mut self, id: &str) {
        // What waits in the queue may be for other wishes too, so it goes out.
        self.wishes.retain(|wish| wish.id != id);
        self.behind.retain(|(behind, _)| behind != id);
        self.catching_up.take_if(|catching_up| catching_up.id == id);
        self.update_text();
    }

    fn update_text(&mut self) {
        let wants_text = self.wishes.iter().any(|wish| wish.text);
        if wants_text && self.texts.is_none() {
            self.texts = Some(self.app.hub.0.texts.subscribe());
            self.app.hub.0.text_wanted.notify_one();
        } else if !wants_text {
            self.texts = None;
            self.piece = None;
        }
    }

    /// Whether nothing waits for this client that it asked for before.
    pub(crate) fn has_said_all(&self) -> bool {
        self.queue.is_empty() && self.catching_up.is_none()
    }

    /// The next thing for this client. May be dropped at any moment: nothing is lost by it.
    pub(crate) async fn next(&mut self) -> Result<Out, RuntimeError> {
        loop {
            if let Some(out) = self.queue.pop_front() {
                return Ok(out);
            }
            if let Some(frame) = self.caught_up() {
                return Ok(Out::Frame(frame));
            }
            if let Some((id, missed)) = self.behind.front().cloned() {
                self.snapshot(&id, missed).await?;
                continue;
            }
            let Ok(event) = self.look() else {
                self.fell_behind();
                continue;
            };
            // After the look at the events: what was said before one of them is there by then.
            self.look_for_text();
            let text_is_first = match (&event, &self.piece) {
                (Some(event), Some(piece)) => piece.after < event.seq,
                (None, Some(_)) => true,
                (_, None) => false,
            };
            if text_is_first && let Some(piece) = self.piece.take() {
                return Ok(Out::Frame(piece.frame));
            }
            if let Some(event) = event {
                self.position = event.seq;
                return Ok(Out::Frame(event));
            }
            let text = async {
                match &mut self.texts {
                    Some(texts) => texts.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = self.news.changed() => {
                    // The hub lives as long as the app, which this client holds.
                    changed.ok();
                }
                piece = text => {
                    // A piece that was missed is in the record later.
                    self.piece = piece.ok().filter(|piece| self.wants_text(piece));
                }
            }
        }
    }

    /// The next event that this client wants, if it has happened already. It stays where it is until
    /// the position is moved to it.
    fn look(&mut self) -> Result<Option<Arc<Frame>>, Gone> {
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

    /// The next piece of text that this client wants, if it was said already. Old ones make room for
    /// new ones, so events wait behind a bounded number of them, all older than they are.
    fn look_for_text(&mut self) {
        while self.piece.is_none()
            && let Some(texts) = &mut self.texts
        {
            match texts.try_recv() {
                Ok(piece) if self.wants_text(&piece) => self.piece = Some(piece),
                // One that was missed is in the record later.
                Ok(_) | Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    /// Starts again from here, with snapshots.
    fn fell_behind(&mut self) {
        let before = self.position;
        self.position = self.app.hub.seq();
        let missed = self.position.saturating_sub(before);
        self.app.metrics.missed.fetch_add(missed, Ordering::Relaxed);
        self.catching_up = None;
        self.piece = None;
        self.pieces_from = self.position;
        self.behind = self
            .wishes
            .iter()
            .map(|wish| (wish.id.clone(), Some(missed)))
            .collect();
        for wish in &mut self.wishes {
            wish.from = u64::MAX;
        }
    }

    /// Puts a snapshot for the first wish that needs one into the queue, and goes on from there.
    async fn snapshot(&mut self, id: &str, missed: Option<u64>) -> Result<(), RuntimeError> {
        let Some(index) = self.wishes.iter().position(|wish| wish.id == id) else {
            self.behind.pop_front();
            return Ok(());
        };
        let app = Arc::clone(&self.app);
        let key = Key {
            tenant: self.caller.tenant().cloned(),
            wanted: self.wishes[index].wanted.clone(),
        };
        let mut fresh = false;
        let snapshot = loop {
            let snapshot = app
                .hub
                .0
                .snapshots
                .get(&app.hub, &app.runtime, &key, fresh)
                .await?;
            if app.hub.ring().goes_on_from(snapshot.seq) {
                break snapshot;
            }
            // So much has happened since that it is of no use; one that begins now is.
            fresh = true;
        };
        self.behind.pop_front();
        self.queue.push_back(Out::Snapshot {
            seq: snapshot.seq,
            bytes: snapshot.message(id, missed),
        });
        self.go_on(id, snapshot.seq);
        Ok(())
    }

    /// Tells a wish everything after a number: first what has passed by already.
    fn go_on(&mut self, id: &str, from: u64) {
        self.set_from(id, from);
        self.look_ahead(id, from, self.position);
    }

    fn set_from(&mut self, id: &str, from: u64) {
        if let Some(wish) = self.wishes.iter_mut().find(|wish| wish.id == id) {
            wish.from = from;
        }
    }

    /// The next of what passed by before a wish was there.
    fn caught_up(&mut self) -> Option<Arc<Frame>> {
        let CatchingUp { id, next, until } = self.catching_up.take()?;
        self.look_ahead(&id, next.seq, until);
        Some(next)
    }

    /// Sets what a wish is told next of what passed by.
    fn look_ahead(&mut self, id: &str, after: u64, until: u64) {
        match self.passed_by(id, after, until) {
            Ok(next) => {
                let id = id.to_owned();
                self.catching_up = next.map(|next| CatchingUp { id, next, until });
            }
            Err(Gone) => self.fell_behind(),
        }
    }

    /// The first event after a number that a wish is about and that no other wish brought before.
    fn passed_by(&self, id: &str, mut after: u64, until: u64) -> Result<Option<Arc<Frame>>, Gone> {
        let ring = self.app.hub.ring();
        while after < until {
            match ring.after(after) {
                After::Frame(frame) => {
                    after = frame.seq;
                    let mut wanting = self
                        .wishes
                        .iter()
                        .filter(|wish| wish.from < frame.seq && frame.is_about(&wish.wanted));
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
            && self
                .wishes
                .iter()
                .any(|wish| wish.from < frame.seq && frame.is_about(&wish.wanted))
    }

    fn wants_text(&self, piece: &Piece) -> bool {
        let mut wishes = self.wishes.iter().filter(|wish| wish.text);
        piece.after >= self.pieces_from
            && piece.frame.is_for(&self.caller)
            && wishes.any(|wish| piece.frame.is_about(&wish.wanted))
    }

    /// Whether something is about this run.
    pub(crate) fn is_about(out: &Out, run: RunId) -> bool {
        match out {
            Out::Frame(frame) => frame.is_about(&Wanted::Task(run)),
            Out::Snapshot { .. } | Out::Control(_) => false,
        }
    }
}
