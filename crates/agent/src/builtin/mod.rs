//! The built-in agents.
//!
//! Their prompts are Markdown files beside this one, one per language, and the same bytes every
//! time: what varies (the list of agents, the workspace) is appended by the prompt builder, so that
//! a provider's cache can keep the rest.

use sortie_core::agent::{AgentDefinition, AgentSource, ModelChoice, ToolSelection};
use sortie_core::words::Lang;
use sortie_text::t;

/// The tools of a read-only agent. The sandbox makes its shell read-only; without a sandbox, policy
/// removes `exec`.
const LOOKING: &[&str] = &[
    "read_file",
    "list_dir",
    "glob",
    "grep",
    "exec",
    "todo_write",
    "skill",
    "ask",
    "web_fetch",
    "web_search",
];

/// The name of the main agent.
const MAIN: &str = "main";

/// Returns the agents that a parent can send out, in a language.
pub fn builtin_agents(lang: Lang) -> Vec<AgentDefinition> {
    vec![explore(lang), plan(lang), code(lang), general(lang)]
}

/// Returns the agent that works for the user and sends the others out.
pub fn main_agent(lang: Lang) -> AgentDefinition {
    let prompt = prompt(lang, include_str!("main.en.md"), include_str!("main.zh.md"));
    AgentDefinition {
        color: None,
        ..agent(MAIN, t!(lang, "agent-main-when"), prompt)
    }
}

/// Returns the chapter of the main agent's prompt about sending subagents out. It is separate from
/// the prompt, because a run without subagents must not read it.
pub(crate) const fn delegating(lang: Lang) -> &'static str {
    prompt(
        lang,
        include_str!("delegating.en.md"),
        include_str!("delegating.zh.md"),
    )
}

/// Returns whether an agent is the built-in main agent, whose prompt the chapter completes.
pub(crate) fn is_main(agent: &AgentDefinition) -> bool {
    agent.source == AgentSource::BuiltIn && agent.name == MAIN
}

fn explore(lang: Lang) -> AgentDefinition {
    let prompt = prompt(
        lang,
        include_str!("explore.en.md"),
        include_str!("explore.zh.md"),
    );
    AgentDefinition {
        model: ModelChoice::Small,
        color: Some("blue".to_owned()),
        ..read_only(agent("explore", t!(lang, "agent-explore-when"), prompt))
    }
}

fn plan(lang: Lang) -> AgentDefinition {
    let prompt = prompt(lang, include_str!("plan.en.md"), include_str!("plan.zh.md"));
    AgentDefinition {
        model: ModelChoice::Plan,
        color: Some("purple".to_owned()),
        ..read_only(agent("plan", t!(lang, "agent-plan-when"), prompt))
    }
}

fn code(lang: Lang) -> AgentDefinition {
    let prompt = prompt(lang, include_str!("code.en.md"), include_str!("code.zh.md"));
    AgentDefinition {
        color: Some("green".to_owned()),
        ..agent("code", t!(lang, "agent-code-when"), prompt)
    }
}

fn general(lang: Lang) -> AgentDefinition {
    let prompt = prompt(
        lang,
        include_str!("general.en.md"),
        include_str!("general.zh.md"),
    );
    AgentDefinition {
        color: Some("cyan".to_owned()),
        ..agent("general", t!(lang, "agent-general-when"), prompt)
    }
}

/// Makes an agent that requests every tool and its parent's model. Policy, not this definition,
/// denies a child the tools for starting subagents: if they were denied here, an operator could not
/// allow nesting.
fn agent(name: &str, when_to_use: String, prompt: &str) -> AgentDefinition {
    AgentDefinition {
        name: name.to_owned(),
        when_to_use,
        prompt: prompt.to_owned(),
        model: ModelChoice::Inherit,
        tools: ToolSelection {
            allow: None,
            deny: Vec::new(),
        },
        read_only: false,
        color: None,
        source: AgentSource::BuiltIn,
        max_iterations: None,
    }
}

fn read_only(agent: AgentDefinition) -> AgentDefinition {
    let allow = LOOKING.iter().map(|tool| (*tool).to_owned()).collect();
    AgentDefinition {
        tools: ToolSelection {
            allow: Some(allow),
            deny: Vec::new(),
        },
        read_only: true,
        ..agent
    }
}

const fn prompt(lang: Lang, english: &'static str, chinese: &'static str) -> &'static str {
    match lang {
        Lang::En => english,
        Lang::Zh => chinese,
    }
}

#[cfg(test)]
mod tests;
