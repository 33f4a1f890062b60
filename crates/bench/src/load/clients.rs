//! Many WebSocket clients in one process: `sortie-load clients HOST TOKEN_FILE COUNT SLOW SOURCE`.
//!
//! It prints `ready` when all are subscribed and have their snapshot, and answers each line of its
//! input with what its clients received since the last one. It ends with its input.

use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::{SinkExt as _, StreamExt as _};
use serde::Deserialize;
use serde_json::{Value, json};
use sortie_core::time::Clock as _;
use sortie_runtime::ProcessClock;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Message, http::HeaderValue};

use crate::numbers::Spread;

/// Connections that are opened concurrently.
const AT_ONCE: usize = 128;
/// Attempts to connect: a full queue of the kernel is not a failure of the server.
const TRIES: u32 = 5;
/// How long all connections may take.
const PATIENCE: Duration = Duration::from_secs(180);
/// The window of a client that does not read: small, so that the server notices soon.
const SLOW_WINDOW_BYTES: u32 = 4 * 1024;

/// What the clients received.
#[derive(Debug)]
struct Received {
    latencies: Spread,
    snapshots: u64,
    missed: u64,
    gaps: u64,
    closed: u64,
}

impl Received {
    fn new() -> Self {
        Self {
            latencies: Spread::new(),
            snapshots: 0,
            missed: 0,
            gaps: 0,
            closed: 0,
        }
    }

    fn json(&self) -> Value {
        json!({
            "latencies": self.latencies.pairs(),
            "snapshots": self.snapshots,
            "missed": self.missed,
            "gaps": self.gaps,
            "closed": self.closed,
        })
    }
}

/// What all clients of the process share.
#[derive(Debug)]
struct Shared {
    host: String,
    token: String,
    source: Ipv4Addr,
    clock: ProcessClock,
    received: Mutex<Received>,
    ready: mpsc::UnboundedSender<()>,
    doors: Semaphore,
}

impl Shared {
    fn received(&self) -> std::sync::MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parts of a message that are measured.
#[derive(Deserialize)]
struct MeasuredMessage<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(default)]
    at: Option<&'a str>,
    #[serde(default)]
    seq: Option<u64>,
    #[serde(default)]
    missed: Option<u64>,
}

/// Runs until its input ends.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let [host, token_file, count, slow, source] = words else {
        anyhow::bail!("clients HOST TOKEN_FILE COUNT SLOW SOURCE");
    };
    let (ready, subscribed) = mpsc::unbounded_channel();
    let shared = Shared {
        host: host.clone(),
        token: std::fs::read_to_string(token_file)?.trim().to_owned(),
        source: source.parse().context("SOURCE")?,
        clock: ProcessClock::start(),
        received: Mutex::new(Received::new()),
        ready,
        doors: Semaphore::new(AT_ONCE),
    };
    let count: usize = count.parse().context("COUNT")?;
    let slow: usize = slow.parse().context("SLOW")?;
    // One thread: these processes share the machine with the server.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(all(Arc::new(shared), count, slow, subscribed))
}

async fn all(
    shared: Arc<Shared>,
    count: usize,
    slow: usize,
    mut subscribed: mpsc::UnboundedReceiver<()>,
) -> Result<()> {
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..count {
        let shared = Arc::clone(&shared);
        clients.spawn(async move { client(&shared, number < slow).await });
    }
    let all = async {
        for _ in 0..count {
            tokio::select! {
                _ = subscribed.recv() => {}
                Some(ended) = clients.join_next() => {
                    ended.context("a client died")??;
                    anyhow::bail!("a client was closed before all were there");
                }
            }
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, all)
        .await
        .context("not all clients were let in in time")??;
    println!("ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(_)) = lines.next_line().await {
        let received = std::mem::replace(&mut *shared.received(), Received::new());
        println!("{}", received.json());
    }
    Ok(())
}

/// Runs one client until the server closes the connection.
async fn client(shared: &Shared, is_slow: bool) -> Result<()> {
    let mut socket = {
        let _door = shared.doors.acquire().await.context("no more doors")?;
        let mut tries = 1;
        loop {
            match enter(shared, is_slow).await {
                Ok(socket) => break socket,
                Err(error) if tries == TRIES => return Err(error),
                Err(_) => tries += 1,
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    if is_slow {
        shared.ready.send(()).ok();
        // Keeps the connection open and never reads.
        std::future::pending::<()>().await;
    }
    let mut last = None;
    while let Some(message) = socket.next().await {
        match message {
            Ok(Message::Text(text)) => last = receive(shared, text.as_str(), last)?,
            Ok(Message::Close(_)) | Err(_) => break,
            Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
        }
    }
    shared.received().closed += 1;
    Ok(())
}

async fn enter(shared: &Shared, is_slow: bool) -> Result<WebSocketStream<TcpStream>> {
    let tcp = TcpSocket::new_v4()?;
    if is_slow {
        tcp.set_recv_buffer_size(SLOW_WINDOW_BYTES)?;
    }
    tcp.bind(SocketAddr::from((shared.source, 0)))?;
    let stream = tcp.connect(shared.host.parse()?).await.context("connect")?;
    let mut request = format!("ws://{}/api/ws", shared.host).into_client_request()?;
    let bearer = HeaderValue::from_str(&format!("Bearer {}", shared.token))?;
    request.headers_mut().insert("authorization", bearer);
    let config = WebSocketConfig::default()
        .read_buffer_size(4 * 1024)
        .write_buffer_size(0);
    let (mut socket, _) =
        tokio_tungstenite::client_async_with_config(request, stream, Some(config))
            .await
            .context("become a WebSocket")?;
    let subscribe = json!({"type": "subscribe", "id": "all", "scope": "all"});
    socket.send(Message::text(subscribe.to_string())).await?;
    Ok(socket)
}

/// Counts one message; returns the sequence number of the last event.
fn receive(shared: &Shared, text: &str, last: Option<u64>) -> Result<Option<u64>> {
    let message: MeasuredMessage<'_> = serde_json::from_str(text)
        .with_context(|| format!("a message that is not understood: {text:.200}"))?;
    let mut received = shared.received();
    match message.kind {
        "snapshot" => {
            received.snapshots += 1;
            received.missed += message.missed.unwrap_or(0);
            shared.ready.send(()).ok();
            return Ok(message.seq);
        }
        "hello" | "subscribed" | "heartbeat" | "pong" | "text" => return Ok(last),
        "error" => anyhow::bail!("the server complains: {text:.200}"),
        // Changed records have a sequence number and no time.
        "tasks" => {}
        _ => {
            let at = message.at.and_then(|at| jiff::Timestamp::from_str(at).ok());
            let at = at.with_context(|| format!("an event without a time: {text:.200}"))?;
            let late = shared.clock.now().0.saturating_sub(at.as_millisecond());
            received.latencies.add(u64::try_from(late).unwrap_or(0));
        }
    }
    // A client that subscribes to everything receives every number once.
    if let (Some(last), Some(seq)) = (last, message.seq)
        && seq != last + 1
    {
        received.gaps += 1;
    }
    Ok(message.seq.or(last))
}
