//! Options by meaning: `-rf`, `-fr`, `-r -f` and `--recursive --force` are equal.

use crate::script::Word;

/// The options and operands of a command.
#[derive(Debug, Default)]
pub(super) struct Arguments<'a> {
    letters: Vec<char>,
    longs: Vec<&'a str>,
    pub(super) operands: Vec<&'a str>,
}

impl<'a> Arguments<'a> {
    pub(super) fn of(words: &'a [Word]) -> Self {
        let mut found = Self::default();
        let mut only_operands = false;
        for text in words.iter().map(Word::shape) {
            match text.strip_prefix('-') {
                _ if only_operands => found.operands.push(text),
                Some("-") => only_operands = true,
                Some("") | None => found.operands.push(text),
                Some(rest) => match rest.strip_prefix('-') {
                    Some(long) => found.longs.push(long.split('=').next().unwrap_or(long)),
                    None => found.letters.extend(rest.chars()),
                },
            }
        }
        found
    }

    /// Returns whether one of these options is given. A long option may be abbreviated, as GNU
    /// programs accept.
    pub(super) fn has(&self, letters: &str, longs: &[&str]) -> bool {
        let long = |given: &&str| {
            longs
                .iter()
                .any(|long| *given == *long || is_short_for(given, long))
        };
        self.letters.iter().any(|letter| letters.contains(*letter)) || self.longs.iter().any(long)
    }

    /// Returns whether this long option is given, without abbreviation.
    pub(super) fn has_exactly(&self, long: &str) -> bool {
        self.longs.contains(&long)
    }

    /// Returns the first operand, most often the name of a subcommand.
    pub(super) fn first(&self) -> &'a str {
        self.operands.first().copied().unwrap_or_default()
    }

    /// Returns the operand after the first one.
    pub(super) fn second(&self) -> &'a str {
        self.operands.get(1).copied().unwrap_or_default()
    }
}

/// Returns whether `given` abbreviates the long option. GNU programs accept two letters for most
/// options; one letter is often ambiguous.
fn is_short_for(given: &str, long: &str) -> bool {
    given.len() > 1 && long.starts_with(given)
}
