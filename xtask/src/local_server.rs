//! A server on loopback that a command of xtask starts: its process, and requests to it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Child;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

/// The longest that a response may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already.
        if self.0.kill().is_ok()
            && let Err(error) = self.0.wait()
        {
            eprintln!("warning: cannot wait for process {}: {error}", self.0.id());
        }
    }
}

/// Sends a request by HTTP 1.0, which has neither chunks nor persistent connections, and returns the
/// body of the response.
pub(crate) fn send(address: &str, token: &str, line: &str, body: &str) -> Result<String> {
    let mut stream =
        TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    write!(
        stream,
        "{line} HTTP/1.0\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .with_context(|| format!("no response to {line}"))?;
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    ensure!(status.starts_with('2'), "{line} returned {status}: {body}");
    Ok(body.to_owned())
}
