//! Live events, from the runtime of this process or from a server.
//!
//! Events are hints. If one is lost, because a connection broke or this process was slow, the store
//! still has its effect, and `follow` reads the store twice a second.

use std::sync::Arc;
use std::time::Duration;

use sortie_core::id::RunId;
use sortie_core::notification::Notification;
use sortie_protocol::client::{Client, ClientError, EventStream, StreamItem};
use sortie_runtime::Runtime;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinSet;

/// Events buffered for a slow reader before it misses some.
const EVENTS_KEPT: usize = 4096;
/// The first pause after a broken connection; it doubles with each further failure.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// An item of the feed.
#[derive(Debug)]
pub(crate) enum FeedItem {
    Event(Box<Notification>),
    /// A piece of a completion; only from a feed with text.
    Text {
        run: RunId,
        text: Arc<str>,
    },
    /// Events were lost; how many, if that is known.
    Missed(Option<u64>),
    /// The feed has ended.
    Closed,
}

/// A source of live events.
#[derive(Debug)]
pub(crate) enum Feed {
    /// The runtime of this process.
    Own {
        events: broadcast::Receiver<Notification>,
        texts: Option<broadcast::Receiver<(RunId, Arc<str>)>>,
    },
    Server {
        events: mpsc::Receiver<FeedItem>,
        /// Reads the event stream, and ends when this value is dropped.
        _listener: JoinSet<()>,
    },
}

impl Feed {
    /// Subscribes to the events of a runtime.
    pub(super) fn of_runtime(runtime: &Runtime) -> Self {
        Self::Own {
            events: runtime.subscribe(),
            texts: None,
        }
    }

    /// Subscribes to the events of a runtime and to the text of completions.
    pub(super) fn with_text(runtime: &Runtime) -> Self {
        Self::Own {
            texts: Some(runtime.subscribe_text()),
            events: runtime.subscribe(),
        }
    }

    /// Subscribes to the events of a server.
    pub(super) async fn of_server(client: Client, with_text: bool) -> Result<Self, ClientError> {
        // The stream is opened here, so no event after this call is lost.
        let stream = open(&client, None, with_text).await?;
        let (sender, events) = mpsc::channel(EVENTS_KEPT);
        let listener = FeedReader {
            client,
            with_text,
            sender,
            missed: 0,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(listener.listen(stream));
        Ok(Self::Server {
            events,
            _listener: tasks,
        })
    }

    /// Returns the next item. Cancel-safe: no item is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> FeedItem {
        match self {
            Self::Own { events, texts } => loop {
                let received = tokio::select! {
                    biased;
                    // A text is published before the event that follows it.
                    text = next_text(texts.as_mut()) => Err(text),
                    event = events.recv() => Ok(event),
                };
                return match received {
                    Ok(Ok(notification)) => FeedItem::Event(Box::new(notification)),
                    Ok(Err(RecvError::Lagged(missed))) => FeedItem::Missed(Some(missed)),
                    Ok(Err(RecvError::Closed)) => FeedItem::Closed,
                    Err(Ok((run, text))) => FeedItem::Text { run, text },
                    // The journal has the text later.
                    Err(Err(RecvError::Lagged(_))) => continue,
                    Err(Err(RecvError::Closed)) => {
                        *texts = None;
                        continue;
                    }
                };
            },
            Self::Server { events, .. } => events.recv().await.unwrap_or(FeedItem::Closed),
        }
    }

    /// Returns an item that has already arrived.
    pub(crate) fn try_next(&mut self) -> Option<FeedItem> {
        match self {
            Self::Own { events, .. } => match events.try_recv() {
                Ok(notification) => Some(FeedItem::Event(Box::new(notification))),
                Err(TryRecvError::Lagged(missed)) => Some(FeedItem::Missed(Some(missed))),
                Err(TryRecvError::Empty | TryRecvError::Closed) => None,
            },
            Self::Server { events, .. } => events.try_recv().ok(),
        }
    }
}

/// Returns the next piece of text; never, if no text is subscribed to.
async fn next_text(
    texts: Option<&mut broadcast::Receiver<(RunId, Arc<str>)>>,
) -> Result<(RunId, Arc<str>), RecvError> {
    match texts {
        Some(texts) => texts.recv().await,
        None => std::future::pending().await,
    }
}

async fn open(
    client: &Client,
    last_id: Option<&str>,
    with_text: bool,
) -> Result<EventStream, ClientError> {
    if with_text {
        client.events_with_text(last_id).await
    } else {
        client.events(last_id).await
    }
}

struct FeedReader {
    client: Client,
    with_text: bool,
    sender: mpsc::Sender<FeedItem>,
    /// Events that did not fit into the channel.
    missed: u64,
}

impl FeedReader {
    /// Forwards events until the receiver is dropped; reopens a broken stream.
    async fn listen(mut self, mut stream: EventStream) {
        let mut pause = FIRST_PAUSE;
        loop {
            loop {
                let received = tokio::select! {
                    received = stream.next() => received,
                    () = self.sender.closed() => return,
                };
                match received {
                    Ok(Some(item)) => self.forward(item),
                    Ok(None) => break,
                    Err(error) => {
                        tracing::debug!(%error, "the event stream broke");
                        break;
                    }
                }
                pause = FIRST_PAUSE;
            }
            let last_id = stream.last_id().map(str::to_owned);
            stream = loop {
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = self.sender.closed() => return,
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
                match open(&self.client, last_id.as_deref(), self.with_text).await {
                    Ok(stream) => break stream,
                    Err(error) => tracing::debug!(%error, "cannot reopen the event stream"),
                }
            };
        }
    }

    fn forward(&mut self, item: StreamItem) {
        let item = match item {
            StreamItem::Missed(count) => FeedItem::Missed(count),
            StreamItem::Event(event) => FeedItem::Event(Box::new(event.event)),
            StreamItem::Text { run, text } => FeedItem::Text {
                run,
                text: text.into(),
            },
        };
        if self.missed > 0 {
            let missed = FeedItem::Missed(Some(self.missed));
            if self.sender.try_send(missed).is_ok() {
                self.missed = 0;
            }
        }
        if self.sender.try_send(item).is_err() {
            self.missed += 1;
        }
    }
}
