//! Highlights code: comments, strings, numbers and keywords.
//!
//! One tokenizer for all languages: a grammar for each would weigh more than the rest of the
//! program, and colours only help to find the way.

use console::Style;

use super::styled::Span;
use crate::theme::Themed as _;

/// What a language looks like.
#[derive(Clone, Copy, Debug)]
struct Language {
    names: &'static [&'static str],
    line_comments: &'static [&'static str],
    has_block_comments: bool,
    /// Separated by spaces.
    keywords: &'static str,
}

const LANGUAGES: &[Language] = &[
    Language {
        names: &["rust", "rs"],
        line_comments: &["//"],
        has_block_comments: true,
        keywords: "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while",
    },
    Language {
        names: &["python", "py"],
        line_comments: &["#"],
        has_block_comments: false,
        keywords: "False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield",
    },
    Language {
        names: &["javascript", "js", "jsx", "typescript", "ts", "tsx"],
        line_comments: &["//"],
        has_block_comments: true,
        keywords: "as async await break case catch class const continue default delete do else enum export extends false finally for from function if implements import in instanceof interface let new null of private protected public readonly return static super switch this throw true try type typeof undefined var void while yield",
    },
    Language {
        names: &["go"],
        line_comments: &["//"],
        has_block_comments: true,
        keywords: "break case chan const continue default defer else fallthrough false for func go goto if import interface map nil package range return select struct switch true type var",
    },
    Language {
        names: &[
            "c", "h", "cpp", "c++", "java", "kotlin", "csharp", "cs", "swift",
        ],
        line_comments: &["//"],
        has_block_comments: true,
        keywords: "auto bool break case catch char class const continue default delete do double else enum extends extern false final float for func fun if implements import int interface let long namespace new null nullptr override package private protected public return short signed sizeof static struct super switch template this throw true try typedef union unsigned using val var virtual void volatile while",
    },
    Language {
        names: &["bash", "sh", "shell", "zsh", "console"],
        line_comments: &["#"],
        has_block_comments: false,
        keywords: "case do done elif else esac export fi for function if in local return set then until while",
    },
    Language {
        names: &[
            "toml",
            "yaml",
            "yml",
            "ini",
            "dockerfile",
            "make",
            "makefile",
        ],
        line_comments: &["#"],
        has_block_comments: false,
        keywords: "true false null",
    },
    Language {
        names: &["json", "jsonc"],
        line_comments: &["//"],
        has_block_comments: false,
        keywords: "true false null",
    },
    Language {
        names: &["sql"],
        line_comments: &["--"],
        has_block_comments: true,
        keywords: "select from where insert into update delete create table index join left right inner outer on group by order limit values set and or not null primary key as in is SELECT FROM WHERE INSERT INTO UPDATE DELETE CREATE TABLE INDEX JOIN LEFT RIGHT INNER OUTER ON GROUP BY ORDER LIMIT VALUES SET AND OR NOT NULL PRIMARY KEY AS IN IS",
    },
];

/// Highlights the lines of one block of code.
#[derive(Debug)]
pub(super) struct Highlighter {
    kind: Kind,
    in_block_comment: bool,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Plain,
    Diff,
    Code(Language),
}

impl Highlighter {
    /// Creates a highlighter for the language that a fence names.
    pub(super) fn new(name: &str) -> Self {
        let name = name.to_lowercase();
        let language = LANGUAGES
            .iter()
            .find(|language| language.names.contains(&name.as_str()));
        let kind = match (name.as_str(), language) {
            ("diff" | "patch", _) => Kind::Diff,
            (_, Some(language)) => Kind::Code(*language),
            (_, None) => Kind::Plain,
        };
        Self {
            kind,
            in_block_comment: false,
        }
    }

    /// Returns the spans of the next line.
    pub(super) fn line(&mut self, line: &str) -> Vec<Span> {
        match self.kind {
            Kind::Plain => vec![Span::plain(line)],
            Kind::Diff => vec![Span::new(line, diff_style(line))],
            Kind::Code(language) => self.code(language, line),
        }
    }

    fn code(&mut self, language: Language, line: &str) -> Vec<Span> {
        let mut spans = Vec::new();
        let mut rest = line;
        while !rest.is_empty() {
            let (length, style) = self.token(language, rest);
            let (token, after) = rest.split_at(length);
            spans.push(Span::new(token, style));
            rest = after;
        }
        spans
    }

    /// Returns the length of the next token in bytes, and its style.
    fn token(&mut self, language: Language, rest: &str) -> (usize, Style) {
        let comment = Style::new().muted();
        if self.in_block_comment {
            return match rest.find("*/") {
                Some(end) => {
                    self.in_block_comment = false;
                    (end + 2, comment)
                }
                None => (rest.len(), comment),
            };
        }
        if language
            .line_comments
            .iter()
            .any(|mark| rest.starts_with(mark))
        {
            return (rest.len(), comment);
        }
        if language.has_block_comments && rest.starts_with("/*") {
            self.in_block_comment = true;
            return (2, comment);
        }
        let first = rest.chars().next().unwrap_or(' ');
        match first {
            '"' | '\'' | '`' => match string_end(rest, first) {
                Some(end) => (end, Style::new().good()),
                None => (first.len_utf8(), Style::new()),
            },
            '0'..='9' => (
                length_while(rest, |c| c.is_ascii_alphanumeric() || c == '.' || c == '_'),
                Style::new().warning(),
            ),
            c if c.is_alphabetic() || c == '_' => {
                let length = length_while(rest, |c| c.is_alphanumeric() || c == '_');
                let is_keyword = language
                    .keywords
                    .split(' ')
                    .any(|keyword| keyword == &rest[..length]);
                let style = match is_keyword {
                    true => Style::new().special(),
                    false => Style::new(),
                };
                (length, style)
            }
            c => (c.len_utf8(), Style::new()),
        }
    }
}

/// Returns the style of a line of a diff.
pub(super) fn diff_style(line: &str) -> Style {
    match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => Style::new().bold(),
        [b'+', ..] => Style::new().good(),
        [b'-', ..] => Style::new().bad(),
        [b'@', b'@', ..] => Style::new().info(),
        _ => Style::new(),
    }
}

/// Returns the length of a string literal; `None` if it does not end on this line.
fn string_end(text: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    for (index, character) in text.char_indices().skip(1) {
        match character {
            '\\' if !is_escaped => is_escaped = true,
            character if character == quote && !is_escaped => {
                return Some(index + quote.len_utf8());
            }
            _ => is_escaped = false,
        }
    }
    None
}

fn length_while(text: &str, matches: impl Fn(char) -> bool) -> usize {
    text.find(|character| !matches(character))
        .unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(name: &str, line: &str) -> Vec<String> {
        Highlighter::new(name)
            .line(line)
            .iter()
            .map(|span| span.text.clone())
            .collect()
    }

    #[test]
    fn tokens_cover_the_whole_line() {
        for line in [
            "let x = \"a \\\" b\"; // 删除",
            "fn f<'a>() { 0x1f }",
            "'",
            "",
        ] {
            assert_eq!(tokens("rust", line).concat(), line);
        }
        assert_eq!(tokens("rust", "a // b"), ["a", " ", "// b"]);
        assert_eq!(tokens("unknown", "let x"), ["let x"]);
    }

    #[test]
    fn a_block_comment_continues_on_the_next_line() {
        let mut highlighter = Highlighter::new("c");
        highlighter.line("/* one");
        let spans = highlighter.line("two */ int x");
        assert_eq!(spans[0].text, "two */");
    }
}
