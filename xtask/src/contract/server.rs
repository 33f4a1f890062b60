//! aimock at work on a free port of loopback.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// The key that it wants to see, wherever the vendor of a wire wants it.
pub(super) const KEY: &str = "contract-key";
/// How long it may take to start, and to answer us: many times what it takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// What it says when it is ready, before its address.
const READY: &str = "listening on http://";

/// A running server; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    /// Where it listens, as `host:port`.
    pub(super) address: String,
}

/// Starts it with these fixtures, and with answers in small pieces.
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
        .context("starting aimock")?;
    let output = child.stdout.take().context("aimock has no output")?;
    let mut server = Server {
        child,
        address: String::new(),
    };
    let lines = lines_of(output);
    loop {
        let line = lines
            .recv_timeout(PATIENCE)
            .context("aimock did not say that it is ready")?;
        if let Some((_, address)) = line.split_once(READY) {
            address.trim().clone_into(&mut server.address);
            return Ok(server);
        }
    }
}

/// Reads to the end, so that the program never waits for us, whether or not anybody listens.
fn lines_of(output: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // After the start nobody listens any more.
            drop(sender.send(line));
        }
    });
    receiver
}

impl Server {
    /// What it was asked under this name, in order, each as it understood it.
    pub(super) fn journal(&self, name: &str) -> Result<Vec<Value>> {
        let text = self.ask(&format!("GET /__aimock/journal?testId={name}"), "")?;
        serde_json::from_str(&text).context("the journal of aimock")
    }

    /// Answers the next question with this status.
    pub(super) fn fail_once(&self, status: u16) -> Result<()> {
        let body = serde_json::json!({"status": status, "body": {"message": "not now"}});
        self.ask("POST /__aimock/error", &body.to_string())
            .map(drop)
    }

    /// HTTP 1.0, as it has neither chunks nor connections that stay open.
    fn ask(&self, line: &str, body: &str) -> Result<String> {
        let address = &self.address;
        let mut stream = TcpStream::connect(address).context("reaching aimock")?;
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
            .context("aimock gave no answer")?;
        let status = head.split_whitespace().nth(1);
        ensure!(
            status == Some("200"),
            "aimock answered {line:?} with {head} {body}"
        );
        Ok(body.to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, and then there is nothing to do.
        if self.child.kill().is_ok()
            && let Err(error) = self.child.wait()
        {
            eprintln!("warning: aimock was not seen to end: {error}");
        }
    }
}
