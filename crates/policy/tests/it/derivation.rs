//! Tests which tools a new run gets, and which layers remove the others.

use sortie_core::agent::ToolSelection;
use sortie_core::policy::{Mode, Policy, PolicyLayer, Rules};
use sortie_core::ports::tool::Touches;
use sortie_core::run::ToolNarrowing;
use sortie_policy::{
    AgentRules, Compiled, DENIED_TO_CHILDREN, DefaultDeny, Denial, Draft, Parent, PolicyInputs,
    RunPolicy, SubagentRules, ToolFacts, hash,
};

use crate::stage::{layer, policy, shown, strings, tools, with_call, word};

/// A child of a parent that may do everything, described in words.
#[derive(Clone)]
struct Child<'a> {
    parent: Policy,
    parent_agent: &'a str,
    parent_tools: Vec<String>,
    delegate: Option<Vec<String>>,
    operator: Vec<PolicyLayer>,
    agent: ToolSelection,
    settings: Rules,
    read_only: bool,
    depth: u32,
    max_depth: u32,
    subagents: Rules,
    inherit: bool,
    narrowing: ToolNarrowing,
    mode: Mode,
}

fn child() -> Child<'static> {
    Child {
        parent: Policy::default(),
        parent_agent: "main",
        parent_tools: crate::stage::all_names(),
        delegate: None,
        operator: Vec::new(),
        agent: ToolSelection {
            allow: None,
            deny: Vec::new(),
        },
        settings: Rules::default(),
        read_only: false,
        depth: 1,
        max_depth: 1,
        subagents: Rules::default(),
        inherit: true,
        narrowing: ToolNarrowing::default(),
        mode: Mode::Default,
    }
}

impl Child<'_> {
    fn derive(&self) -> Result<RunPolicy, Denial> {
        self.derive_among(&tools())
    }

    fn derive_among(&self, registered: &[ToolFacts]) -> Result<RunPolicy, Denial> {
        let draft = Draft::of(&PolicyInputs {
            depth: self.depth,
            parent: (self.depth > 0).then_some(Parent {
                agent: self.parent_agent,
                policy: &self.parent,
                tools: &self.parent_tools,
                delegate_ceiling: self.delegate.as_deref(),
            }),
            operator: &self.operator,
            agent: AgentRules {
                name: "explore",
                selection: &self.agent,
                settings: &self.settings,
                read_only: self.read_only,
            },
            subagents: SubagentRules {
                default_deny: DefaultDeny::at(self.depth, self.max_depth),
                rules: &self.subagents,
                inherit: self.inherit,
            },
            narrowing: &self.narrowing,
            mode: self.mode,
            allow_dangerous: false,
            free_agents: None,
            sandboxed: true,
        });
        draft.decide(registered)
    }
}

fn check(change: impl FnOnce(&mut Child<'_>), expected: &str) {
    let mut child = child();
    change(&mut child);
    let shown = match child.derive() {
        Ok(derived) => derived.tools.join(" "),
        Err(denial) => denial
            .removed
            .iter()
            .map(|(name, layer)| format!("{name}:{}", word(*layer)))
            .collect::<Vec<_>>()
            .join(" "),
    };
    assert_eq!(shown, expected);
}

const LEAF: &str = "read_file grep write_file exec web_fetch mcp__srv__get todo_write";

#[test]
fn default_deny_depends_on_depth() {
    check(
        |child| child.depth = 0,
        "read_file grep write_file exec web_fetch mcp__srv__get todo_write memory_load task",
    );
    check(|_| (), LEAF);
    check(|child| child.max_depth = 2, &format!("{LEAF} task"));
}

#[test]
fn changes_of_children_are_offered_only_where_children_are_possible() {
    let offered = |depth: u32, max_depth: u32| {
        let mut registered = tools();
        registered.push(ToolFacts {
            name: "changes".to_owned(),
            spellings: Vec::new(),
            touches: Touches::Files,
        });
        let mut child = child();
        child.parent_tools.push("changes".to_owned());
        (child.depth, child.max_depth) = (depth, max_depth);
        let derived = child.derive_among(&registered).unwrap();
        derived.tools.iter().any(|tool| tool == "changes")
    };
    assert!(offered(0, 1), "a root");
    assert!(!offered(1, 1), "a leaf");
    assert!(offered(1, 2), "a child that may nest");
}

#[test]
fn default_deny_applies_to_the_last_part_of_mcp_names() {
    let offered = |subagents: &str, name: &str| {
        let mut registered = tools();
        registered.push(ToolFacts {
            name: name.to_owned(),
            spellings: Vec::new(),
            touches: Touches::Services,
        });
        let mut child = child();
        child.parent_tools.push(name.to_owned());
        if !subagents.is_empty() {
            child.subagents.allow = Some(strings(subagents));
        }
        let derived = child.derive_among(&registered).unwrap();
        derived.tools.iter().any(|tool| tool == name)
    };
    for denied in [
        "mcp__notes__memory_save",
        "mcp__notes__Memory_Search",
        "mcp__notes__memory_anything",
        "mcp__chat__message",
        "mcp__desk__screenshot",
        "mcp__other-agent__spawn_subagent",
        "mcp__a_b__task",
    ] {
        assert!(!offered("", denied), "{denied}");
        assert!(!offered("read_file, memory_*, message", denied), "{denied}");
        assert!(offered(&format!("read_file, {denied}"), denied), "{denied}");
    }
    for permitted in ["mcp__srv__task_list", "mcp__memory_bank__get"] {
        assert!(offered("", permitted), "{permitted}");
    }
}

#[test]
fn each_layer_removes_tools() {
    check(
        |child| child.read_only = true,
        "read_file grep exec web_fetch todo_write",
    );
    check(
        |child| child.mode = Mode::Plan,
        "read_file grep exec web_fetch todo_write",
    );
    check(
        |child| child.agent.allow = Some(strings("group:read, exec(ls)")),
        "read_file grep exec",
    );
    check(
        |child| child.agent.deny = strings("bash, group:mcp, web_fetch(domain:x.y)"),
        "read_file grep write_file web_fetch todo_write",
    );
    check(
        |child| child.settings.deny = strings("group:fs"),
        "exec web_fetch mcp__srv__get todo_write",
    );
    check(
        |child| child.operator = vec![layer("provider: deny group:net")],
        "read_file grep write_file exec mcp__srv__get todo_write",
    );
    check(
        |child| child.parent_tools = strings("read_file, task, exec"),
        "read_file exec",
    );
    check(
        |child| child.parent = policy(&["agent: allow read_file(src/**)"], ""),
        "read_file",
    );
    check(
        |child| child.parent.read_only = true,
        "read_file grep exec web_fetch todo_write",
    );
    check(
        |child| child.narrowing.allow = Some(strings("*_file, task, memory_load")),
        "read_file write_file",
    );
    check(
        |child| child.narrowing.deny = strings("*"),
        "read_file:spawn grep:spawn write_file:spawn exec:spawn web_fetch:spawn \
         mcp__srv__get:spawn todo_write:spawn memory_load:subagent task:subagent",
    );
}

#[test]
fn an_empty_list_means_none_and_reports_why() {
    check(
        |child| {
            child.agent.allow = Some(Vec::new());
            child.parent_tools = strings("exec");
        },
        "read_file:agent grep:agent write_file:agent exec:agent web_fetch:agent \
         mcp__srv__get:agent todo_write:agent memory_load:subagent task:subagent",
    );
    check(
        |child| child.parent_tools = Vec::new(),
        "read_file:parent grep:parent write_file:parent exec:parent web_fetch:parent \
         mcp__srv__get:parent todo_write:parent memory_load:subagent task:subagent",
    );
}

#[test]
fn unparsable_rule_is_reported_in_the_denial() {
    let mut child = child();
    child.settings.deny = strings("exec(");
    let denial = child.derive().unwrap_err();
    let why = "the rule `exec(` of config agents.explore cannot be parsed, so the policy denies everything: it does not end with `)`";
    assert_eq!(denial.unreadable.as_deref(), Some(why));
}

#[test]
fn subagent_allow_lifts_only_the_default_deny() {
    let lift = |rules: &str| Some(strings(rules));
    check(
        |child| child.subagents.allow = lift("memory_load, read_file"),
        "read_file memory_load",
    );
    check(
        |child| child.subagents.allow = lift("*"),
        &format!("{LEAF} memory_load"),
    );
    check(
        |child| {
            child.subagents.allow = lift("*");
            child.subagents.deny = strings("memory_*");
        },
        LEAF,
    );
    check(
        |child| {
            child.subagents.allow = lift("*");
            child.parent = policy(&["global: deny memory_load"], "");
        },
        LEAF,
    );
    // A spawn call never lifts a deny.
    check(
        |child| child.narrowing.allow = lift("memory_load, exec"),
        "exec",
    );
    // Naming a tool does not lift the depth limit.
    check(|child| child.subagents.allow = lift("task, exec"), "exec");
    check(
        |child| {
            child.subagents.allow = lift("task, exec");
            child.max_depth = 2;
        },
        "exec task",
    );
}

#[test]
fn child_that_does_not_inherit_has_only_named_tools() {
    let removed = "read_file:subagent grep:subagent write_file:subagent exec:subagent \
                   web_fetch:subagent mcp__srv__get:subagent todo_write:subagent \
                   memory_load:subagent task:subagent";
    check(|child| child.inherit = false, removed);
    check(|child| child.narrowing.inherit = Some(false), removed);
    check(
        |child| {
            child.inherit = false;
            child.narrowing.inherit = Some(true);
        },
        removed,
    );
    check(
        |child| {
            child.inherit = false;
            child.narrowing.allow = Some(strings("exec"));
        },
        "exec",
    );
    check(
        |child| {
            child.inherit = false;
            child.subagents.allow = Some(strings("grep, memory_load"));
        },
        "grep memory_load",
    );
    check(
        |child| {
            child.inherit = false;
            child.agent.allow = Some(strings("grep"));
        },
        "grep",
    );
}

#[test]
fn a_narrow_controller_delegates_within_its_ceiling() {
    let controller = |child: &mut Child<'_>| {
        child.parent = policy(&["global: deny exec(curl *)"], "");
        child.parent_agent = "controller";
        child.parent_tools = strings("task");
        let own = PolicyLayer {
            allow: Some(strings("task")),
            ..PolicyLayer::new(sortie_core::policy::Layer::Agent, "agent controller")
        };
        child.parent.layers.push(own);
    };
    check(
        controller,
        "read_file:parent grep:parent write_file:parent exec:parent web_fetch:parent \
         mcp__srv__get:parent todo_write:parent memory_load:subagent task:subagent",
    );
    let delegating = |child: &mut Child<'_>| {
        controller(child);
        child.delegate = Some(strings("group:read, exec(git *), exec(curl *)"));
    };
    check(delegating, "read_file grep exec");
    // The layers that bind the controller from outside bind its children too.
    check(
        |child| {
            delegating(child);
            child.parent.layers.push(layer("agent: deny grep"));
        },
        "read_file exec",
    );
    check(
        |child| {
            delegating(child);
            child.parent.layers.push(layer("group: allow exec"));
        },
        "exec",
    );
    check(
        |child| {
            delegating(child);
            child.depth = 2;
            child.max_depth = 2;
            let own = PolicyLayer {
                allow: Some(strings("task")),
                deny: strings("grep"),
                ..PolicyLayer::new(sortie_core::policy::Layer::Spawn, "spawn call at depth 1")
            };
            child.parent.layers.push(own);
        },
        "read_file exec",
    );
    let mut child = child();
    delegating(&mut child);
    child.mode = Mode::Yolo;
    child.parent.mode = Mode::Yolo;
    let derived = child.derive().unwrap();
    let compiled = Compiled::new(&derived.policy, &[]);
    let decided = |call: &str| with_call(call, true, |call| shown(&compiled.decide(call)));
    assert_eq!(decided("exec git status"), "allow mode");
    assert_eq!(decided("exec ls"), "deny parent");
    assert_eq!(decided("exec curl x"), "deny global exec(curl *)");
}

#[test]
fn child_mode_never_permits_more_than_its_parents() {
    for (parent, requested, expected) in [
        (Mode::Yolo, Mode::Default, Mode::Default),
        (Mode::Default, Mode::Yolo, Mode::Default),
        (Mode::Plan, Mode::Yolo, Mode::Plan),
        (Mode::DontAsk, Mode::AcceptEdits, Mode::DontAsk),
    ] {
        let mut child = child();
        child.parent.mode = parent;
        child.mode = requested;
        assert_eq!(child.derive().unwrap().policy.mode, expected);
    }
}

#[test]
fn layers_are_not_repeated_from_parent_to_child() {
    let mut first = child();
    first.max_depth = 9;
    first.operator = vec![layer("global: deny exec(curl *)")];
    let parent = first.derive().unwrap();
    let mut second = first.clone();
    second.depth = 2;
    second.parent = parent.policy.clone();
    second.parent_tools = parent.tools.clone();
    let grandchild = second.derive().unwrap();
    assert_eq!(grandchild.policy, parent.policy);
    assert_eq!(hash(&grandchild.policy), hash(&parent.policy));
    assert_eq!(grandchild.tools, parent.tools);
}

#[test]
fn the_names_of_the_third_seed_are_denied() {
    let seed = "sessions_list, sessions_history, sessions_send, sessions_spawn, gateway, \
                agents_list, session_status, cron, whatsapp_login, memory_search, memory_get, \
                memory_save, system_info, file_system, process_control";
    for name in strings(seed) {
        assert!(DENIED_TO_CHILDREN.contains(&name.as_str()), "{name}");
    }
}
