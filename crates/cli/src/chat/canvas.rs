//! The terminal: lines that stay, and below them a live area that is redrawn.
//!
//! The live area is erased and drawn again in one write, so that lines which arrive while the user
//! types appear above the input and never inside it.

use std::io::Write;

use sortie_text::columns;

/// Begins and ends an update that the terminal shows at once; terminals without it ignore it.
const BEGIN_UPDATE: &str = "\u{1b}[?2026h\u{1b}[?25l";
const END_UPDATE: &str = "\u{1b}[?25h\u{1b}[?2026l";
/// Bracketed paste, so that pasted line ends do not submit the input.
const PASTE_ON: &str = "\u{1b}[?2004h";
const PASTE_OFF: &str = "\u{1b}[?2004l";

/// The live area: its lines, and the row and column of the cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) lines: Vec<String>,
    pub(super) cursor: (usize, usize),
}

/// Draws on a terminal.
#[derive(Debug)]
pub(super) struct Canvas<W> {
    out: W,
    columns: usize,
    rows: usize,
    /// The live area on the screen.
    drawn: Frame,
    /// Lines to print above the live area with the next drawing.
    pending: Vec<String>,
    /// Whether the terminal must be drawn although the frame is the same.
    is_stale: bool,
}

impl<W: Write> Canvas<W> {
    /// Takes over a terminal of this size.
    pub(super) fn new(out: W, (rows, columns): (u16, u16)) -> Self {
        let mut canvas = Self {
            out,
            columns: usize::from(columns),
            rows: usize::from(rows),
            drawn: Frame::default(),
            pending: Vec::new(),
            is_stale: true,
        };
        canvas.write(PASTE_ON);
        canvas
    }

    /// Returns the columns that a line may have. The last column stays free: some terminals wrap
    /// when it is written.
    pub(super) fn width(&self) -> usize {
        self.columns.saturating_sub(1).max(16)
    }

    /// Returns the rows of the terminal.
    pub(super) fn height(&self) -> usize {
        self.rows.max(4)
    }

    /// Adapts to another size. Terminals reflow lines that are wider than the new width, so the live
    /// area may occupy more rows than before.
    pub(super) fn resize(&mut self, (rows, columns): (u16, u16)) {
        if (self.rows, self.columns) != (usize::from(rows), usize::from(columns)) {
            self.rows = usize::from(rows);
            self.columns = usize::from(columns);
        }
        self.is_stale = true;
    }

    /// Prints lines that stay, above the live area.
    pub(super) fn print(&mut self, lines: impl IntoIterator<Item = String>) {
        self.pending.extend(lines);
    }

    /// Draws the live area, after the lines that were printed.
    pub(super) fn draw(&mut self, mut frame: Frame) {
        let too_many = frame.lines.len().saturating_sub(self.height() - 1);
        frame.lines.drain(..too_many);
        frame.cursor.0 = frame.cursor.0.saturating_sub(too_many);
        if self.pending.is_empty() && !self.is_stale && frame == self.drawn {
            return;
        }
        let mut text = BEGIN_UPDATE.to_owned();
        text.push_str(&self.erasure());
        for line in self.pending.drain(..) {
            text.push_str(&line);
            text.push('\n');
        }
        text.push_str(&frame.lines.join("\n"));
        let below = frame.lines.len().saturating_sub(frame.cursor.0 + 1);
        if below > 0 {
            text.push_str(&format!("\u{1b}[{below}A"));
        }
        text.push('\r');
        if frame.cursor.1 > 0 {
            text.push_str(&format!("\u{1b}[{}C", frame.cursor.1));
        }
        text.push_str(END_UPDATE);
        self.write(&text);
        self.drawn = frame;
        self.is_stale = false;
    }

    /// Erases the live area and prints what is pending, before the program leaves.
    pub(super) fn finish(&mut self) {
        let mut text = self.erasure();
        for line in self.pending.drain(..) {
            text.push_str(&line);
            text.push('\n');
        }
        text.push_str(PASTE_OFF);
        self.write(&text);
        self.drawn = Frame::default();
    }

    /// Rings the bell and sends a notification to terminals that show them (OSC 9).
    pub(super) fn notify(&mut self, words: &str) {
        self.write(&format!("\u{1b}]9;{words}\u{7}\u{7}"));
    }

    /// Clears the screen.
    pub(super) fn clear(&mut self) {
        self.write("\u{1b}[H\u{1b}[2J");
        self.drawn = Frame::default();
        self.is_stale = true;
    }

    /// Returns what moves the cursor to the first row of the live area and erases from there.
    fn erasure(&self) -> String {
        let height = |line: &String| {
            let wide = columns(&console::strip_ansi_codes(line));
            wide.max(1).div_ceil(self.columns.max(1))
        };
        let above: usize = self
            .drawn
            .lines
            .iter()
            .take(self.drawn.cursor.0)
            .map(height)
            .sum();
        let up = above + self.drawn.cursor.1 / self.columns.max(1);
        let up = match up {
            0 => String::new(),
            up => format!("\u{1b}[{up}A"),
        };
        format!("\r{up}\u{1b}[J")
    }

    fn write(&mut self, text: &str) {
        // If the terminal is gone, the keyboard reports its end.
        self.out.write_all(text.as_bytes()).ok();
        self.out.flush().ok();
    }
}

/// Switches to the alternate screen, which leaves the lines of the shell as they are, and back.
const FULL_ON: &str = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[2J";
const FULL_OFF: &str = "\u{1b}[?25h\u{1b}[?1049l";

/// A terminal that the program fills from edge to edge until this value is dropped.
#[derive(Debug)]
pub(crate) struct FullScreen<W: Write> {
    out: W,
    size: (u16, u16),
    drawn: Vec<String>,
}

impl<W: Write> FullScreen<W> {
    /// Takes over a terminal of this many rows and columns.
    pub(crate) fn new(out: W, size: (u16, u16)) -> Self {
        let mut full = Self {
            out,
            size,
            drawn: Vec::new(),
        };
        full.write(FULL_ON);
        full
    }

    /// Returns the rows, and the columns that a line may have: the last column stays free.
    pub(crate) fn room(&self) -> (usize, usize) {
        let (rows, columns) = self.size;
        let columns = usize::from(columns).saturating_sub(1).max(16);
        (usize::from(rows).max(6), columns)
    }

    /// Adapts to another size, and draws everything anew with the next drawing.
    pub(crate) fn resize(&mut self, size: (u16, u16)) {
        self.size = size;
        self.drawn.clear();
        self.write("\u{1b}[2J");
    }

    /// Draws the rows that have changed, in one write. Missing rows are empty.
    pub(crate) fn draw(&mut self, mut lines: Vec<String>) {
        let (rows, _) = self.room();
        lines.resize(rows, String::new());
        let mut text = String::new();
        for (row, line) in lines.iter().enumerate() {
            if self.drawn.get(row) != Some(line) {
                text.push_str(&format!("\u{1b}[{};1H{line}\u{1b}[0m\u{1b}[K", row + 1));
            }
        }
        if !text.is_empty() {
            self.write(&format!("\u{1b}[?2026h{text}\u{1b}[?2026l"));
        }
        self.drawn = lines;
    }

    /// Rings the bell and sends a notification to terminals that show them (OSC 9).
    pub(crate) fn notify(&mut self, words: &str) {
        self.write(&format!("\u{1b}]9;{words}\u{7}\u{7}"));
    }

    fn write(&mut self, text: &str) {
        // If the terminal is gone, the keyboard reports its end.
        self.out.write_all(text.as_bytes()).ok();
        self.out.flush().ok();
    }
}

impl<W: Write> Drop for FullScreen<W> {
    fn drop(&mut self) {
        self.write(FULL_OFF);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_screen_draws_only_the_rows_that_changed() {
        let mut bytes = Vec::new();
        {
            let mut full = FullScreen::new(&mut bytes, (6, 20));
            full.draw(vec!["one".to_owned(), "two".to_owned()]);
            full.draw(vec!["one".to_owned(), "three".to_owned()]);
        }
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.matches("one").count(), 1, "{text:?}");
        assert!(text.contains("\u{1b}[2;1Hthree"), "{text:?}");
        assert!(text.ends_with(FULL_OFF), "{text:?}");
    }
}
