//! The event stream of a server.

use std::collections::VecDeque;
use std::time::Duration;

use sortie_base::sse;
use sortie_core::id::RunId;

use super::{Client, ClientError};
use crate::{Control, LiveEvent};

/// How long the server may be silent before the connection counts as broken; it sends a heartbeat
/// every 15 seconds.
const SILENCE: Duration = Duration::from_secs(60);

/// The stream has no end. Events of the server are far below the limit: a peer that sends more is
/// not a Sortie server.
const LIMITS: sse::Limits = sse::Limits {
    event_bytes: 16 << 20,
    stream_bytes: None,
};

/// An item of the event stream.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamItem {
    Event(Box<LiveEvent>),
    /// A piece of a completion.
    Text {
        run: RunId,
        text: String,
    },
    /// Events were lost; the records have their effect. The number is unknown if the server was
    /// restarted in between.
    Missed(Option<u64>),
}

/// A connection that receives live events.
#[derive(Debug)]
pub struct EventStream {
    response: reqwest::Response,
    reader: sse::Reader,
    whole: VecDeque<sse::Event>,
    last_id: Option<String>,
    /// Whether the client asked to resume and the server has not sent anything yet. If it starts with
    /// a snapshot, it could not resume.
    is_resuming: bool,
    client: Client,
}

impl EventStream {
    pub(super) fn new(
        client: Client,
        response: reqwest::Response,
        last_id: Option<String>,
    ) -> Self {
        Self {
            response,
            reader: sse::Reader::new(LIMITS),
            whole: VecDeque::new(),
            is_resuming: last_id.is_some(),
            last_id,
            client,
        }
    }

    /// Returns the id to resume after: that of the last event that was returned.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// Returns the next item, or `None` once the server has closed the stream.
    pub async fn next(&mut self) -> Result<Option<StreamItem>, ClientError> {
        loop {
            while let Some(sent) = self.whole.pop_front() {
                let before = match sent.id.is_empty() {
                    true => None,
                    false => self.last_id.replace(sent.id),
                };
                let was_resuming = std::mem::take(&mut self.is_resuming);
                match parse(&sent.data) {
                    Parsed::Event(event) => return Ok(Some(StreamItem::Event(event))),
                    Parsed::Text { run, text } => {
                        return Ok(Some(StreamItem::Text { run, text }));
                    }
                    Parsed::Snapshot {
                        missed: Some(missed),
                    } => return Ok(Some(StreamItem::Missed(Some(missed)))),
                    Parsed::Snapshot { missed: None } if was_resuming => {
                        let missed = between(before.as_deref(), self.last_id());
                        return Ok(Some(StreamItem::Missed(missed)));
                    }
                    Parsed::Snapshot { missed: None } | Parsed::Other => {}
                }
            }
            let part = tokio::time::timeout(SILENCE, self.response.chunk()).await;
            let part = match part {
                Ok(Ok(Some(part))) => part,
                Ok(Ok(None)) => return Ok(None),
                Ok(Err(source)) => return Err(self.client.broken(source)),
                Err(_) => return Err(self.client.timeout(SILENCE)),
            };
            let mut rest = part.as_ref();
            let unreadable = |_| {
                self.client
                    .unexpected("an event that exceeds the size limit")
            };
            while let Some(event) = self.reader.next(&mut rest).map_err(unreadable)? {
                self.whole.push_back(event);
            }
        }
    }
}

enum Parsed {
    Event(Box<LiveEvent>),
    Text {
        run: RunId,
        text: String,
    },
    Snapshot {
        missed: Option<u64>,
    },
    /// Another message, or one that a later version of the server may add.
    Other,
}

fn parse(data: &str) -> Parsed {
    if let Ok(event) = serde_json::from_str::<LiveEvent>(data) {
        return Parsed::Event(Box::new(event));
    }
    match serde_json::from_str::<Control>(data) {
        Ok(Control::Snapshot { missed, .. }) => Parsed::Snapshot { missed },
        Ok(Control::Text { task_id, text, .. }) => Parsed::Text { run: task_id, text },
        Ok(
            Control::Hello { .. }
            | Control::Subscribed { .. }
            | Control::Tasks { .. }
            | Control::Heartbeat { .. }
            | Control::Pong { .. }
            | Control::Error { .. },
        )
        | Err(_) => Parsed::Other,
    }
}

/// Returns the number of events between two ids, which have the form `epoch-seq`. It is known only
/// within one epoch.
fn between(before: Option<&str>, after: Option<&str>) -> Option<u64> {
    let (before_epoch, before) = before?.rsplit_once('-')?;
    let (after_epoch, after) = after?.rsplit_once('-')?;
    let (before, after): (u64, u64) = (before.parse().ok()?, after.parse().ok()?);
    (before_epoch == after_epoch).then(|| after.saturating_sub(before))
}
