//! The input line: several lines of text with a cursor, a history and completion.

use sortie_base::hidden::is_hidden;
use sortie_text::columns;

use super::keys::Key;

/// The longest input, in characters: the longest message of the API.
const MAX_CHARS: usize = sortie_core::inbox::MAX_MESSAGE_CHARS;
/// Entries of the history that are kept.
pub(super) const MAX_HISTORY: usize = 500;

/// The text that is being typed.
#[derive(Debug, Default)]
pub(super) struct Editor {
    text: String,
    /// Byte position of the cursor.
    cursor: usize,
    history: Vec<String>,
    /// The entry of the history that is shown, and the draft that it replaced.
    recalled: Option<(usize, String)>,
    completion: Option<Completion>,
}

/// Candidates for the word before the cursor, in turn with each Tab.
#[derive(Debug)]
struct Completion {
    start: usize,
    candidates: Vec<String>,
    next: usize,
}

/// The effect of a key on the input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Edited {
    /// The text or the cursor may have changed.
    Changed,
    /// The text is complete.
    Submitted(String),
    /// Tab: the caller has to provide candidates.
    WantsCompletion,
    /// The key has no meaning here.
    Unused(Key),
}

impl Editor {
    /// Creates an editor with a history, oldest first.
    pub(super) fn new(history: Vec<String>) -> Self {
        Self {
            history,
            ..Self::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.cursor = 0;
        self.recalled = None;
        self.completion = None;
    }

    /// Replaces the text; the cursor is at its end.
    pub(super) fn set(&mut self, text: &str) {
        self.clear();
        self.insert(text);
    }

    /// Returns the word before the cursor and where it starts, for completion.
    pub(super) fn word(&self) -> (usize, &str) {
        let before = self.text.get(..self.cursor).unwrap_or_default();
        let start = last_word(before);
        (start, before.get(start..).unwrap_or_default())
    }

    /// Processes a key.
    pub(super) fn press(&mut self, key: Key) -> Edited {
        if key != Key::Tab && key != Key::BackTab {
            self.completion = None;
        }
        match key {
            Key::Char(character) => self.insert(character.encode_utf8(&mut [0; 4])),
            Key::Paste(text) => self.insert(&text),
            Key::Newline => self.insert("\n"),
            Key::Enter if self.ends_with_backslash() => {
                self.text.pop();
                self.cursor = self.text.len();
                self.insert("\n");
            }
            Key::Enter => return Edited::Submitted(self.submit()),
            Key::Tab if self.cycle(1) => {}
            Key::BackTab if self.cycle(-1) => {}
            Key::Tab => return Edited::WantsCompletion,
            Key::Backspace => self.erase(self.before()),
            Key::Delete => self.erase(self.after()),
            Key::Left | Key::Ctrl('b') => self.cursor = self.before(),
            Key::Right | Key::Ctrl('f') => self.cursor = self.after(),
            Key::WordLeft => self.cursor = self.word_before(),
            Key::WordRight => self.cursor = self.word_after(),
            Key::Home | Key::Ctrl('a') => self.cursor = self.line_start(),
            Key::End | Key::Ctrl('e') => self.cursor = self.line_end(),
            Key::Ctrl('u') => self.erase(self.line_start()),
            Key::Ctrl('k') => self.erase(self.line_end()),
            Key::Ctrl('w') => self.erase(self.word_before()),
            Key::Ctrl('d') if !self.text.is_empty() => self.erase(self.after()),
            Key::Up | Key::Ctrl('p') => self.up(),
            Key::Down | Key::Ctrl('n') => self.down(),
            Key::BackTab | Key::Escape | Key::PageUp | Key::PageDown | Key::Ctrl(_) => {
                return Edited::Unused(key);
            }
        }
        Edited::Changed
    }

    /// Inserts the common beginning of the candidates, or the first one; further Tabs show the others.
    pub(super) fn complete(&mut self, start: usize, candidates: Vec<String>) {
        let typed = self
            .text
            .get(start..self.cursor)
            .unwrap_or_default()
            .to_owned();
        let Some(first) = candidates.first() else {
            return;
        };
        let shared = candidates
            .iter()
            .skip(1)
            .fold(first.as_str(), |shared, other| common_start(shared, other));
        if candidates.len() > 1 && shared.len() > typed.len() {
            let shared = shared.to_owned();
            self.replace(start, &shared);
            return;
        }
        if candidates.len() == 1 {
            let whole = match first.ends_with('/') {
                true => first.clone(),
                false => format!("{first} "),
            };
            self.replace(start, &whole);
            return;
        }
        self.completion = Some(Completion {
            start,
            candidates,
            next: 0,
        });
        self.cycle(1);
    }

    /// Returns the candidates that Tab goes through, and the one that is shown.
    pub(super) fn candidates(&self) -> Option<(&[String], usize)> {
        let completion = self.completion.as_ref()?;
        let count = completion.candidates.len();
        Some((
            &completion.candidates,
            (completion.next + count - 1) % count,
        ))
    }

    fn cycle(&mut self, step: isize) -> bool {
        let Some(completion) = &mut self.completion else {
            return false;
        };
        let count = completion.candidates.len();
        let index = match step < 0 {
            true => (completion.next + count - 2) % count,
            false => completion.next,
        };
        completion.next = (index + 1) % count;
        let (start, word) = (completion.start, completion.candidates[index].clone());
        self.replace(start, &word);
        true
    }

    fn replace(&mut self, start: usize, word: &str) {
        self.text.replace_range(start..self.cursor, word);
        self.cursor = start + word.len();
    }

    fn insert(&mut self, text: &str) {
        let room = MAX_CHARS.saturating_sub(self.text.chars().count());
        let clean: String = text
            .chars()
            .map(|character| if character == '\t' { ' ' } else { character })
            .filter(|character| *character == '\n' || !is_hidden(*character))
            .take(room)
            .collect();
        self.text.insert_str(self.cursor, &clean);
        self.cursor += clean.len();
    }

    fn submit(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        self.clear();
        text
    }

    /// Adds a submitted text to the history, unless it repeats the last one.
    pub(super) fn remember(&mut self, text: &str) {
        if text.trim().is_empty() || self.history.last().is_some_and(|last| last == text) {
            return;
        }
        self.history.push(text.to_owned());
        if self.history.len() > MAX_HISTORY {
            self.history.remove(0);
        }
    }

    fn ends_with_backslash(&self) -> bool {
        self.cursor == self.text.len() && self.text.ends_with('\\')
    }

    fn up(&mut self) {
        let start = self.line_start();
        if start > 0 {
            let column = columns(&self.text[start..self.cursor]);
            let above = self.text[..start - 1].rfind('\n').map_or(0, |end| end + 1);
            self.cursor = at_column(&self.text, above, column);
            return;
        }
        let at = match &self.recalled {
            Some((at, _)) => *at,
            None => self.history.len(),
        };
        let Some(earlier) = at.checked_sub(1) else {
            return;
        };
        let draft = match self.recalled.take() {
            Some((_, draft)) => draft,
            None => std::mem::take(&mut self.text),
        };
        self.recall(earlier, draft);
    }

    fn down(&mut self) {
        let end = self.line_end();
        if end < self.text.len() {
            let column = columns(&self.text[self.line_start()..self.cursor]);
            self.cursor = at_column(&self.text, end + 1, column);
            return;
        }
        let Some((at, draft)) = self.recalled.take() else {
            return;
        };
        if at + 1 < self.history.len() {
            self.recall(at + 1, draft);
        } else {
            self.text = draft;
            self.cursor = self.text.len();
        }
    }

    fn recall(&mut self, at: usize, draft: String) {
        self.text = self.history.get(at).cloned().unwrap_or_default();
        self.cursor = self.text.len();
        self.recalled = Some((at, draft));
    }

    /// Removes the text between the cursor and a position.
    fn erase(&mut self, to: usize) {
        let (start, end) = (self.cursor.min(to), self.cursor.max(to));
        self.text.replace_range(start..end, "");
        self.cursor = start;
    }

    fn before(&self) -> usize {
        let last = self.text[..self.cursor].chars().next_back();
        self.cursor - last.map_or(0, char::len_utf8)
    }

    fn after(&self) -> usize {
        let next = self.text[self.cursor..].chars().next();
        self.cursor + next.map_or(0, char::len_utf8)
    }

    fn word_before(&self) -> usize {
        last_word(self.text[..self.cursor].trim_end())
    }

    fn word_after(&self) -> usize {
        let rest = &self.text[self.cursor..];
        let gap = rest.len() - rest.trim_start().len();
        let word = rest[gap..]
            .find(char::is_whitespace)
            .unwrap_or(rest.len() - gap);
        self.cursor + gap + word
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor]
            .rfind('\n')
            .map_or(0, |end| end + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..]
            .find('\n')
            .map_or(self.text.len(), |end| self.cursor + end)
    }

    /// Returns the text in rows of at most `width` columns, and the row and column of the cursor.
    pub(super) fn rows(&self, width: usize) -> (Vec<String>, (usize, usize)) {
        let width = width.max(2);
        let mut rows = vec![String::new()];
        let mut used = 0;
        let mut cursor = (0, 0);
        for (index, character) in self.text.char_indices() {
            if index == self.cursor {
                cursor = (rows.len() - 1, used);
            }
            if character == '\n' {
                rows.push(String::new());
                used = 0;
                continue;
            }
            let wide = columns(character.encode_utf8(&mut [0; 4]));
            if used + wide > width {
                rows.push(String::new());
                used = 0;
                if index == self.cursor {
                    cursor = (rows.len() - 1, 0);
                }
            }
            if let Some(row) = rows.last_mut() {
                row.push(character);
            }
            used += wide;
        }
        if self.cursor == self.text.len() {
            if used >= width {
                rows.push(String::new());
                used = 0;
            }
            cursor = (rows.len() - 1, used);
        }
        (rows, cursor)
    }
}

/// Returns the byte position of a column in the line that starts at `start`.
fn at_column(text: &str, start: usize, column: usize) -> usize {
    let mut used = 0;
    for (index, character) in text[start..].char_indices() {
        if character == '\n' || used >= column {
            return start + index;
        }
        used += columns(character.encode_utf8(&mut [0; 4]));
    }
    text.len()
}

fn common_start<'a>(left: &'a str, right: &str) -> &'a str {
    let shared: usize = left
        .chars()
        .zip(right.chars())
        .take_while(|(left, right)| left == right)
        .map(|(left, _)| left.len_utf8())
        .sum();
    left.get(..shared).unwrap_or_default()
}

/// Returns where the last word of a text starts. A space may have several bytes.
fn last_word(text: &str) -> usize {
    let space = text.char_indices().rev().find(|(_, c)| c.is_whitespace());
    space.map_or(0, |(at, c)| at + c.len_utf8())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(editor: &mut Editor, text: &str) {
        for character in text.chars() {
            editor.press(Key::Char(character));
        }
    }

    #[test]
    fn keys_edit_the_text() {
        let mut editor = Editor::default();
        typed(&mut editor, "fix teh bug");
        editor.press(Key::WordLeft);
        editor.press(Key::Ctrl('w'));
        typed(&mut editor, "the ");
        editor.press(Key::End);
        typed(&mut editor, "!");
        assert_eq!(editor.text(), "fix the bug!");
        editor.press(Key::Ctrl('u'));
        assert!(editor.is_empty());
    }

    #[test]
    fn words_end_at_spaces_of_several_bytes() {
        let mut editor = Editor::default();
        typed(&mut editor, "你好\u{3000}世界");
        assert_eq!(editor.word().1, "世界");
        editor.press(Key::WordLeft);
        typed(&mut editor, "x");
        editor.press(Key::End);
        editor.press(Key::Ctrl('w'));
        assert_eq!(editor.text(), "你好\u{3000}");
    }

    #[test]
    fn enter_submits_and_backslash_continues() {
        let mut editor = Editor::default();
        typed(&mut editor, "one\\");
        assert_eq!(editor.press(Key::Enter), Edited::Changed);
        typed(&mut editor, "two");
        editor.press(Key::Newline);
        typed(&mut editor, "three");
        let submitted = Edited::Submitted("one\ntwo\nthree".to_owned());
        assert_eq!(editor.press(Key::Enter), submitted);
        assert!(editor.is_empty());
    }

    #[test]
    fn the_history_keeps_the_draft() {
        let mut editor = Editor::new(vec!["first".to_owned(), "second\nline".to_owned()]);
        typed(&mut editor, "draft");
        editor.press(Key::Up);
        assert_eq!(editor.text(), "second\nline");
        editor.press(Key::Up);
        editor.press(Key::Up);
        assert_eq!(editor.text(), "first");
        editor.press(Key::Down);
        editor.press(Key::Down);
        assert_eq!(editor.text(), "draft");
    }

    #[test]
    fn tab_completes_the_common_part_then_cycles() {
        let mut editor = Editor::default();
        typed(&mut editor, "see @s");
        let candidates = vec!["@src/a.rs".to_owned(), "@src/b.rs".to_owned()];
        assert_eq!(editor.press(Key::Tab), Edited::WantsCompletion);
        editor.complete(4, candidates.clone());
        assert_eq!(editor.text(), "see @src/");
        editor.complete(4, candidates);
        assert_eq!(editor.text(), "see @src/a.rs");
        editor.press(Key::Tab);
        assert_eq!(editor.text(), "see @src/b.rs");
        editor.press(Key::BackTab);
        assert_eq!(editor.text(), "see @src/a.rs");
        editor.complete(4, vec!["@src/a.rs".to_owned()]);
        assert_eq!(editor.text(), "see @src/a.rs ");
    }

    #[test]
    fn rows_wrap_by_columns_and_place_the_cursor() {
        let mut editor = Editor::default();
        typed(&mut editor, "abcd删除");
        let (rows, cursor) = editor.rows(5);
        assert_eq!(rows, ["abcd", "删除"]);
        assert_eq!(cursor, (1, 4));
        editor.press(Key::Home);
        assert_eq!(editor.rows(5).1, (0, 0));
    }
}
