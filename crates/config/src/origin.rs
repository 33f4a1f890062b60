//! Who set a key.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// The layer that set a key. Later ones are stronger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "layer", content = "name", rename_all = "snake_case")]
pub enum Origin {
    /// Nobody: what holds without any configuration.
    Default,
    /// The user's file.
    User(PathBuf),
    /// The project's file.
    Project(PathBuf),
    /// A variable.
    Environment(String),
    /// A flag.
    Flag(String),
}

impl Origin {
    /// The file, if it is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::User(file) | Self::Project(file) => Some(file),
            Self::Default | Self::Environment(_) | Self::Flag(_) => None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::User(file) | Self::Project(file) => write!(formatter, "{}", file.display()),
            Self::Environment(variable) => write!(formatter, "environment variable {variable}"),
            Self::Flag(flag) => write!(formatter, "flag {flag}"),
        }
    }
}
