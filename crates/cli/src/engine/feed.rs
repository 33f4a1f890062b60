//! News of runs: from the runtime of this process, or from a server.
//!
//! News are hints. What is missed, because a connection broke or somebody was slow, the store still
//! knows, and whoever follows looks there twice a second.

use std::time::Duration;

use sortie_core::Notification;
use sortie_protocol::client::{Client, ClientError, Heard as Said};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinSet;

/// News kept for a slow reader before it misses some.
const NEWS_KEPT: usize = 4096;
/// The first pause after a connection broke; twice as long after each further failure.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// Something that was heard.
#[derive(Debug)]
pub(crate) enum Heard {
    /// News of a run.
    News(Box<Notification>),
    /// So many news were missed, if anybody counted them.
    Missed(Option<u64>),
    /// There will be no more.
    Over,
}

/// Where news come from.
#[derive(Debug)]
pub(crate) enum Feed {
    /// The runtime of this process.
    Own(broadcast::Receiver<Notification>),
    /// A server.
    Server {
        /// What it said.
        news: mpsc::Receiver<Heard>,
        /// Listens to it, and ends with this value.
        _listener: JoinSet<()>,
    },
}

impl Feed {
    /// Listens to a server from now on.
    pub(super) async fn of_server(client: Client) -> Result<Self, ClientError> {
        // The first connection is made here: nothing that happens from now on is missed.
        let stream = client.events(None).await?;
        let (sender, news) = mpsc::channel(NEWS_KEPT);
        let listener = Listener {
            client,
            sender,
            missed: 0,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(listener.listen(stream));
        Ok(Self::Server {
            news,
            _listener: tasks,
        })
    }

    /// The next news. Nothing is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> Heard {
        match self {
            Self::Own(news) => match news.recv().await {
                Ok(notification) => Heard::News(Box::new(notification)),
                Err(RecvError::Lagged(missed)) => Heard::Missed(Some(missed)),
                Err(RecvError::Closed) => Heard::Over,
            },
            Self::Server { news, .. } => news.recv().await.unwrap_or(Heard::Over),
        }
    }

    /// News that are there already.
    pub(crate) fn at_hand(&mut self) -> Option<Heard> {
        match self {
            Self::Own(news) => match news.try_recv() {
                Ok(notification) => Some(Heard::News(Box::new(notification))),
                Err(TryRecvError::Lagged(missed)) => Some(Heard::Missed(Some(missed))),
                Err(TryRecvError::Empty | TryRecvError::Closed) => None,
            },
            Self::Server { news, .. } => news.try_recv().ok(),
        }
    }
}

struct Listener {
    client: Client,
    sender: mpsc::Sender<Heard>,
    /// News that found no place.
    missed: u64,
}

impl Listener {
    /// Listens until nobody wants to hear any more; a broken connection is made again.
    async fn listen(mut self, mut stream: sortie_protocol::client::EventStream) {
        let mut pause = FIRST_PAUSE;
        loop {
            loop {
                let heard = tokio::select! {
                    heard = stream.next() => heard,
                    () = self.sender.closed() => return,
                };
                match heard {
                    Ok(Some(said)) => self.tell(said),
                    Ok(None) => break,
                    Err(error) => {
                        tracing::debug!(%error, "the connection to the server broke");
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
                match self.client.events(last_id.as_deref()).await {
                    Ok(stream) => break stream,
                    Err(error) => tracing::debug!(%error, "the server cannot be heard"),
                }
            };
        }
    }

    fn tell(&mut self, said: Said) {
        let heard = match said {
            Said::Missed(count) => Heard::Missed(count),
            Said::Event(event) => Heard::News(Box::new(event.event)),
        };
        if self.missed > 0 {
            let missed = Heard::Missed(Some(self.missed));
            if self.sender.try_send(missed).is_ok() {
                self.missed = 0;
            }
        }
        if self.sender.try_send(heard).is_err() {
            self.missed += 1;
        }
    }
}
