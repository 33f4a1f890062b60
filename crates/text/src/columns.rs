//! Text for terminals: truncated by columns, without escape sequences.

use std::iter::Peekable;
use std::str::Chars;

use sortie_base::hidden::remove_from_prose;
use sortie_base::truncate::ELLIPSIS;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Limit of a control string (a window title, a hyperlink). Without a
/// limit, text that opens one and never closes it would be hidden from the reader.
const MAX_CONTROL_STRING_CHARS: usize = 4_096;

const ESCAPE: char = '\u{1b}';
const BELL: char = '\u{7}';
const STRING_TERMINATOR: char = '\u{9c}';

/// Returns the number of terminal columns of a text.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// Truncates text to `max_columns`, never inside a grapheme, and ends it
/// with `…` if something is missing.
///
/// Pass foreign text through [`one_line`] first: a control character counts as a column here.
pub fn truncate_columns(text: &str, max_columns: usize) -> String {
    if columns(text) <= max_columns {
        return text.to_owned();
    }
    let Some(room) = max_columns.checked_sub(columns(ELLIPSIS)) else {
        return String::new();
    };
    let mut used = 0;
    let kept = text.graphemes(true).take_while(|grapheme| {
        // Neighbours may join to something narrower, never to something wider.
        used += columns(grapheme);
        used <= room
    });
    kept.chain([ELLIPSIS]).collect()
}

/// Truncates or pads text to exactly `exact_columns`, for a cell of a table.
pub fn pad_columns(text: &str, exact_columns: usize) -> String {
    let mut cell = truncate_columns(text, exact_columns);
    let missing = exact_columns.saturating_sub(columns(&cell));
    cell.extend(std::iter::repeat_n(' ', missing));
    cell
}

/// Sanitizes text for one line of a terminal.
///
/// Escape sequences and hidden characters are removed; control characters, line ends and runs of
/// white space become one space; both ends are trimmed.
pub fn one_line(text: &str) -> String {
    let spaced: String = Visible::new(text)
        .map(|character| match character {
            character if character.is_control() || character.is_whitespace() => ' ',
            character => character,
        })
        .collect();
    let mut line = String::with_capacity(text.len());
    let mut gap = false;
    for character in remove_from_prose(&spaced).chars() {
        if character == ' ' {
            gap = true;
            continue;
        }
        if gap && !line.is_empty() {
            line.push(' ');
        }
        gap = false;
        line.push(character);
    }
    line
}

/// Sanitizes text of several lines for a terminal: as [`one_line`], but line ends, tabs
/// and spaces stay.
pub fn strip_sequences(text: &str) -> String {
    remove_from_prose(&Visible::new(text).collect::<String>())
}

/// Iterates over the characters of a text without its terminal escape sequences (ECMA-48).
struct Visible<'a> {
    rest: Peekable<Chars<'a>>,
}

impl<'a> Visible<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            rest: text.chars().peekable(),
        }
    }

    /// Skips what follows an escape character.
    fn skip_escape(&mut self) {
        match self.rest.peek() {
            Some('[') => {
                self.rest.next();
                self.skip_control_sequence();
            }
            Some(']' | 'P' | 'X' | '^' | '_') => {
                self.rest.next();
                self.skip_control_string();
            }
            Some(' '..='/') => {
                self.skip_while(' ', '/');
                self.skip_one('0', '~');
            }
            Some('0'..='~') => {
                self.rest.next();
            }
            Some(_) | None => {}
        }
    }

    /// Parameters, intermediates, and the letter that ends the sequence.
    fn skip_control_sequence(&mut self) {
        self.skip_while('0', '?');
        self.skip_while(' ', '/');
        self.skip_one('@', '~');
    }

    /// Text for the terminal itself, up to its terminator; without one, it is text for the reader.
    fn skip_control_string(&mut self) {
        let mut ahead = self.rest.clone();
        for _ in 0..MAX_CONTROL_STRING_CHARS {
            let ended = match ahead.next() {
                Some(BELL | STRING_TERMINATOR) => true,
                Some(ESCAPE) => ahead.next_if_eq(&'\\').is_some(),
                Some(_) => false,
                None => return,
            };
            if ended {
                self.rest = ahead;
                return;
            }
        }
    }

    fn skip_while(&mut self, first: char, last: char) {
        while self.skip_one(first, last) {}
    }

    fn skip_one(&mut self, first: char, last: char) -> bool {
        self.rest
            .next_if(|character| (first..=last).contains(character))
            .is_some()
    }
}

impl Iterator for Visible<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        loop {
            match self.rest.next()? {
                ESCAPE => self.skip_escape(),
                // The same introducers as single characters.
                '\u{9b}' => self.skip_control_sequence(),
                '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => self.skip_control_string(),
                character => return Some(character),
            }
        }
    }
}
