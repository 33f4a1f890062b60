//! A minimal HTTP/1.1 server that can stop at any byte of a response.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::plan::{Finish, Head};

/// The longest request head.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// The longest request body.
const MAX_BODY_BYTES: usize = 64 << 20;

/// A connection with its read buffer.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    ahead: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Received {
    pub(super) path: String,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Vec<u8>,
}

/// Whether another request may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Request,
    Nothing,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            ahead: Vec::new(),
        }
    }

    /// Reads the next request; `None` if the client has closed the connection.
    pub(super) async fn request(&mut self) -> io::Result<Option<Received>> {
        let head_bytes = loop {
            if let Some(end) = find(&self.ahead, b"\r\n\r\n") {
                break end + 4;
            }
            if self.ahead.len() > MAX_HEAD_BYTES || !self.read_more().await? {
                return Ok(None);
            }
        };
        let head: Vec<u8> = self.ahead.drain(..head_bytes).collect();
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut lines = head.lines();
        let path = lines.next().and_then(|line| line.split(' ').nth(1));
        let path = path.unwrap_or_default().to_owned();
        let headers: BTreeMap<String, String> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let length = headers.get("content-length");
        let length = length.and_then(|length| length.parse().ok()).unwrap_or(0);
        while self.ahead.len() < length {
            if length > MAX_BODY_BYTES || !self.read_more().await? {
                return Ok(None);
            }
        }
        let body = self.ahead.drain(..length).collect();
        Ok(Some(Received {
            path,
            headers,
            body,
        }))
    }

    async fn read_more(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 16 << 10];
        let count = self.stream.read(&mut buffer).await?;
        self.ahead.extend_from_slice(&buffer[..count]);
        Ok(count > 0)
    }

    /// Waits for a time, or until the client closes; returns whether it is still connected.
    pub(super) async fn wait(&mut self, time: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(time) => true,
            () = self.gone() => false,
        }
    }

    /// Waits until the client closes.
    async fn gone(&mut self) {
        // An error counts as closed.
        while self.read_more().await.unwrap_or(false) {}
    }

    /// Sends the head of a response.
    pub(super) async fn head(&mut self, head: Head) -> io::Result<()> {
        let retry_after = match head.retry_after {
            Some(seconds) => format!("retry-after: {seconds}\r\n"),
            None => String::new(),
        };
        let text = format!(
            "HTTP/1.1 {} Said\r\ncontent-type: {}\r\n{retry_after}transfer-encoding: chunked\r\n\r\n",
            head.status, head.kind
        );
        self.stream.write_all(text.as_bytes()).await
    }

    pub(super) async fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        let framed = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        self.stream.write_all(&framed).await
    }

    /// Sends a chunk that claims to be longer than it is.
    pub(super) async fn half_chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        let framed = [format!("{:x}\r\n", bytes.len() + 64).as_bytes(), bytes].concat();
        self.stream.write_all(&framed).await
    }

    pub(super) async fn finish(&mut self, finish: &Finish) -> io::Result<Next> {
        match finish {
            Finish::Whole => {
                self.stream.write_all(b"0\r\n\r\n").await?;
                return Ok(Next::Request);
            }
            Finish::Abrupt => self.stream.shutdown().await?,
            Finish::Reset => self.stream.set_zero_linger()?,
            Finish::Silent => self.gone().await,
            Finish::Endless(more) => loop {
                // Ends with an error when the client closes.
                self.chunk(more).await?;
            },
        }
        Ok(Next::Nothing)
    }
}

fn find(bytes: &[u8], word: &[u8]) -> Option<usize> {
    bytes.windows(word.len()).position(|window| window == word)
}
