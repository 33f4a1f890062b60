//! Sinks: destinations outside the store for results.

use std::fmt;
use std::io::Write;

use async_trait::async_trait;
use serde_json::json;
use sortie_core::inbox::Announcement;
use sortie_core::run::Outcome;

/// A kind of destination outside the store.
///
/// Implementers guarantee that sending the same key twice does no harm, or that the receiver gets
/// the key and can detect it.
#[async_trait]
pub trait Sink: Send + Sync + fmt::Debug {
    /// Returns the scheme of the addresses it serves.
    fn scheme(&self) -> &'static str;
    /// Sends one announcement. Returning `Ok` means that it was accepted.
    async fn send(
        &self,
        target: &str,
        key: &str,
        announcement: &Announcement,
    ) -> Result<(), SinkError>;
}

/// Why a sink did not accept an announcement.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the result to {target}")]
pub struct SinkError {
    /// The address within the scheme.
    pub target: String,
    #[source]
    pub source: std::io::Error,
}

/// Appends a line of JSON to a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileSink;

#[async_trait]
impl Sink for FileSink {
    fn scheme(&self) -> &'static str {
        "file"
    }

    async fn send(
        &self,
        target: &str,
        key: &str,
        announcement: &Announcement,
    ) -> Result<(), SinkError> {
        let line = line_of(key, announcement);
        let path = target.to_owned();
        let written = tokio::task::spawn_blocking(move || append_durably(&path, &line)).await;
        written
            .unwrap_or_else(|panic| Err(std::io::Error::other(panic)))
            .map_err(|source| SinkError {
                target: target.to_owned(),
                source,
            })
    }
}

fn line_of(key: &str, announcement: &Announcement) -> String {
    let mut line = json!({
        "key": key,
        "task_id": announcement.child,
        "agent": announcement.agent,
        "label": announcement.label,
        "status": announcement.outcome.status(),
        "result": announcement.outcome.text(),
        "error": Outcome::error(&announcement.outcome),
    })
    .to_string();
    line.push('\n');
    line
}

fn append_durably(path: &str, line: &str) -> std::io::Result<()> {
    let mut file = open_without_links(path)?;
    file.write_all(line.as_bytes())?;
    file.sync_data()
}

/// Opens a file by a path without links: an agent may have put a link there that leads anywhere.
fn open_without_links(path: &str) -> std::io::Result<std::fs::File> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o644);
    Ok(openat2(CWD, path, flags, mode, ResolveFlags::NO_SYMLINKS)?.into())
}
