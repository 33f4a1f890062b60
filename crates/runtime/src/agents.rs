//! The agents that runs are made from.

use sortie_core::{AgentDefinition, Lang};

/// A set of agents. Names match without regard to case; a later definition beats an earlier one.
#[derive(Clone, Debug)]
pub struct Agents {
    main: AgentDefinition,
    children: Vec<AgentDefinition>,
}

impl Agents {
    /// The built-in agents in this language.
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

    /// The agent that people talk to.
    pub const fn main(&self) -> &AgentDefinition {
        &self.main
    }

    /// The agents that can be sent out.
    pub fn children(&self) -> &[AgentDefinition] {
        &self.children
    }

    /// The agent of this name, the main one included.
    pub fn find(&self, name: &str) -> Option<&AgentDefinition> {
        self.children
            .iter()
            .chain(std::iter::once(&self.main))
            .find(|agent| agent.name.eq_ignore_ascii_case(name.trim()))
    }

    /// The names of the agents that can be sent out, for a sentence.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self
            .children
            .iter()
            .map(|agent| agent.name.as_str())
            .collect();
        names.join(", ")
    }
}
