//! The keyboard of the user at the terminal, read key by key.
//!
//! A terminal delivers whole lines by default, which hides when a line was begun. A prompt can be
//! withdrawn while the user types, so the first key of a line matters: the line belongs to the
//! prompt that was on the screen at that moment. From the first prompt until the command ends, this
//! module therefore reads and echoes single keys; Ctrl-C still raises a signal.

use std::io::{self, Read as _, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use sortie_base::hidden::is_hidden;
use sortie_text::columns;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tokio::sync::mpsc;

use crate::theme;

/// The longest line: as long as an answer over the API. Further characters are dropped.
const MAX_LINE_CHARS: usize = 20_000;
/// Chunks of keys buffered for the prompt; the reader blocks when there are more.
const CHUNKS: usize = 16;
/// The most bytes per read.
const CHUNK_BYTES: usize = 1_024;

const ESCAPE: u8 = 0x1b;
const CTRL_D: u8 = 0x04;
const CTRL_U: u8 = 0x15;
const CTRL_W: u8 = 0x17;
const BACKSPACE: [u8; 2] = [0x08, 0x7f];

/// Asks for the background (OSC 11) and then for what the terminal is (DA1), which every terminal
/// answers at once, also one that does not know the first question.
const ASK_BACKGROUND: &[u8] = b"\x1b]11;?\x1b\\\x1b[c";
/// How long a terminal may take to reply; a later reply is ignored.
const REPLY_TIME: Duration = Duration::from_millis(150);

/// Bytes kept that were typed while no keyboard was open.
const MAX_BACKLOG_BYTES: usize = 64 * 1024;

/// The one reader of stdin in this process: a blocking read cannot be cancelled, so a second reader
/// would lose what the first one has begun to read.
static READER: Mutex<Reader> = Mutex::new(Reader {
    sink: None,
    backlog: Vec::new(),
    early_bytes: 0,
    state: ReaderState::NotStarted,
});

#[derive(Debug)]
struct Reader {
    /// The keyboard that is open.
    sink: Option<mpsc::Sender<Vec<u8>>>,
    /// Input that arrived while none was.
    backlog: Vec<u8>,
    /// Bytes that were typed before an editor read keys, while the terminal turned Enter into a line
    /// end. They are turned back.
    early_bytes: u64,
    state: ReaderState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReaderState {
    NotStarted,
    Reads,
    /// Stdin has ended.
    Closed,
}

/// The mode of the terminal while keys are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    /// Single keys for a prompt.
    Prompt,
    /// Single keys for an editor, which distinguishes Enter from Ctrl-J and uses Ctrl-S and Ctrl-V.
    Editor,
}

/// The keyboard, read until this value is dropped.
#[derive(Debug)]
pub(crate) struct Keyboard {
    keys: Keys,
    chunks: mpsc::Receiver<Vec<u8>>,
    /// The previous terminal settings; `None` if they could not be changed, so that the terminal
    /// still echoes.
    before: Option<Termios>,
    /// SIGCONT: the shell may have changed the terminal while the process was stopped (Ctrl-Z, `fg`).
    continued: Option<Stream>,
}

impl Keyboard {
    /// Starts to read keys. Discards input that was typed before.
    pub(crate) fn open() -> Self {
        let before = take_keys();
        reader().backlog.clear();
        Self::with(Keys::Prompt, before)
    }

    /// Starts to read keys for an editor. Input that was typed before is kept.
    pub(crate) fn open_for_editing() -> Self {
        let before = set_keys(Keys::Editor, OptionalActions::Now);
        if before.is_ok() {
            reader().early_bytes = rustix::io::ioctl_fionread(io::stdin()).unwrap_or(0);
            if reader().state == ReaderState::NotStarted && theme::take_question() {
                ask_background();
            }
        }
        Self::with(Keys::Editor, before)
    }

    fn with(keys: Keys, before: io::Result<Termios>) -> Self {
        if let Err(error) = &before {
            tracing::debug!(%error, "the terminal keeps handing over whole lines");
        }
        let chunks = subscribe();
        Self {
            keys,
            chunks,
            before: before.ok(),
            continued: signal(SignalKind::from_raw(Signal::CONT.as_raw())).ok(),
        }
    }

    /// Returns a keyboard whose keys a test sends.
    #[cfg(test)]
    pub(crate) const fn of(chunks: mpsc::Receiver<Vec<u8>>) -> Self {
        Self {
            keys: Keys::Prompt,
            chunks,
            before: None,
            continued: None,
        }
    }

    /// Whether this program has to echo typed characters.
    pub(crate) const fn needs_echo(&self) -> bool {
        self.before.is_some()
    }

    /// Returns the next keys; `None` if the terminal was closed. Cancel-safe: no key is lost if the
    /// future is dropped.
    pub(crate) async fn keys(&mut self) -> Option<Vec<u8>> {
        loop {
            let Self {
                chunks, continued, ..
            } = &mut *self;
            tokio::select! {
                biased;
                () = resumed(continued.as_mut()) => {}
                keys = chunks.recv() => return keys,
            }
            if self.needs_echo()
                && let Err(error) = set_keys(self.keys, OptionalActions::Now)
            {
                tracing::debug!(%error, "the terminal keeps handing over whole lines");
            }
        }
    }

    /// Returns keys that have already arrived.
    pub(crate) fn at_hand(&mut self) -> Option<Vec<u8>> {
        self.chunks.try_recv().ok()
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        if let Some(before) = &self.before
            && let Err(error) = tcsetattr(io::stdin(), OptionalActions::Now, before)
        {
            tracing::debug!(%error, "the terminal mode could not be restored");
        }
    }
}

/// Asks the terminal for the colour of its background, before the reader of stdin starts. Keys that
/// arrive meanwhile are kept.
fn ask_background() {
    let mut stdout = io::stdout().lock();
    if stdout.write_all(ASK_BACKGROUND).is_err() || stdout.flush().is_err() {
        return;
    }
    drop(stdout);
    let until = Instant::now() + REPLY_TIME;
    let mut typed = Vec::new();
    let mut chunk = [0; CHUNK_BYTES];
    while !replies(&typed).1 {
        let left = until.saturating_duration_since(Instant::now());
        let Ok(time) = Timespec::try_from(left) else {
            break;
        };
        let stdin = io::stdin();
        let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
        if !matches!(poll(&mut polled, Some(&time)), Ok(1..)) {
            break;
        }
        match rustix::io::read(io::stdin(), &mut chunk) {
            Ok(read @ 1..) => typed.extend(chunk.iter().take(read)),
            Ok(_) | Err(_) => break,
        }
    }
    let mut reader = reader();
    let early = usize::try_from(reader.early_bytes).unwrap_or(typed.len());
    let early = early.min(typed.len());
    reader.early_bytes -= early as u64;
    let typed_early = typed.iter_mut().take(early);
    for key in typed_early.filter(|key| **key == b'\n') {
        *key = b'\r';
    }
    drop(reader);
    let (keys, _) = replies(&typed);
    if !keys.is_empty() {
        put_back(keys);
    }
}

/// Takes the replies of the terminal out of what arrived. Returns the rest, and whether the last
/// reply has arrived: every terminal answers the second question.
fn replies(bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut keys = Vec::new();
    let mut is_complete = false;
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        if let Some(reply) = rest.strip_prefix(b"\x1b]11;")
            && let Some(end) = reply.iter().position(|byte| matches!(*byte, 0x07 | ESCAPE))
        {
            let (colour, after) = reply.split_at(end);
            theme::take_reply(&String::from_utf8_lossy(colour));
            rest = after.strip_prefix(b"\x1b\\").unwrap_or(&after[1..]);
        } else if let Some(reply) = rest.strip_prefix(b"\x1b[?")
            && let Some(end) = reply.iter().position(|byte| matches!(byte, b'@'..=b'~'))
        {
            is_complete = true;
            rest = reply.get(end + 1..).unwrap_or_default();
        } else {
            keys.push(*first);
            rest = after;
        }
    }
    (keys, is_complete)
}

/// Waits for SIGCONT: the process was stopped and continues.
async fn resumed(continued: Option<&mut Stream>) {
    if let Some(stream) = continued
        && stream.recv().await.is_some()
    {
        return;
    }
    std::future::pending::<()>().await;
}

/// Switches the terminal to single keys, discards pending input, and returns the previous settings.
fn take_keys() -> io::Result<Termios> {
    set_keys(Keys::Prompt, OptionalActions::Flush)
}

fn reader() -> MutexGuard<'static, Reader> {
    READER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns keys that were read and not used; the next keyboard for an editor reads them again.
pub(crate) fn put_back(keys: Vec<u8>) {
    let mut reader = reader();
    let later = std::mem::replace(&mut reader.backlog, keys);
    reader.backlog.extend(later);
}

/// Makes a new keyboard the receiver of stdin, and starts the reader if it does not run.
fn subscribe() -> mpsc::Receiver<Vec<u8>> {
    let (sender, chunks) = mpsc::channel(CHUNKS);
    let mut reader = reader();
    if !reader.backlog.is_empty() {
        let backlog = std::mem::take(&mut reader.backlog);
        // The channel is new, so it has room.
        sender.try_send(backlog).ok();
    }
    match reader.state {
        ReaderState::NotStarted => {
            reader.state = ReaderState::Reads;
            reader.sink = Some(sender);
            std::thread::spawn(read_stdin);
        }
        ReaderState::Reads => reader.sink = Some(sender),
        // The dropped sender closes the channel.
        ReaderState::Closed => {}
    }
    chunks
}

/// Reads stdin as long as the process lives.
fn read_stdin() {
    let mut chunk = [0; CHUNK_BYTES];
    loop {
        let read = match io::stdin().lock().read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        let mut keys = chunk.get(..read).unwrap_or_default().to_vec();
        let sink = {
            let mut reader = reader();
            let early = usize::try_from(reader.early_bytes)
                .unwrap_or(read)
                .min(read);
            reader.early_bytes -= early as u64;
            let typed_early = keys.iter_mut().take(early);
            for key in typed_early.filter(|key| **key == b'\n') {
                *key = b'\r';
            }
            reader.sink.clone()
        };
        let unsent = match sink {
            Some(sink) => sink.blocking_send(keys).err().map(|unsent| unsent.0),
            None => Some(keys),
        };
        if let Some(keys) = unsent {
            let mut reader = reader();
            if reader.backlog.len() + keys.len() <= MAX_BACKLOG_BYTES {
                reader.backlog.extend(keys);
            }
        }
    }
    let mut reader = reader();
    reader.state = ReaderState::Closed;
    reader.sink = None;
}

fn set_keys(mode: Keys, actions: OptionalActions) -> io::Result<Termios> {
    let before = tcgetattr(io::stdin())?;
    let mut keys = before.clone();
    keys.local_modes
        .remove(LocalModes::ICANON | LocalModes::ECHO);
    if mode == Keys::Editor {
        keys.local_modes.remove(LocalModes::IEXTEN);
        keys.input_modes
            .remove(InputModes::ICRNL | InputModes::IXON);
    }
    keys.special_codes[SpecialCodeIndex::VMIN] = 1;
    keys.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(io::stdin(), actions, &keys)?;
    Ok(before)
}

/// A line that is being typed.
#[derive(Debug, Default)]
pub(crate) struct Line {
    text: String,
    /// The first bytes of an incomplete multi-byte character.
    partial: Vec<u8>,
    sequence: Sequence,
}

/// The position in an escape sequence, for example of an arrow key.
#[derive(Debug, Default, PartialEq, Eq)]
enum Sequence {
    #[default]
    None,
    Begun,
    Parameters,
}

/// The effect of a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pressed {
    /// The line is not complete yet.
    Goes,
    /// The line is complete, with this text.
    Ended(String),
    /// The input is closed (Ctrl-D on an empty line).
    Closed,
}

impl Line {
    /// Whether the line contains any input.
    pub(crate) const fn is_begun(&self) -> bool {
        !self.text.is_empty() || !self.partial.is_empty()
    }

    /// Processes a key; appends what the terminal should echo to `echo`.
    pub(crate) fn press(&mut self, key: u8, echo: &mut String) -> Pressed {
        match (&self.sequence, key) {
            (Sequence::Begun, b'[' | b'O') => self.sequence = Sequence::Parameters,
            (Sequence::Begun, _) => self.sequence = Sequence::None,
            (Sequence::Parameters, b'@'..=b'~') => self.sequence = Sequence::None,
            (Sequence::Parameters, _) => {}
            (Sequence::None, ESCAPE) => self.sequence = Sequence::Begun,
            (Sequence::None, b'\n' | b'\r') => {
                echo.push('\n');
                self.partial.clear();
                return Pressed::Ended(std::mem::take(&mut self.text));
            }
            (Sequence::None, CTRL_D) if !self.is_begun() => return Pressed::Closed,
            (Sequence::None, CTRL_U) => while self.erase(echo).is_some() {},
            (Sequence::None, CTRL_W) => {
                while self.text.ends_with(' ') {
                    self.erase(echo);
                }
                while !self.text.ends_with(' ') && self.erase(echo).is_some() {}
            }
            (Sequence::None, key) if BACKSPACE.contains(&key) => {
                self.erase(echo);
            }
            (Sequence::None, key) => self.add(key, echo),
        }
        Pressed::Goes
    }

    fn add(&mut self, key: u8, echo: &mut String) {
        self.partial.push(key);
        match std::str::from_utf8(&self.partial) {
            Ok(typed) => {
                let is_full = self.text.chars().count() >= MAX_LINE_CHARS;
                let mut seen = typed.chars().filter(|c| !is_full && !is_hidden(*c));
                if let Some(character) = seen.next() {
                    self.text.push(character);
                    echo.push(character);
                }
                self.partial.clear();
            }
            // The character is incomplete: more bytes follow.
            Err(error) if error.error_len().is_none() => {}
            Err(_) => self.partial.clear(),
        }
    }

    fn erase(&mut self, echo: &mut String) -> Option<char> {
        self.partial.clear();
        let erased = self.text.pop()?;
        for _ in 0..columns(erased.encode_utf8(&mut [0; 4])) {
            echo.push_str("\u{8} \u{8}");
        }
        Some(erased)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds keys to a line. Returns the complete lines, with `None` for `Closed`, and the
    /// incomplete rest.
    fn typed(keys: &str) -> (Vec<Option<String>>, String) {
        let (mut line, mut echo, mut lines) = (Line::default(), String::new(), Vec::new());
        for key in keys.bytes() {
            match line.press(key, &mut echo) {
                Pressed::Goes => {}
                Pressed::Ended(text) => lines.push(Some(text)),
                Pressed::Closed => lines.push(None),
            }
        }
        (lines, line.text)
    }

    #[test]
    fn keys_make_lines() {
        for (keys, lines, rest) in [
            ("y\n", vec![Some("y")], ""),
            ("yex\u{7f}s\r", vec![Some("yes")], ""),
            ("\u{7f}\u{7f}n", vec![], "n"),
            ("use git\u{17}jj\n", vec![Some("use jj")], ""),
            ("wrong\u{15}right\nno", vec![Some("right")], "no"),
            ("a\u{1b}[Cb\u{1b}[1;5Dc\u{1b}OP\n", vec![Some("abc")], ""),
            ("删除\u{7f}\n", vec![Some("删")], ""),
            ("y\u{200b}\u{7}\u{4}\n", vec![Some("y")], ""),
            ("\u{4}", vec![None], ""),
        ] {
            let lines: Vec<_> = lines
                .into_iter()
                .map(|line| line.map(str::to_owned))
                .collect();
            assert_eq!(typed(keys), (lines, rest.to_owned()), "{keys:?}");
        }
    }

    #[test]
    fn replies_of_the_terminal_are_no_keys() {
        let (keys, complete) = replies(b"hi\x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\ you\x1b[?62;4c\r");
        assert_eq!((keys.as_slice(), complete), (b"hi you\r".as_slice(), true));
        let (keys, complete) = replies(b"\x1b]11;rgb:0/0/0\x07\x1b[A");
        assert_eq!((keys.as_slice(), complete), (b"\x1b[A".as_slice(), false));
    }

    #[test]
    fn an_erased_line_is_not_begun() {
        let (mut line, mut echo) = (Line::default(), String::new());
        assert!(!line.is_begun());
        line.press(b'n', &mut echo);
        assert!(line.is_begun());
        line.press(0x7f, &mut echo);
        assert!(!line.is_begun());
        assert_eq!(echo, "n\u{8} \u{8}");
    }

    #[test]
    fn lines_are_bounded() {
        let (lines, _) = typed(&("x".repeat(MAX_LINE_CHARS + 5) + "\n"));
        assert_eq!(lines, [Some("x".repeat(MAX_LINE_CHARS))]);
    }
}
