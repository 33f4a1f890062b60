//! What can be wrong, as data; the Display is the English sentence.
//!
//! No sentence quotes text from a place that was not understood: it might be a secret.

use std::fmt;
use std::path::PathBuf;

use crate::{KeyPath, Origin};

/// How many problems are told at once.
pub const MAX_PROBLEMS: usize = 20;
/// How many warnings about one file are told; how many more there were is counted.
pub const MAX_WARNINGS: usize = 50;

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file could not be read.
    #[error("cannot read {}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A folder, a pipe or a device.
    #[error("{} is not a regular file", file.display())]
    NotAFile {
        /// The path.
        file: PathBuf,
    },
    /// More than anybody writes by hand.
    #[error("{} is larger than {limit_bytes} bytes", file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// The most that is read.
        limit_bytes: u64,
    },
    /// Not UTF-8.
    #[error("{} is not UTF-8 text", file.display())]
    NotText {
        /// The file.
        file: PathBuf,
    },
    /// Not TOML.
    #[error("{}:{line}:{column}: {message}", file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// What the parser says.
        message: String,
    },
    /// A flag names no key.
    #[error("{flag}: expected KEY=VALUE, for example subagents.max_concurrent=8")]
    BadAssignment {
        /// The flag.
        flag: String,
    },
    /// Values that cannot be.
    #[error("{}", sentences(problems, *more))]
    Invalid {
        /// The first of them.
        problems: Vec<Problem>,
        /// How many more there are.
        more: usize,
    },
    /// The checks and the types disagree: a mistake of ours.
    #[error("the configuration passed every check and still does not fit: {message}")]
    Unfit {
        /// What does not fit.
        message: String,
    },
}

fn sentences(problems: &[Problem], more: usize) -> String {
    let mut lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines.join("\n")
}

/// A value that cannot be.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Who set it.
    pub origin: Origin,
    /// The line in the file, from 1.
    pub line: Option<usize>,
    /// The key.
    pub key: KeyPath,
    /// What is wrong with it.
    pub fault: Fault,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.origin)?;
        if let Some(line) = self.line {
            write!(formatter, ":{line}")?;
        }
        write!(formatter, ": {}: {}", self.key, self.fault)
    }
}

impl std::error::Error for Problem {}

/// What is wrong with a value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Fault {
    /// Another type.
    #[error("expected {expected}, found {found}")]
    WrongType {
        /// What should be there.
        expected: Expected,
        /// What is there.
        found: Found,
    },
    /// Too small or too large.
    #[error("expected {minimum} to {maximum}, found {found}")]
    OutOfRange {
        /// The number.
        found: String,
        /// The least.
        minimum: f64,
        /// The most.
        maximum: f64,
    },
    /// None of the words.
    #[error("expected {}, found {found}", choices.join(", "))]
    NotAChoice {
        /// The word, quoted and shortened.
        found: String,
        /// The words. None of them is suggested: a guess at what was meant could widen rights.
        choices: Vec<String>,
    },
    /// Empty text.
    #[error("is empty; remove the key to leave it unset")]
    Empty,
    /// A line break or another character that does not print.
    #[error("holds a character that does not print, such as a line break")]
    Unprintable,
    /// Not an address to send requests to.
    #[error("{0}")]
    Url(#[from] UrlFault),
    /// Not the name of a variable: perhaps the key itself.
    #[error(
        "expected the name of an environment variable (A-Z, 0-9 and _), \
         not the key itself"
    )]
    VariableName,
}

/// What is wrong with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlFault {
    /// Neither http nor https.
    #[error("expected an address that begins with https:// or http://")]
    Scheme,
    /// No host, or one that cannot be.
    #[error("expected a host name after ://")]
    Host,
    /// Not a number from 1 to 65535.
    #[error("expected a port from 1 to 65535")]
    Port,
    /// A user or a password.
    #[error("an address must hold no user and no password; use api_key or headers")]
    User,
    /// A query or a fragment.
    #[error("an address must end before any ? or #; use query")]
    Query,
}

/// A type that was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A table.
    Table,
    /// Text.
    Text,
    /// A list of texts.
    TextList,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// True or false.
    Boolean,
}

impl fmt::Display for Expected {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Table => "a table",
            Self::Text => "text in quotation marks",
            Self::TextList => "a list of texts",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Boolean => "true or false",
        })
    }
}

/// A type that was found. Texts are not shown: they might be secret.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// A table.
    Table,
    /// Text.
    Text,
    /// A list.
    List,
    /// A number, as it was written.
    Number(String),
    /// True or false.
    Boolean(bool),
    /// A date or a time.
    Time,
}

impl fmt::Display for Found {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table => formatter.write_str("a table"),
            Self::Text => formatter.write_str("text"),
            Self::List => formatter.write_str("a list"),
            Self::Number(number) => formatter.write_str(number),
            Self::Boolean(value) => write!(formatter, "{value}"),
            Self::Time => formatter.write_str("a date or time"),
        }
    }
}

/// What was left out of the configuration, and why.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Warning {
    /// Nobody knows the key.
    #[error("{origin}: unknown key {key}{}", meant(nearest.as_deref()))]
    UnknownKey {
        /// Who set it.
        origin: Origin,
        /// The key.
        key: KeyPath,
        /// The path of the key that was probably meant.
        nearest: Option<String>,
    },
    /// The same key in two spellings.
    #[error("{origin}: {key} is set twice; {ignored} is ignored")]
    SetTwice {
        /// Who set it.
        origin: Origin,
        /// The key that counts.
        key: KeyPath,
        /// The spelling that does not.
        ignored: String,
    },
    /// The folder is not trusted.
    #[error("{}: {key} is ignored: {restriction}; `sortie trust` trusts this folder", file.display())]
    NeedsTrust {
        /// The project's file.
        file: PathBuf,
        /// The key.
        key: KeyPath,
        /// Why it needs trust.
        restriction: Restriction,
    },
    /// More warnings than anybody reads.
    #[error("{origin}: {count} more warnings")]
    More {
        /// What they are about.
        origin: Origin,
        /// How many.
        count: usize,
    },
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean {name}?"))
}

/// Why a key needs trust.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Restriction {
    /// The key as such.
    #[error("a folder that is not trusted cannot set it")]
    Key,
    /// More than holds without the file.
    #[error("a folder that is not trusted cannot raise it above {limit}")]
    Raises {
        /// What holds without the file.
        limit: i64,
    },
    /// Switches something on.
    #[error("a folder that is not trusted can only set it to false")]
    SwitchesOn,
    /// Not a plain `vendor/model`.
    #[error("a folder that is not trusted can only name a model as vendor/model")]
    Model,
}
