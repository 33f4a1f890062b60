//! Which skills a new run has.

use sortie_base::wildcard::matches;
use sortie_core::config::AgentConfig;
use sortie_core::skill::SkillRef;

use super::{Planner, RunRequest};
use crate::refusal::{Refusal, RefusalReason};

impl Planner {
    /// Returns the skills of a run. A root has those of its workspace; a child has its parent's,
    /// unless the request turns that off, and those of the named folders. Lists can only narrow.
    pub(super) fn skills_for(
        &self,
        request: &RunRequest<'_>,
        settings: &AgentConfig,
    ) -> Result<Vec<SkillRef>, Refusal> {
        let workspace = &request.workspace;
        let Some(parent) = request.parent_spec() else {
            let mut skills = self.skills.in_workspace(workspace);
            filter_skills(&mut skills, settings.skills.as_deref(), &[]);
            return Ok(skills);
        };
        let requested = &request.skills;
        let configured = &self.settings.skills;
        let mut skills = if requested.inherit.unwrap_or(configured.inherit) {
            parent.skills.clone()
        } else {
            Vec::new()
        };
        let configured_folders = configured
            .extra_skill_dirs
            .iter()
            .map(|folder| self.skills.in_operators_folder(workspace, folder));
        let requested_folders = requested
            .extra_dirs
            .iter()
            .map(|folder| self.skills.in_folder(workspace, folder));
        for found in configured_folders.chain(requested_folders) {
            for skill in found.map_err(|problem| Refusal::new(RefusalReason::Skills, problem))? {
                if !skills.iter().any(|known| known.name == skill.name) {
                    skills.push(skill);
                }
            }
        }
        filter_skills(
            &mut skills,
            configured.allow_skills.as_deref(),
            &configured.deny_skills,
        );
        filter_skills(&mut skills, settings.skills.as_deref(), &[]);
        filter_skills(&mut skills, requested.allow.as_deref(), &requested.deny);
        Ok(skills)
    }
}

fn filter_skills(skills: &mut Vec<SkillRef>, allow: Option<&[String]>, deny: &[String]) {
    let fits = |patterns: &[String], name: &str| patterns.iter().any(|it| matches(it, name));
    skills.retain(|skill| {
        allow.is_none_or(|allow| fits(allow, &skill.name)) && !fits(deny, &skill.name)
    });
}
