//! The properties of tools that policy uses.

use std::borrow::Cow;

use sortie_base::wildcard::fold;
use sortie_core::ports::tool::Touches;

use crate::object::Kind;

/// The properties of a registered tool that policy uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolFacts {
    pub name: String,
    /// Its other names; a rule about any of them applies to the tool.
    pub spellings: Vec<String>,
    /// The kind of effect that the tool has.
    pub touches: Touches,
}

/// The names of one tool for comparison with rules, in lower case.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    name: Cow<'a, str>,
    spellings: Vec<Cow<'a, str>>,
    touches: Touches,
}

impl<'a> Names<'a> {
    pub(crate) fn of(tool: &'a ToolFacts) -> Self {
        Self {
            name: lower(&tool.name),
            spellings: tool.spellings.iter().map(|name| lower(name)).collect(),
            touches: tool.touches,
        }
    }

    /// Returns whether one of the names passes.
    pub(crate) fn any(&self, passes: impl Fn(&str) -> bool) -> bool {
        passes(&self.name) || self.spellings.iter().any(|name| passes(name))
    }

    /// Returns the kind of effect that the tool has.
    pub(crate) const fn touches(&self) -> Touches {
        self.touches
    }
}

fn lower(name: &str) -> Cow<'_, str> {
    let is_lower = name
        .bytes()
        .all(|b| b.is_ascii() && !b.is_ascii_uppercase());
    if is_lower {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(fold(name))
    }
}

/// A group of tools, by their kind of effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Files,
    Read,
    Write,
    Exec,
    Net,
    Spawn,
    Mcp,
}

impl Group {
    const ALL: [(&'static str, Self); 7] = [
        ("fs", Self::Files),
        ("read", Self::Read),
        ("write", Self::Write),
        ("exec", Self::Exec),
        ("net", Self::Net),
        ("spawn", Self::Spawn),
        ("mcp", Self::Mcp),
    ];

    pub(crate) fn from_name(wanted: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, group)| *group)
    }

    /// Returns the names of all groups, for a sentence.
    pub(crate) fn names() -> String {
        Self::ALL.map(|(name, _)| name).join(", ")
    }

    pub(crate) const fn includes(self, touches: Touches) -> bool {
        match self {
            Self::Files => matches!(touches, Touches::Reads | Touches::Files),
            Self::Read => matches!(touches, Touches::Reads),
            Self::Write => matches!(touches, Touches::Files),
            Self::Exec => matches!(touches, Touches::Processes),
            Self::Net => matches!(touches, Touches::Network),
            Self::Spawn => matches!(touches, Touches::Runs),
            Self::Mcp => matches!(touches, Touches::Services),
        }
    }

    /// Returns the kind of argument that the parentheses of the group contain, if it accepts one.
    pub(crate) const fn kind(self) -> Option<Kind> {
        match self {
            Self::Files | Self::Read | Self::Write => Some(Kind::Path),
            Self::Exec => Some(Kind::Command),
            Self::Net => Some(Kind::Host),
            Self::Spawn => Some(Kind::Agent),
            Self::Mcp => None,
        }
    }
}
