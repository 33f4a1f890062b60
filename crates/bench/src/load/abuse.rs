//! Abusive clients: connections that send byte by byte, and bodies without end.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::numbers::{Row, Spread};
use sortie_bench::http::{Address, Http};
use sortie_bench::server::Server;

/// Connections that repeatedly send oversized bodies.
const OVERSIZED: usize = 50;
/// The most that each of them tries to send.
const BODY_BYTES: usize = 64 * 1024 * 1024;
/// The interval between two bytes of a slow connection.
const DRIBBLE: Duration = Duration::from_millis(500);
/// The interval between two regular requests.
const HONEST_EVERY: Duration = Duration::from_millis(50);
/// The memory that the abuse may cost.
const MAX_MORE_MIB: f64 = 200.0;
/// A regular request that takes longer counts as impaired.
const MAX_HONEST_MS: f64 = 1_000.0;

/// The size of the scene.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene {
    pub(crate) connections: usize,
    pub(crate) seconds: u64,
}

/// What happened to the connections.
#[derive(Debug, Default)]
struct Fate {
    closed: AtomicU64,
    refused: AtomicU64,
    taken: AtomicU64,
}

/// Measures how the abuse affects regular requests.
pub(crate) async fn measure(sortie: &Path, scene: Scene) -> Result<Vec<Row>> {
    let server = Server::start(sortie).await?;
    let mut http = Http::connect(&server.address).await?;
    let before = server.memory_mib("VmRSS")?;
    let fate = Arc::new(Fate::default());
    let end = Instant::now() + Duration::from_secs(scene.seconds);
    let mut abusers = JoinSet::new();
    for number in 0..scene.connections {
        abusers.spawn(dribble(
            server.address.clone(),
            number,
            Arc::clone(&fate),
            end,
        ));
    }
    for _ in 0..OVERSIZED {
        abusers.spawn(pour(server.address.clone(), Arc::clone(&fate), end));
    }
    let mut honest = Spread::new();
    let mut highest: f64 = 0.0;
    while Instant::now() < end {
        let sent_at = Instant::now();
        let (status, _) = http.send("GET /api/tasks/stats", None).await?;
        ensure!(status == 200, "an honest request got {status}");
        honest.add(u64::try_from(sent_at.elapsed().as_millis()).unwrap_or(u64::MAX));
        highest = highest.max(server.memory_mib("VmRSS")?);
        sleep(HONEST_EVERY).await;
    }
    // A new client can connect too.
    let fresh = Http::connect(&server.address)
        .await?
        .send("GET /healthz", None)
        .await?;
    ensure!(fresh.0 == 200, "a new connection got {}", fresh.0);
    abusers.shutdown().await;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Ok(vec![
        Row::number(
            format!(
                "{} dribbling connections and {OVERSIZED} endless bodies: honest request, p50 / p99 / longest",
                scene.connections
            ),
            honest.shown(),
            honest.per_mille(990) as f64,
        )
        .within("p99 < 1 s", MAX_HONEST_MS)
        .timed(),
        Row::number(
            "memory that it cost",
            format!("{:.0} MiB", highest - before),
            highest - before,
        )
        .within("< 200 MiB", MAX_MORE_MIB),
        Row::number(
            "dribbling connections that the server closed",
            count(&fate.closed).to_string(),
            count(&fate.closed) as f64,
        ),
        Row::number(
            "bodies refused / taken whole",
            format!("{} / {}", count(&fate.refused), count(&fate.taken)),
            count(&fate.taken) as f64,
        )
        .within("none taken", 0.0),
    ])
}

/// Sends the head of a request byte by byte, and reconnects when the server closes.
async fn dribble(address: Address, number: usize, fate: Arc<Fate>, end: Instant) {
    let head = format!(
        "GET /healthz HTTP/1.1\r\nhost: {}\r\nx-number: {number}\r\nx-filler: ",
        address.host
    );
    while Instant::now() < end {
        let Ok(mut stream) = TcpStream::connect(&address.host).await else {
            sleep(DRIBBLE).await;
            continue;
        };
        let mut bytes = head.bytes().chain(std::iter::repeat(b'x'));
        let mut answer = [0; 64];
        while let Some(byte) = bytes.next()
            && Instant::now() < end
        {
            let sent = stream.write_all(&[byte]).await;
            // A closed connection reads as its end; a silent one times out.
            let read = timeout(DRIBBLE, stream.read(&mut answer)).await;
            if sent.is_err() || matches!(read, Ok(Ok(0) | Err(_))) {
                fate.closed.fetch_add(1, Ordering::Relaxed);
                break;
            }
        }
    }
}

/// Repeatedly sends an oversized body until it is rejected.
async fn pour(address: Address, fate: Arc<Fate>, end: Instant) {
    while Instant::now() < end {
        match pour_once(&address).await {
            Ok(true) => fate.taken.fetch_add(1, Ordering::Relaxed),
            Ok(false) | Err(_) => fate.refused.fetch_add(1, Ordering::Relaxed),
        };
        sleep(DRIBBLE).await;
    }
}

/// Whether the server accepted the whole body.
async fn pour_once(address: &Address) -> Result<bool> {
    let mut stream = TcpStream::connect(&address.host).await.context("connect")?;
    let Address { host, token } = address;
    let head = format!(
        "POST /api/tasks HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let piece = vec![b' '; 64 * 1024];
    let mut sent = 0;
    while sent < BODY_BYTES {
        stream
            .write_all(format!("{:x}\r\n", piece.len()).as_bytes())
            .await?;
        stream.write_all(&piece).await?;
        stream.write_all(b"\r\n").await?;
        sent += piece.len();
    }
    stream.write_all(b"0\r\n\r\n").await?;
    let mut answer = [0; 16];
    let read = stream.read(&mut answer).await?;
    let first = String::from_utf8_lossy(&answer[..read]).into_owned();
    Ok(first
        .split(' ')
        .nth(1)
        .is_some_and(|status| status.starts_with('2')))
}
