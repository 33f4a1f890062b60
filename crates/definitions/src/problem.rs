//! Problems of a file, for its author.

use std::fmt;
use std::path::{Path, PathBuf};

/// The severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Information; the file is used as written.
    Note,
    /// Something in the file was changed or omitted.
    Warning,
    /// The file is not used.
    Refusal,
}

/// A problem of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub severity: Severity,
    /// The file, or the folder.
    pub file: PathBuf,
    /// The line, from 1, if known.
    pub line: Option<usize>,
    /// The description, as a sentence.
    pub text: String,
}

impl Problem {
    /// Creates a problem of a whole file.
    pub fn new(severity: Severity, file: &Path, text: impl Into<String>) -> Self {
        Self {
            severity,
            file: file.to_owned(),
            line: None,
            text: text.into(),
        }
    }

    /// Sets the line of the problem.
    #[must_use]
    pub fn at(mut self, line: Option<usize>) -> Self {
        self.line = line;
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.text)
    }
}
