//! The system prompt of a run: composed once at admission and kept in its spec, but for the
//! workspace, which is known only when the run starts (a worktree of its own is made then).

use std::path::Path;

use serde_json::Value;
use sortie_core::agent::AgentDefinition;
use sortie_core::skill::SkillRef;
use sortie_core::words::Lang;
use sortie_text::{first_chars, one_line, t, text};

use crate::builtin;

/// Skills that are listed; more would fill the context of every turn.
const MAX_SKILLS_NAMED: usize = 100;
/// Characters of a skill's description.
const MAX_SKILL_CHARS: usize = 300;

/// What the prompt tells about the environment of a run. Nothing here may vary between turns or
/// siblings, or the provider's prompt cache is lost.
#[derive(Clone, Copy, Debug)]
pub struct PromptContext<'a> {
    /// The language of the prompt.
    pub lang: Lang,
    /// The agents that the run may send out; empty if it may not.
    pub agents: &'a [AgentDefinition],
    /// The skills that the run may load; empty if it has no tool to load them.
    pub skills: &'a [SkillRef],
    /// The schema that the result has to fit.
    pub result_schema: Option<&'a Value>,
}

/// Returns the system prompt of a run of `agent`, without its workspace.
pub fn system_prompt(agent: &AgentDefinition, context: &PromptContext<'_>) -> String {
    let mut prompt = agent.prompt.trim_end().to_owned();
    if !context.agents.is_empty() {
        if builtin::is_main(agent) {
            prompt.push_str("\n\n");
            prompt.push_str(builtin::delegating(context.lang).trim_end());
        }
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
    if let Some(schema) = context.result_schema {
        prompt.push_str("\n\n");
        prompt.push_str(&t!(
            context.lang,
            "prompt-schema",
            schema = schema.to_string()
        ));
    }
    prompt
}

/// Returns a system prompt with the folder that the run works in. It comes last: runs in different
/// worktrees share everything before it in the provider's prompt cache.
pub fn with_workspace(prompt: &str, lang: Lang, workspace: &Path) -> String {
    let place = t!(
        lang,
        "prompt-workspace",
        path = workspace.display().to_string()
    );
    format!("{prompt}\n\n{place}")
}
