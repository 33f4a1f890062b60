//! Server-sent events, read from bytes that may be cut anywhere.
//!
//! Lines end with LF, CR or both; comments are skipped; a byte order mark is tolerated. A body that
//! is no event stream at all, because a server or a proxy answered with a document, is kept whole.

use sortie_core::ModelError;

use crate::bounds;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// One event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// Whether the server named it an error.
    pub(crate) is_error: bool,
    /// Its data, several lines joined.
    pub(crate) data: String,
}

/// What was left when the stream ended.
#[derive(Debug)]
pub(crate) enum Rest {
    /// An event that no blank line had ended, or nothing.
    Event(Option<Event>),
    /// The whole body, which was no event stream.
    Document(Vec<u8>),
}

/// The state between two chunks.
#[derive(Debug, Default)]
pub(crate) struct Sse {
    line: Vec<u8>,
    after_carriage_return: bool,
    lines: u64,
    is_error: bool,
    data: Option<String>,
    document: Option<Vec<u8>>,
    total_bytes: usize,
}

impl Sse {
    /// Takes bytes until an event is complete; call again with what is left of the chunk.
    pub(crate) fn next(&mut self, chunk: &mut &[u8]) -> Result<Option<Event>, ModelError> {
        while !chunk.is_empty() {
            if let Some(document) = &mut self.document {
                document.extend_from_slice(chunk);
                self.total_bytes = self.total_bytes.saturating_add(chunk.len());
                *chunk = &[];
                self.check_total()?;
                return Ok(None);
            }
            if self.take_line(chunk)? {
                let line = std::mem::take(&mut self.line);
                if let Some(event) = self.end_line(line)? {
                    return Ok(Some(event));
                }
            }
        }
        Ok(None)
    }

    /// What is left once no more bytes come.
    pub(crate) fn finish(mut self) -> Result<Rest, ModelError> {
        if self.document.is_none() && !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            // A blank line ends an event; this line is not blank.
            self.end_line(line)?;
        }
        match self.document.take() {
            Some(document) => Ok(Rest::Document(document)),
            None => Ok(Rest::Event(self.dispatch())),
        }
    }

    /// Moves bytes to the line; true once the line is complete.
    fn take_line(&mut self, chunk: &mut &[u8]) -> Result<bool, ModelError> {
        if std::mem::take(&mut self.after_carriage_return) && chunk.first() == Some(&b'\n') {
            self.consume(chunk, 1)?;
            return Ok(false);
        }
        let end = chunk.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let length = end.unwrap_or(chunk.len());
        if self.line.len() + length > bounds::LINE_BYTES {
            return Err(too_long("a line", bounds::LINE_BYTES));
        }
        self.line.extend_from_slice(&chunk[..length]);
        let Some(end) = end else {
            self.consume(chunk, length)?;
            return Ok(false);
        };
        self.after_carriage_return = chunk[end] == b'\r';
        self.consume(chunk, end + 1)?;
        Ok(true)
    }

    fn consume(&mut self, chunk: &mut &[u8], bytes: usize) -> Result<(), ModelError> {
        *chunk = &chunk[bytes..];
        self.total_bytes = self.total_bytes.saturating_add(bytes);
        self.check_total()
    }

    fn check_total(&self) -> Result<(), ModelError> {
        if self.total_bytes > bounds::STREAM_BYTES {
            return Err(too_long("the answer", bounds::STREAM_BYTES));
        }
        Ok(())
    }

    fn end_line(&mut self, bytes: Vec<u8>) -> Result<Option<Event>, ModelError> {
        let line = String::from_utf8(bytes).map_err(|_| {
            ModelError::retryable("the server sent bytes that are not UTF-8; asking again may help")
        })?;
        let is_first = self.lines == 0;
        let text = match line.strip_prefix(BYTE_ORDER_MARK) {
            Some(text) if is_first => text,
            Some(_) | None => line.as_str(),
        };
        if text.is_empty() {
            return Ok(self.dispatch());
        }
        self.lines += 1;
        if is_first && text.trim_start().starts_with(['{', '[', '<']) {
            self.document = Some(format!("{text}\n").into_bytes());
            return Ok(None);
        }
        self.field(text)?;
        Ok(None)
    }

    fn field(&mut self, line: &str) -> Result<(), ModelError> {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => self.add_data(value),
            "event" => {
                self.is_error = value == "error";
                Ok(())
            }
            // Not in the standard; llama.cpp reports a failure this way.
            "error" => {
                self.is_error = true;
                self.add_data(value)
            }
            // A comment, an id, a retry hint, or something unknown.
            _ => Ok(()),
        }
    }

    fn add_data(&mut self, value: &str) -> Result<(), ModelError> {
        match &mut self.data {
            Some(data) if data.len() + value.len() > bounds::LINE_BYTES => {
                return Err(too_long("an event", bounds::LINE_BYTES));
            }
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
            None => self.data = Some(value.to_owned()),
        }
        Ok(())
    }

    fn dispatch(&mut self) -> Option<Event> {
        let is_error = std::mem::take(&mut self.is_error);
        let data = self.data.take()?;
        Some(Event { is_error, data })
    }
}

/// The error for an answer that passes one of the bounds.
pub(crate) fn too_long(what: &str, bytes: usize) -> ModelError {
    ModelError::retryable(format!(
        "{what} is longer than {} MiB, the most that is read; asking again may help",
        bytes >> 20
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(bytes: &[u8]) -> Vec<String> {
        let mut sse = Sse::default();
        let mut rest = bytes;
        let mut events = Vec::new();
        while let Some(event) = sse.next(&mut rest).unwrap() {
            events.push(shown(&event));
        }
        match sse.finish().unwrap() {
            Rest::Event(event) => events.extend(event.map(|event| format!("rest {}", event.data))),
            Rest::Document(document) => {
                events.push(format!("document {}", String::from_utf8(document).unwrap()));
            }
        }
        events
    }

    fn shown(event: &Event) -> String {
        let mark = if event.is_error { "error " } else { "" };
        format!("{mark}{}", event.data)
    }

    fn check(stream: &str, expected: &[&str]) {
        assert_eq!(events(stream.as_bytes()), expected, "{stream:?}");
    }

    #[test]
    fn events_are_found_whatever_ends_their_lines() {
        check("data: a\n\ndata: b\n\n", &["a", "b"]);
        check("data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]);
        check("data: a\r\rdata: b\r\r", &["a", "b"]);
        check("data:a\n\n", &["a"]);
        check("data:  a\n\n", &[" a"]);
        check("data: a\ndata: b\n\n", &["a\nb"]);
        check("data\n\n", &[""]);
        check(": heartbeat\n\ndata: a\n\n:\n\n", &["a"]);
        check("\u{feff}data: a\n\n", &["a"]);
        check("event: ping\nid: 7\nretry: 10\ndata: a\n\n", &["a"]);
        check("event: error\ndata: a\n\ndata: b\n\n", &["error a", "b"]);
        check("error: {}\n\n", &["error {}"]);
        check("data: a\n\ndata: b", &["a", "rest b"]);
        check("\n\n\n", &[]);
        check("", &[]);
    }

    #[test]
    fn a_document_is_kept_whole() {
        check("{\n  \"a\": 1\n}\n", &["document {\n  \"a\": 1\n}\n"]);
        check("<html>\n\ndata: a\n\n", &["document <html>\n\ndata: a\n\n"]);
        check("{}", &["document {}\n"]);
        check("data: {\n\n", &["{"]);
    }

    #[test]
    fn bounds_are_named() {
        let mut sse = Sse::default();
        let long = vec![b'a'; bounds::LINE_BYTES + 1];
        let error = sse.next(&mut long.as_slice()).unwrap_err();
        assert_eq!(
            error.message,
            "a line is longer than 8 MiB, the most that is read; asking again may help"
        );

        let mut sse = Sse::default();
        let line = ": heartbeat\n".repeat(1 << 16);
        let error = (0..bounds::STREAM_BYTES)
            .find_map(|_| sse.next(&mut line.as_bytes()).err())
            .unwrap();
        assert!(
            error
                .message
                .starts_with("the answer is longer than 64 MiB")
        );
    }

    #[test]
    fn bytes_that_are_not_text_are_an_error() {
        let mut sse = Sse::default();
        let error = sse.next(&mut b"data: \xff\n".as_slice()).unwrap_err();
        assert!(error.message.contains("not UTF-8"), "{error}");
    }
}
