//! What was read: the simple commands of a script, flat, and which of them belong together.

use std::ops::Range;

use crate::carry::is_managed;

/// Everything a command line would run, as far as it can be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Every simple command anywhere: in pipelines, lists, substitutions, functions, loops.
    pub commands: Vec<Simple>,
    /// Pipelines of two or more stages, as ranges of `commands`.
    pub pipelines: Vec<Vec<Range<usize>>>,
    /// What runs in the background, as ranges of `commands`.
    pub background: Vec<Range<usize>>,
    /// Functions that are defined, with their bodies as ranges of `commands`.
    pub functions: Vec<(String, Range<usize>)>,
    /// Whether an expansion computes or assigns: `$((x))`, `${x:=y}`, `${!x}`.
    pub computes: bool,
}

impl Script {
    /// Every simple command, including commands that other programs start (`env`, `sh -c`).
    pub fn effective(&self) -> Vec<&Simple> {
        let mut all = Vec::new();
        for command in &self.commands {
            all.extend(command.effective());
        }
        all
    }

    /// The commands that rules have to allow: all but what a package manager or its like starts, as
    /// `npx *` is meant.
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

    /// This script and all that its commands carry.
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
    /// Variables that are set for it, or by it.
    pub assignments: Vec<(String, Word)>,
    /// The program and its arguments. Empty for a lone redirect or assignment.
    pub words: Vec<Word>,
    /// Where its input and output go.
    pub redirects: Vec<Redirect>,
    /// The commands inside its words (`$(..)`, `<(..)`), as a range of the script's `commands`.
    pub contains: Range<usize>,
    /// What it starts: the command after `env`, the text after `sh -c`.
    pub carries: Vec<Script>,
}

impl Simple {
    /// This command and all that it carries.
    pub fn effective(&self) -> Vec<&Simple> {
        let mut all = vec![self];
        for script in &self.carries {
            all.extend(script.effective());
        }
        all
    }

    /// The program's name without its folder, where it is known.
    pub fn program(&self) -> Option<&str> {
        let name = self.words.first()?.known()?;
        Some(name.rsplit('/').next().unwrap_or(name))
    }

    /// The words after the program.
    pub fn arguments(&self) -> &[Word] {
        self.words.get(1..).unwrap_or_default()
    }
}

/// One argument after quoting is resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// Exactly this text.
    Known(String),
    /// None, one or several words that only the running shell knows; the text shows how it is
    /// written.
    Unknown(String),
    /// Exactly one word that only the running shell knows, such as `"$x"`.
    Single(String),
}

impl Word {
    /// The text, where it is certain.
    pub fn known(&self) -> Option<&str> {
        match self {
            Self::Known(text) => Some(text),
            Self::Unknown(_) | Self::Single(_) => None,
        }
    }

    /// The text, or how it is written where it is not certain.
    pub fn shape(&self) -> &str {
        match self {
            Self::Known(text) | Self::Unknown(text) | Self::Single(text) => text,
        }
    }

    /// Whether it may become no word, or several.
    pub(crate) const fn may_split(&self) -> bool {
        match self {
            Self::Known(_) | Self::Single(_) => false,
            Self::Unknown(_) => true,
        }
    }

    /// A word of the same kind with another text.
    pub(crate) fn with_text(&self, text: &str) -> Self {
        let text = text.to_owned();
        match self {
            Self::Known(_) => Self::Known(text),
            Self::Unknown(_) => Self::Unknown(text),
            Self::Single(_) => Self::Single(text),
        }
    }
}

/// Where an input comes from or an output goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redirect {
    /// Reads a file.
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
    /// All that it runs is in the script.
    Whole(Script),
    /// It runs something more, that cannot be told from its text.
    Partly {
        /// What could be told.
        script: Script,
        /// What could not.
        why: String,
    },
    /// Nothing certain can be said.
    Not {
        /// What was in the way.
        why: String,
    },
}

impl Understanding {
    /// What could be told, if anything.
    pub fn script(&self) -> Option<&Script> {
        match self {
            Self::Whole(script) | Self::Partly { script, .. } => Some(script),
            Self::Not { .. } => None,
        }
    }
}
