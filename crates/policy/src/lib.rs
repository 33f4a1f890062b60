//! Pure decisions about authority: may this run spawn, with which tools, and may it make this call.
//!
//! One function decides for parents and children alike, at admission ([`grant`]) and again at
//! dispatch ([`decide_call`]). Each layer can only narrow; deny wins in any order; an empty list
//! means none; what cannot be understood is refused.

mod call;
mod pattern;
mod spawn;

pub use call::{CallQuestion, Decision, decide_call};
pub use pattern::matches;
pub use spawn::{DENIED_TO_CHILDREN, DefaultDeny, Denial, GrantQuestion, grant};

use sortie_core::Touches;

/// What policy needs to know about a registered tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolFacts {
    /// Its name.
    pub name: String,
    /// Its other names; a rule about any of them is a rule about the tool.
    pub spellings: Vec<String>,
    /// What it touches.
    pub touches: Touches,
}

impl ToolFacts {
    /// Whether a rule's pattern speaks about this tool, under any of its names.
    pub fn is_meant_by(&self, pattern: &str) -> bool {
        matches(pattern, &self.name) || self.spellings.iter().any(|name| matches(pattern, name))
    }
}

/// The layer that decided, named in every refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// What the parent itself may use.
    Parent,
    /// The agent's own definition.
    Agent,
    /// What no child gets unless an operator says so.
    Subagent,
    /// What the spawn call asked for.
    Spawn,
    /// What was granted at admission.
    Grant,
}

impl Layer {
    /// The word people read.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Parent => "parent",
            Self::Agent => "agent",
            Self::Subagent => "subagent",
            Self::Spawn => "spawn",
            Self::Grant => "grant",
        }
    }
}
