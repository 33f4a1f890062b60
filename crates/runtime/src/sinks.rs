//! Places outside the store that want a result.

use std::fmt;
use std::io::Write;

use async_trait::async_trait;
use serde_json::json;
use sortie_core::{Announcement, Outcome};

/// A kind of place outside the store.
///
/// Implementers guarantee that sending the same key twice does no harm, or that the receiver is
/// given the key to tell.
#[async_trait]
pub trait Sink: Send + Sync + fmt::Debug {
    /// The scheme of the addresses it serves.
    fn scheme(&self) -> &'static str;
    /// Sends one announcement. Returning `Ok` means that it was accepted.
    async fn send(
        &self,
        target: &str,
        key: &str,
        announcement: &Announcement,
    ) -> Result<(), SinkError>;
}

/// Why a place did not accept an announcement.
#[derive(Debug, thiserror::Error)]
#[error("the result could not be written to {target}")]
pub struct SinkError {
    /// Where.
    pub target: String,
    /// Why.
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
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)?;
    file.write_all(line.as_bytes())?;
    file.sync_data()
}
