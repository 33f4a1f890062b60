//! What happens in the server, as it happens.

use std::collections::VecDeque;
use std::time::Duration;

use sortie_protocol::{Control, LiveEvent};

use crate::ClientError;
use crate::client::Client;
use crate::sse::{Decoder, Sent};

/// How long a server may say nothing before the connection counts as broken; it says that it lives
/// every quarter of a minute.
const SILENCE: Duration = Duration::from_secs(60);

/// Something that the server said.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// Something happened to a task.
    Event(Box<LiveEvent>),
    /// What was missed could not be told any more; the records know.
    Missed(u64),
}

/// A connection on which the server says what happens.
#[derive(Debug)]
pub struct EventStream {
    response: reqwest::Response,
    decoder: Decoder,
    whole: VecDeque<Sent>,
    last_id: Option<String>,
    client: Client,
}

impl EventStream {
    pub(crate) fn new(
        client: Client,
        response: reqwest::Response,
        last_id: Option<String>,
    ) -> Self {
        Self {
            response,
            decoder: Decoder::default(),
            whole: VecDeque::new(),
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
                if !sent.id.is_empty() {
                    self.last_id = Some(sent.id);
                }
                if let Some(heard) = heard(&sent.data) {
                    return Ok(Some(heard));
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

/// What concerns somebody who follows tasks. Kinds that a later server may add concern nobody here.
fn heard(data: &str) -> Option<Heard> {
    if let Ok(event) = serde_json::from_str::<LiveEvent>(data) {
        return Some(Heard::Event(Box::new(event)));
    }
    match serde_json::from_str::<Control>(data) {
        Ok(Control::Snapshot {
            missed: Some(missed),
            ..
        }) => Some(Heard::Missed(missed)),
        Ok(
            Control::Snapshot { missed: None, .. }
            | Control::Hello { .. }
            | Control::Subscribed { .. }
            | Control::Tasks { .. }
            | Control::Text { .. }
            | Control::Heartbeat { .. }
            | Control::Pong { .. }
            | Control::Error { .. },
        )
        | Err(_) => None,
    }
}
