//! What a new run may use.

use sortie_core::{ToolNarrowing, ToolSelection, Touches};

use crate::{Layer, ToolFacts};

/// Tools that no child gets by default: session, system, login and memory tools, ways to speak to
/// people, and (by what they touch rather than by name) every way to start further runs.
pub const DENIED_TO_CHILDREN: &[&str] = &[
    "sessions_list",
    "sessions_history",
    "sessions_send",
    "sessions_spawn",
    "gateway",
    "agents_list",
    "session_status",
    "cron",
    "whatsapp_login",
    "memory_search",
    "memory_get",
    "memory_save",
    "system_info",
    "file_system",
    "process_control",
    "message",
    "send_media",
    "screenshot",
    "memory_*",
    "spawn",
    "spawn_subagent",
    "task",
    "agent",
    "subagents",
];

/// The default deny, and whether the depth allows this run to spawn after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultDeny {
    /// A root run: nothing is denied by default.
    Root,
    /// A child that may not have children.
    Leaf,
    /// A child that an operator's depth setting lets have children.
    Nesting,
}

impl DefaultDeny {
    /// The rule for a run at `depth`, where `max_depth` is how deep runs may be.
    pub const fn at(depth: u32, max_depth: u32) -> Self {
        if depth == 0 {
            Self::Root
        } else if depth < max_depth {
            Self::Nesting
        } else {
            Self::Leaf
        }
    }

    /// Whether the default deny takes this tool away.
    pub fn denies(self, tool: &ToolFacts) -> bool {
        match self {
            Self::Root => false,
            Self::Nesting => tool.touches != Touches::Runs && is_listed(tool),
            Self::Leaf => tool.touches == Touches::Runs || is_listed(tool),
        }
    }
}

fn is_listed(tool: &ToolFacts) -> bool {
    DENIED_TO_CHILDREN
        .iter()
        .any(|pattern| tool.is_meant_by(pattern))
}

/// Everything that decides what a new run may use.
#[derive(Clone, Copy, Debug)]
pub struct GrantQuestion<'a> {
    /// Every registered tool.
    pub registered: &'a [ToolFacts],
    /// What the parent may use; `None` for a root.
    pub parent: Option<&'a [String]>,
    /// The agent's own selection.
    pub agent: &'a ToolSelection,
    /// Whether the agent may change anything.
    pub read_only: bool,
    /// The default deny at this depth.
    pub default_deny: DefaultDeny,
    /// What the spawn call asked for.
    pub narrowing: &'a ToolNarrowing,
}

/// A run that would have no tool at all, and what took the last ones away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Each registered tool with the layer that took it away.
    pub removed: Vec<(String, Layer)>,
}

/// Decides what a new run may use: the meet of all layers, in registration order.
pub fn grant(question: &GrantQuestion<'_>) -> Result<Vec<String>, Denial> {
    let mut granted = Vec::new();
    let mut removed = Vec::new();
    for tool in question.registered {
        match removing_layer(question, tool) {
            None => granted.push(tool.name.clone()),
            Some(layer) => removed.push((tool.name.clone(), layer)),
        }
    }
    if granted.is_empty() {
        Err(Denial { removed })
    } else {
        Ok(granted)
    }
}

fn removing_layer(question: &GrantQuestion<'_>, tool: &ToolFacts) -> Option<Layer> {
    // A parent that may spawn at all may give a child tools that touch runs only through nesting,
    // which the default deny decides.
    let beyond_parent = question
        .parent
        .is_some_and(|parent| !parent.contains(&tool.name));
    let changes_something = matches!(tool.touches, Touches::Files | Touches::Processes);
    if question.default_deny.denies(tool) {
        Some(Layer::Subagent)
    } else if !selected(question.agent.allow.as_deref(), &question.agent.deny, tool)
        || (question.read_only && changes_something)
    {
        Some(Layer::Agent)
    } else if beyond_parent {
        Some(Layer::Parent)
    } else if !selected(
        question.narrowing.allow.as_deref(),
        &question.narrowing.deny,
        tool,
    ) {
        Some(Layer::Spawn)
    } else {
        None
    }
}

fn selected(allow: Option<&[String]>, deny: &[String], tool: &ToolFacts) -> bool {
    let allowed = allow.is_none_or(|allow| allow.iter().any(|pattern| tool.is_meant_by(pattern)));
    let denied = deny.iter().any(|pattern| tool.is_meant_by(pattern));
    allowed && !denied
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tool(name: &str, spellings: &[&str], touches: Touches) -> ToolFacts {
        ToolFacts {
            name: name.to_owned(),
            spellings: spellings.iter().map(|name| (*name).to_owned()).collect(),
            touches,
        }
    }

    fn registered() -> Vec<ToolFacts> {
        vec![
            tool("read_file", &[], Touches::Nothing),
            tool("write_file", &[], Touches::Files),
            tool("exec", &["bash"], Touches::Processes),
            tool("memory_load", &[], Touches::Nothing),
            tool("task", &["Task", "Agent"], Touches::Runs),
        ]
    }

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    struct Case<'a> {
        parent: Option<&'a [&'a str]>,
        allow: Option<&'a [&'a str]>,
        deny: &'a [&'a str],
        read_only: bool,
        default_deny: DefaultDeny,
        narrow_allow: Option<&'a [&'a str]>,
        narrow_deny: &'a [&'a str],
    }

    const OPEN: Case<'static> = Case {
        parent: None,
        allow: None,
        deny: &[],
        read_only: false,
        default_deny: DefaultDeny::Root,
        narrow_allow: None,
        narrow_deny: &[],
    };

    fn check(case: &Case<'_>, expected: &str) {
        let parent = case.parent.map(strings);
        let answer = grant(&GrantQuestion {
            registered: &registered(),
            parent: parent.as_deref(),
            agent: &ToolSelection {
                allow: case.allow.map(strings),
                deny: strings(case.deny),
            },
            read_only: case.read_only,
            default_deny: case.default_deny,
            narrowing: &ToolNarrowing {
                allow: case.narrow_allow.map(strings),
                deny: strings(case.narrow_deny),
            },
        });
        let shown = match answer {
            Ok(tools) => tools.join(" "),
            Err(denial) => denial
                .removed
                .iter()
                .map(|(name, layer)| format!("{name}:{}", layer.as_str()))
                .collect::<Vec<_>>()
                .join(" "),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_root_has_all() {
        check(&OPEN, "read_file write_file exec memory_load task");
    }

    #[test]
    fn a_leaf_has_no_way_to_spawn_and_no_memory() {
        let leaf = Case {
            default_deny: DefaultDeny::Leaf,
            ..OPEN
        };
        check(&leaf, "read_file write_file exec");
        let insists = Case {
            narrow_allow: Some(&["task", "memory_load", "read_file"]),
            ..leaf
        };
        check(&insists, "read_file");
    }

    #[test]
    fn nesting_gives_back_only_the_spawn_tools() {
        check(
            &Case {
                default_deny: DefaultDeny::Nesting,
                ..OPEN
            },
            "read_file write_file exec task",
        );
    }

    #[test]
    fn read_only_and_deny_and_parent_and_narrowing_each_take_away() {
        check(
            &Case {
                read_only: true,
                ..OPEN
            },
            "read_file memory_load task",
        );
        check(
            &Case {
                deny: &["bash", "Agent"],
                ..OPEN
            },
            "read_file write_file memory_load",
        );
        check(
            &Case {
                parent: Some(&["read_file", "exec"]),
                ..OPEN
            },
            "read_file exec",
        );
        check(
            &Case {
                narrow_allow: Some(&["*_file"]),
                narrow_deny: &["write_*"],
                ..OPEN
            },
            "read_file",
        );
    }

    #[test]
    fn an_empty_list_means_none_and_says_why() {
        check(
            &Case {
                allow: Some(&[]),
                default_deny: DefaultDeny::Leaf,
                ..OPEN
            },
            "read_file:agent write_file:agent exec:agent memory_load:subagent task:subagent",
        );
        check(
            &Case {
                narrow_allow: Some(&[]),
                ..OPEN
            },
            "read_file:spawn write_file:spawn exec:spawn memory_load:spawn task:spawn",
        );
    }

    proptest! {
        /// child ⊆ parent, and a name on any deny list never comes through, in any order of lists.
        #[test]
        fn never_more_than_the_parent(
            parent in proptest::sample::subsequence(vec!["read_file", "write_file", "exec", "task"], 0..=4),
            allow in proptest::option::of(proptest::sample::subsequence(vec!["*", "read_file", "exec", "task", "w*"], 0..=5)),
            deny in proptest::sample::subsequence(vec!["read_file", "exec", "Task", "write*"], 0..=4),
            narrow in proptest::option::of(proptest::sample::subsequence(vec!["*", "read_file", "exec", "task"], 0..=4)),
            depth in 0u32..3,
            max_depth in 0u32..4,
        ) {
            let parent = strings(&parent);
            let agent = ToolSelection { allow: allow.as_deref().map(strings), deny: strings(&deny) };
            let narrowing = ToolNarrowing { allow: narrow.as_deref().map(strings), deny: Vec::new() };
            let default_deny = DefaultDeny::at(depth, max_depth);
            let granted = grant(&GrantQuestion {
                registered: &registered(),
                parent: Some(&parent),
                agent: &agent,
                read_only: false,
                default_deny,
                narrowing: &narrowing,
            }).unwrap_or_default();
            for name in &granted {
                prop_assert!(parent.contains(name));
                let facts = registered().into_iter().find(|tool| &tool.name == name).unwrap();
                prop_assert!(!agent.deny.iter().any(|pattern| facts.is_meant_by(pattern)));
                prop_assert!(name != "task" || depth == 0 || depth < max_depth);
            }
        }
    }
}
