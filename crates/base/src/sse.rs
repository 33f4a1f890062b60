//! The one reader of server-sent events, for bytes that may be split anywhere.
//!
//! Lines end with LF, CR or both; comments are skipped; a byte order mark is tolerated. Every buffer
//! has a limit. A body that is no event stream at all, because a server or a proxy answered with a
//! document, is kept whole.

const BYTE_ORDER_MARK: &str = "\u{feff}";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The field `event`; empty if the server sent none. `error` for llama.cpp's non-standard field
    /// `error`, whose value is then the data.
    pub name: String,
    /// The field `id`; empty if the server sent none with this event.
    pub id: String,
    /// The data; several lines are joined by line feeds.
    pub data: String,
}

/// How much a reader accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one line, and of the data of one event.
    pub event_bytes: usize,
    /// Bytes of the whole stream; `None` for a stream that has no end.
    pub stream_bytes: Option<usize>,
}

/// What remains when the stream has ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Remainder {
    /// An event that no blank line had ended, or nothing.
    Event(Option<Event>),
    /// The whole body, which was no event stream.
    Document(Vec<u8>),
}

/// Why a stream cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A line passes [`Limits::event_bytes`].
    LongLine,
    /// The data of an event passes [`Limits::event_bytes`].
    LongEvent,
    /// The stream passes [`Limits::stream_bytes`].
    LongStream,
    /// A line is not UTF-8.
    NotUtf8,
}

/// Turns chunks of bytes into events.
#[derive(Debug)]
pub struct Reader {
    limits: Limits,
    line: Vec<u8>,
    after_carriage_return: bool,
    has_lines: bool,
    event: Event,
    has_data: bool,
    document: Option<Vec<u8>>,
    total_bytes: usize,
}

impl Reader {
    /// Creates a reader at the beginning of a stream.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            line: Vec::new(),
            after_carriage_return: false,
            has_lines: false,
            event: Event::default(),
            has_data: false,
            document: None,
            total_bytes: 0,
        }
    }

    /// Consumes bytes until an event is complete. Call it again with the rest of the chunk until it
    /// returns `None`.
    pub fn next(&mut self, chunk: &mut &[u8]) -> Result<Option<Event>, Error> {
        while !chunk.is_empty() {
            if let Some(document) = &mut self.document {
                document.extend_from_slice(chunk);
                self.consume(chunk, chunk.len())?;
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

    /// Returns what remains after the last chunk.
    pub fn finish(mut self) -> Result<Remainder, Error> {
        if self.document.is_none() && !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            // Only a blank line ends an event; this line is not blank.
            self.end_line(line)?;
        }
        match self.document.take() {
            Some(document) => Ok(Remainder::Document(document)),
            None => Ok(Remainder::Event(self.dispatch())),
        }
    }

    /// Moves bytes to the line; returns true once the line is complete.
    fn take_line(&mut self, chunk: &mut &[u8]) -> Result<bool, Error> {
        if std::mem::take(&mut self.after_carriage_return) && chunk.first() == Some(&b'\n') {
            self.consume(chunk, 1)?;
            return Ok(false);
        }
        let end = chunk.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let length = end.unwrap_or(chunk.len());
        if self.line.len() + length > self.limits.event_bytes {
            return Err(Error::LongLine);
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

    fn consume(&mut self, chunk: &mut &[u8], bytes: usize) -> Result<(), Error> {
        *chunk = &chunk[bytes..];
        self.total_bytes = self.total_bytes.saturating_add(bytes);
        let is_long = |max_bytes| self.total_bytes > max_bytes;
        if self.limits.stream_bytes.is_some_and(is_long) {
            return Err(Error::LongStream);
        }
        let document_bytes = self.document.as_ref().map_or(0, Vec::len);
        if self.limits.stream_bytes.is_none() && document_bytes > self.limits.event_bytes {
            return Err(Error::LongStream);
        }
        Ok(())
    }

    fn end_line(&mut self, bytes: Vec<u8>) -> Result<Option<Event>, Error> {
        let line = String::from_utf8(bytes).map_err(|_| Error::NotUtf8)?;
        let is_first = !self.has_lines;
        let text = match line.strip_prefix(BYTE_ORDER_MARK) {
            Some(text) if is_first => text,
            Some(_) | None => line.as_str(),
        };
        if text.is_empty() {
            return Ok(self.dispatch());
        }
        self.has_lines = true;
        if is_first && text.trim_start().starts_with(['{', '[', '<']) {
            self.document = Some(format!("{text}\n").into_bytes());
            return Ok(None);
        }
        self.field(text)?;
        Ok(None)
    }

    fn field(&mut self, line: &str) -> Result<(), Error> {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => self.add_data(value)?,
            "event" => value.clone_into(&mut self.event.name),
            "id" => value.clone_into(&mut self.event.id),
            // Not in the standard; llama.cpp reports a failure this way.
            "error" => {
                name.clone_into(&mut self.event.name);
                self.add_data(value)?;
            }
            // A comment, a retry hint, or an unknown field.
            _ => {}
        }
        Ok(())
    }

    fn add_data(&mut self, value: &str) -> Result<(), Error> {
        if std::mem::replace(&mut self.has_data, true) {
            self.event.data.push('\n');
        }
        if self.event.data.len() + value.len() > self.limits.event_bytes {
            return Err(Error::LongEvent);
        }
        self.event.data.push_str(value);
        Ok(())
    }

    fn dispatch(&mut self) -> Option<Event> {
        let event = std::mem::take(&mut self.event);
        std::mem::take(&mut self.has_data).then_some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        event_bytes: 64,
        stream_bytes: Some(256),
    };

    fn read(bytes: &[u8], chunk_bytes: usize) -> Result<Vec<String>, Error> {
        let mut reader = Reader::new(LIMITS);
        let mut events = Vec::new();
        for mut chunk in bytes.chunks(chunk_bytes) {
            while let Some(event) = reader.next(&mut chunk)? {
                events.push(shown(&event));
            }
        }
        match reader.finish()? {
            Remainder::Event(event) => {
                events.extend(event.map(|event| format!("rest {}", event.data)));
            }
            Remainder::Document(document) => {
                events.push(format!("document {}", String::from_utf8(document).unwrap()));
            }
        }
        Ok(events)
    }

    fn shown(event: &Event) -> String {
        let marks = [("event", &event.name), ("id", &event.id)];
        let marks = marks.iter().filter(|(_, value)| !value.is_empty());
        let marks: String = marks
            .map(|(name, value)| format!("{name}={value} "))
            .collect();
        format!("{marks}{}", event.data)
    }

    fn check(stream: &str, expected: &[&str]) {
        for chunk_bytes in [1, 2, 3, 7, stream.len().max(1)] {
            let events = read(stream.as_bytes(), chunk_bytes).unwrap();
            assert_eq!(events, expected, "{stream:?} in chunks of {chunk_bytes}");
        }
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
        check("data: 完成\n\ndata: half", &["完成", "rest half"]);
        check(": heartbeat\n\ndata: a\n\n:\n\n", &["a"]);
        check("\u{feff}data: a\n\n", &["a"]);
        check("\n\n\n", &[]);
        check("", &[]);
    }

    #[test]
    fn names_and_ids_belong_to_one_event() {
        check(
            "event: ping\nid: 7\nretry: 10\ndata: a\n\ndata: b\n\n",
            &["event=ping id=7 a", "b"],
        );
        check("event: tool\nid: 7\n\ndata: a\n\n", &["a"]);
        check(
            "event: error\ndata: a\n\ndata: b\n\n",
            &["event=error a", "b"],
        );
        check("error: {}\n\n", &["event=error {}"]);
    }

    #[test]
    fn a_document_is_kept_whole() {
        check("{\n  \"a\": 1\n}\n", &["document {\n  \"a\": 1\n}\n"]);
        check("<html>\n\ndata: a\n\n", &["document <html>\n\ndata: a\n\n"]);
        check("{}", &["document {}\n"]);
        check("data: {\n\n", &["{"]);
    }

    #[test]
    fn every_buffer_has_a_limit() {
        let long = "a".repeat(65);
        let lines = format!("data: {}\n", "a".repeat(40)).repeat(2);
        let comments = ": heartbeat\n".repeat(30);
        let document = format!("{{\n{}", "a\n".repeat(200));
        for (stream, expected) in [
            (long, Error::LongLine),
            (lines, Error::LongEvent),
            (comments, Error::LongStream),
            (document, Error::LongStream),
        ] {
            for chunk_bytes in [1, 7, stream.len()] {
                let error = read(stream.as_bytes(), chunk_bytes).unwrap_err();
                assert_eq!(error, expected, "{stream:?}");
            }
        }
        assert_eq!(read(b"data: \xff\n", 3), Err(Error::NotUtf8));
    }

    #[test]
    fn an_endless_stream_is_read_and_a_document_on_it_is_limited() {
        let limits = Limits {
            stream_bytes: None,
            ..LIMITS
        };
        let mut reader = Reader::new(limits);
        for _ in 0..100 {
            let mut chunk: &[u8] = b"data: a\n\n";
            assert!(reader.next(&mut chunk).unwrap().is_some());
        }
        let mut reader = Reader::new(limits);
        let read = (0..100).find_map(|_| reader.next(&mut b"{ document\n".as_slice()).err());
        assert_eq!(read, Some(Error::LongStream));
    }
}
