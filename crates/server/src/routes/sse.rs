//! Server-sent events: a task writes events, the connection reads them when it can.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::app::App;
use crate::guard::Caller;

/// The interval of heartbeats on an idle stream.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);
/// Events that wait for a connection. A slower client falls behind in the hub, which handles that.
const WAITING: usize = 4;

/// One event as it is sent.
#[derive(Debug)]
pub(crate) struct Line(Bytes);

impl Line {
    pub(crate) fn new(event: &str, id: Option<&str>, data: &str) -> Self {
        let mut text = String::with_capacity(data.len() + 64);
        if let Some(id) = id {
            text.push_str("id: ");
            text.push_str(id);
            text.push('\n');
        }
        text.push_str("event: ");
        text.push_str(event);
        // JSON has no raw line breaks.
        text.push_str("\ndata: ");
        text.push_str(data);
        text.push_str("\n\n");
        Self(Bytes::from(text))
    }

    /// Creates an event without an id.
    pub(crate) fn of<T: serde::Serialize>(event: &str, data: &T) -> Self {
        // Serialising our own types cannot fail.
        Self::new(
            event,
            None,
            &serde_json::to_string(data).unwrap_or_default(),
        )
    }

    /// Creates a comment, which clients ignore.
    fn heartbeat() -> Self {
        Self(Bytes::from_static(b": heartbeat\n\n"))
    }
}

/// The sender of a stream.
#[derive(Debug)]
pub(crate) struct Lines {
    app: Arc<App>,
    sender: mpsc::Sender<Bytes>,
}

impl Lines {
    /// Sends an event. Returns `None` once the client has disconnected.
    pub(crate) async fn send(&self, line: Line) -> Option<()> {
        self.sender.send(line.0).await.ok()?;
        self.app.metrics.sent.fetch_add(1, Ordering::Relaxed);
        Some(())
    }
}

/// Counts open streams while it lives.
#[derive(Debug)]
struct Counted(Arc<App>);

impl Counted {
    fn new(app: &Arc<App>) -> Self {
        app.metrics.streams.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(app))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.metrics.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns a response that `write` writes, until it is done, the client disconnects, or the server
/// stops.
pub(crate) fn answer<W, F>(app: &Arc<App>, caller: Caller, write: W) -> Response
where
    W: FnOnce(Arc<Lines>) -> F,
    F: Future<Output = Option<()>> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(WAITING);
    let lines = Arc::new(Lines {
        app: Arc::clone(app),
        sender,
    });
    let work = write(Arc::clone(&lines));
    let counted = Counted::new(app);
    let app_too = Arc::clone(app);
    app.spawn(async move {
        let beating = async {
            loop {
                tokio::time::sleep(HEARTBEAT).await;
                if lines.send(Line::heartbeat()).await.is_none() {
                    return;
                }
            }
        };
        tokio::select! {
            // Done, or the client disconnected.
            _ = work => {}
            () = beating => {}
            () = caller.revoked(&app_too) => {}
            () = lines.sender.closed() => {}
            () = app_too.stop.cancelled() => {}
        }
        drop(counted);
    });
    let stream = futures::stream::unfold(receiver, async |mut receiver| {
        let bytes = receiver.recv().await?;
        Some((Ok::<_, Infallible>(bytes), receiver))
    });
    (
        [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-store"),
        ],
        Body::from_stream(stream),
    )
        .into_response()
}
