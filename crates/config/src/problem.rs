//! Errors and warnings as data; `Display` writes them in English.
//!
//! No message quotes text from a position that the parser did not understand: it might be a secret.

use std::fmt;
use std::path::PathBuf;

use crate::{KeyPath, Origin};

/// The most problems that one error reports.
pub const MAX_PROBLEMS: usize = 20;
/// The most warnings about one file; further ones are only counted.
pub const MAX_WARNINGS: usize = 50;

/// Why the configuration could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {}", file.display())]
    Unreadable {
        file: PathBuf,
        source: std::io::Error,
    },
    /// The path is a folder, a pipe or a device.
    #[error("{} is not a regular file", file.display())]
    NotAFile { file: PathBuf },
    /// The file is larger than any configuration written by hand.
    #[error("{} is larger than {limit_bytes} bytes", file.display())]
    TooLarge {
        file: PathBuf,
        /// The most bytes that are read.
        limit_bytes: u64,
    },
    /// The file is not UTF-8.
    #[error("{} is not UTF-8 text", file.display())]
    NotText { file: PathBuf },
    /// The file is not valid TOML.
    #[error("{}:{line}:{column}: {message}", file.display())]
    Syntax {
        file: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// The parser's message.
        message: String,
    },
    /// The text of a flag contains no key.
    #[error("{flag}: expected KEY=VALUE, for example subagents.max_concurrent=8")]
    BadAssignment { flag: String },
    /// Some values are invalid.
    #[error("{}", sentences(problems, *more))]
    Invalid {
        /// The first [`MAX_PROBLEMS`] problems.
        problems: Vec<Problem>,
        /// The number of further problems.
        more: usize,
    },
    /// The checks passed, but the types reject the configuration: a bug in Sortie.
    #[error("internal error: the checked configuration cannot be deserialized: {message}")]
    Unfit {
        /// The message of the deserializer.
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

/// An invalid value and its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// The layer that set the value.
    pub origin: Origin,
    /// The line number in the file, from 1.
    pub line: Option<usize>,
    pub key: KeyPath,
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
    /// The value has another type.
    #[error("expected {expected}, found {found}")]
    WrongType { expected: Expected, found: Found },
    /// The number is too small or too large.
    #[error("expected {minimum} to {maximum}, found {found}")]
    OutOfRange {
        found: String,
        minimum: f64,
        maximum: f64,
    },
    /// The text is none of the accepted choices.
    #[error("expected {}, found {found}", choices.join(", "))]
    NotAChoice {
        /// The text, quoted and truncated.
        found: String,
        /// The accepted choices. The message suggests none of them: a wrong guess could widen
        /// rights.
        choices: Vec<String>,
    },
    /// The text is empty.
    #[error("is empty; remove the key to leave it unset")]
    Empty,
    /// The text contains a line break or another non-printable character.
    #[error("contains a non-printable character, such as a line break")]
    Unprintable,
    /// The text is not an address that requests can be sent to.
    #[error("{0}")]
    Url(#[from] UrlFault),
    /// The text is not the name of an environment variable: perhaps it is the secret itself.
    #[error(
        "expected the name of an environment variable (A-Z, 0-9 and _), \
         not the key itself"
    )]
    VariableName,
}

/// What is wrong with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlFault {
    /// The scheme is neither http nor https.
    #[error("expected an address that begins with https:// or http://")]
    Scheme,
    /// The host is missing or invalid.
    #[error("expected a host name after ://")]
    Host,
    /// The port is not a number from 1 to 65535.
    #[error("expected a port from 1 to 65535")]
    Port,
    /// The address contains a user or a password.
    #[error("the address must not contain a user or a password; use api_key or headers")]
    User,
    /// The address contains a query or a fragment.
    #[error("the address must not contain ? or #; put parameters into query")]
    Query,
}

/// The type that a key expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    Table,
    Text,
    /// A list of strings.
    TextList,
    Integer,
    Number,
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

/// The type that a value has. Strings are not shown: they might be secret.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    Table,
    Text,
    List,
    /// A number, as written in the source.
    Number(String),
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

/// A value that was ignored, and why.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Warning {
    /// The configuration has no such key.
    #[error("{origin}: unknown key {key}{}", meant(nearest.as_deref()))]
    UnknownKey {
        /// The layer that set the key.
        origin: Origin,
        key: KeyPath,
        /// The path of the most similar known key.
        nearest: Option<String>,
    },
    /// One layer sets the same key in two spellings.
    #[error("{origin}: {key} is set twice; {ignored} is ignored")]
    SetTwice {
        /// The layer that set the key.
        origin: Origin,
        /// The key that is used.
        key: KeyPath,
        /// The spelling that is ignored.
        ignored: String,
    },
    /// An untrusted folder may not set this value.
    #[error("{}: {key} is ignored: {restriction}; run `sortie trust` to trust the folder", file.display())]
    NeedsTrust {
        /// The path of the project file.
        file: PathBuf,
        key: KeyPath,
        restriction: Restriction,
    },
    /// Further warnings of a layer, beyond [`MAX_WARNINGS`].
    #[error("{origin}: {count} more warnings")]
    More {
        /// The layer that the warnings are about.
        origin: Origin,
        count: usize,
    },
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean {name}?"))
}

/// Why a value is ignored in an untrusted folder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Restriction {
    /// An untrusted folder may not set the key at all.
    #[error("an untrusted folder cannot set it")]
    Key,
    /// The value is higher than the one in effect without the file.
    #[error("an untrusted folder cannot raise it above {limit}")]
    Raises {
        /// The value in effect without the file.
        limit: i64,
    },
    /// The value enables something.
    #[error("an untrusted folder can only set it to false")]
    SwitchesOn,
    /// The value is not a plain `vendor/model`.
    #[error("an untrusted folder can only name a model as vendor/model")]
    Model,
}
