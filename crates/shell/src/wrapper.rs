//! Programs that start the command in their own arguments, and how their options are parsed.

mod others;
mod table;

use crate::script::Word;
use table::{LOADER, WRAPPERS};

pub(crate) use others::{MANAGERS, OPTION_TEXTS, UNREAD};

/// How a program starts another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    /// The remaining words are the program and its arguments.
    Words,
    /// A shell parses the remaining words, joined to one text.
    Line,
    /// The remaining words are arguments of a shell.
    Shell,
}

/// One program that starts another.
#[derive(Debug)]
pub(crate) struct Wrapper {
    names: &'static [&'static str],
    /// Short options without a value.
    flags: &'static str,
    /// Short options with a value, attached or in the next word.
    valued: &'static str,
    /// Short options whose value must be attached.
    optional: &'static str,
    /// Long options without a value, or with one that must be attached.
    long_flags: &'static [&'static str],
    long_valued: &'static [&'static str],
    /// Long options that take two words.
    long_pairs: &'static [&'static str],
    /// Short options whose value a shell parses.
    texts: &'static str,
    /// Long options whose value a shell parses.
    long_texts: &'static [&'static str],
    /// The number of words between the options and the command.
    operands: usize,
    pub(crate) runs: Runs,
    /// Whether `NAME=value` may precede the command.
    pub(crate) assigns: bool,
    /// Whether options may also follow operands.
    permutes: bool,
    /// Whether a lone `-` is an option.
    dash: bool,
    /// Whether the program starts a shell, which reads its input, if no command is given.
    pub(crate) shell: bool,
    /// Whether the program is too unusual, or too different between versions, to be parsed with
    /// certainty.
    doubtful: bool,
}

/// Finds the wrapper of this name.
pub(crate) fn find(name: &str) -> Option<&'static Wrapper> {
    let loader = ["ld-linux", "ld-musl", "ld.so", "ld64.so"]
        .iter()
        .any(|start| name.starts_with(start));
    if loader {
        return Some(&LOADER);
    }
    WRAPPERS
        .iter()
        .find(|wrapper| wrapper.names.contains(&name))
}

/// The parsed arguments of a wrapper.
#[derive(Debug)]
pub(crate) struct Call {
    /// The words of the inner command.
    pub(crate) rest: Vec<Word>,
    /// The inner command under the assumption that an unknown option takes the word after it.
    pub(crate) other: Option<Vec<Word>>,
    /// Texts that options pass to a shell.
    pub(crate) texts: Vec<Word>,
    /// The letters of all short options.
    pub(crate) letters: String,
    /// The words before the inner command.
    pub(crate) before: Vec<Word>,
    pub(crate) certain: bool,
}

impl Wrapper {
    /// Finds the inner command after options and operands.
    pub(crate) fn call(&self, arguments: &[Word]) -> Call {
        let mut call = self.walk(arguments, false);
        if call.strange {
            let other = self.walk(arguments, true);
            if other.rest != call.rest {
                call.other = Some(other.rest);
            }
            call.texts.extend(other.texts);
        }
        Call {
            certain: !call.strange && !self.doubtful,
            rest: call.rest,
            other: call.other,
            texts: call.texts,
            letters: call.letters,
            before: call.before,
        }
    }

    /// Walks over the options. If `swallow`, an unknown option takes the next word.
    fn walk(&self, arguments: &[Word], swallow: bool) -> Walk {
        let mut walk = Walk::default();
        let mut operands = Vec::new();
        let mut rest = arguments;
        let mut ended = false;
        while let Some((word, after)) = rest.split_first() {
            let taken = match word {
                _ if ended => Taken::Nothing,
                Word::Known(text) => self.option(text, &mut walk),
                // The word may become anything, including options.
                Word::Unknown(_) | Word::Single(_) => Taken::Nothing,
            };
            let count = match taken {
                Taken::Nothing if operands.len() < self.operands || self.permutes => {
                    // An unknown word may be an option, or no word at all.
                    walk.strange |= word.known().is_none();
                    operands.push(word.clone());
                    rest = after;
                    ended |= !self.permutes;
                    continue;
                }
                Taken::Nothing => break,
                Taken::End => {
                    ended = true;
                    0
                }
                Taken::Flag => 0,
                Taken::WithNext => 1,
                Taken::WithTwo => 2,
                Taken::Text => {
                    walk.texts.extend(after.first().cloned());
                    walk.strange |= after.is_empty();
                    1
                }
                Taken::Strange => {
                    walk.strange = true;
                    usize::from(swallow)
                }
            };
            let values = after.get(..count).unwrap_or(after);
            walk.strange |= values.iter().any(Word::may_split);
            rest = after.get(count..).unwrap_or_default();
        }
        walk.before = arguments
            .get(..arguments.len() - rest.len())
            .unwrap_or_default()
            .to_vec();
        let own = operands.split_off(self.operands.min(operands.len()));
        walk.rest = own.into_iter().chain(rest.iter().cloned()).collect();
        walk
    }

    fn option(&self, text: &str, walk: &mut Walk) -> Taken {
        if text == "--" {
            return Taken::End;
        }
        if let Some(long) = text.strip_prefix("--") {
            let (name, attached) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            return self.long(name, attached, walk);
        }
        match text.strip_prefix('-') {
            Some("") if self.dash => Taken::Flag,
            Some("") | None => Taken::Nothing,
            Some(cluster) => self.cluster(cluster, walk),
        }
    }

    fn long(&self, name: &str, attached: Option<&str>, walk: &mut Walk) -> Taken {
        // An abbreviated name is not certain: which ones are unique depends on the version.
        let shortened = |long: &&&str| name.len() > 1 && long.starts_with(name);
        let text = self.long_texts.iter().find(shortened);
        if let Some(text) = text {
            walk.strange |= *text != name;
            return match attached {
                Some(value) => {
                    walk.texts.push(Word::Known(value.to_owned()));
                    Taken::Flag
                }
                None => Taken::Text,
            };
        }
        match attached {
            _ if self.long_flags.contains(&name) => Taken::Flag,
            Some(_) if self.long_valued.contains(&name) => Taken::Flag,
            None if self.long_valued.contains(&name) => Taken::WithNext,
            None if self.long_pairs.contains(&name) => Taken::WithTwo,
            Some(_) => {
                walk.strange = true;
                Taken::Flag
            }
            None => Taken::Strange,
        }
    }

    fn cluster(&self, cluster: &str, walk: &mut Walk) -> Taken {
        let mut letters = cluster.chars();
        while let Some(letter) = letters.next() {
            walk.letters.push(letter);
            let attached = letters.as_str();
            if self.texts.contains(letter) {
                if attached.is_empty() {
                    return Taken::Text;
                }
                walk.texts.push(Word::Known(attached.to_owned()));
                return Taken::Flag;
            }
            if self.valued.contains(letter) {
                return match attached {
                    "" => Taken::WithNext,
                    _ => Taken::Flag,
                };
            }
            if self.optional.contains(letter) {
                return Taken::Flag;
            }
            if !self.flags.contains(letter) {
                walk.strange = true;
                return match attached {
                    "" => Taken::Strange,
                    _ => Taken::Flag,
                };
            }
        }
        Taken::Flag
    }
}

#[derive(Debug, Default)]
struct Walk {
    rest: Vec<Word>,
    other: Option<Vec<Word>>,
    texts: Vec<Word>,
    letters: String,
    before: Vec<Word>,
    strange: bool,
}

/// The words that an option consumes.
enum Taken {
    Nothing,
    End,
    Flag,
    WithNext,
    WithTwo,
    /// The next word, which a shell parses.
    Text,
    Strange,
}
