//! Accepts connections, and limits their number, their slowness and their life.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep};
use tower::ServiceExt as _;

use crate::anonymous::AnonymousConnections;
use crate::app::App;
use crate::guard::Peer;

/// Maximum number of headers of one request.
const MAX_HEADERS: usize = 64;
/// The buffer of one connection in hyper; also the longest head of a request.
const BUFFER_BYTES: usize = 16 * 1024;
/// The send buffer of a socket, for a client that reads slowly. The default would be megabytes each.
const SEND_BUFFER_BYTES: usize = 128 * 1024;
/// File descriptors that are reserved for the store, worktrees, pipes of commands and sockets of
/// models.
const KEPT_DESCRIPTORS: u64 = 256;
/// The time limit of headers while connections are scarce.
const HURRIED_HEADER_TIMEOUT: Duration = Duration::from_secs(3);
/// The pause after a failed accept, which usually means a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until the server stops. They run in the tracker of the app.
pub(crate) async fn accept(app: Arc<App>, listener: TcpListener, router: Router) {
    let most = connections(
        app.config.limits.connections,
        getrlimit(Resource::Nofile).current,
    );
    tracing::debug!(most, "limit of concurrent connections");
    let slots = Arc::new(Semaphore::new(most));
    let anonymous = AnonymousConnections::new(most / 2);
    loop {
        let slot = tokio::select! {
            biased;
            () = app.stop.cancelled() => return,
            slot = Arc::clone(&slots).acquire_owned() => slot,
        };
        // The semaphore is never closed.
        let Ok(slot) = slot else { return };
        let accepted = tokio::select! {
            biased;
            () = app.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                let peer = Peer {
                    address: address.ip(),
                    anonymous: Arc::new(anonymous.register(address.ip())),
                    slot: Arc::new(slot),
                };
                let mut header_timeout = app.config.limits.header_timeout;
                if slots.available_permits() < most / 4 {
                    header_timeout = header_timeout.min(HURRIED_HEADER_TIMEOUT);
                }
                let connection = Connection {
                    app: Arc::clone(&app),
                    peer,
                    header_timeout,
                };
                app.spawn(connection.serve(stream, router.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Returns the limit of concurrent connections: the configured one, but never so many that no
/// descriptors are left for the runs.
fn connections(allowed: usize, descriptors: Option<u64>) -> usize {
    let possible = descriptors.map_or(u64::MAX, |soft| {
        // With a very low limit, half of the descriptors are for clients.
        soft.saturating_sub(KEPT_DESCRIPTORS).max(soft / 2)
    });
    allowed
        .min(usize::try_from(possible).unwrap_or(usize::MAX))
        .max(1)
}

#[derive(Debug)]
struct Connection {
    app: Arc<App>,
    peer: Peer,
    header_timeout: Duration,
}

impl Connection {
    async fn serve(self, stream: TcpStream, router: Router) {
        let Self {
            app,
            peer,
            header_timeout,
        } = self;
        let tuned = stream
            .set_nodelay(true)
            .and_then(|()| Ok(set_socket_send_buffer_size(&stream, SEND_BUFFER_BYTES)?));
        if let Err(error) = tuned {
            tracing::debug!(%error, "cannot set the options of a socket");
        }
        let stream = Patient::new(stream, app.config.limits.stall_timeout);
        let anonymous = Arc::clone(&peer.anonymous);
        let address = peer.address;
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            // Also limits how long a connection idles between two requests.
            .header_read_timeout(header_timeout)
            .max_headers(MAX_HEADERS)
            .max_buf_size(BUFFER_BYTES)
            .serve_connection(TokioIo::new(stream), answers(router, peer))
            .with_upgrades();
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = anonymous.closed() => {
                tracing::debug!(%address, "closing the oldest anonymous connection for a new one");
                return;
            }
            () = app.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            // Ordinary for clients that disconnect, so only for debugging.
            tracing::debug!(%error, %address, "a connection broke");
        }
    }
}

/// Creates the service that passes requests of one connection to the router.
fn answers(
    router: Router,
    peer: Peer,
) -> impl Service<
    hyper::Request<Incoming>,
    Response = Response,
    Error = Infallible,
    Future = impl Future<Output = Result<Response, Infallible>> + Send,
> {
    service_fn(move |request: hyper::Request<Incoming>| {
        let router = router.clone();
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(peer.clone());
        async move {
            Ok::<_, Infallible>(
                router
                    .oneshot(request)
                    .await
                    .unwrap_or_else(|no| match no {}),
            )
        }
    })
}

/// A stream that fails if its reader accepts nothing for a while.
#[derive(Debug)]
struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Runs only while a write is pending.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    fn new(stream: S, patience: Duration) -> Self {
        Self {
            stream,
            patience,
            stalled: None,
        }
    }

    /// Fails a write that has been pending for too long.
    fn wait<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let patience = self.patience;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + patience)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not read",
        )))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wait(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.wait(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(context);
        self.wait(context, closed)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.wait(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_runs() {
        assert_eq!(connections(12_000, Some(1_024)), 1_024 - 256);
        assert_eq!(connections(12_000, Some(300)), 150);
        assert_eq!(connections(12_000, Some(0)), 1);
        assert_eq!(connections(12_000, Some(1 << 20)), 12_000);
        assert_eq!(connections(12_000, None), 12_000);
    }

    #[tokio::test(start_paused = true)]
    async fn write_to_a_stalled_reader_times_out() {
        let (ours, _theirs) = tokio::io::duplex(8);
        let mut patient = Patient::new(ours, Duration::from_secs(30));
        let begun = Instant::now();
        let error = patient.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed().as_secs(), 30);
    }
}
