//! Decodes the bytes of a terminal into keys.

/// Start and end of a bracketed paste, after `ESC [`.
const PASTE_START: &str = "200~";
const PASTE_END: &[u8] = b"\x1b[201~";
/// The longest paste, in bytes; the rest is dropped.
const MAX_PASTE_BYTES: usize = 1 << 20;

/// The longest report of a terminal, in bytes.
const MAX_REPORT_BYTES: usize = 256;

const ESCAPE: u8 = 0x1b;

/// A key press.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    /// Text that was pasted, with its line ends.
    Paste(String),
    Enter,
    /// A line end within the input: Alt-Enter or Ctrl-J.
    Newline,
    Tab,
    BackTab,
    Backspace,
    Delete,
    Left,
    Right,
    WordLeft,
    WordRight,
    Up,
    Down,
    Home,
    End,
    PageUp,
    PageDown,
    Escape,
    /// Ctrl with a letter, in lower case.
    Ctrl(char),
}

/// The state between two reads: an incomplete character or sequence.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    bytes: Vec<u8>,
    /// The text of a paste whose end has not arrived.
    paste: Option<Vec<u8>>,
}

impl Decoder {
    /// Adds bytes and returns the complete keys.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.bytes.extend_from_slice(bytes);
        let mut keys = Vec::new();
        while let Some((used, key)) = self.step() {
            self.bytes.drain(..used);
            keys.extend(key);
        }
        keys
    }

    /// Whether the input ends in an escape character, which is a key of its own or the beginning of
    /// a sequence.
    pub(crate) fn has_pending_escape(&self) -> bool {
        self.paste.is_none() && self.bytes == [ESCAPE]
    }

    /// Decides that a pending escape character is the key Escape.
    pub(crate) fn resolve_escape(&mut self) -> Option<Key> {
        self.has_pending_escape().then(|| {
            self.bytes.clear();
            Key::Escape
        })
    }

    /// Returns the number of bytes of the next key and the key, if they have all arrived.
    fn step(&mut self) -> Option<(usize, Option<Key>)> {
        if self.paste.is_some() {
            return self.pasted();
        }
        let first = *self.bytes.first()?;
        match first {
            ESCAPE => self.escape(),
            b'\r' => Some((1, Some(Key::Enter))),
            b'\n' => Some((1, Some(Key::Newline))),
            b'\t' => Some((1, Some(Key::Tab))),
            0x08 | 0x7f => Some((1, Some(Key::Backspace))),
            0x01..=0x1a => Some((1, Some(Key::Ctrl(char::from(first + b'a' - 1))))),
            0x00 | 0x1c..=0x1f => Some((1, None)),
            _ => self.character(),
        }
    }

    fn character(&self) -> Option<(usize, Option<Key>)> {
        let part = self.bytes.get(..self.bytes.len().min(4))?;
        let valid = match std::str::from_utf8(part) {
            Ok(text) => text,
            Err(error) if error.valid_up_to() > 0 => {
                std::str::from_utf8(part.get(..error.valid_up_to())?).unwrap_or_default()
            }
            // The rest of the character has not arrived.
            Err(error) if error.error_len().is_none() => return None,
            Err(_) => return Some((1, None)),
        };
        let character = valid.chars().next()?;
        Some((character.len_utf8(), Some(Key::Char(character))))
    }

    fn escape(&mut self) -> Option<(usize, Option<Key>)> {
        match *self.bytes.get(1)? {
            b'[' => self.control_sequence(),
            b'O' => {
                let key = match *self.bytes.get(2)? {
                    b'A' => Some(Key::Up),
                    b'B' => Some(Key::Down),
                    b'C' => Some(Key::Right),
                    b'D' => Some(Key::Left),
                    b'H' => Some(Key::Home),
                    b'F' => Some(Key::End),
                    _ => None,
                };
                Some((3, key))
            }
            b'\r' | b'\n' => Some((2, Some(Key::Newline))),
            b']' => self.report(),
            b'b' => Some((2, Some(Key::WordLeft))),
            b'f' => Some((2, Some(Key::WordRight))),
            0x7f => Some((2, Some(Key::Ctrl('w')))),
            ESCAPE => Some((1, Some(Key::Escape))),
            _ => Some((2, None)),
        }
    }

    /// Skips what a terminal reports about itself, `ESC ] text BEL`, or with `ESC \` at its end: a
    /// reply that arrives late is not typed.
    fn report(&self) -> Option<(usize, Option<Key>)> {
        let text = self.bytes.get(2..)?;
        // A report begins with its number; otherwise the user has typed Alt-].
        if !text.first()?.is_ascii_digit() {
            return Some((2, None));
        }
        let Some(end) = text.iter().position(|byte| matches!(*byte, 0x07 | ESCAPE)) else {
            // What is so long is not a report.
            return (text.len() > MAX_REPORT_BYTES).then_some((2, None));
        };
        let ends_with_two = text.get(end) == Some(&ESCAPE);
        if ends_with_two && text.get(end + 1).is_none() {
            return None;
        }
        Some((2 + end + 1 + usize::from(ends_with_two), None))
    }

    /// Decodes `ESC [ parameters final`.
    fn control_sequence(&mut self) -> Option<(usize, Option<Key>)> {
        let end = self
            .bytes
            .iter()
            .skip(2)
            .position(|byte| matches!(byte, b'@'..=b'~'))?
            + 3;
        let sequence = String::from_utf8_lossy(self.bytes.get(2..end)?).into_owned();
        if sequence == PASTE_START {
            self.paste = Some(Vec::new());
            return Some((end, None));
        }
        let key = match sequence.as_str() {
            "A" => Some(Key::Up),
            "B" => Some(Key::Down),
            "C" => Some(Key::Right),
            "D" => Some(Key::Left),
            "H" | "1~" | "7~" => Some(Key::Home),
            "F" | "4~" | "8~" => Some(Key::End),
            "5~" => Some(Key::PageUp),
            "6~" => Some(Key::PageDown),
            "Z" => Some(Key::BackTab),
            "3~" => Some(Key::Delete),
            "1;5C" | "1;3C" => Some(Key::WordRight),
            "1;5D" | "1;3D" => Some(Key::WordLeft),
            // Shift-Enter of terminals with the keyboard protocol of kitty or xterm.
            "13;2u" | "27;2;13~" => Some(Key::Newline),
            _ => None,
        };
        Some((end, key))
    }

    fn pasted(&mut self) -> Option<(usize, Option<Key>)> {
        let end = self
            .bytes
            .windows(PASTE_END.len())
            .position(|window| window == PASTE_END);
        // Without its end, the last bytes may be the beginning of the end.
        let text_end = end.unwrap_or(self.bytes.len().saturating_sub(PASTE_END.len() - 1));
        let text = self.bytes.get(..text_end)?.to_vec();
        let paste = self.paste.as_mut()?;
        let room = MAX_PASTE_BYTES.saturating_sub(paste.len());
        paste.extend(text.iter().take(room));
        match end {
            Some(end) => {
                let paste = self.paste.take().unwrap_or_default();
                let text = String::from_utf8_lossy(&paste)
                    .replace("\r\n", "\n")
                    .replace('\r', "\n");
                Some((end + PASTE_END.len(), Some(Key::Paste(text))))
            }
            None if text_end > 0 => Some((text_end, None)),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(chunks: &[&str]) -> Vec<Key> {
        let mut decoder = Decoder::default();
        chunks
            .iter()
            .flat_map(|chunk| decoder.push(chunk.as_bytes()))
            .collect()
    }

    #[test]
    fn bytes_become_keys() {
        assert_eq!(
            keys(&["a删\r\x1b\r\n\x1b[A\x1bOB\x1b[1;5D\x7f\x03\x1b[3~"]),
            [
                Key::Char('a'),
                Key::Char('删'),
                Key::Enter,
                Key::Newline,
                Key::Newline,
                Key::Up,
                Key::Down,
                Key::WordLeft,
                Key::Backspace,
                Key::Ctrl('c'),
                Key::Delete,
            ]
        );
    }

    #[test]
    fn split_characters_and_sequences_are_joined() {
        let mut decoder = Decoder::default();
        let bytes = "删\u{1b}[A".as_bytes();
        let keys: Vec<Key> = bytes
            .iter()
            .flat_map(|byte| decoder.push(&[*byte]))
            .collect();
        assert_eq!(keys, [Key::Char('删'), Key::Up]);
    }

    #[test]
    fn a_paste_is_one_key_with_its_line_ends() {
        assert_eq!(
            keys(&["x\x1b[200~one\r\ntwo\x1b[A", "three\x1b[20", "1~y"]),
            [
                Key::Char('x'),
                Key::Paste("one\ntwo\u{1b}[Athree".to_owned()),
                Key::Char('y'),
            ]
        );
    }

    #[test]
    fn a_late_reply_of_the_terminal_is_not_typed() {
        assert_eq!(
            keys(&[
                "a\x1b]11;rgb:ff",
                "ff/0/0\x1b\\b\x1b]11;rgb:0/0/0\x07c\x1b[?62c"
            ]),
            [Key::Char('a'), Key::Char('b'), Key::Char('c')]
        );
    }

    #[test]
    fn a_lone_escape_is_a_key_only_once_it_is_resolved() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.push(b"\x1b"), []);
        assert!(decoder.has_pending_escape());
        assert_eq!(decoder.resolve_escape(), Some(Key::Escape));
        assert_eq!(decoder.push(b"\x1b\x1b[A"), [Key::Escape, Key::Up]);
    }
}
