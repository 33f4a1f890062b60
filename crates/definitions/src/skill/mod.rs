//! Skills: folders with a `SKILL.md`, read in three steps.
//!
//! A model sees names and descriptions, loads the text of one when it fits the task, and loads further
//! files of its folder when the text refers to them.

mod choice;
mod find;
mod prompt;
mod tool;

use std::path::PathBuf;

use sortie_core::skill::{SkillRef, SkillSource};
use sortie_core::words::Lang;

pub use choice::{SkillChoice, narrow};
pub use prompt::skills_prompt;
pub use tool::{SKILL_TOOL, SkillTool};

use crate::{Problem, Scope, SearchFolder};

/// The file that makes a folder a skill; the second spelling is accepted.
const SKILL_FILES: [&str; 2] = ["SKILL.md", "skill.md"];
/// Limit of `SKILL.md` and of each further file.
const MAX_SKILL_BYTES: u64 = 256 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    /// Its purpose: one line of limited length.
    pub description: String,
    /// Its folder, by a path without symbolic links.
    pub folder: PathBuf,
    /// The folder of skills that it was found in.
    pub root: PathBuf,
    /// The owner of the folder.
    pub scope: Scope,
    /// Whether models see it.
    pub for_models: bool,
    /// Whether people see it.
    pub for_people: bool,
    /// The tools it requests. They are shown to people and grant nothing.
    pub wanted_tools: Vec<String>,
    pub unknown: Vec<String>,
}

impl Skill {
    /// Returns the skill as a run stores it.
    pub fn to_ref(&self) -> SkillRef {
        SkillRef {
            name: self.name.clone(),
            description: self.description.clone(),
            folder: self.folder.clone(),
            source: match self.scope {
                Scope::Project => SkillSource::Project,
                Scope::User => SkillSource::User,
                Scope::Extra => SkillSource::Extra,
            },
        }
    }
}

/// The skills of some folders, and the problems found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skills {
    /// The skills, with unique names, in the order of their folders.
    pub skills: Vec<Skill>,
    pub problems: Vec<Problem>,
}

impl Skills {
    /// Finds skills. A problem in one folder does not affect the others.
    pub fn find(places: &[SearchFolder]) -> Self {
        find::find(places)
    }

    /// Returns the skills that models see.
    pub fn for_models(&self) -> Vec<SkillRef> {
        let offered = self.skills.iter().filter(|skill| skill.for_models);
        offered.map(Skill::to_ref).collect()
    }

    /// Returns the section of the system prompt about skills, within a limit of characters.
    pub fn prompt(&self, lang: Lang, budget_chars: usize) -> String {
        skills_prompt(&self.for_models(), lang, budget_chars)
    }
}
