//! Skills: instructions on disk that a model loads when it needs them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A skill that a run may use, as it was when the run was admitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillRef {
    /// Its name.
    pub name: String,
    /// When to use it.
    pub description: String,
    /// The folder that holds its `SKILL.md`.
    pub folder: PathBuf,
    /// Where it comes from.
    pub source: SkillSource,
}

/// Where a skill comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkillSource {
    /// The project.
    Project,
    /// The user's home directory.
    User,
    /// A folder that an operator or a caller named.
    Extra,
}
