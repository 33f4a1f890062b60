//! A server that sends exactly the bytes that a test specifies, including invalid ones.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The response of the server to a request.
pub(crate) struct Answer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) then: Then,
}

/// What the server does after the response.
pub(crate) enum Then {
    Close,
    Silence,
    Repeat(Vec<u8>),
}

/// A request as received, and the address that received it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) text: String,
    pub(crate) address: SocketAddr,
}

impl Seen {
    pub(crate) fn path(&self) -> &str {
        self.text.split(' ').nth(1).unwrap_or_default()
    }

    pub(crate) fn body(&self) -> &str {
        self.text
            .split_once("\r\n\r\n")
            .map_or("", |(_, body)| body)
    }
}

pub(crate) struct Server {
    pub(crate) port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Listens on every address of this machine, so that a connection to any of them is recorded.
    pub(crate) async fn start(answer: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (Arc::clone(&seen), Arc::new(answer));
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                connections.spawn(async move {
                    // Some tests disconnect the client in the middle of the response.
                    serve(stream, &log, &*answer).await.ok();
                });
            }
        });
        Self { port, seen, task }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    log: &Mutex<Vec<Seen>>,
    answer: &(dyn Fn(&Seen) -> Answer + Send + Sync),
) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    while !is_whole(&bytes) {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        bytes.extend_from_slice(&buffer[..count]);
    }
    let seen = Seen {
        text: String::from_utf8_lossy(&bytes).into_owned(),
        address: stream.local_addr()?,
    };
    log.lock().unwrap().push(seen.clone());
    let answer = answer(&seen);
    stream.write_all(&answer.bytes).await?;
    match answer.then {
        Then::Close => stream.shutdown().await,
        Then::Silence => std::future::pending().await,
        Then::Repeat(more) => loop {
            stream.write_all(&more).await?;
        },
    }
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    length.is_none_or(|length| body.len() >= length.parse().unwrap_or(0))
}

/// Returns a complete response with these headers.
pub(crate) fn answer(status: u16, headers: &str, body: impl AsRef<[u8]>) -> Answer {
    let body = body.as_ref();
    let head = format!(
        "HTTP/1.1 {status} Said\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n",
        body.len()
    );
    Answer {
        bytes: [head.as_bytes(), body].concat(),
        then: Then::Close,
    }
}

pub(crate) fn redirect(status: u16, location: &str) -> Answer {
    answer(status, &format!("location: {location}\r\n"), "")
}
