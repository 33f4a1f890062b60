//! Selects the skills of a run.

use std::path::PathBuf;

use sortie_core::skill::SkillRef;

use super::Skill;
use sortie_base::wildcard::matches_any;

/// The selection of skills for a run. Deny takes precedence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillChoice {
    /// Whether the run inherits the skills of its parent.
    pub inherit: bool,
    pub extra_dirs: Vec<PathBuf>,
    /// Only these, if given; an empty list means none. `*` matches any run of characters.
    pub allow: Option<Vec<String>>,
    pub deny: Vec<String>,
}

impl Default for SkillChoice {
    /// Inherits the skills of the parent.
    fn default() -> Self {
        Self {
            inherit: true,
            extra_dirs: Vec::new(),
            allow: None,
            deny: Vec::new(),
        }
    }
}

impl SkillChoice {
    fn permits(&self, name: &str) -> bool {
        let allowed = self
            .allow
            .as_ref()
            .is_none_or(|allow| matches_any(allow, name));
        allowed && !matches_any(&self.deny, name)
    }
}

/// Returns the skills of a run: its parent's, and those of `found` that are in extra folders.
///
/// Several selections are applied one after the other, the operator's first; every later one
/// without extra folders can then only restrict. `found` contains the skills of the extra folders of this
/// selection only. A skill of the parent hides an extra one of its name.
pub fn narrow(parent: &[SkillRef], choice: &SkillChoice, found: &[Skill]) -> Vec<SkillRef> {
    let mut skills: Vec<SkillRef> = Vec::new();
    if choice.inherit {
        skills.extend(parent.iter().cloned());
    }
    let extra_dirs: Vec<PathBuf> = choice
        .extra_dirs
        .iter()
        .map(|folder| std::fs::canonicalize(folder).unwrap_or_else(|_| folder.clone()))
        .collect();
    let extra = found
        .iter()
        .filter(|skill| skill.for_models && extra_dirs.contains(&skill.root));
    for skill in extra {
        let is_new = skills
            .iter()
            .all(|other| other.name.to_lowercase() != skill.name.to_lowercase());
        if is_new {
            skills.push(skill.to_ref());
        }
    }
    skills.retain(|skill| choice.permits(&skill.name));
    skills
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sortie_core::skill::SkillSource;

    use super::*;
    use crate::Scope;

    fn parent(names: &[&str]) -> Vec<SkillRef> {
        let skill = |name: &&str| SkillRef {
            name: (*name).to_owned(),
            description: "parent's".to_owned(),
            folder: PathBuf::from(name),
            source: SkillSource::Project,
        };
        names.iter().map(skill).collect()
    }

    fn extra(name: &str, root: &str, for_models: bool) -> Skill {
        Skill {
            name: name.to_owned(),
            description: "extra".to_owned(),
            folder: PathBuf::from(root).join(name),
            root: PathBuf::from(root),
            scope: Scope::Extra,
            for_models,
            for_people: true,
            wanted_tools: Vec::new(),
            unknown: Vec::new(),
        }
    }

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn choices() {
        let found = [
            extra("deploy", "extra", true),
            extra("PDF", "extra", true),
            extra("secret", "extra", false),
            extra("stranger", "elsewhere", true),
        ];
        let check = |change: fn(&mut SkillChoice), expected: &str| {
            let mut choice = SkillChoice::default();
            change(&mut choice);
            let skills = narrow(&parent(&["pdf", "pdf-forms", "git"]), &choice, &found);
            let names: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
            assert_eq!(names.join(" "), expected, "{choice:?}");
        };
        check(|_| {}, "pdf pdf-forms git");
        check(|choice| choice.inherit = false, "");
        check(
            |choice| choice.allow = Some(owned(&["pdf*"])),
            "pdf pdf-forms",
        );
        check(|choice| choice.allow = Some(Vec::new()), "");
        check(|choice| choice.deny = owned(&["PDF*"]), "git");
        check(
            |choice| {
                choice.allow = Some(owned(&["pdf", "git"]));
                choice.deny = owned(&["git"]);
            },
            "pdf",
        );
        check(
            |choice| choice.extra_dirs = vec![PathBuf::from("extra")],
            "pdf pdf-forms git deploy",
        );
        check(
            |choice| {
                choice.inherit = false;
                choice.extra_dirs = vec![PathBuf::from("extra")];
            },
            "deploy PDF",
        );
    }

    proptest! {
        #[test]
        fn a_child_without_extra_folders_never_has_more(
            inherit: bool,
            allow in proptest::option::of(proptest::collection::vec("[a-c*]{0,3}", 0..3)),
            deny in proptest::collection::vec("[a-c*]{0,3}", 0..3),
            names in proptest::collection::vec("[a-c]{1,3}", 0..5),
        ) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let parent = parent(&names);
            let choice = SkillChoice { inherit, extra_dirs: Vec::new(), allow, deny };
            let found = [extra("deploy", "extra", true)];
            for skill in narrow(&parent, &choice, &found) {
                prop_assert!(parent.contains(&skill));
                prop_assert!(!matches_any(&choice.deny, &skill.name));
            }
        }
    }
}
