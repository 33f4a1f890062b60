//! The agents that runs are created from.

use sortie_core::agent::AgentDefinition;
use sortie_core::words::Lang;

/// A set of agents. Names match case-insensitively; a later definition replaces an earlier one.
#[derive(Clone, Debug)]
pub struct Agents {
    main: AgentDefinition,
    children: Vec<AgentDefinition>,
}

impl Agents {
    /// Returns the built-in agents in a language.
    pub fn built_in(lang: Lang) -> Self {
        Self {
            main: sortie_agent::main_agent(lang),
            children: sortie_agent::builtin_agents(lang),
        }
    }

    /// Adds an agent, or replaces the one of the same name.
    pub fn add(&mut self, agent: AgentDefinition) {
        self.children
            .retain(|known| !known.name.eq_ignore_ascii_case(&agent.name));
        self.children.push(agent);
    }

    /// Returns the main agent, which works for the user.
    pub const fn main(&self) -> &AgentDefinition {
        &self.main
    }

    /// Returns the agents that can be sent out as subagents.
    pub fn children(&self) -> &[AgentDefinition] {
        &self.children
    }

    /// Returns the agent of this name, the main one included.
    pub fn find(&self, name: &str) -> Option<&AgentDefinition> {
        self.children
            .iter()
            .chain(std::iter::once(&self.main))
            .find(|agent| agent.name.eq_ignore_ascii_case(name.trim()))
    }

    /// Returns the names of the agents that can be sent out, separated by commas.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self
            .children
            .iter()
            .map(|agent| agent.name.as_str())
            .collect();
        names.join(", ")
    }
}
