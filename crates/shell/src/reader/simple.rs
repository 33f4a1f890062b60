//! Simple commands and redirects.

use super::word::Token;
use super::{Reader, Reading, is_name};
use crate::script::{Redirect, Simple, Word};

/// Commands whose arguments may be assignments, arrays included.
const DECLARATIONS: [&str; 6] = ["declare", "export", "local", "readonly", "typeset", "alias"];
/// Words that are keywords at the beginning of a command.
const KEYWORDS: [&str; 22] = [
    "!", "[[", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function",
    "if", "select", "then", "time", "until", "while", "{", "}", "((", "]]",
];

impl Reader<'_> {
    /// Parses a simple command, or the definition of a function.
    pub(super) fn simple(&mut self) -> Reading<()> {
        let start = self.count();
        let mut command = Simple::default();
        loop {
            self.skip_blanks();
            if self.redirect(&mut command)? {
                continue;
            }
            let assignable = command.words.is_empty() || declares(&command);
            let Some(token) = self.word()? else {
                break;
            };
            if self.is_number_of(&token)? {
                continue;
            }
            let first = command.words.is_empty();
            let alone = first && command.assignments.is_empty() && command.redirects.is_empty();
            if alone && token.value_at.is_none() && self.peek_parenthesis() {
                return self.function(&token);
            }
            self.need(
                !first || !token.plain || !KEYWORDS.contains(&token.text.as_str()),
                "a keyword stands where it has no meaning",
            )?;
            self.take_word(&mut command, token, assignable)?;
        }
        let something = !command.words.is_empty()
            || !command.assignments.is_empty()
            || !command.redirects.is_empty()
            || self.awaits_here_document();
        self.need(something, "a command is missing")?;
        command.contains = start..self.count();
        self.claim_here_documents();
        self.push(command)
    }

    fn take_word(&mut self, command: &mut Simple, token: Token, assignable: bool) -> Reading<()> {
        if assignable {
            let subscript = token
                .text
                .split_once('[')
                .is_some_and(|(name, _)| is_name(name));
            self.need(
                !subscript || token.quoted,
                "it assigns to an element of an array",
            )?;
        }
        let name = token.assigned().map(str::to_owned);
        let Some(name) = name.filter(|_| assignable) else {
            command.words.push(token.into_word());
            return Ok(());
        };
        let value_at = token.value_at.unwrap_or_default();
        let array = self.peek() == Some('(') && token.text.len() == value_at && token.plain;
        let whole = token.text.clone();
        let value = if array {
            self.array()?;
            Word::Unknown("(…)".to_owned())
        } else {
            value_of(token, value_at)
        };
        if !command.words.is_empty() {
            command.words.push(value.with_text(&whole));
        }
        command.assignments.push((name, value));
        Ok(())
    }

    /// Parses the words between the parentheses of an array.
    fn array(&mut self) -> Reading<()> {
        self.at += 1;
        loop {
            self.skip_lines()?;
            if self.take(")") {
                return Ok(());
            }
            let element = self.word()?.ok_or("an array is unusual")?;
            self.need(
                !element.text.starts_with('['),
                "an array has named elements",
            )?;
        }
    }

    fn peek_parenthesis(&mut self) -> bool {
        let before = self.at;
        self.skip_blanks();
        let found = self.peek() == Some('(');
        if !found {
            self.at = before;
        }
        found
    }

    fn awaits_here_document(&self) -> bool {
        let last = self.pending.last();
        last.is_some_and(|pending| pending.reader == usize::MAX)
    }

    /// Returns whether the word is the number of the descriptor that the next operator redirects.
    fn is_number_of(&mut self, token: &Token) -> Reading<bool> {
        if !token.plain || !matches!(self.peek(), Some('<' | '>')) {
            return Ok(false);
        }
        let named = token.text.starts_with('{') && token.text.ends_with('}');
        self.need(!named, "a redirect has a named descriptor")?;
        Ok(token.text.chars().all(|c| c.is_ascii_digit()))
    }

    /// Parses the redirects after a compound command.
    pub(super) fn trailing_redirects(&mut self) -> Reading<()> {
        let start = self.count();
        let mut holder = Simple::default();
        loop {
            self.skip_blanks();
            if self.redirect(&mut holder)? {
                continue;
            }
            let before = self.at;
            let number = self.peek().is_some_and(|c| c.is_ascii_digit());
            let token = if number { self.word()? } else { None };
            match token {
                Some(token) if self.is_number_of(&token)? => {}
                Some(_) | None => {
                    self.at = before;
                    break;
                }
            }
        }
        if holder.redirects.is_empty() && !self.awaits_here_document() {
            return Ok(());
        }
        holder.contains = start..self.count();
        self.claim_here_documents();
        self.push(holder)
    }

    /// Parses one redirect, if there is one here.
    fn redirect(&mut self, command: &mut Simple) -> Reading<bool> {
        let substitution = self.ahead("<(") || self.ahead(">(");
        let operator = OPERATORS.iter().find(|(text, _)| self.ahead(text));
        let Some((text, kind)) = operator.filter(|_| !substitution) else {
            return Ok(false);
        };
        self.at += text.len();
        self.refuse_continued(0)?;
        match kind {
            Kind::Here => self.announce_here_document(false)?,
            Kind::HereTabs => self.announce_here_document(true)?,
            Kind::Text => {
                let word = self.target()?;
                command.redirects.push(Redirect::Text(word));
            }
            Kind::Reads => {
                let word = self.target()?;
                command.redirects.push(Redirect::Reads(word));
            }
            Kind::Writes => {
                let word = self.target()?;
                command.redirects.push(Redirect::Writes(word));
            }
            Kind::Both => {
                let word = self.target()?;
                command.redirects.push(Redirect::Reads(word.clone()));
                command.redirects.push(Redirect::Writes(word));
            }
            Kind::Copies => {
                let word = self.target()?;
                command.redirects.push(copied(word));
            }
            Kind::CopiesInput => {
                let word = self.target()?;
                // A shell that reads its standard input then reads a descriptor that was opened
                // elsewhere.
                let source = word.with_text(&format!("/dev/fd/{}", word.shape()));
                command.redirects.push(copied(word));
                command.redirects.push(Redirect::Reads(source));
            }
        }
        Ok(true)
    }

    fn target(&mut self) -> Reading<Word> {
        Ok(self.needed_word()?.into_word())
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Here,
    HereTabs,
    Text,
    Reads,
    Writes,
    Both,
    Copies,
    CopiesInput,
}

/// Redirect operators, the longer ones first.
const OPERATORS: [(&str, Kind); 12] = [
    ("<<<", Kind::Text),
    ("<<-", Kind::HereTabs),
    ("<<", Kind::Here),
    ("<>", Kind::Both),
    ("<&", Kind::CopiesInput),
    ("<", Kind::Reads),
    (">>", Kind::Writes),
    (">|", Kind::Writes),
    (">&", Kind::Copies),
    (">", Kind::Writes),
    ("&>>", Kind::Writes),
    ("&>", Kind::Writes),
];

/// Returns the redirect of `>&`: a descriptor, or a file.
fn copied(word: Word) -> Redirect {
    let descriptor = word.known().is_some_and(|text| {
        let number = text.strip_suffix('-').unwrap_or(text);
        number.chars().all(|c| c.is_ascii_digit()) && !text.is_empty()
    });
    if descriptor {
        Redirect::Duplicates
    } else {
        Redirect::Writes(word)
    }
}

fn declares(command: &Simple) -> bool {
    command
        .program()
        .is_some_and(|name| DECLARATIONS.contains(&name))
}

fn value_of(token: Token, value_at: usize) -> Word {
    let word = token.into_word();
    word.with_text(word.shape().get(value_at..).unwrap_or_default())
}
