//! A model provider on loopback that speaks the Anthropic wire format.
//!
//! The name of the model is the script: whether it returns text, calls tools, spawns children or
//! stalls in the middle of a completion. The provider reads no more of a prompt than it needs for
//! that, and each connection has a thread of its own: tokio's timers round up to whole
//! milliseconds, which would add two percent to a latency of 50 ms.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use sortie_bench::process::monotonic_ns;

const MAX_REQUEST_BYTES: usize = 64 << 20;
/// Connections that may wait to be accepted: all children connect at once.
const BACKLOG: i32 = 4096;
/// The stack of a connection's thread.
const STACK_BYTES: usize = 256 << 10;
/// Lines of [`NOTE`] that a child reads in one call.
pub(crate) const LINES_PER_READ: u32 = 20;

/// Children that one turn spawns at most: Sortie reads 256 calls of a completion.
pub(crate) const SPAWNS_PER_TURN: u32 = 250;

/// The model that returns text.
pub(crate) const REPLIES: &str = "says";
/// The model that calls the tool `probe`.
pub(crate) const CALLS: &str = "calls";
/// The model that sends a few words, then stalls.
pub(crate) const STALLS: &str = "holds";
/// Begins the instruction of a main run: its prompts contain it, those of its children do not.
pub(crate) const MAIN_MARK: &str = "bench-main";
/// The file that the models read.
pub(crate) const NOTE: &str = "note.txt";

/// Returns the model of a main run that spawns `children` at once in each of `rounds` turns; each
/// child reads the note `reads` times.
pub(crate) fn tree(children: u32, rounds: u32, reads: u32) -> String {
    format!("tree-{children}-{rounds}-{reads}")
}

/// Returns the model of a main run that reads the note `calls` times, one line after the other.
pub(crate) fn steps(calls: u32) -> String {
    format!("steps-{calls}")
}

/// What the provider has seen since [`Provider::take_log`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    pub(crate) requests: u32,
    /// When the first request had arrived, on the clock of [`monotonic_ns`].
    pub(crate) first_at_ns: Option<u64>,
    /// The size of the first prompt of the main run.
    pub(crate) main_bytes: Option<usize>,
    /// The size of the first prompt of the child that prompted first.
    pub(crate) child_bytes: Option<usize>,
    /// When the last byte of each completion was sent, in order.
    pub(crate) last_bytes: Vec<Instant>,
}

/// A running provider. Its threads end with the process.
#[derive(Clone, Debug)]
pub(crate) struct Provider {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    latency_us: AtomicU64,
    log: Mutex<Log>,
}

impl Provider {
    /// Listens on a free port and serves.
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen on loopback")?;
        rustix::net::listen(&listener, BACKLOG).context("raise the backlog")?;
        let port = listener.local_addr().context("find the port")?.port();
        let shared = Arc::new(Shared::default());
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        Ok(Self { port, shared })
    }

    /// Sets the time from the arrival of a request to the first byte of its response.
    pub(crate) fn set_latency(&self, latency: Duration) {
        let microseconds = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.shared
            .latency_us
            .store(microseconds, Ordering::Relaxed);
    }

    /// Returns the log and begins a new one.
    pub(crate) fn take_log(&self) -> Log {
        std::mem::take(&mut *self.shared.log())
    }
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn latency(&self) -> Duration {
        Duration::from_micros(self.latency_us.load(Ordering::Relaxed))
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        let shared = Arc::clone(shared);
        let served = stream.and_then(|stream| {
            thread::Builder::new()
                .stack_size(STACK_BYTES)
                .spawn(move || {
                    if let Err(error) = converse(stream, &shared) {
                        eprintln!("provider: {error:#}");
                    }
                })
        });
        if let Err(error) = served {
            eprintln!("provider: accept a connection: {error}");
        }
    }
}

fn converse(mut stream: TcpStream, shared: &Shared) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    while let Some(body) = request(&mut stream, &mut buffer)? {
        let reply_at = Instant::now() + shared.latency();
        let prompt = Prompt::read(&body);
        let number = note(shared, &prompt, body.len());
        let reply = prompt.reply();
        let response = Response::of(&reply, number);
        wait_until(reply_at);
        stream.write_all(response.beginning.as_bytes())?;
        stream.write_all(response.rest.as_bytes())?;
        if matches!(reply, Reply::Stall) {
            // Until the client closes the connection.
            request(&mut stream, &mut buffer)?;
            return Ok(());
        }
        shared.log().last_bytes.push(Instant::now());
    }
    Ok(())
}

/// Logs a request; returns its number.
fn note(shared: &Shared, prompt: &Prompt<'_>, bytes: usize) -> u32 {
    let at = monotonic_ns();
    let mut log = shared.log();
    log.requests += 1;
    log.first_at_ns.get_or_insert(at);
    if prompt.turn == 1 {
        let first = match prompt.is_main {
            true => &mut log.main_bytes,
            false => &mut log.child_bytes,
        };
        first.get_or_insert(bytes);
    }
    log.requests
}

#[expect(
    clippy::disallowed_methods,
    reason = "the thread has nothing else to do, and tokio's timers are not exact enough"
)]
fn wait_until(at: Instant) {
    let left = at.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        thread::sleep(left);
    }
}

/// Reads the next body; `None` if the client is gone.
fn request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<Option<Vec<u8>>> {
    let mut piece = [0; 16 << 10];
    let mut whole = None;
    loop {
        if whole.is_none()
            && let Some(end) = find(buffer, b"\r\n\r\n")
        {
            let length = content_length(&buffer[..end])?;
            ensure!(length <= MAX_REQUEST_BYTES, "a request of {length} bytes");
            whole = Some((end + 4, end + 4 + length));
        }
        if let Some((start, end)) = whole
            && buffer.len() >= end
        {
            let body = buffer[start..end].to_vec();
            buffer.drain(..end);
            return Ok(Some(body));
        }
        match stream.read(&mut piece) {
            Ok(0) => return Ok(None),
            Ok(count) => buffer.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The client process has ended.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(error).context("read a request"),
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

fn content_length(head: &[u8]) -> Result<usize> {
    let head = String::from_utf8_lossy(head).to_lowercase();
    head.lines()
        .find_map(|line| line.strip_prefix("content-length:"))
        .context("a request without a length")?
        .trim()
        .parse()
        .context("read the length")
}

/// What the script needs to know of a prompt.
#[derive(Clone, Copy, Debug)]
struct Prompt<'a> {
    model: &'a str,
    is_main: bool,
    /// From 1.
    turn: u32,
}

impl<'a> Prompt<'a> {
    fn read(body: &'a [u8]) -> Self {
        // A prompt that is not UTF-8 gets the reply to an unknown model.
        let text = std::str::from_utf8(body).unwrap_or_default();
        let completions = text.matches(r#""role":"assistant""#).count();
        Self {
            model: model(text),
            is_main: text.contains(MAIN_MARK),
            turn: u32::try_from(completions).unwrap_or(u32::MAX - 1) + 1,
        }
    }

    fn reply(&self) -> Reply {
        let words: Vec<&str> = self.model.split('-').collect();
        let number = |index: usize| -> u32 {
            words
                .get(index)
                .and_then(|word| word.parse().ok())
                .unwrap_or(0)
        };
        let turn = self.turn;
        match words[0] {
            // Different arguments each time, so that the loop detection does not trigger.
            CALLS => Reply::Calls(vec![("probe", json!({"n": turn}))]),
            STALLS => Reply::Stall,
            "tree" if self.is_main && turn <= number(2) => {
                Reply::Calls((0..number(1)).map(spawn).collect())
            }
            "tree" if !self.is_main && turn <= number(3) => {
                Reply::Calls(vec![read(turn, LINES_PER_READ)])
            }
            "steps" if turn <= number(1) => Reply::Calls(vec![read(turn, 1)]),
            _ => Reply::Text,
        }
    }
}

fn model(body: &str) -> &str {
    let rest = body.split_once(r#""model":""#).map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split('"').next())
        .unwrap_or_default()
}

fn spawn(number: u32) -> (&'static str, Value) {
    let arguments = json!({
        "description": format!("child {number}"),
        "prompt": format!("Read the note and report, {number}."),
        "subagent_type": "explore",
    });
    ("task", arguments)
}

fn read(turn: u32, lines: u32) -> (&'static str, Value) {
    let arguments = json!({"path": NOTE, "offset": turn, "limit": lines});
    ("read_file", arguments)
}

/// A completion.
#[derive(Clone, Debug)]
enum Reply {
    Text,
    Calls(Vec<(&'static str, Value)>),
    Stall,
}

/// The bytes of a response, sent in two writes as a stream arrives in pieces.
#[derive(Clone, Debug)]
struct Response {
    beginning: String,
    rest: String,
}

impl Response {
    fn of(reply: &Reply, number: u32) -> Self {
        let mut beginning = String::from(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
             transfer-encoding: chunked\r\n\r\n",
        );
        chunk(
            &mut beginning,
            &json!({"type": "message_start", "message": {
                "id": format!("msg_{number}"),
                "type": "message",
                "role": "assistant",
                "content": [],
                "model": "bench",
                "stop_reason": null,
                "stop_sequence": null,
                "usage": {
                    "input_tokens": 1000,
                    "cache_read_input_tokens": 0,
                    "cache_creation_input_tokens": 0,
                    "output_tokens": 1
                }
            }}),
        );
        let mut rest = String::new();
        let stop = match reply {
            Reply::Text | Reply::Stall => {
                text(&mut rest, matches!(reply, Reply::Text));
                "end_turn"
            }
            Reply::Calls(calls) => {
                for (index, (name, arguments)) in calls.iter().enumerate() {
                    let id = format!("toolu_{number}_{index}");
                    call(&mut rest, index, (&id, name), arguments);
                }
                "tool_use"
            }
        };
        if !matches!(reply, Reply::Stall) {
            chunk(
                &mut rest,
                &json!({
                    "type": "message_delta",
                    "delta": {"stop_reason": stop, "stop_sequence": null},
                    "usage": {"output_tokens": 80}
                }),
            );
            chunk(&mut rest, &json!({"type": "message_stop"}));
            rest.push_str("0\r\n\r\n");
        }
        Self { beginning, rest }
    }
}

fn text(out: &mut String, is_whole: bool) {
    let block = json!({"type": "text", "text": ""});
    chunk(
        out,
        &json!({"type": "content_block_start", "index": 0, "content_block": block}),
    );
    for _ in 0..20 {
        let delta = json!({"type": "text_delta", "text": "a few words "});
        chunk(
            out,
            &json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        );
    }
    if is_whole {
        chunk(out, &json!({"type": "content_block_stop", "index": 0}));
    }
}

fn call(out: &mut String, index: usize, (id, name): (&str, &str), arguments: &Value) {
    let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
    let delta = json!({"type": "input_json_delta", "partial_json": arguments.to_string()});
    for event in [
        json!({"type": "content_block_start", "index": index, "content_block": block}),
        json!({"type": "content_block_delta", "index": index, "delta": delta}),
        json!({"type": "content_block_stop", "index": index}),
    ] {
        chunk(out, &event);
    }
}

/// Appends a stream event as one chunk of the body.
fn chunk(out: &mut String, event: &Value) {
    let name = event["type"].as_str().unwrap_or_default();
    let text = format!("event: {name}\ndata: {event}\n\n");
    // Writing to a String cannot fail.
    write!(out, "{:x}\r\n{text}\r\n", text.len()).ok();
}
