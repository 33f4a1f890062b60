//! Styled text, wrapped at words.

use console::Style;
use sortie_text::columns;

/// A piece of text in one style.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) text: String,
    pub(super) style: Style,
}

impl Span {
    pub(super) fn new(text: impl Into<String>, style: Style) -> Self {
        Self {
            text: text.into(),
            style,
        }
    }

    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self::new(text, Style::new())
    }
}

/// Returns spans as one line with escape sequences.
pub(super) fn paint(spans: &[Span]) -> String {
    spans
        .iter()
        .map(|span| span.style.apply_to(&span.text).to_string())
        .collect()
}

/// Wraps spans at spaces into lines of at most `width` columns. The first line begins with `first`,
/// the others with `rest`. A word that is longer than a line is broken.
pub(super) fn wrap(spans: &[Span], width: usize, first: &str, rest: &str) -> Vec<String> {
    let mut wrapped = Wrapped {
        lines: Vec::new(),
        line: vec![Span::plain(first)],
        used: columns(first),
        indent: columns(first),
        width: width.max(8),
        rest: rest.to_owned(),
    };
    for span in spans {
        for word in span.text.split_inclusive(' ') {
            wrapped.word(word, &span.style);
        }
    }
    wrapped.end_line();
    wrapped.lines
}

struct Wrapped {
    lines: Vec<String>,
    line: Vec<Span>,
    used: usize,
    /// The columns of the line's beginning.
    indent: usize,
    width: usize,
    rest: String,
}

impl Wrapped {
    fn word(&mut self, word: &str, style: &Style) {
        let wide = columns(word.trim_end());
        if self.used + wide > self.width && self.used > self.indent {
            self.next_line();
        }
        let room = self.width.saturating_sub(self.indent).max(1);
        if wide <= room {
            self.used += columns(word);
            self.line.push(Span::new(word, style.clone()));
            return;
        }
        for character in word.chars() {
            let wide = columns(character.encode_utf8(&mut [0; 4]));
            if self.used + wide > self.width && self.used > self.indent {
                self.next_line();
            }
            self.used += wide;
            self.line.push(Span::new(character, style.clone()));
        }
    }

    fn next_line(&mut self) {
        self.end_line();
        self.indent = columns(&self.rest);
        self.used = self.indent;
        self.line = vec![Span::plain(self.rest.clone())];
    }

    fn end_line(&mut self) {
        if let Some(last) = self.line.last_mut() {
            last.text.truncate(last.text.trim_end().len());
        }
        self.lines.push(paint(&std::mem::take(&mut self.line)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_words() {
        let spans = [Span::plain("the quick brown fox")];
        assert_eq!(wrap(&spans, 10, "", ""), ["the quick", "brown fox"]);
        assert_eq!(wrap(&spans, 12, "- ", "  "), ["- the quick", "  brown fox"]);
    }

    #[test]
    fn long_words_and_wide_characters_are_broken() {
        let spans = [Span::plain("子代理完成后我会通知你")];
        assert_eq!(wrap(&spans, 10, "", ""), ["子代理完成", "后我会通知", "你"]);
    }
}
