//! News of runs: from the runtime of this process, or from a server.
//!
//! News are hints. What is missed, because a connection broke or somebody was slow, the store still
//! knows, and whoever follows looks there twice a second.

use std::sync::Arc;
use std::time::Duration;

use sortie_client::{Client, ClientError, Heard as Said};
use sortie_core::{Notification, NotificationKind, RequestId, Seq, Timestamp};
use sortie_protocol::{LiveEvent, LiveKind};
use sortie_store::ReadStore;
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
    pub(super) async fn of_server(
        client: Client,
        store: Arc<ReadStore>,
    ) -> Result<Self, ClientError> {
        // The first connection is made here: nothing that happens from now on is missed.
        let stream = client.events(None).await?;
        let (sender, news) = mpsc::channel(NEWS_KEPT);
        let listener = Listener {
            client,
            store,
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
    store: Arc<ReadStore>,
    sender: mpsc::Sender<Heard>,
    /// News that found no place.
    missed: u64,
}

impl Listener {
    /// Listens until nobody wants to hear any more; a broken connection is made again.
    async fn listen(mut self, mut stream: sortie_client::EventStream) {
        let mut pause = FIRST_PAUSE;
        loop {
            loop {
                let heard = tokio::select! {
                    heard = stream.next() => heard,
                    () = self.sender.closed() => return,
                };
                match heard {
                    Ok(Some(said)) => self.tell(said).await,
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

    async fn tell(&mut self, said: Said) {
        let heard = match said {
            Said::Missed(count) => Heard::Missed(count),
            Said::Event(event) => match self.notification(*event).await {
                Some(notification) => Heard::News(Box::new(notification)),
                None => return,
            },
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

    /// The news as a runtime of our own would tell them. A request is read from the store, which is
    /// where everybody has it from.
    async fn notification(&self, event: LiveEvent) -> Option<Notification> {
        let kind = if let LiveKind::Asked { request } = &event.kind {
            let request = self.store.find_request(&request.id).await.ok()?;
            NotificationKind::Asked {
                request: Box::new(request),
            }
        } else {
            kind_of(event.kind)?
        };
        let at: jiff::Timestamp = event.at.parse().ok()?;
        Some(Notification {
            task_id: event.task_id,
            session_id: event.session_id,
            root_id: event.root_id,
            parent_id: event.parent_id,
            tenant: None,
            seq: Seq(event.task_seq),
            at: Timestamp(at.as_millisecond()),
            kind,
        })
    }
}

/// What happened, in the words of a runtime; `None` for what only a server has.
fn kind_of(kind: LiveKind) -> Option<NotificationKind> {
    Some(match kind {
        LiveKind::Queued { agent, label } => NotificationKind::Queued { agent, label },
        LiveKind::Started { agent, label } => NotificationKind::Started { agent, label },
        LiveKind::Progress {
            progress,
            tool_calls,
        } => NotificationKind::Progress {
            progress,
            tool_calls,
        },
        LiveKind::Tool { tool, tool_calls } => NotificationKind::Tool { tool, tool_calls },
        LiveKind::Held {
            position,
            resumes_in_ms,
        } => NotificationKind::Held {
            position,
            resumes_in_ms,
        },
        LiveKind::Retrying {
            error,
            model,
            delay_ms,
            shown,
        } => NotificationKind::Retrying {
            error,
            model,
            delay_ms,
            shown,
        },
        LiveKind::Compacted {
            chars_before,
            chars_after,
        } => NotificationKind::Compacted {
            chars_before,
            chars_after,
        },
        // The store has the whole of it.
        LiveKind::Asked { .. } => return None,
        LiveKind::Replied { request_id } => NotificationKind::Replied {
            request: RequestId::from_text(&request_id),
        },
        LiveKind::BudgetLow { balances } => NotificationKind::BudgetLow {
            balances: balances.into_iter().map(balance).collect(),
        },
        LiveKind::Said { text } => NotificationKind::Said { text },
        LiveKind::Paused => NotificationKind::Paused,
        LiveKind::Resumed => NotificationKind::Resumed,
        LiveKind::Completed { result } => NotificationKind::Completed { result },
        LiveKind::Failed { error } => NotificationKind::Failed { error },
        LiveKind::Timeout { error } => NotificationKind::Timeout { error },
        LiveKind::Cancelled { error } => NotificationKind::Cancelled { error },
        LiveKind::Delivery { delivery } => NotificationKind::Delivery { delivery },
        LiveKind::Deleted => NotificationKind::Deleted,
    })
}

const fn balance(balance: sortie_protocol::Balance) -> sortie_core::Balance {
    sortie_core::Balance {
        kind: balance.kind,
        limit: balance.limit,
        spent: balance.spent,
        reserved: balance.reserved,
    }
}
