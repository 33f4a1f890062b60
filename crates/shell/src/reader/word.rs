//! Words: quoting is resolved, and text that depends on the running shell is marked as unknown.

use super::{Quotes, Reader, Reading, is_meta, is_name};
use crate::script::Word;

/// A word while it is being parsed.
#[derive(Debug, Default)]
pub(super) struct Token {
    /// The text with quoting resolved; expansions stay as they are written.
    pub(super) text: String,
    pub(super) unknown: bool,
    /// Whether the word may become no word, or several.
    pub(super) splits: bool,
    /// Whether the word has no quoting or expansion, so that it may be a keyword or a number.
    pub(super) plain: bool,
    /// Whether a part of the word is quoted.
    pub(super) quoted: bool,
    /// The offset of the value, if the word has the form of an assignment.
    pub(super) value_at: Option<usize>,
    brace: bool,
    brace_parts: bool,
    bracket: bool,
}

impl Token {
    pub(super) fn into_word(self) -> Word {
        // `{a,b}` and `[ab]` become other words; `{}` and `[` alone do not.
        let braces = self.brace && self.brace_parts;
        let brackets = self.bracket && self.text.contains(']');
        if self.splits || braces || brackets {
            Word::Unknown(self.text)
        } else if self.unknown {
            Word::Single(self.text)
        } else {
            Word::Known(self.text)
        }
    }

    /// Returns the name that is assigned to, if the word has the form of an assignment.
    pub(super) fn assigned(&self) -> Option<&str> {
        let before = self.text.get(..self.value_at?)?;
        Some(before.trim_end_matches('=').trim_end_matches('+'))
    }

    fn is_empty(&self) -> bool {
        self.text.is_empty() && !self.quoted && !self.unknown
    }

    fn quote(&mut self) {
        self.quoted = true;
        self.plain = false;
    }
}

impl Reader<'_> {
    /// Parses one word; `None` if no word begins here.
    pub(super) fn word(&mut self) -> Reading<Option<Token>> {
        let mut token = Token {
            plain: true,
            ..Token::default()
        };
        while let Some(c) = self.peek() {
            match c {
                '<' | '>' if self.after(1) == Some('(') => {
                    self.need(token.is_empty(), "a process substitution is inside a word")?;
                    self.process_substitution(&mut token)?;
                }
                _ if is_meta(c) => break,
                '\\' => self.escaped(&mut token)?,
                '\'' => self.single_quoted(&mut token)?,
                '"' => {
                    token.quote();
                    self.double_quoted(&mut token)?;
                }
                '$' => {
                    token.plain &= !self.expansion_begins();
                    self.dollar(&mut token, Quotes::None)?;
                }
                '`' => {
                    token.plain = false;
                    self.backquoted(&mut token, Quotes::None)?;
                }
                _ => self.bare(&mut token, c)?,
            }
        }
        let nothing = token.is_empty();
        Ok(if nothing { None } else { Some(token) })
    }

    /// Parses a word that is required.
    pub(super) fn needed_word(&mut self) -> Reading<Token> {
        self.skip_blanks();
        self.word()?.ok_or("a word is missing")
    }

    fn bare(&mut self, token: &mut Token, c: char) -> Reading<()> {
        let last = token.text.chars().next_back();
        match c {
            '*' | '?' => {
                token.unknown = true;
                token.splits = true;
            }
            '[' => token.bracket = true,
            '{' => token.brace = true,
            ',' => token.brace_parts = true,
            '.' if last == Some('.') => token.brace_parts = true,
            '~' if matches!(last, None | Some('=' | ':')) => token.unknown = true,
            '=' if token.plain && token.value_at.is_none() => {
                let name = token.text.strip_suffix('+').unwrap_or(&token.text);
                if is_name(name) {
                    token.value_at = Some(token.text.len() + 1);
                }
            }
            _ => {}
        }
        token.text.push(c);
        self.at += 1;
        Ok(())
    }

    fn escaped(&mut self, token: &mut Token) -> Reading<()> {
        let next = self.after(1).ok_or("it ends with a backslash")?;
        self.at += 2;
        if next != '\n' {
            token.quote();
            self.literal(token, next);
        }
        Ok(())
    }

    fn single_quoted(&mut self, token: &mut Token) -> Reading<()> {
        token.quote();
        self.at += 1;
        while let Some(c) = self.peek() {
            self.at += 1;
            if c == '\'' {
                return Ok(());
            }
            self.inside_quotes(c)?;
            self.literal(token, c);
        }
        Err("a quote has no end")
    }

    /// Parses from one double quote to the next.
    pub(super) fn double_quoted(&mut self, token: &mut Token) -> Reading<()> {
        self.at += 1;
        while let Some(c) = self.peek() {
            match c {
                '"' => {
                    self.at += 1;
                    return Ok(());
                }
                '\\' => self.escaped_in_text(token, true),
                '$' => self.dollar(token, Quotes::Double)?,
                '`' => self.backquoted(token, Quotes::Double)?,
                _ => {
                    self.inside_quotes(c)?;
                    token.text.push(c);
                    self.at += 1;
                }
            }
        }
        Err("a quote has no end")
    }

    /// Parses a backslash that only quotes characters that are special in double quotes.
    pub(super) fn escaped_in_text(&mut self, token: &mut Token, quote_too: bool) {
        match self.after(1) {
            Some('\n') => self.at += 2,
            Some(next @ ('$' | '`' | '\\')) => {
                self.at += 2;
                self.literal(token, next);
            }
            Some('"') if quote_too => {
                self.at += 2;
                self.literal(token, '"');
            }
            Some(_) | None => {
                self.at += 1;
                token.text.push('\\');
            }
        }
    }

    /// Adds a literal character.
    pub(super) fn literal(&mut self, token: &mut Token, c: char) {
        self.gathered.quoted_dollar |= matches!(c, '$' | '`');
        token.text.push(c);
    }

    /// Rejects a quoted line end while a here-document is pending.
    pub(super) fn inside_quotes(&mut self, c: char) -> Reading<()> {
        self.need(
            c != '\n' || self.pending.is_empty(),
            "a quote spans the beginning of a here-document",
        )
    }

    fn process_substitution(&mut self, token: &mut Token) -> Reading<()> {
        token.unknown = true;
        token.plain = false;
        let start = self.at;
        self.at += 2;
        self.commands_to_parenthesis()?;
        self.copy_source(token, start);
        Ok(())
    }

    /// Adds the source from `start` up to here, to show how an unknown word is written.
    pub(super) fn copy_source(&mut self, token: &mut Token, start: usize) {
        let source = self.text.get(start..self.at).unwrap_or_default();
        token.text.extend(source);
    }
}
