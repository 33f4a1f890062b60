//! The complete `--help` output, as one page.

use crate::world::World;

const COMMANDS: &[&[&str]] = &[
    &[],
    &["chat"],
    &["run"],
    &["spawn"],
    &["tasks"],
    &["tasks", "list"],
    &["tasks", "show"],
    &["tasks", "result"],
    &["tasks", "transcript"],
    &["tasks", "events"],
    &["tasks", "watch"],
    &["tasks", "stats"],
    &["tasks", "diff"],
    &["tasks", "apply"],
    &["tasks", "discard"],
    &["tasks", "cancel"],
    &["tasks", "delete"],
    &["tasks", "pause"],
    &["tasks", "resume"],
    &["tasks", "retry"],
    &["tasks", "steer"],
    &["resume"],
    &["serve"],
    &["worker"],
    &["workers"],
    &["open"],
    &["status"],
    &["stop"],
    &["store"],
    &["store", "check"],
    &["store", "migrate"],
    &["store", "copy"],
    &["store", "backup"],
    &["keys"],
    &["keys", "list"],
    &["keys", "create"],
    &["keys", "revoke"],
    &["keys", "rotate"],
    &["approvals"],
    &["approvals", "list"],
    &["approvals", "show"],
    &["approvals", "approve"],
    &["approvals", "deny"],
    &["approvals", "answer"],
    &["approvals", "grants"],
    &["approvals", "revoke"],
    &["audit"],
    &["audit", "verify"],
    &["policy"],
    &["policy", "explain"],
    &["policy", "show"],
    &["agents"],
    &["agents", "list"],
    &["agents", "check"],
    &["agents", "show"],
    &["skills"],
    &["skills", "list"],
    &["skills", "show"],
    &["mcp"],
    &["mcp", "list"],
    &["mcp", "show"],
    &["mcp", "approve"],
    &["models"],
    &["models", "list"],
    &["models", "check"],
    &["usage"],
    &["replay"],
    &["config"],
    &["config", "show"],
    &["config", "schema"],
    &["config", "path"],
    &["config", "set"],
    &["config", "unset"],
    &["trust"],
    &["demo"],
    &["doctor"],
    &["completions"],
];

#[test]
fn the_help_of_every_command() {
    let world = World::new();
    let page: Vec<String> = COMMANDS
        .iter()
        .map(|command| {
            let arguments: Vec<&str> = command.iter().copied().chain(["--help"]).collect();
            let help = world.ok(&arguments).out;
            let title = [&["sortie"], *command].concat().join(" ");
            format!("# {title}\n\n{}", help.trim_end())
        })
        .collect();
    insta::assert_snapshot!(page.join("\n\n\n"));
}

#[test]
fn completions_are_scripts_that_know_the_commands() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = world.ok(&["completions", shell]).out;
        assert!(script.contains("transcript"), "{shell}");
    }
    assert_eq!(world.sortie(&["completions", "tcl"]).code, Some(2));
}

#[test]
fn the_version_is_the_packages() {
    let output = World::new().ok(&["--version"]).out;
    assert_eq!(output, format!("sortie {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn agents_are_listed_and_shown() {
    let world = World::new();
    let all = world.json(&["agents", "list", "--json"]);
    let names: Vec<&str> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|agent| agent["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["main", "explore", "plan", "code", "general"]);
    let list = world.ok(&["agents", "list"]).out;
    assert!(
        list.contains("explore") && list.contains("read-only"),
        "{list}"
    );
    let explore = world.ok(&["agents", "show", "EXPLORE"]).out;
    assert!(explore.contains("grep"), "{explore}");
    let missing = world.sortie(&["agents", "show", "nobody"]);
    assert_eq!(missing.code, Some(4));
    assert_eq!(
        missing.err,
        "error: There is no agent 'nobody'.\n  hint: Known agents: explore, plan, code, general.\n"
    );
}
