//! Classes of mistakes that no other test here or in a crate tries as a class.

use serde_json::{Value, json};

use super::stage::{Answer, call, calls_in, exec, files_of};
use crate::world::World;

/// A few random numbers, the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        // Knuth's: good enough to mix paths.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % most
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

/// Pieces that paths are made of; some are links that lead somewhere else.
const PIECES: &[&str] = &[
    "src", "src", "src", "..", ".", "", "other", "deep", "to-other", "to-root", "to-src", "up",
    "src-evil", "SRC", "srcx", "new", "f.txt", "own.txt",
];

fn some_path(random: &mut Random, root: &str) -> String {
    let count = 1 + random.below(6);
    let pieces: Vec<&str> = (0..count).map(|_| random.pick(PIECES)).collect();
    let path = pieces.join("/");
    match random.below(5) {
        0 => format!("{root}/{path}"),
        1 => format!("src/{path}"),
        _ => path,
    }
}

/// Root cause 1: what a rule was asked about is what is used. A checker of paths and the executor of
/// writes are given the same random paths; whatever was written lies where the rule allows.
#[test]
fn what_a_rule_allows_is_what_is_written() {
    let world = World::new();
    for name in [
        "src/f.txt",
        "src/deep/f.txt",
        "other/f.txt",
        "src-evil/f.txt",
        "f.txt",
    ] {
        world.write(name, "as it was\n");
    }
    let workspace = world.workspace();
    let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, workspace.join(at)).unwrap();
    link("../other", "src/to-other");
    link("..", "src/to-root");
    link("src", "to-src");
    link("..", "up");
    link("../other/f.txt", "src/own.txt");
    let elsewhere = |world: &World| {
        let except = [
            world.home(),
            workspace.join("src"),
            world.folder().join("scenario.yaml"),
        ];
        let mut files = files_of(&world.folder(), &except);
        files.retain(|path, _| !path.is_dir() || path.is_symlink());
        files
    };
    let before = elsewhere(&world);
    let mut random = Random(7);
    let calls: Vec<Value> = (0..600)
        .map(|number| {
            let path = some_path(&mut random, workspace.to_str().unwrap());
            call(
                "write_file",
                json!({ "path": path, "content": format!("evil {number}\n") }),
            )
        })
        .collect();
    let rule = "policy.allow=[\"write_file(src/**)\"]";
    let answers = calls_in(&world, &["-c", rule], &calls);
    assert_eq!(elsewhere(&world), before);
    // The control: some were written, where they may be.
    let written = answers
        .iter()
        .filter(|answer| answer.status == "ok")
        .count();
    assert!(written > 20, "{written} were written");
    let denied = answers
        .iter()
        .filter(|answer| answer.status == "denied")
        .count();
    assert!(denied > 100, "{denied} were denied");
}

/// No folder is made on the way to a file that lies elsewhere.
#[test]
fn no_folder_is_made_where_nothing_may_be() {
    let world = World::new();
    let write = |path: &str| call("write_file", json!({ "path": path, "content": "x" }));
    let rule = "policy.allow=[\"write_file(src/**)\"]";
    calls_in(
        &world,
        &["-c", rule],
        &[
            write("new/../src/a"),
            write(".sortie/../src/b"),
            write("sortie.toml/../src/c"),
        ],
    );
    for name in ["new", ".sortie", "sortie.toml"] {
        assert!(!world.workspace().join(name).exists(), "{name}");
    }
}

/// What is decided about one call, without running it.
fn decided(world: &World, tool: &str, arguments: &Value, rules: &[&str]) -> String {
    let arguments = arguments.to_string();
    let mut words = vec![
        "policy", "explain", "--agent", "main", "--mode", "yolo", "--json", "--tool", tool,
        "--args", &arguments,
    ];
    for rule in rules {
        words.extend(["-c", rule]);
    }
    let explained = world.json(&words);
    explained["ruling"]["decision"].as_str().unwrap().to_owned()
}

/// Root cause 2: the beginning of a name is not the name.
#[test]
fn a_name_that_begins_alike_is_another_name() {
    let world = World::new();
    let check = |tool: &str, argument: &str, value: &str, rule: &str, expected: &str| {
        let found = decided(
            &world,
            tool,
            &json!({ argument: value, "content": "" }),
            &[rule],
        );
        assert_eq!(found, expected, "{tool} {value} under {rule}");
    };
    let inside = "policy.allow=[\"write_file(src/**)\"]";
    for (path, expected) in [
        ("src/a", "allow"),
        ("src/a/b", "allow"),
        ("src2/a", "deny"),
        ("src-evil/a", "deny"),
        ("srca", "deny"),
        ("src", "deny"),
        ("other/src/a", "deny"),
        ("src/../other/a", "deny"),
        ("./src/./a", "allow"),
    ] {
        check("write_file", "path", path, inside, expected);
    }
    let domain = "policy.allow=[\"web_fetch(domain:example.com)\"]";
    for (url, expected) in [
        ("https://example.com/", "allow"),
        ("https://example.com:443/x", "allow"),
        ("https://evilexample.com/", "deny"),
        ("https://example.com.evil.org/", "deny"),
        ("https://example.com@evil.org/", "deny"),
        ("https://evil.org/example.com", "deny"),
        ("https://evil.org/?x=https://example.com/", "deny"),
        ("https://example.community/", "deny"),
    ] {
        let found = decided(&world, "web_fetch", &json!({ "url": url }), &[domain]);
        assert_eq!(found, expected, "{url}");
    }
    let command = "policy.allow=[\"exec(git status *)\"]";
    for (text, expected) in [
        ("git status", "allow"),
        ("git status --short", "allow"),
        ("git statusx", "deny"),
        ("git status; id", "deny"),
        ("git status && id", "deny"),
        ("git status $(id)", "deny"),
        ("git status\nid", "deny"),
        ("gitx status", "deny"),
        ("./git status", "deny"),
        ("git -c core.pager=id status", "deny"),
    ] {
        let found = decided(&world, "exec", &json!({ "command": text }), &[command]);
        assert_eq!(found, expected, "{text}");
    }
}

/// The same about trust: a folder whose name begins alike is not trusted.
#[test]
fn trust_ends_at_the_folder() {
    let world = World::new();
    world.ok(&["trust"]);
    let neighbour = world.folder().join("workspace-evil");
    std::fs::create_dir(&neighbour).unwrap();
    let settings = "[approvals]\nmode = \"yolo\"\n";
    std::fs::write(neighbour.join("sortie.toml"), settings).unwrap();
    let shown = |folder: &std::path::Path| {
        let output = world
            .command(&["config", "show", "--json"])
            .current_dir(folder)
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    assert!(!shown(&neighbour).contains("yolo"));
    world.write("sortie.toml", settings);
    assert!(shown(&world.workspace()).contains("yolo"), "the control");
}

/// Root cause 8: what a call says about its own authority gives none.
#[test]
fn a_call_that_declares_its_own_authority_has_none() {
    let world = World::new();
    let command = "echo evil > ../outside.txt; echo evil > inside.txt";
    let mut calls = Vec::new();
    for (name, value) in [
        ("sandbox", json!("off")),
        ("dangerouslyDisableSandbox", json!(true)),
        ("mode", json!("yolo")),
        ("approved", json!(true)),
        ("approved_by", json!("cli:anna")),
        ("network", json!(true)),
        ("workspace", json!("/")),
        ("cwd", json!("/")),
        ("env", json!({ "LD_PRELOAD": "x" })),
        ("run_id", json!("0")),
        ("read_only", json!(false)),
        ("policy", json!({ "allow": ["*"] })),
    ] {
        calls.push(call("exec", json!({ "command": command, name: value })));
        calls.push(call(
            "spawn_subagent",
            json!({ "task": "x", "agentId": "explore", name: value }),
        ));
    }
    calls.push(call("exec", json!({ "command": command, "workdir": "/" })));
    calls.push(call("exec", json!({ "command": command, "workdir": ".." })));
    // Without `--yes`: nobody is there to say yes, and a call cannot say it for itself.
    let answers = unattended(&world, &calls);
    for (tried, answer) in calls.iter().zip(&answers) {
        assert!(
            answer.status != "ok" || tried["tool"] == "spawn_subagent",
            "{tried}: {answer:?}"
        );
    }
    assert!(!world.folder().join("outside.txt").exists());
    assert!(!world.workspace().join("inside.txt").exists());
    for task in world.tasks() {
        assert_ne!(task["mode"], "yolo", "{task:#}");
    }
}

fn unattended(world: &World, calls: &[Value]) -> Vec<Answer> {
    let first = json!({ "when": { "depth": 0, "turn": 1 }, "calls": calls });
    let model = world.scenario(&format!("  - {first}\n  - say: done\n"));
    let task = world.json_any(&["run", "x", "--json", "--model", &model]);
    super::stage::answers(world, task["task_id"].as_str().unwrap())
}

/// Root causes 4 and 9: a setting that cannot be understood stops the program; it never means "no
/// limit" or "off".
#[test]
fn a_limit_that_cannot_be_read_stops_everything() {
    let world = World::new();
    let first = json!({ "when": { "turn": 1 }, "calls": [exec("touch made")] });
    let model = world.scenario(&format!("  - {first}\n  - say: done\n"));
    let run = ["run", "x", "--yes", "--model", &model];
    for setting in [
        "sandbox.mode=of",
        "sandbox.mode=none",
        "sandbox.mode=",
        "sandbox.mode=false",
        "approvals.mode=yes",
        "policy.deny=exec",
        "policy.deny=[\"exec((\"]",
        "policy.allow=[\"group:nothing((\"]",
        "policy.allow_dangerous=maybe",
        "budget.tool_calls=-1",
        "budget.usd=nan",
        "budget.tokens=lots",
        "subagents.max_children=-1",
        "main.max_iterations=all",
    ] {
        let said = world.sortie(&[&run[..], &["-c", setting]].concat());
        let made = world.workspace().join("made");
        assert!(
            said.code != Some(0) || !made.exists(),
            "{setting}: {said:#?}"
        );
        assert!(!made.exists(), "{setting}: {said:#?}");
    }
    world.ok(&run);
    assert!(world.workspace().join("made").exists(), "the control");
}
