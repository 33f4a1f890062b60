//! The complete `--help` output, as one page.

use crate::world::World;

const COMMANDS: &[&[&str]] = &[
    &[],
    &["chat"],
    &["init"],
    &["run"],
    &["spawn"],
    &["tasks"],
    &["tasks", "list"],
    &["tasks", "show"],
    &["tasks", "result"],
    &["tasks", "report"],
    &["tasks", "transcript"],
    &["tasks", "events"],
    &["tasks", "watch"],
    &["tasks", "stats"],
    &["tasks", "diff"],
    &["tasks", "apply"],
    &["tasks", "discard"],
    &["tasks", "cancel"],
    &["tasks", "delete"],
    &["tasks", "clean"],
    &["tasks", "pause"],
    &["tasks", "resume"],
    &["tasks", "retry"],
    &["tasks", "steer"],
    &["top"],
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
    &["hooks"],
    &["hooks", "list"],
    &["hooks", "dead"],
    &["hooks", "retry"],
    &["hooks", "dismiss"],
    &["hooks", "test"],
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
    &["man"],
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

/// Runs a script in a shell that knows the world; returns its output.
fn in_shell(world: &World, shell: &str, arguments: &[&str]) -> String {
    let binaries = std::path::Path::new(env!("CARGO_BIN_EXE_sortie")).parent();
    let path = format!("{}:/usr/bin:/bin", binaries.unwrap().display());
    let mut command = std::process::Command::new(shell);
    command.args(arguments).current_dir(world.workspace());
    for (name, value) in world.command(&[]).get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    let output = command.env("PATH", path).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Completes words in bash, zsh and fish as their scripts do.
fn completed(world: &World, shell: &str, words: &[&str]) -> String {
    let script = world.write(
        &format!("completions.{shell}"),
        &world.ok(&["completions", shell]).out,
    );
    let script = script.display();
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let all = quoted.join(" ");
    match shell {
        "bash" => {
            let last = quoted.last().unwrap();
            let asks = format!(
                "source {script}; COMP_WORDS=(sortie {all}); COMP_CWORD={}; _sortie_live sortie {last} x; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
                words.len()
            );
            in_shell(world, "bash", &["--norc", "-c", &asks])
        }
        "zsh" => {
            // The functions of zsh's own completion work only at a terminal.
            let asks = format!(
                "compdef() {{ :; }}; source {script}; _sortie() {{ :; }}; compadd() {{ print -l -- $values; }}; words=(sortie {all}); CURRENT={}; _sortie_live",
                words.len() + 1
            );
            in_shell(world, "zsh", &["-f", "-c", &asks])
        }
        _ => {
            let asks = format!(
                "source {script}; complete -C \"sortie {}\"",
                words.join(" ")
            );
            in_shell(world, "fish", &["--no-config", "-c", &asks])
        }
    }
}

#[test]
fn shells_complete_values_that_exist_now() {
    let world = World::new();
    let model = world.scenario("  - say: done\n");
    world.ok(&["run", "x", "--model", &model]);
    let task = world.task("x");
    let handle = task["handle"].as_str().unwrap();
    let session = task["session_id"].as_str().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let is_offered = |words: &[&str], value: &str| {
            let offered = completed(&world, shell, words);
            let mut names = offered.lines().map(|line| line.split('\t').next().unwrap());
            names.any(|name| name == value)
        };
        assert!(
            is_offered(&["tasks", "show", &handle[..2]], handle),
            "{shell}"
        );
        assert!(is_offered(&["tasks", "report", ""], handle), "{shell}");
        assert!(is_offered(&["run", "--agent", "ex"], "explore"), "{shell}");
        assert!(!is_offered(&["run", ""], "explore"), "{shell}");
        assert!(is_offered(&["run", "--session", ""], session), "{shell}");
    }
    let offered = completed(&world, "bash", &["tasks", "sh"]);
    assert!(offered.lines().any(|line| line == "show"), "{offered}");
}

#[test]
fn bash_never_runs_what_a_name_in_the_store_contains() {
    let world = World::new();
    let model = world.scenario("  - say: done\n");
    let session = "api:$(touch evil)`touch evil`";
    world.ok(&["run", "x", "--session", session, "--model", &model]);
    let offered = completed(&world, "bash", &["run", "--session", "api:"]);
    assert_eq!(
        offered.trim(),
        r"api:\$\(touch\ evil\)\`touch\ evil\`",
        "{offered}"
    );
    assert!(!world.workspace().join("evil").exists());
}

#[test]
fn help_errors_and_the_manual_are_chinese_for_a_chinese_user() {
    let world = World::new().with("LANG", "zh_CN.UTF-8");
    let help = world.ok(&["tasks", "list", "--help"]).out;
    for expected in [
        "以树形列出任务：等你处理的在前，然后是最新的",
        "用法：",
        "选项:",
        "全局选项:",
        "只列出在此文件夹工作的任务",
    ] {
        assert!(help.contains(expected), "{expected}: {help}");
    }
    let wrong = world.sortie(&["rnu"]);
    assert_eq!(wrong.code, Some(2), "{wrong:#?}");
    assert!(wrong.err.contains("没有命令 'rnu'"), "{wrong:#?}");
    assert!(wrong.err.contains("你是指 'run' 吗？"), "{wrong:#?}");
    let manual = world.ok(&["man"]).out;
    assert!(manual.starts_with(".TH SORTIE 1"), "{manual}");
    assert!(
        manual.contains(".SS sortie tasks list\n以树形列出任务"),
        "{manual}"
    );
    let english = world.ok(&["--lang", "en", "man"]).out;
    assert!(english.contains("Lists tasks as trees"), "{english}");
}
