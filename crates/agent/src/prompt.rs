//! What a run is told about itself, composed once at admission and kept in its spec.

use std::path::Path;

use sortie_core::{AgentDefinition, Lang, SkillRef};
use sortie_text::{first_chars, one_line, text};

/// How many skills are named; more would fill the context of every turn.
const MAX_SKILLS_NAMED: usize = 100;
/// How much of a skill's description is shown.
const MAX_SKILL_CHARS: usize = 300;

/// What the prompt says about the world. Nothing here may vary between turns or siblings, or the
/// provider's prompt cache is lost.
#[derive(Clone, Copy, Debug)]
pub struct PromptContext<'a> {
    /// The language.
    pub lang: Lang,
    /// The folder it works in.
    pub workspace: &'a Path,
    /// The agents it may send out; empty if it may not.
    pub agents: &'a [AgentDefinition],
    /// The skills it may load.
    pub skills: &'a [SkillRef],
}

/// The system prompt of a run of `agent`.
pub fn system_prompt(agent: &AgentDefinition, context: &PromptContext<'_>) -> String {
    let mut prompt = agent.prompt.trim_end().to_owned();
    prompt.push_str("\n\n");
    prompt.push_str(&text(
        context.lang,
        "prompt-workspace",
        &[("path", context.workspace.display().to_string().into())],
    ));
    if !context.agents.is_empty() {
        prompt.push_str("\n\n");
        prompt.push_str(&text(context.lang, "prompt-agents", &[]));
        for agent in context.agents {
            prompt.push_str(&format!("\n- {}: {}", agent.name, agent.when_to_use));
        }
    }
    if !context.skills.is_empty() {
        prompt.push_str("\n\n");
        prompt.push_str(&text(context.lang, "prompt-skills", &[]));
        for skill in context.skills.iter().take(MAX_SKILLS_NAMED) {
            let about = one_line(first_chars(&skill.description, MAX_SKILL_CHARS));
            prompt.push_str(&format!("\n- {}: {about}", skill.name));
        }
    }
    prompt
}
