//! The origin of a value.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// The layer that set a key. Later variants take precedence over earlier ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "layer", content = "name", rename_all = "snake_case")]
pub enum Origin {
    /// The default of the key; no source sets it.
    Default,
    /// The path of the user file.
    User(PathBuf),
    /// The path of the project file.
    Project(PathBuf),
    /// The name of an environment variable.
    Environment(String),
    /// The name of a command-line flag.
    Flag(String),
}

impl Origin {
    /// Returns the path, if the layer is a file.
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
