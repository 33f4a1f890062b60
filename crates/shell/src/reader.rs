//! Parses the grammar of bash, conservatively: syntax that is not modelled exactly is rejected,
//! never guessed.

mod compound;
mod expansion;
mod heredoc;
mod simple;
mod word;

use crate::script::{Script, Simple, Word};
use heredoc::Pending;

/// The most bytes of a command: far more than a person or a model writes.
pub const MAX_BYTES: usize = 64 * 1024;
/// The most levels of nested commands, including substitutions and `sh -c`; it bounds the
/// recursion.
pub const MAX_DEPTH: usize = 32;
/// The most simple commands of one text.
pub const MAX_COMMANDS: usize = 4_000;

/// Why a text was rejected.
pub(crate) type Unreadable = &'static str;
/// The result of parsing one piece.
pub(crate) type Reading<T> = Result<T, Unreadable>;

/// The results of parsing, shared by nested readers.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) script: Script,
    /// Quoted text contains `$` or a backquote, which an evaluating expansion could run later.
    pub(crate) quoted_dollar: bool,
}

/// Parses a whole text at some depth.
pub(crate) fn gather(text: &str, depth: usize) -> Reading<Gathered> {
    if text.len() > MAX_BYTES {
        return Err("it is longer than 64 KiB");
    }
    if text.contains(['\0', '\u{1}', '\u{7f}']) {
        // Bash marks quoting with these internally, and its own handling of them has had bugs.
        return Err("it contains control characters that shells treat specially");
    }
    let mut gathered = Gathered::default();
    let characters = text.chars().collect();
    Reader::new(characters, depth, &mut gathered).program()?;
    Ok(gathered)
}

/// The quotes around the current position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quotes {
    None,
    Double,
    Here,
}

struct Reader<'a> {
    text: Vec<char>,
    at: usize,
    depth: usize,
    gathered: &'a mut Gathered,
    pending: Vec<Pending>,
}

impl<'a> Reader<'a> {
    fn new(text: Vec<char>, depth: usize, gathered: &'a mut Gathered) -> Self {
        Self {
            text,
            at: 0,
            depth,
            gathered,
            pending: Vec::new(),
        }
    }

    fn program(&mut self) -> Reading<()> {
        self.list()?;
        self.need(
            self.peek().is_none(),
            "its brackets or keywords do not match",
        )?;
        self.need(self.pending.is_empty(), "a here-document has no end")
    }

    /// Parses a list of pipelines up to its closing token, which the caller consumes.
    fn list(&mut self) -> Reading<()> {
        self.nested(|reader| {
            loop {
                reader.skip_lines()?;
                if reader.at_close() {
                    return Ok(());
                }
                let start = reader.count();
                reader.pipeline()?;
                reader.skip_blanks();
                while reader.ahead("&&") || reader.ahead("||") {
                    reader.at += 2;
                    reader.skip_lines()?;
                    reader.pipeline()?;
                    reader.skip_blanks();
                }
                if !reader.separator(start)? {
                    return Ok(());
                }
            }
        })
    }

    /// Consumes the separator of two commands; false if no command follows.
    fn separator(&mut self, start: usize) -> Reading<bool> {
        match self.peek() {
            Some('\n') => Ok(true),
            Some(';') if self.at_case_end() => Ok(false),
            Some(';') => {
                self.at += 1;
                Ok(true)
            }
            Some('&') => {
                self.at += 1;
                self.refuse_continued(0)?;
                let range = start..self.count();
                self.gathered.script.background.push(range);
                Ok(true)
            }
            Some(')') | None => Ok(false),
            Some(_) => Err("commands follow each other without a separator"),
        }
    }

    fn pipeline(&mut self) -> Reading<()> {
        self.prefixes()?;
        let mut stages = Vec::new();
        loop {
            let start = self.count();
            self.command()?;
            stages.push(start..self.count());
            self.skip_blanks();
            if self.peek() != Some('|') || self.ahead("||") {
                break;
            }
            self.at += if self.ahead("|&") { 2 } else { 1 };
            self.skip_lines()?;
        }
        if stages.len() > 1 {
            self.gathered.script.pipelines.push(stages);
        }
        Ok(())
    }

    /// Consumes `!` and `time`, which precede a whole pipeline.
    fn prefixes(&mut self) -> Reading<()> {
        loop {
            self.skip_blanks();
            if self.take_keyword("!") {
                continue;
            }
            if !self.take_keyword("time") {
                return Ok(());
            }
            self.skip_blanks();
            // The keyword accepts `-p` and then `--`, each once. Any other option belongs to the
            // keyword in some shells and is the name of a command in others.
            self.take_keyword("-p");
            self.skip_blanks();
            self.take_keyword("--");
            self.skip_blanks();
            self.need(self.peek() != Some('-'), "`time` has an unusual option")?;
        }
    }

    /// Runs `read` one level deeper.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Reading<T>) -> Reading<T> {
        if self.depth >= MAX_DEPTH {
            return Err("it nests too deeply");
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Parses another text, such as that between backquotes, into the same script.
    fn inner(&mut self, text: Vec<char>) -> Reading<()> {
        self.need(self.depth < MAX_DEPTH, "it nests too deeply")?;
        Reader::new(text, self.depth + 1, self.gathered).program()
    }

    fn push(&mut self, command: Simple) -> Reading<()> {
        self.need(self.count() < MAX_COMMANDS, "it contains too many commands")?;
        self.gathered.script.commands.push(command);
        Ok(())
    }

    /// Records that a name gets a value that only the running shell knows.
    fn assigns(&mut self, name: String) -> Reading<()> {
        let count = self.count();
        self.push(Simple {
            assignments: vec![(name, Word::Unknown(String::new()))],
            contains: count..count,
            ..Simple::default()
        })
    }

    fn count(&self) -> usize {
        self.gathered.script.commands.len()
    }

    fn need(&self, condition: bool, otherwise: Unreadable) -> Reading<()> {
        if condition { Ok(()) } else { Err(otherwise) }
    }

    /// Rejects a line that is continued inside an operator: `$` and `(` on two lines are `$(`.
    fn refuse_continued(&self, distance: usize) -> Reading<()> {
        let continued =
            self.after(distance) == Some('\\') && self.after(distance + 1) == Some('\n');
        self.need(!continued, "a line is continued inside an operator")
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn after(&self, distance: usize) -> Option<char> {
        self.text.get(self.at + distance).copied()
    }

    fn ahead(&self, expected: &str) -> bool {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let mut rest = rest.iter();
        expected.chars().all(|c| rest.next() == Some(&c))
    }

    fn take(&mut self, expected: &str) -> bool {
        let found = self.ahead(expected);
        if found {
            self.at += expected.chars().count();
        }
        found
    }

    /// Skips blanks, continued lines and a comment.
    fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => self.at += 1,
                Some('\\') if self.after(1) == Some('\n') => self.at += 2,
                Some('#') if self.starts_word() => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                Some(_) | None => return,
            }
        }
    }

    /// Returns whether a word would begin here, so that `#` begins a comment.
    fn starts_word(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.text.get(at));
        match before {
            None => true,
            // After a continued line the word may continue: `a\⏎#b`. Callers inside a word never
            // get here, so a newline always ends the previous line.
            Some(c) => is_meta(*c),
        }
    }

    /// Skips blanks, comments and line ends, and parses the here-documents that begin there.
    fn skip_lines(&mut self) -> Reading<()> {
        loop {
            self.skip_blanks();
            if self.peek() != Some('\n') {
                return Ok(());
            }
            self.at += 1;
            self.here_documents()?;
        }
    }

    /// Returns whether a token that ends a list is here.
    fn at_close(&self) -> bool {
        match self.peek() {
            None | Some(')') => true,
            Some(';') => self.at_case_end(),
            Some(_) => CLOSERS.iter().any(|word| self.keyword(word)),
        }
    }

    fn at_case_end(&self) -> bool {
        self.ahead(";;") || self.ahead(";&")
    }

    /// Returns whether this keyword is here as a separate word.
    fn keyword(&self, word: &str) -> bool {
        let end = self.after(word.len());
        self.ahead(word) && end.is_none_or(|c| is_meta(c) && !matches!(c, '<' | '>'))
    }

    fn take_keyword(&mut self, word: &str) -> bool {
        let found = self.keyword(word);
        if found {
            self.at += word.len();
        }
        found
    }

    fn expect(&mut self, word: &str) -> Reading<()> {
        self.skip_lines()?;
        let found = self.take_keyword(word);
        self.need(found, "a keyword is missing")
    }
}

/// Keywords that end a list.
const CLOSERS: [&str; 8] = ["then", "do", "done", "fi", "elif", "else", "esac", "}"];

/// Returns whether the character ends an unquoted word.
fn is_meta(c: char) -> bool {
    matches!(
        c,
        ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')'
    )
}

fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(is_name_start) && characters.all(is_name_part)
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn is_name_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
