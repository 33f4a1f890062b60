//! A provider on loopback with the Anthropic wire format. The model's name decides whether it
//! returns text, calls a tool, or stalls in the middle of a completion.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The largest request.
const MAX_REQUEST_BYTES: usize = 4 << 20;
/// Returns text.
pub(crate) const SAYS: &str = "says";
/// Calls the tool `probe`.
pub(crate) const CALLS: &str = "calls";
/// Sends one word, then stalls.
pub(crate) const HOLDS: &str = "holds";

/// When the last byte of each completion was sent, in order.
pub(crate) type LastBytes = Arc<Mutex<Vec<Instant>>>;

/// Listens on a free port.
pub(crate) async fn listen() -> anyhow::Result<(TcpListener, u16)> {
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .context("listen on loopback")?;
    let port = listener.local_addr().context("find the port")?.port();
    Ok((listener, port))
}

/// Serves until the task is dropped.
pub(crate) async fn serve(listener: TcpListener, last_bytes: LastBytes) -> anyhow::Result<()> {
    loop {
        let (stream, _) = listener.accept().await.context("accept")?;
        let last_bytes = Arc::clone(&last_bytes);
        // Ends with its connection; the process ends soon after.
        tokio::spawn(async move {
            if let Err(error) = converse(stream, &last_bytes).await {
                eprintln!("provider: {error:#}");
            }
        });
    }
}

async fn converse(mut stream: TcpStream, last_bytes: &LastBytes) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    let mut turn = 0;
    while let Some(body) = request(&mut stream, &mut buffer).await? {
        let model = model_of(&body);
        let events = events(model, turn);
        turn += 1;
        stream
            .write_all(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                  transfer-encoding: chunked\r\n\r\n",
            )
            .await?;
        let chunk = format!("{:x}\r\n{events}\r\n", events.len());
        if model == HOLDS {
            stream.write_all(chunk.as_bytes()).await?;
            std::future::pending::<()>().await;
        }
        stream.write_all(chunk.as_bytes()).await?;
        stream.write_all(b"0\r\n\r\n").await?;
        last_bytes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Instant::now());
    }
    Ok(())
}

/// Reads the next body; `None` if the client is gone.
async fn request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> anyhow::Result<Option<Vec<u8>>> {
    loop {
        if let Some(end) = find(buffer, b"\r\n\r\n") {
            let length = content_length(&buffer[..end])?;
            anyhow::ensure!(length <= MAX_REQUEST_BYTES, "a request of {length} bytes");
            let whole = end + 4 + length;
            if buffer.len() >= whole {
                let body = buffer[end + 4..whole].to_vec();
                buffer.drain(..whole);
                return Ok(Some(body));
            }
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

fn content_length(head: &[u8]) -> anyhow::Result<usize> {
    let head = String::from_utf8_lossy(head).to_lowercase();
    head.lines()
        .find_map(|line| line.strip_prefix("content-length:"))
        .context("a request without a length")?
        .trim()
        .parse()
        .context("read the length")
}

/// The model's name is at the beginning of the body.
fn model_of(body: &[u8]) -> &'static str {
    let head = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
    [SAYS, CALLS, HOLDS]
        .into_iter()
        .find(|name| head.contains(&format!("\"{name}")))
        .unwrap_or(SAYS)
}

fn events(model: &str, turn: usize) -> String {
    let mut text = String::new();
    let mut event = |name: &str, data: &str| {
        // Writing to a String cannot fail.
        write!(text, "event: {name}\ndata: {data}\n\n").ok();
    };
    event(
        "message_start",
        r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"model":"bench","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1000,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":1}}}"#,
    );
    let (block, stop) = if model == CALLS {
        (
            r#"{"type":"tool_use","id":"toolu_1","name":"probe","input":{}}"#,
            "tool_use",
        )
    } else {
        (r#"{"type":"text","text":""}"#, "end_turn")
    };
    event(
        "content_block_start",
        &format!(r#"{{"type":"content_block_start","index":0,"content_block":{block}}}"#),
    );
    if model == CALLS {
        // Different arguments each time, so that the loop detection does not trigger.
        event(
            "content_block_delta",
            &format!(
                r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"input_json_delta","partial_json":"{{\"n\":{turn}}}"}}}}"#
            ),
        );
    } else {
        for _ in 0..20 {
            event(
                "content_block_delta",
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a few words "}}"#,
            );
        }
    }
    if model == HOLDS {
        return text;
    }
    event(
        "content_block_stop",
        r#"{"type":"content_block_stop","index":0}"#,
    );
    event(
        "message_delta",
        &format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"{stop}","stop_sequence":null}},"usage":{{"output_tokens":80}}}}"#
        ),
    );
    event("message_stop", r#"{"type":"message_stop"}"#);
    text
}
