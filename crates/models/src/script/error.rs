//! Errors of scenario files.

use std::io;
use std::path::PathBuf;

use super::MAX_SCRIPT_BYTES;
use sortie_base::nearest::nearest;

/// Why a script could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file could not be read.
    #[error("cannot read the script {}", path.display())]
    Read {
        /// The path of the script file.
        path: PathBuf,
        source: io::Error,
    },
    /// The text is too long to be a script.
    #[error("{name} is {bytes} bytes long; a script has at most {MAX_SCRIPT_BYTES}")]
    TooLong {
        name: String,
        /// The size of the script.
        bytes: u64,
    },
    /// The text is not a script.
    #[error("{name}:{line}:{column}: {problem}")]
    Invalid {
        name: String,
        /// The line, from 1.
        line: u64,
        /// The column, from 1.
        column: u64,
        /// What is wrong, and what would be correct.
        problem: String,
    },
}

impl ScriptError {
    /// Converts an error of the YAML parser.
    pub(super) fn from_yaml(name: &str, error: &serde_saphyr::Error) -> Self {
        let error = error.without_snippet();
        let location = error.location();
        Self::Invalid {
            name: name.to_owned(),
            line: location.map_or(1, |location| location.line()),
            column: location.map_or(1, |location| location.column()),
            problem: problem(error),
        }
    }

    /// Returns the message with its cause, for consumers that take only one string.
    pub(crate) fn whole(&self) -> String {
        match self {
            Self::Read { source, .. } => format!("{self}: {source}"),
            Self::TooLong { .. } | Self::Invalid { .. } => self.to_string(),
        }
    }
}

fn problem(error: &serde_saphyr::Error) -> String {
    if let serde_saphyr::Error::SerdeUnknownField {
        field, expected, ..
    } = error
    {
        return unknown("key", field, expected);
    }
    if let serde_saphyr::Error::SerdeUnknownVariant {
        variant, expected, ..
    } = error
    {
        return unknown("word", variant, expected);
    }
    if let serde_saphyr::Error::SerdeMissingField { field, .. } = error {
        return format!("the key `{field}` is missing");
    }
    if let serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } = error {
        return format!("the key `{key}` is given twice");
    }
    let whole = error.to_string();
    // The location already precedes the problem.
    let place = error
        .location()
        .map(|at| format!(" at line {}, column {}", at.line(), at.column()));
    let short = place.and_then(|place| whole.strip_suffix(&place));
    short.unwrap_or(&whole).to_owned()
}

fn unknown(what: &str, wrong: &str, known: &[&str]) -> String {
    let hint = nearest(wrong, known.iter().copied())
        .map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
    format!(
        "unknown {what} `{wrong}`{hint} (known: {})",
        known.join(", ")
    )
}
