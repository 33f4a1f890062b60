//! Policies and calls, written in one line each.

use std::path::Path;

use serde_json::{Value, json};
use sortie_core::policy::{Layer, Mode, Policy, PolicyLayer, Ruling};
use sortie_core::ports::tool::Touches;
use sortie_policy::{Call, Compiled, ToolFacts};

/// The folder that relative paths are relative to.
pub(crate) const WORKSPACE: &str = "/home/ada/shop";

/// Returns the tools of the tests.
pub(crate) fn tools() -> Vec<ToolFacts> {
    [
        ("read_file", "", Touches::Reads),
        ("grep", "", Touches::Reads),
        ("write_file", "", Touches::Files),
        ("exec", "bash", Touches::Processes),
        ("web_fetch", "", Touches::Network),
        ("mcp__srv__get", "", Touches::Services),
        ("todo_write", "TodoWrite", Touches::Nothing),
        ("memory_load", "", Touches::Nothing),
        ("task", "Agent", Touches::Runs),
    ]
    .map(|(name, spelling, touches)| ToolFacts {
        name: name.to_owned(),
        spellings: spelling.split_whitespace().map(str::to_owned).collect(),
        touches,
    })
    .to_vec()
}

pub(crate) fn all_names() -> Vec<String> {
    tools().into_iter().map(|tool| tool.name).collect()
}

pub(crate) fn tool(name: &str) -> ToolFacts {
    let found = tools().into_iter().find(|tool| tool.name == name);
    found.unwrap_or_else(|| panic!("no tool {name}"))
}

/// Parses a layer: `global: allow read_file, exec(git *); deny exec(rm *)`. A clause without rules
/// is an empty list.
pub(crate) fn layer(text: &str) -> PolicyLayer {
    let (name, clauses) = text.split_once(':').expect("a layer's name");
    let layer = name.parse().expect("a layer's word");
    let mut layer = PolicyLayer::new(layer, format!("the {name} rules"));
    for clause in clauses
        .split(';')
        .map(str::trim)
        .filter(|clause| !clause.is_empty())
    {
        let (list, rules) = clause.split_once(' ').unwrap_or((clause, ""));
        let rules = strings(rules);
        match list {
            "allow" => layer.allow = Some(rules),
            "deny" => layer.deny = rules,
            "except" => layer.except = rules,
            "ask" => layer.ask = rules,
            "approve" => layer.approve = rules,
            other => panic!("no list {other}"),
        }
    }
    layer
}

/// Parses `a, b` as a list.
pub(crate) fn strings(text: &str) -> Vec<String> {
    let words = text
        .split(", ")
        .map(str::trim)
        .filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

/// Creates a policy of these layers. `settings` contains a mode, `read-only` and `dangerous`.
pub(crate) fn policy(layers: &[&str], settings: &str) -> Policy {
    let words: Vec<&str> = settings.split_whitespace().collect();
    let mode = words.iter().find_map(|word| word.parse::<Mode>().ok());
    Policy {
        layers: layers.iter().map(|text| layer(text)).collect(),
        mode: mode.unwrap_or(Mode::Default),
        read_only: words.contains(&"read-only"),
        allow_dangerous: words.contains(&"dangerous"),
        free_agents: None,
    }
}

/// Returns the arguments of a call that is written `exec git status` or `read_file src/main.rs`.
pub(crate) fn arguments(tool: &str, rest: &str) -> Value {
    match tool {
        "exec" => json!({"command": rest}),
        "web_fetch" => json!({"url": rest}),
        "grep" if rest.is_empty() => json!({"pattern": "x"}),
        "grep" => json!({"pattern": "x", "path": rest}),
        _ => json!({"path": rest}),
    }
}

/// Passes a call that is written in one line to `then`.
pub(crate) fn with_call<T>(text: &str, sandboxed: bool, then: impl FnOnce(&Call<'_>) -> T) -> T {
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    let granted = all_names();
    then(&Call {
        tool: &tool(name),
        granted: &granted,
        arguments: &arguments(name, rest),
        workspace: Path::new(WORKSPACE),
        sandboxed,
    })
}

/// Renders a ruling: `deny global exec(rm *)`.
pub(crate) fn shown(ruling: &Ruling) -> String {
    let rule = ruling.rule.as_deref().map(|rule| format!(" {rule}"));
    let rule = rule.unwrap_or_default();
    format!("{} {}{rule}", ruling.decision, ruling.layer)
}

/// Decides about a call; `settings` may also contain `sandboxed`.
pub(crate) fn decide(layers: &[&str], settings: &str, grants: &str, call: &str) -> Ruling {
    let compiled = Compiled::new(&policy(layers, settings), &strings(grants));
    with_call(call, settings.contains("sandboxed"), |call| {
        compiled.decide(call)
    })
}

/// Returns the word of a layer, for tables of names.
pub(crate) const fn word(layer: Layer) -> &'static str {
    layer.as_str()
}
