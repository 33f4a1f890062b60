//! What is wrong with a file, for the person who wrote it.

use std::fmt;
use std::path::{Path, PathBuf};

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; the file works as written.
    Note,
    /// Something in the file was changed or left out.
    Warning,
    /// The file is not used.
    Refusal,
}

/// Something that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// The file, or the folder.
    pub file: PathBuf,
    /// The line, from 1, where one is known.
    pub line: Option<usize>,
    /// What, as a sentence.
    pub text: String,
}

impl Problem {
    /// A problem of a whole file.
    pub fn new(severity: Severity, file: &Path, text: impl Into<String>) -> Self {
        Self {
            severity,
            file: file.to_owned(),
            line: None,
            text: text.into(),
        }
    }

    /// The same problem, at a line.
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
