//! The WebSocket. The handshake is done here, not by axum, so that a client that only receives costs
//! a few kilobytes, and long messages are sent in pieces.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use sortie_protocol::{ClientMessage, Control};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{CloseFrame, Frame};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WsError, Message, Utf8Bytes};

use crate::app::{App, Shared};
use crate::guard::{Caller, Peer};
use crate::hub::Subscriber;
use crate::problem::{Kind, Problem};
use crate::routes::sse::HEARTBEAT;

/// The largest message of a client.
const MAX_MESSAGE_BYTES: usize = 64 * 1024;
/// The read buffer: clients send little.
const READ_BYTES: usize = 1024;
/// The size of the pieces of a long message. The write buffer of a connection grows to this.
const PIECE_BYTES: usize = 8 * 1024;
/// The subprotocol of this API. The page offers it beside the one that carries its key, so that the
/// response does not repeat a secret.
const PROTOCOL: &str = "sortie";
/// The time limit of the closing handshake.
const GOODBYE: Duration = Duration::from_secs(2);

type Socket = WebSocketStream<TokioIo<Upgraded>>;

#[utoipa::path(get, path = "/api/ws", tag = "live",
    responses((status = 101, description = "The connection is a WebSocket")))]
/// Opens a WebSocket. The messages are `ClientMessage` and `ServerMessage`.
pub(crate) async fn connect(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    mut request: Request,
) -> Result<Response, Problem> {
    let accept = accept_key(&request)?;
    let speaks_ours = has_token(request.headers(), &header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL);
    let Some(upgrade) = request.extensions_mut().remove::<OnUpgrade>() else {
        return Err(not_a_handshake(
            "the connection cannot be upgraded to a WebSocket",
        ));
    };
    let peer = request.extensions_mut().remove::<Peer>();
    let app_too = Arc::clone(&app);
    app.spawn(async move {
        // It still counts as a connection.
        let connection = peer;
        match upgrade.await {
            Ok(upgraded) => serve(&app_too, caller, upgraded).await,
            Err(error) => tracing::debug!(%error, "cannot upgrade a connection to a WebSocket"),
        }
        drop(connection);
    });
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    if speaks_ours {
        // A browser that offered subprotocols closes a connection without one.
        headers.insert(
            header::SEC_WEBSOCKET_PROTOCOL,
            HeaderValue::from_static(PROTOCOL),
        );
    }
    Ok(response)
}

fn accept_key(request: &Request) -> Result<HeaderValue, Problem> {
    let headers = request.headers();
    let is_handshake = request.method() == Method::GET
        && has_token(headers, &header::CONNECTION, "upgrade")
        && has_token(headers, &header::UPGRADE, "websocket")
        && headers
            .get(header::SEC_WEBSOCKET_VERSION)
            .is_some_and(|version| version == "13");
    let key = headers
        .get(header::SEC_WEBSOCKET_KEY)
        .filter(|_| is_handshake)
        .ok_or_else(|| not_a_handshake("this path needs a WebSocket handshake, version 13"))?;
    HeaderValue::from_str(&derive_accept_key(key.as_bytes()))
        .map_err(|_| not_a_handshake("invalid Sec-WebSocket-Key"))
}

fn not_a_handshake(detail: &str) -> Problem {
    Problem::new(Kind::BadRequest, detail)
}

fn has_token(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .any(|token| token.trim().eq_ignore_ascii_case(word))
}

/// Counts open WebSockets while it lives.
#[derive(Debug)]
struct Counted<'a>(&'a App);

impl<'a> Counted<'a> {
    fn new(app: &'a App) -> Self {
        app.metrics.websockets.fetch_add(1, Ordering::Relaxed);
        Self(app)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.metrics.websockets.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn serve(app: &Arc<App>, caller: Caller, upgraded: Upgraded) {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(4 * PIECE_BYTES)
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES));
    let stream = TokioIo::new(upgraded);
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    let counted = Counted::new(app);
    let client = Client {
        app,
        listener: Subscriber::new(app, caller.clone()),
        caller: caller.clone(),
        socket: &mut socket,
    };
    // Neither waits for a client that is slow to read its last message.
    let ended = tokio::select! {
        biased;
        () = app.stop.cancelled() => Ended::Stopping,
        () = caller.revoked(app) => Ended::NoLongerAllowed,
        ended = client.run() => ended,
    };
    drop(counted);
    let (code, why) = match ended {
        Ended::Disconnected => return,
        Ended::Stopping => (CloseCode::Away, "the server is stopping"),
        Ended::NoLongerAllowed => (CloseCode::Policy, "the key is no longer valid"),
        Ended::TooOften => (CloseCode::Policy, "this key sends too many messages"),
        Ended::TooMuch => (CloseCode::Size, "messages must have at most 64 KiB"),
        Ended::Failed => (CloseCode::Error, "the server cannot read its store"),
    };
    let frame = CloseFrame {
        code,
        reason: Utf8Bytes::from_static(why),
    };
    // A client that does not answer is disconnected without the handshake.
    tokio::time::timeout(GOODBYE, goodbye(&mut socket, frame))
        .await
        .ok();
}

async fn goodbye(socket: &mut Socket, frame: CloseFrame) {
    if socket.close(Some(frame)).await.is_ok() {
        // Until the client has closed too.
        while let Some(Ok(_)) = socket.next().await {}
    }
}

/// Why a WebSocket is closed.
#[derive(Debug)]
enum Ended {
    Disconnected,
    Stopping,
    NoLongerAllowed,
    TooOften,
    TooMuch,
    Failed,
}

struct Client<'a> {
    app: &'a Arc<App>,
    caller: Caller,
    listener: Subscriber,
    socket: &'a mut Socket,
}

/// An input of the connection.
enum Input {
    Received(Option<Result<Message, WsError>>),
    Outgoing(Result<crate::hub::Outgoing, sortie_runtime::RuntimeError>),
    Beat,
}

impl Client<'_> {
    async fn run(mut self) -> Ended {
        let hello = Control::Hello {
            epoch: self.app.hub.epoch().to_owned(),
            seq: self.app.hub.seq(),
            heartbeat_ms: HEARTBEAT.as_millis() as u64,
            version: self.app.host.version(),
            me: self.caller.me(self.app),
        };
        let mut beat = tokio::time::interval(HEARTBEAT);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // The first tick is immediate.
        beat.tick().await;
        let mut result = self.send_control(&hello).await;
        loop {
            if let Err(ended) = result {
                return ended;
            }
            let input = tokio::select! {
                biased;
                // A client that does not read its responses is not read either: at most one response
                // is buffered for a client.
                message = self.socket.next(), if self.listener.is_drained() => Input::Received(message),
                _ = beat.tick() => Input::Beat,
                out = self.listener.next() => Input::Outgoing(out),
            };
            result = match input {
                Input::Received(message) => self.receive(message).await,
                Input::Beat => self.beat().await,
                Input::Outgoing(Ok(out)) => send(self.app, self.socket, out.bytes().clone()).await,
                Input::Outgoing(Err(error)) => {
                    tracing::error!(error = %sortie_core::error::with_causes(&error), "cannot read a snapshot");
                    Err(Ended::Failed)
                }
            };
        }
    }

    async fn beat(&mut self) -> Result<(), Ended> {
        let beat = Control::Heartbeat {
            seq: self.app.hub.seq(),
            at: self.app.runtime.now().to_rfc3339(),
        };
        self.send_control(&beat).await
    }

    async fn receive(&mut self, received: Option<Result<Message, WsError>>) -> Result<(), Ended> {
        if self.app.rates.take(self.caller.key()).is_err() {
            return Err(Ended::TooOften);
        }
        match received {
            None | Some(Ok(Message::Close(_))) => Err(Ended::Disconnected),
            Some(Err(WsError::Capacity(_))) => Err(Ended::TooMuch),
            Some(Err(_)) => Err(Ended::Disconnected),
            Some(Ok(Message::Text(text))) => match serde_json::from_str(&text) {
                Ok(message) => self.handle(message).await,
                Err(error) => self.send_error("bad-request", &error.to_string()).await,
            },
            Some(Ok(Message::Binary(_))) => {
                self.send_error("bad-request", "messages must be JSON in text frames")
                    .await
            }
            // tungstenite answers pings itself at the next read or write.
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {
                self.socket.flush().await.map_err(|_| Ended::Disconnected)
            }
        }
    }

    async fn handle(&mut self, message: ClientMessage) -> Result<(), Ended> {
        match message {
            ClientMessage::Subscribe(subscription) => {
                // Rare and large: boxed, so that it does not enlarge the future of every client.
                match Box::pin(self.listener.validate(subscription)).await {
                    Ok(subscription) => {
                        self.listener.subscribe(subscription);
                        Ok(())
                    }
                    Err(problem) => {
                        let slug = problem.slug();
                        self.send_error(slug, problem.detail()).await
                    }
                }
            }
            ClientMessage::Unsubscribe { id } => {
                self.listener.unsubscribe(&id);
                Ok(())
            }
            ClientMessage::Ping { n } => self.send_control(&Control::Pong { n }).await,
        }
    }

    async fn send_error(&mut self, code: &str, message: &str) -> Result<(), Ended> {
        let error = Control::Error {
            code: code.to_owned(),
            message: message.to_owned(),
        };
        self.send_control(&error).await
    }

    async fn send_control(&mut self, control: &Control) -> Result<(), Ended> {
        // Serialising our own types cannot fail.
        let text = serde_json::to_string(control).unwrap_or_default();
        send(self.app, self.socket, Utf8Bytes::from(text)).await
    }
}

/// Sends a text, in pieces if it is long.
async fn send(app: &App, socket: &mut Socket, text: Utf8Bytes) -> Result<(), Ended> {
    app.metrics.sent.fetch_add(1, Ordering::Relaxed);
    if text.len() <= PIECE_BYTES {
        return match socket.send(Message::Text(text)).await {
            Ok(()) => Ok(()),
            Err(_) => Err(Ended::Disconnected),
        };
    }
    let bytes = Bytes::from(text);
    let count = bytes.len().div_ceil(PIECE_BYTES);
    for index in 0..count {
        let end = bytes.len().min((index + 1) * PIECE_BYTES);
        let piece = bytes.slice(index * PIECE_BYTES..end);
        let kind = if index == 0 {
            Data::Text
        } else {
            Data::Continue
        };
        let frame = Frame::message(piece, OpCode::Data(kind), index + 1 == count);
        if socket.send(Message::Frame(frame)).await.is_err() {
            return Err(Ended::Disconnected);
        }
    }
    Ok(())
}
