//! Skills: folders with a `SKILL.md`, read in three steps.
//!
//! A model sees names and descriptions, asks for the text of one when a task fits it, and for further
//! files of its folder when the text points to them.

mod choice;
mod find;
mod prompt;
mod tool;

use std::path::PathBuf;

use sortie_core::{Lang, SkillRef, SkillSource};

pub use choice::{SkillChoice, narrow};
pub use prompt::skills_prompt;
pub use tool::{SKILL_TOOL, SkillTool};

use crate::{Place, Problem, Scope};

/// The file that makes a folder a skill; the second spelling is tolerated.
const SKILL_FILES: [&str; 2] = ["SKILL.md", "skill.md"];
/// The largest `SKILL.md`, and the largest further file, that is read.
const MAX_SKILL_BYTES: u64 = 256 * 1024;

/// A skill that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// Its name.
    pub name: String,
    /// What it is for: one bounded line.
    pub description: String,
    /// Its folder, by the path that no symbolic link is part of.
    pub folder: PathBuf,
    /// The folder of skills that it was found in.
    pub root: PathBuf,
    /// Whose it is.
    pub scope: Scope,
    /// Whether models are offered it.
    pub for_models: bool,
    /// Whether people are offered it.
    pub for_people: bool,
    /// The tools it would like to have. They are shown to people and grant nothing.
    pub wanted_tools: Vec<String>,
    /// Keys that nobody knows.
    pub unknown: Vec<String>,
}

impl Skill {
    /// The skill as a run keeps it.
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

/// The skills of some places, and what is wrong there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skills {
    /// The skills, no two of one name, in the order of their places.
    pub skills: Vec<Skill>,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

impl Skills {
    /// Looks for skills. Nothing that is wrong in one place keeps the others from being found.
    pub fn find(places: &[Place]) -> Self {
        find::find(places)
    }

    /// The skills that models are offered.
    pub fn for_models(&self) -> Vec<SkillRef> {
        let offered = self.skills.iter().filter(|skill| skill.for_models);
        offered.map(Skill::to_ref).collect()
    }

    /// What a model is told about the skills it is offered, in at most so many characters.
    pub fn prompt(&self, lang: Lang, budget_chars: usize) -> String {
        skills_prompt(&self.for_models(), lang, budget_chars)
    }
}
