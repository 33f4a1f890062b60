//! Patterns of commands, as policy writes them: `git status *`, `cargo *`, `npm run test:*`.

use std::fmt;
use std::str::FromStr;

use crate::script::{Redirect, Script, Simple, Understanding, Word};

/// The most bytes of a pattern.
pub const MAX_PATTERN_BYTES: usize = 1_024;

/// A pattern of commands, matched on their words.
///
/// A lone `*` at the end matches any number of further words, including none; a `*` inside a word
/// matches any characters of that word. Without a `*` at the end the command must have no further
/// words. Quotes and backslashes make a `*` or a blank literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    source: String,
    words: Vec<Vec<Piece>>,
    any_more: bool,
}

/// Why a text is not a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternError {
    /// The text has no words.
    Empty,
    /// The text is longer than [`MAX_PATTERN_BYTES`].
    TooLong,
    /// A quote is not closed, or a backslash ends the text.
    Open,
}

/// The result of matching a list of denied patterns against a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// No pattern matches anything that the command runs.
    Clear,
    /// This pattern matches, or may match, something that the command runs.
    Fits(&'a Pattern),
    /// No pattern is known to match, but part of the command cannot be analyzed: treat it as
    /// denied.
    CannotCheck {
        /// What could not be analyzed.
        why: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Exactly(char),
    Anything,
}

impl Pattern {
    /// Returns whether allowed patterns cover everything that the command runs, writes and sets.
    ///
    /// True only for commands that are completely understood, and that assign nothing, define
    /// nothing, compute nothing and write no file.
    pub fn all_fit(patterns: &[Pattern], understanding: &Understanding) -> bool {
        let script = match understanding {
            Understanding::Whole(script) => script,
            Understanding::Partly { .. } | Understanding::Not { .. } => return false,
        };
        let commands = script.to_allow();
        let still = |script: &&Script| script.functions.is_empty() && !script.computes;
        commands.iter().any(|command| !command.words.is_empty())
            && script.scripts().iter().all(still)
            && commands.iter().all(|command| is_covered(patterns, command))
    }

    /// Returns the first denied pattern that matches, or may match, anything that the command runs.
    ///
    /// An unknown word matches everything, and a command that is not understood is never
    /// [`Verdict::Clear`] if there is a pattern to check.
    pub fn any_fits<'a>(patterns: &'a [Pattern], understanding: &Understanding) -> Verdict<'a> {
        if patterns.is_empty() {
            return Verdict::Clear;
        }
        let commands = understanding.script().map(Script::effective);
        let commands = commands.unwrap_or_default();
        let fits = |pattern: &&Pattern| commands.iter().any(|command| pattern.may_fit(command));
        if let Some(pattern) = patterns.iter().find(fits) {
            return Verdict::Fits(pattern);
        }
        match understanding {
            Understanding::Whole(_) => Verdict::Clear,
            Understanding::Partly { why, .. } | Understanding::Not { why } => {
                Verdict::CannotCheck { why: why.clone() }
            }
        }
    }

    /// Returns whether the words certainly match.
    fn fits(&self, words: &[Word]) -> bool {
        let tail = if self.any_more {
            words.get(self.words.len()..)
        } else {
            None
        };
        let head = match tail {
            Some(_) => words.get(..self.words.len()).unwrap_or_default(),
            None => words,
        };
        head.len() == self.words.len()
            && self
                .words
                .iter()
                .zip(head)
                .all(|(pieces, word)| word.known().is_some_and(|text| matches(pieces, text)))
    }

    /// Returns whether the command could match, whatever its unknown words become.
    fn may_fit(&self, command: &Simple) -> bool {
        let count = self.words.len();
        // The prefixes of the pattern that the words so far may have consumed.
        let mut reached = vec![false; count + 1];
        reached[0] = true;
        for (index, word) in command.words.iter().enumerate() {
            if self.any_more && reached[count] {
                return true;
            }
            if !reached.contains(&true) {
                return false;
            }
            reached = match word {
                Word::Known(text) => self.step(&reached, text, index == 0),
                Word::Unknown(_) | Word::Single(_) => {
                    let first = reached.iter().position(|at| *at).unwrap_or(count + 1);
                    (0..=count).map(|at| at >= first).collect()
                }
            };
        }
        reached[count]
    }

    fn step(&self, reached: &[bool], text: &str, is_program: bool) -> Vec<bool> {
        let count = self.words.len();
        let mut next = vec![false; count + 1];
        next[count] = reached[count] && self.any_more;
        for (at, pieces) in self.words.iter().enumerate() {
            let name = text.rsplit('/').next().unwrap_or(text);
            let same = matches(pieces, text) || (is_program && matches(pieces, name));
            next[at + 1] |= reached[at] && same;
        }
        next
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(source: &str) -> Result<Self, PatternError> {
        if source.len() > MAX_PATTERN_BYTES {
            return Err(PatternError::TooLong);
        }
        let mut words = split(source)?;
        let any_more = words.last().is_some_and(|word| word == &[Piece::Anything]);
        if any_more {
            words.pop();
        }
        if words.is_empty() && !any_more {
            return Err(PatternError::Empty);
        }
        Ok(Self {
            source: source.trim().to_owned(),
            words,
            any_more,
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the pattern of a command has no words",
            Self::TooLong => "the pattern of a command is longer than 1024 bytes",
            Self::Open => "a quote in the pattern of a command has no end",
        })
    }
}

impl std::error::Error for PatternError {}

fn is_covered(patterns: &[Pattern], command: &Simple) -> bool {
    let words = command.words.is_empty() || patterns.iter().any(|one| one.fits(&command.words));
    words && command.assignments.is_empty() && command.redirects.iter().all(is_harmless)
}

fn is_harmless(redirect: &Redirect) -> bool {
    match redirect {
        Redirect::Duplicates | Redirect::Text(_) => true,
        Redirect::Writes(target) => target.known() == Some("/dev/null"),
        // Bash opens network connections for these.
        Redirect::Reads(source) => source
            .known()
            .is_some_and(|path| !path.starts_with("/dev/tcp/") && !path.starts_with("/dev/udp/")),
    }
}

fn split(source: &str) -> Result<Vec<Vec<Piece>>, PatternError> {
    let mut words = Vec::new();
    let mut word: Option<Vec<Piece>> = None;
    let mut quote = None;
    let mut characters = source.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '\\') => {
                let next = characters.next().ok_or(PatternError::Open)?;
                word.get_or_insert_default().push(Piece::Exactly(next));
            }
            (None, '*') => word.get_or_insert_default().push(Piece::Anything),
            (Some(open), c) if open == c => quote = None,
            (Some(_) | None, c) => word.get_or_insert_default().push(Piece::Exactly(c)),
        }
    }
    if quote.is_some() {
        return Err(PatternError::Open);
    }
    words.extend(word);
    Ok(words)
}

/// Returns whether the text matches, in time bounded by the product of the lengths.
fn matches(pieces: &[Piece], text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let (mut piece, mut at) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while at < text.len() {
        match pieces.get(piece) {
            Some(Piece::Anything) => {
                retry = Some((piece, at));
                piece += 1;
            }
            Some(Piece::Exactly(c)) if *c == text[at] => {
                piece += 1;
                at += 1;
            }
            Some(Piece::Exactly(_)) | None => {
                let Some((star, from)) = retry else {
                    return false;
                };
                retry = Some((star, from + 1));
                piece = star + 1;
                at = from + 1;
            }
        }
    }
    let rest = pieces.get(piece..).unwrap_or_default();
    rest.iter().all(|piece| *piece == Piece::Anything)
}
