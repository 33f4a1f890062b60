//! Parses server-sent events, without I/O and with a bound.

/// The longest event. Events of the server are far below.
pub(super) const MAX_EVENT_BYTES: usize = 16 << 20;

/// One event as it was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// The id to resume after; empty if the event has none.
    pub(super) id: String,
    /// The data.
    pub(super) data: String,
}

/// An event is too long or not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

/// Collects bytes into events.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    line: Vec<u8>,
    event: Sent,
    has_data: bool,
    after_return: bool,
}

impl Decoder {
    /// Returns the events that these bytes complete.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Sent>, Unreadable> {
        let mut whole = Vec::new();
        for byte in bytes {
            let after_return = std::mem::replace(&mut self.after_return, *byte == b'\r');
            match byte {
                // The second half of a CRLF.
                b'\n' if after_return => {}
                b'\n' | b'\r' => whole.extend(self.end_line()?),
                byte => self.line.push(*byte),
            }
            if self.line.len() + self.event.data.len() > MAX_EVENT_BYTES {
                return Err(Unreadable);
            }
        }
        Ok(whole)
    }

    fn end_line(&mut self) -> Result<Option<Sent>, Unreadable> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return Ok(std::mem::take(&mut self.has_data).then_some(event));
        }
        let line = String::from_utf8(line).map_err(|_| Unreadable)?;
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            "id" => value.clone_into(&mut self.event.id),
            // A comment, the type, which the data has too, or an unknown field.
            _ => {}
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str)]) {
        // The events are the same however the bytes are split.
        for size in [1, 2, 3, 7, text.len().max(1)] {
            let mut decoder = Decoder::default();
            let mut events = Vec::new();
            for part in text.as_bytes().chunks(size) {
                events.extend(decoder.take(part).unwrap());
            }
            let events: Vec<(&str, &str)> = events
                .iter()
                .map(|event| (event.id.as_str(), event.data.as_str()))
                .collect();
            assert_eq!(events, expected, "{text:?} in parts of {size}");
        }
    }

    #[test]
    fn events_are_parsed_with_every_line_ending() {
        check("id: a-1\ndata: {}\n\n", &[("a-1", "{}")]);
        check("data:{}\r\ndata: x\r\n\r\n", &[("", "{}\nx")]);
        check(
            "data: a\rdata: b\r\rdata: c\n\n",
            &[("", "a\nb"), ("", "c")],
        );
        check(": heartbeat\n\n", &[]);
        check("event: tool\nid: 7\n\n", &[]);
        check("data\n\n", &[("", "")]);
        check("data: 完成\n\ndata: half", &[("", "完成")]);
    }

    #[test]
    fn endless_and_invalid_events_are_refused() {
        let mut decoder = Decoder::default();
        let part = vec![b'x'; 1 << 20];
        let mut refused = false;
        for _ in 0..=MAX_EVENT_BYTES >> 20 {
            refused |= decoder.take(&part).is_err();
        }
        assert!(refused);
        assert_eq!(Decoder::default().take(b"data: \xff\n"), Err(Unreadable));
    }
}
