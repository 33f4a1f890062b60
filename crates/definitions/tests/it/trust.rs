//! Tests that a file of an untrusted folder never grants more than the same file does if trusted.

use proptest::prelude::*;
use sortie_core::agent::ModelChoice;
use sortie_core::policy::Mode;
use sortie_core::run::Isolation;
use sortie_definitions::LoadedAgent;

use crate::support::World;

fn one_of(values: &'static [&'static str]) -> impl Strategy<Value = Option<String>> {
    proptest::option::of(proptest::sample::select(values).prop_map(str::to_owned))
}

prop_compose! {
    fn front_matter()(
        tools in one_of(&["Read", "'*'", "[Read, Bash(git *)]", "Nothing", "{bash: false}"]),
        denied in one_of(&["Bash", "mcp__*", "Read"]),
        permission in one_of(&["{edit: deny}", "{bash: allow}", "{bash: ask}", "allow"]),
        mode in one_of(&["plan", "dontAsk", "default", "acceptEdits", "bypassPermissions", "yolo", "what"]),
        model in one_of(&["inherit", "haiku", "opus", "anthropic/x", "evil/x", "script:x.json", "replay:x", "Script:y"]),
        turns in proptest::option::of(1u32..100),
        minutes in proptest::option::of(1u32..100),
        isolation in one_of(&["worktree", "none"]),
        servers in one_of(&["[github]", "{evil: {command: rm}}"]),
        hooks in one_of(&["{Stop: []}", "{}"]),
    ) -> String {
        let mut text = "description: d\n".to_owned();
        let mut add = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                text.push_str(&format!("{key}: {value}\n"));
            }
        };
        add("tools", tools);
        add("disallowedTools", denied);
        add("permission", permission);
        add("permissionMode", mode);
        add("model", model);
        add("maxTurns", turns.map(|turns| turns.to_string()));
        add("timeout_mins", minutes.map(|minutes| minutes.to_string()));
        add("isolation", isolation);
        add("mcpServers", servers);
        add("hooks", hooks);
        text
    }
}

/// Returns the first field in which `less` grants more than `more`, or more than any untrusted
/// agent may have.
fn exceeds(less: &LoadedAgent, more: &LoadedAgent) -> Option<&'static str> {
    let mode = |agent: &LoadedAgent| agent.mode.unwrap_or(Mode::Default);
    let plays = |agent: &LoadedAgent| match &agent.definition.model {
        ModelChoice::Named(name) => !name.starts_with("anthropic/"),
        ModelChoice::Inherit | ModelChoice::Small | ModelChoice::Plan => false,
    };
    let longer = |own: Option<std::time::Duration>, other| own.is_some() && own > other;
    [
        (less.definition.tools != more.definition.tools, "tools"),
        (less.ask != more.ask, "ask"),
        (mode(less) > mode(more), "mode"),
        (mode(less) > Mode::Default, "a free mode"),
        (
            less.definition.read_only != more.definition.read_only,
            "read only",
        ),
        (plays(less), "a model of its own"),
        (
            less.definition.max_iterations > more.definition.max_iterations,
            "turns",
        ),
        (
            less.definition.max_iterations > Some(15),
            "turns beyond the ceiling",
        ),
        (longer(less.timeout, more.timeout), "time"),
        (less.isolation == Some(Isolation::None), "isolation"),
        (!less.mcp_servers.is_empty(), "servers"),
        (less.hooks.is_some(), "hooks"),
    ]
    .into_iter()
    .find_map(|(exceeds, what)| exceeds.then_some(what))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn untrusted_files_only_restrict(yaml in front_matter()) {
        let world = World::with(&[("project/.claude/agents/x.md", &format!("---\n{yaml}---\nb"))]);
        let trusted = world.agents(true);
        let untrusted = world.agents(false);
        match (untrusted.agents.first(), trusted.agents.first()) {
            (Some(less), Some(more)) => {
                prop_assert_eq!(exceeds(less, more), None, "{}", yaml);
                let dropped = more.hooks.is_some() || !more.mcp_servers.is_empty();
                prop_assert!(!dropped || less.problems.len() > more.problems.len(), "{}", yaml);
            }
            (None, _) => {}
            (Some(_), None) => prop_assert!(false, "refused only when trusted: {}", yaml),
        }
    }
}

#[test]
fn exceeds_detects_a_free_mode() {
    let yaml = "description: d\npermissionMode: yolo\nhooks: {}\n";
    let world = World::with(&[("project/.claude/agents/x.md", &format!("---\n{yaml}---\nb"))]);
    let trusted = world.agents(true);
    assert_eq!(
        exceeds(&trusted.agents[0], &trusted.agents[0]),
        Some("a free mode")
    );
}
