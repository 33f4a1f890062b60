//! The result of parsing: the simple commands of a script as a flat list, and how they belong
//! together.

use std::ops::Range;

use crate::carry::is_managed;

/// Everything that a command line would run, as far as it can be determined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Every simple command at any nesting: in pipelines, lists, substitutions, functions, loops.
    pub commands: Vec<Simple>,
    /// Pipelines of two or more stages, as ranges of `commands`.
    pub pipelines: Vec<Vec<Range<usize>>>,
    /// Commands that run in the background, as ranges of `commands`.
    pub background: Vec<Range<usize>>,
    /// Functions that are defined, with their bodies as ranges of `commands`.
    pub functions: Vec<(String, Range<usize>)>,
    /// Whether an expansion computes or assigns: `$((x))`, `${x:=y}`, `${!x}`.
    pub computes: bool,
}

impl Script {
    /// Returns every simple command, including commands that other programs start (`env`, `sh -c`).
    pub fn effective(&self) -> Vec<&Simple> {
        let mut all = Vec::new();
        for command in &self.commands {
            all.extend(command.effective());
        }
        all
    }

    /// Returns the commands that rules must allow: all except those that a package manager or
    /// similar program starts, as `npx *` intends.
    pub fn to_allow(&self) -> Vec<&Simple> {
        let mut all = Vec::new();
        for command in &self.commands {
            all.push(command);
            if !is_managed(command) {
                all.extend(command.carries.iter().flat_map(Script::to_allow));
            }
        }
        all
    }

    /// Returns this script and all scripts that its commands carry.
    pub fn scripts(&self) -> Vec<&Script> {
        let mut all = vec![self];
        for carried in self.commands.iter().flat_map(|command| &command.carries) {
            all.extend(carried.scripts());
        }
        all
    }
}

/// One program with its arguments, as the shell would start it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simple {
    /// Variables that are set for the program, or by the command.
    pub assignments: Vec<(String, Word)>,
    /// The program and its arguments. Empty for a lone redirect or assignment.
    pub words: Vec<Word>,
    /// The redirects of input and output.
    pub redirects: Vec<Redirect>,
    /// The commands inside its words (`$(..)`, `<(..)`), as a range of the script's `commands`.
    pub contains: Range<usize>,
    /// The commands that it starts: the command after `env`, the text after `sh -c`.
    pub carries: Vec<Script>,
}

impl Simple {
    /// Returns this command and all commands that it carries.
    pub fn effective(&self) -> Vec<&Simple> {
        let mut all = vec![self];
        for script in &self.carries {
            all.extend(script.effective());
        }
        all
    }

    /// Returns the name of the program without its folder, if it is known.
    pub fn program(&self) -> Option<&str> {
        let name = self.words.first()?.known()?;
        Some(name.rsplit('/').next().unwrap_or(name))
    }

    /// Returns the words after the program.
    pub fn arguments(&self) -> &[Word] {
        self.words.get(1..).unwrap_or_default()
    }
}

/// One argument after quoting is resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// Exactly this text, known before it runs.
    Known(String),
    /// Zero or more words that only the running shell knows; the text shows how they are written.
    Unknown(String),
    /// Exactly one word that only the running shell knows, such as `"$x"`.
    Single(String),
}

impl Word {
    /// Returns the text if it is certain.
    pub fn known(&self) -> Option<&str> {
        match self {
            Self::Known(text) => Some(text),
            Self::Unknown(_) | Self::Single(_) => None,
        }
    }

    /// Returns the text, or how the word is written if its text is not certain.
    pub fn shape(&self) -> &str {
        match self {
            Self::Known(text) | Self::Unknown(text) | Self::Single(text) => text,
        }
    }

    /// Returns whether the word may become no word, or several.
    pub(crate) const fn may_split(&self) -> bool {
        match self {
            Self::Known(_) | Self::Single(_) => false,
            Self::Unknown(_) => true,
        }
    }

    /// Returns a word of the same kind with another text.
    pub(crate) fn with_text(&self, text: &str) -> Self {
        let text = text.to_owned();
        match self {
            Self::Known(_) => Self::Known(text),
            Self::Unknown(_) => Self::Unknown(text),
            Self::Single(_) => Self::Single(text),
        }
    }
}

/// The source of an input or the destination of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redirect {
    Reads(Word),
    /// Writes, or may write, a file.
    Writes(Word),
    /// Copies or closes a descriptor.
    Duplicates,
    /// Reads this text: a here-document or a here-string.
    Text(Word),
}

/// How much of a command line was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Understanding {
    /// The script contains everything that the command line runs.
    Whole(Script),
    /// The command line runs something more, which its text does not show.
    Partly {
        /// The part that could be determined.
        script: Script,
        /// What could not be determined.
        why: String,
    },
    /// Nothing about the command line is certain.
    Not {
        /// Why the command line could not be parsed.
        why: String,
    },
}

impl Understanding {
    /// Returns the part that could be determined, if any.
    pub fn script(&self) -> Option<&Script> {
        match self {
            Self::Whole(script) | Self::Partly { script, .. } => Some(script),
            Self::Not { .. } => None,
        }
    }
}
