//! aimock on a free port of loopback.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::local_server::{self, Process};

/// The API key that aimock requires.
pub(super) const KEY: &str = "contract-key";
/// The longest that a start may take: many times what it takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// The beginning of the line that it prints when it is ready; its address follows.
const READY: &str = "listening on http://";

/// A running server; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    _process: Process,
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
        _process: Process(child),
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

    fn send(&self, line: &str, body: &str) -> Result<String> {
        local_server::send(&self.address, KEY, line, body)
    }
}
