//! `sortie policy`: the decision first, then the opinion of every layer.

use crate::world::World;

/// Rules in the project's own folder; denying needs no trust.
const CONFIG: &str = r#"
[policy]
deny = ["exec(rm *)", "read_file(secret/**)"]
ask = ["web_fetch"]
"#;

fn world() -> World {
    let world = World::new();
    world.write("sortie.toml", CONFIG);
    world
}

/// Returns the explanation without the parts that differ between machines.
fn explained(world: &World, arguments: &[&str]) -> String {
    let arguments: Vec<&str> = ["policy", "explain"]
        .iter()
        .chain(arguments)
        .copied()
        .collect();
    let output = world.ok(&arguments);
    let lines = output
        .out
        .lines()
        .filter(|line| !line.contains("Policy hash"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn explain_prints_the_decision_and_then_every_layer() {
    let world = world();
    insta::assert_snapshot!(
        explained(&world, &["--agent", "explore", "--tool", "write_file", "--args", r#"{"path":"a"}"#]),
        @"
    deny: write_file by agent explore
    Layer          grant
    Rule           -
    Why            write_file is not among the tools of this run
    Taken away by  agent (agent explore)
    Mode           default

    Layer     Source         Ruling      Rule
    global    config policy  -           -
    agent     agent explore  leaves out  -
    subagent  default deny   -           -
    subagent  max_depth      -           -
    "
    );
    insta::assert_snapshot!(
        explained(&world, &["--agent", "main", "--tool", "exec", "--args", r#"{"command":"rm -r build"}"#]),
        @"
    deny: exec by agent main
    Layer        global
    Rule         exec(rm *)
    Why          config policy denies it
    Mode         default

    Layer   Source         Ruling  Rule
    global  config policy  denies  exec(rm *)
    "
    );
    insta::assert_snapshot!(
        explained(&world, &["--agent", "code", "--tool", "write_file", "--args", r#"{"path":"a","content":""}"#]),
        @"
    ask: write_file by agent code
    Layer        mode
    Rule         -
    Why          default mode requires an approval for it
    Mode         default

    Layer     Source         Ruling  Rule
    global    config policy  -       -
    subagent  default deny   -       -
    subagent  max_depth      -       -
    "
    );
}

#[test]
fn decisions_follow_the_mode_and_the_rules() {
    let world = world();
    let check = |agent: &str, tool: &str, args: &str, mode: &str, expected: (&str, &str)| {
        let explained = world.json(&[
            "policy", "explain", "--agent", agent, "--tool", tool, "--args", args, "--mode", mode,
            "--json",
        ]);
        let ruling = &explained["ruling"];
        let found = (
            ruling["decision"].as_str().unwrap(),
            ruling["layer"].as_str().unwrap(),
        );
        assert_eq!(
            found, expected,
            "{agent} {tool} {args} {mode}: {explained:#}"
        );
    };
    let file = r#"{"path":"a.txt","content":""}"#;
    check("main", "write_file", file, "default", ("ask", "mode"));
    check(
        "main",
        "write_file",
        file,
        "accept-edits",
        ("allow", "mode"),
    );
    check("main", "write_file", file, "dont-ask", ("deny", "mode"));
    check("main", "write_file", file, "plan", ("deny", "grant"));
    check("main", "write_file", file, "yolo", ("allow", "mode"));
    let secret = r#"{"path":"secret/key"}"#;
    check("main", "read_file", secret, "yolo", ("deny", "global"));
    check("code", "read_file", secret, "yolo", ("deny", "global"));
    let command = r#"{"command":"rm x"}"#;
    check("main", "exec", command, "yolo", ("deny", "global"));
}

#[test]
fn explain_uses_the_recorded_policy_of_a_task() {
    let world = World::new();
    let model = world.scenario("  - say: done\n");
    world.ok(&["run", "x", "--model", &model]);
    let task = world.task("x");
    let id = task["task_id"].as_str().unwrap();
    world.write("sortie.toml", "[policy]\ndeny = [\"read_file\"]\n");
    let ruling = |who: &[&str]| {
        let arguments = [
            &["policy", "explain", "--tool", "read_file", "--json"][..],
            &["--args", r#"{"path":"a"}"#],
            who,
        ]
        .concat();
        world.json(&arguments)["ruling"]["decision"].clone()
    };
    assert_eq!(ruling(&["--task", id]), "allow");
    assert_eq!(ruling(&["--agent", "main"]), "deny");
    let shown = world.json(&["policy", "show", "--task", id, "--json"]);
    let task = world.json(&["tasks", "show", id, "--json"]);
    assert_eq!(shown["policy_hash"], task["policy_hash"]);
    assert_eq!(task["mode"], "default");
    assert_eq!(task["isolation"], "none");
}

#[test]
fn layers_are_shown_in_order_with_their_rules() {
    let world = world();
    let shown = world.ok(&["policy", "show", "--agent", "explore"]).out;
    for part in [
        "Mode",
        "Read-only",
        "global (config policy)\n    deny: exec(rm *), read_file(secret/**)\n    ask: web_fetch",
        "agent (agent explore)",
    ] {
        assert!(shown.contains(part), "{part:?} is missing: {shown}");
    }
    let place = |part: &str| shown.find(part).unwrap();
    assert!(
        place("global (") < place("agent (agent explore)"),
        "{shown}"
    );
}

#[test]
fn invalid_policy_query_is_reported() {
    let world = World::new();
    let check = |arguments: &[&str], code: i32, expected: &str| {
        let output = world.sortie(arguments);
        assert_eq!(output.code, Some(code), "{output:#?}");
        assert!(output.err.contains(expected), "{output:#?}");
    };
    let start = ["policy", "explain", "--tool", "read_file"];
    check(&start, 2, "--agent");
    check(
        &[&start[..], &["--agent", "main", "--args", "[]"]].concat(),
        2,
        "--args must be a JSON object",
    );
    check(
        &[
            "policy",
            "explain",
            "--agent",
            "nobody",
            "--tool",
            "read_file",
        ],
        6,
        "nobody",
    );
    check(
        &["policy", "explain", "--agent", "main", "--tool", "fly"],
        6,
        "fly",
    );
}
