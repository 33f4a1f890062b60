//! What happens in the server, as it happens.

use std::collections::VecDeque;
use std::time::Duration;

use super::sse::{Decoder, Sent};
use super::{Client, ClientError};
use crate::{Control, LiveEvent};

/// How long a server may say nothing before the connection counts as broken; it says that it lives
/// every quarter of a minute.
const SILENCE: Duration = Duration::from_secs(60);

/// Something that the server said.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// Something happened to a task.
    Event(Box<LiveEvent>),
    /// What was missed could not be told any more; the records know. How much it was is not known if
    /// the server lived anew in between.
    Missed(Option<u64>),
}

/// A connection on which the server says what happens.
#[derive(Debug)]
pub struct EventStream {
    response: reqwest::Response,
    decoder: Decoder,
    whole: VecDeque<Sent>,
    last_id: Option<String>,
    /// Whether the server was asked to go on somewhere and has not said anything yet. If it begins
    /// with a snapshot, it could not.
    is_going_on: bool,
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
            decoder: Decoder::default(),
            whole: VecDeque::new(),
            is_going_on: last_id.is_some(),
            last_id,
            client,
        }
    }

    /// Where to go on after the last event that was given out.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// The next thing; `None` when the server has closed the stream.
    pub async fn next(&mut self) -> Result<Option<Heard>, ClientError> {
        loop {
            while let Some(sent) = self.whole.pop_front() {
                let before = match sent.id.is_empty() {
                    true => None,
                    false => self.last_id.replace(sent.id),
                };
                let was_going_on = std::mem::take(&mut self.is_going_on);
                match understood(&sent.data) {
                    Understood::Event(event) => return Ok(Some(Heard::Event(event))),
                    Understood::Snapshot {
                        missed: Some(missed),
                    } => return Ok(Some(Heard::Missed(Some(missed)))),
                    Understood::Snapshot { missed: None } if was_going_on => {
                        let missed = between(before.as_deref(), self.last_id());
                        return Ok(Some(Heard::Missed(missed)));
                    }
                    Understood::Snapshot { missed: None } | Understood::Other => {}
                }
            }
            let part = tokio::time::timeout(SILENCE, self.response.chunk()).await;
            let part = match part {
                Ok(Ok(Some(part))) => part,
                Ok(Ok(None)) => return Ok(None),
                Ok(Err(source)) => return Err(self.client.broken(source)),
                Err(_) => return Err(self.client.slow(SILENCE)),
            };
            let whole = self.decoder.take(&part);
            let whole = whole.map_err(|_| self.client.strange("an event without an end"))?;
            self.whole.extend(whole);
        }
    }
}

/// What was sent, as far as it concerns somebody who follows tasks.
enum Understood {
    Event(Box<LiveEvent>),
    Snapshot {
        missed: Option<u64>,
    },
    /// Kinds that a later server may add concern nobody here either.
    Other,
}

fn understood(data: &str) -> Understood {
    if let Ok(event) = serde_json::from_str::<LiveEvent>(data) {
        return Understood::Event(Box::new(event));
    }
    match serde_json::from_str::<Control>(data) {
        Ok(Control::Snapshot { missed, .. }) => Understood::Snapshot { missed },
        Ok(
            Control::Hello { .. }
            | Control::Subscribed { .. }
            | Control::Tasks { .. }
            | Control::Text { .. }
            | Control::Heartbeat { .. }
            | Control::Pong { .. }
            | Control::Error { .. },
        )
        | Err(_) => Understood::Other,
    }
}

/// How many events are between two places, which are written `epoch-number`; only within one life of
/// the server can that be said.
fn between(before: Option<&str>, after: Option<&str>) -> Option<u64> {
    let (before_epoch, before) = before?.rsplit_once('-')?;
    let (after_epoch, after) = after?.rsplit_once('-')?;
    let (before, after): (u64, u64) = (before.parse().ok()?, after.parse().ok()?);
    (before_epoch == after_epoch).then(|| after.saturating_sub(before))
}
