//! Skills: instructions on disk that a model loads when it needs them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A skill that a run may load, as it was when the run was admitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillRef {
    pub name: String,
    /// When to use it.
    pub description: String,
    /// The folder that contains its `SKILL.md`.
    pub folder: PathBuf,
    pub source: SkillSource,
}

/// The origin of a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkillSource {
    Project,
    /// The user's home folder.
    User,
    /// A folder that an operator or a caller named.
    Extra,
}
