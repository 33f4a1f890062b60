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

#[test]
fn bash_completes_values_that_exist_now() {
    let world = World::new();
    let model = world.scenario("  - say: done\n");
    world.ok(&["run", "x", "--model", &model]);
    let task = world.task("x");
    let handle = task["handle"].as_str().unwrap();
    let script = world.write("completions.bash", &world.ok(&["completions", "bash"]).out);
    let complete = |words: &[&str]| {
        let binary = env!("CARGO_BIN_EXE_sortie");
        let typed = words.iter().map(|word| format!("{word:?}"));
        let typed: Vec<String> = std::iter::once(format!("{binary:?}"))
            .chain(typed)
            .collect();
        let asks = format!(
            "source {:?}; COMP_WORDS=({}); COMP_CWORD={}; _sortie_live {binary:?} {:?} {:?}; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            script.display().to_string(),
            typed.join(" "),
            words.len(),
            words.last().unwrap(),
            words.iter().rev().nth(1).unwrap_or(&"sortie"),
        );
        let mut bash = std::process::Command::new("bash");
        let known = world.command(&[]);
        bash.args(["-c", &asks]).current_dir(world.workspace());
        for (name, value) in known.get_envs() {
            if let Some(value) = value {
                bash.env(name, value);
            }
        }
        String::from_utf8(bash.output().unwrap().stdout).unwrap()
    };
    let is_offered =
        |words: &[&str], value: &str| complete(words).lines().any(|line| line == value);
    assert!(is_offered(&["tasks", "show", &handle[..2]], handle));
    assert!(is_offered(&["run", "--agent", "ex"], "explore"));
    assert!(!is_offered(&["run", "--agent", "co"], "explore"));
    let session = task["session_id"].as_str().unwrap();
    assert!(is_offered(&["run", "--session", ""], session));
    assert!(is_offered(&["tasks", "sh"], "show"));
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
