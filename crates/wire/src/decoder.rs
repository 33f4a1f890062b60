//! Decodes responses, streamed or whole.

use std::fmt;

use serde_json::Value;
use sortie_base::sse::{self, Event, Limits, Reader, Remainder};
use sortie_core::ports::model::{DeltaSink, ModelAnswer, ModelError, NoDeltas, Wire};

use crate::bounds::too_long;
use crate::draft::{CUT_OFF, Draft};
use crate::{Dialect, anthropic, bounds, chat, classify, gemini, responses};

const LIMITS: Limits = Limits {
    event_bytes: bounds::LINE_BYTES,
    stream_bytes: Some(bounds::STREAM_BYTES),
};

/// Whether a stream continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// More data may follow.
    More,
    /// The server has signalled the end.
    Done,
}

/// Decodes one streamed response.
pub struct Decoder {
    dialect: Dialect,
    sse: Reader,
    stream: Stream,
    draft: Draft,
    shown: bool,
    flow: Flow,
    failed: Option<ModelError>,
}

/// The state that each format keeps between two events.
enum Stream {
    Anthropic(anthropic::Stream),
    Chat(chat::Stream),
    Responses(responses::Stream),
    Gemini(gemini::Stream),
}

impl Decoder {
    /// Creates a decoder at the start of a stream.
    pub fn new(dialect: &Dialect) -> Self {
        Self {
            dialect: dialect.clone(),
            sse: Reader::new(LIMITS),
            stream: Stream::new(dialect),
            draft: Draft::default(),
            shown: false,
            flow: Flow::More,
            failed: None,
        }
    }

    /// Consumes the next bytes, split anywhere. Bytes after the end of the response are ignored,
    /// and a stream that failed stays failed.
    pub fn bytes(&mut self, chunk: &[u8], deltas: &dyn DeltaSink) -> Result<Flow, ModelError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let outcome = self.read(chunk, deltas);
        outcome.map_err(|error| self.fail(error))
    }

    /// Returns the reply once the stream has ended. A stream that was cut off is an error, never a
    /// short reply.
    pub fn end(self) -> Result<ModelAnswer, ModelError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let shown = self.shown;
        self.rest().map_err(|error| ModelError { shown, ..error })
    }

    /// Returns whether text was passed to the sink.
    pub fn shown(&self) -> bool {
        self.shown
    }

    fn read(&mut self, chunk: &[u8], deltas: &dyn DeltaSink) -> Result<Flow, ModelError> {
        let mut rest = chunk;
        while self.flow == Flow::More {
            let Some(event) = self.sse.next(&mut rest).map_err(unreadable)? else {
                break;
            };
            self.flow = self.event(&event)?;
            self.show(deltas);
        }
        Ok(self.flow)
    }

    fn event(&mut self, event: &Event) -> Result<Flow, ModelError> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(Flow::More);
        }
        if data == "[DONE]" {
            return Ok(self.stream.done(&mut self.draft));
        }
        let value: Value = serde_json::from_str(data).map_err(|_| not_json(data))?;
        classify::check(&self.dialect, &value, event.name == "error")?;
        self.stream.event(value, &mut self.draft)
    }

    fn show(&mut self, deltas: &dyn DeltaSink) {
        if !self.draft.fresh.is_empty() {
            self.shown = true;
            deltas.text(&self.draft.fresh);
            self.draft.fresh.clear();
        }
    }

    fn rest(mut self) -> Result<ModelAnswer, ModelError> {
        let event = match std::mem::replace(&mut self.sse, Reader::new(LIMITS)).finish() {
            Ok(Remainder::Document(body)) => return decode_whole(&self.dialect, &body, &NoDeltas),
            Ok(Remainder::Event(event)) => event,
            // An incomplete character, or excess data, after a complete response.
            Err(_) if self.draft.stop.is_some() => None,
            Err(error) => return Err(unreadable(error)),
        };
        if let Some(event) = event.filter(|_| self.flow == Flow::More)
            && let Err(error) = self.event(&event)
            && self.draft.stop.is_none()
        {
            return Err(error);
        }
        self.draft.finish()
    }

    fn fail(&mut self, error: ModelError) -> ModelError {
        let error = ModelError {
            shown: self.shown,
            ..error
        };
        self.failed = Some(error.clone());
        error
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("format", &self.dialect.format)
            .field("shown", &self.shown)
            .field("flow", &self.flow)
            .finish_non_exhaustive()
    }
}

impl Stream {
    fn new(dialect: &Dialect) -> Self {
        let origin = dialect.origin();
        match dialect.format {
            Wire::Anthropic => Self::Anthropic(anthropic::Stream::new(origin)),
            Wire::Chat => Self::Chat(chat::Stream::new(origin)),
            Wire::Responses => Self::Responses(responses::Stream::new(dialect)),
            Wire::Gemini => Self::Gemini(gemini::Stream::new(origin)),
        }
    }

    fn event(&mut self, value: Value, draft: &mut Draft) -> Result<Flow, ModelError> {
        match self {
            Self::Anthropic(stream) => stream.event(&value, draft),
            Self::Chat(stream) => stream.event(value, draft),
            Self::Responses(stream) => stream.event(value, draft),
            Self::Gemini(stream) => stream.event(value, draft),
        }
    }

    fn whole(&mut self, value: Value, draft: &mut Draft) -> Result<(), ModelError> {
        match self {
            Self::Anthropic(stream) => stream.whole(&value, draft),
            Self::Chat(stream) => stream.whole(value, draft),
            Self::Responses(stream) => stream.whole(value, draft),
            Self::Gemini(stream) => stream.event(value, draft).map(drop),
        }
    }

    /// Handles `[DONE]`: only Chat ends with it.
    fn done(&self, draft: &mut Draft) -> Flow {
        match self {
            Self::Chat(_) => {
                chat::done(draft);
                Flow::Done
            }
            Self::Anthropic(_) | Self::Responses(_) | Self::Gemini(_) => Flow::More,
        }
    }
}

/// Decodes a response that arrived as one document.
pub fn decode_whole(
    dialect: &Dialect,
    body: &[u8],
    deltas: &dyn DeltaSink,
) -> Result<ModelAnswer, ModelError> {
    if body.len() > bounds::STREAM_BYTES {
        return Err(too_long("the answer", bounds::STREAM_BYTES));
    }
    let value: Value =
        serde_json::from_slice(body).map_err(|_| not_json(&String::from_utf8_lossy(body)))?;
    classify::check(dialect, &value, false)?;
    let mut draft = Draft::default();
    Stream::new(dialect).whole(value, &mut draft)?;
    let fresh = std::mem::take(&mut draft.fresh);
    let answer = draft.finish()?;
    // Text is shown only once the document has decoded as a reply, so no shown text becomes void.
    if !fresh.is_empty() {
        deltas.text(&fresh);
    }
    Ok(answer)
}

/// Returns the error for a response that is not JSON.
fn not_json(text: &str) -> ModelError {
    let text = text.trim_start();
    let message = if text.starts_with('<') {
        "the server returned a web page instead of a completion; check the base URL and the proxy"
    } else if text.starts_with(['{', '[']) {
        CUT_OFF
    } else if text.is_empty() {
        "the server returned an empty response; a retry may help"
    } else {
        "the response is not JSON; check the base URL"
    };
    ModelError::retryable(message)
}

fn unreadable(error: sse::Error) -> ModelError {
    match error {
        sse::Error::LongLine => too_long("a line", bounds::LINE_BYTES),
        sse::Error::LongEvent => too_long("an event", bounds::LINE_BYTES),
        sse::Error::LongStream => too_long("the answer", bounds::STREAM_BYTES),
        sse::Error::NotUtf8 => {
            ModelError::retryable("the server sent bytes that are not UTF-8; a retry may help")
        }
    }
}
