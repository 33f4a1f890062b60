//! aimock on a free port of loopback.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// The API key that aimock requires.
pub(super) const KEY: &str = "contract-key";
/// The longest that a start or a response may take: many times what it takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// The beginning of the line that it prints when it is ready; its address follows.
const READY: &str = "listening on http://";

/// A running server; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    /// Its address, as `host:port`.
    pub(super) address: String,
}

/// Starts aimock with these fixtures and with completions in small pieces.
pub(super) fn start(program: &Path, fixtures: &Path) -> Result<Server> {
    let mut child = Command::new("node")
        .arg(program)
        .args([
            "--port",
            "0",
            "--chunk-size",
            "7",
            "--strict",
            "--validate-on-load",
        ])
        .arg("--fixtures")
        .arg(fixtures)
        .env("AIMOCK_API_KEYS", KEY)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start aimock")?;
    let output = child.stdout.take().context("aimock has no output")?;
    let mut server = Server {
        child,
        address: String::new(),
    };
    let lines = lines_of(output);
    loop {
        let line = lines
            .recv_timeout(PATIENCE)
            .context("aimock did not report that it is ready")?;
        if let Some((_, address)) = line.split_once(READY) {
            address.trim().clone_into(&mut server.address);
            return Ok(server);
        }
    }
}

/// Reads the output to its end, so that the program never blocks on a full pipe.
fn lines_of(output: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // The receiver is dropped after the start.
            drop(sender.send(line));
        }
    });
    receiver
}

impl Server {
    /// Returns the requests under this name, in order, as aimock parsed them.
    pub(super) fn journal(&self, name: &str) -> Result<Vec<Value>> {
        let text = self.send(&format!("GET /__aimock/journal?testId={name}"), "")?;
        serde_json::from_str(&text).context("invalid journal of aimock")
    }

    /// Makes aimock answer the next prompt with this status.
    pub(super) fn fail_once(&self, status: u16) -> Result<()> {
        let body = serde_json::json!({"status": status, "body": {"message": "not now"}});
        self.send("POST /__aimock/error", &body.to_string())
            .map(drop)
    }

    /// Sends a request by HTTP 1.0, which has neither chunks nor persistent connections.
    fn send(&self, line: &str, body: &str) -> Result<String> {
        let address = &self.address;
        let mut stream = TcpStream::connect(address).context("cannot connect to aimock")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let length = body.len();
        write!(
            stream,
            "{line} HTTP/1.0\r\nhost: {address}\r\nauthorization: Bearer {KEY}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .context("aimock sent no response")?;
        let status = head.split_whitespace().nth(1);
        ensure!(
            status == Some("200"),
            "aimock responded to {line:?} with {head} {body}"
        );
        Ok(body.to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        if self.child.kill().is_ok()
            && let Err(error) = self.child.wait()
        {
            eprintln!("warning: cannot wait for aimock: {error}");
        }
    }
}
