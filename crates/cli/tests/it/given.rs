//! Settings of an operator take effect, tested through the real binary.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

use crate::world::World;

/// A child that makes two calls; `{extra}` stands for further arguments of the parent's `task`
/// call.
const TWO_CALLS: &str = r#"
  - when: { agent: main, turn: 1 }
    calls: [{ tool: spawn_subagent, args: { task: look, label: kid, agentId: explorer{extra} } }]
  - when: { agent: main }
    say: over
  - when: { label: kid, turn: 1 }
    calls: [{ tool: list_dir, args: { path: "." } }]
  - when: { label: kid, turn: 2 }
    calls: [{ tool: list_dir, args: { path: "." } }]
  - when: { label: kid }
    say: done
"#;

const EXPLORER: &str =
    "---\nname: explorer\ndescription: Looks.\ntools: list_dir, skill\n{extra}---\nYou look.\n";

/// Returns the status of the child and the reason of its failure.
fn ended(world: &World, flags: &[&str], extra: &str) -> (String, Value) {
    let model = world.scenario(&TWO_CALLS.replace("{extra}", extra));
    let all = [&["run", "top", "--model", &model], flags].concat();
    let output = world.sortie(&all);
    assert!(output.code.is_some(), "{output:#?}");
    let kid = world.task("kid");
    (
        kid["status"].as_str().unwrap().to_owned(),
        kid["reason"].clone(),
    )
}

fn with_explorer(extra: &str) -> World {
    let world = World::new();
    world.write(
        ".sortie/agents/explorer.md",
        &EXPLORER.replace("{extra}", extra),
    );
    world.ok(&["trust"]);
    world
}

#[test]
fn budgets_from_every_source_are_enforced() {
    let completed = ("completed".to_owned(), Value::Null);
    let spent = ("failed".to_owned(), Value::from("budget"));
    assert_eq!(ended(&with_explorer(""), &[], ""), completed);
    assert_eq!(
        ended(&with_explorer(""), &[], ", budget: { tool_calls: 1 }"),
        spent,
        "a call"
    );
    assert_eq!(
        ended(&with_explorer("budget:\n  tool_calls: 1\n"), &[], ""),
        spent,
        "a file"
    );
    for flag in [
        "agents.explorer.budget.tool_calls=1",
        "subagents.budget.tool_calls=1",
    ] {
        assert_eq!(
            ended(&with_explorer(""), &["-c", flag], ""),
            spent,
            "{flag}"
        );
    }
    // The budget of the main run covers its subtree: the call that starts the child used one.
    let world = with_explorer("");
    let (status, _) = ended(&world, &["-c", "budget.tool_calls=2"], "");
    assert_eq!(status, "failed");
    let world = World::new();
    let model = world.scenario("  - say: done\n");
    let poor = world.sortie(&["run", "x", "--budget-tokens", "1", "--model", &model]);
    assert_eq!(poor.code, Some(1), "{poor:#?}");
    assert_eq!(world.task("x")["reason"], "budget");
    let rich = world.json(&[
        "run",
        "y",
        "--budget-tokens",
        "1000000",
        "--json",
        "--model",
        &model,
    ]);
    assert_eq!(rich["budget"][0]["limit"], 1_000_000, "{rich}");
}

const SKILL: &str = "---\nname: NAME\ndescription: Says hello\n---\nThe words of NAME.\n";

/// Returns which of two skills a child can load.
fn loaded(flags: &[&str]) -> Vec<&'static str> {
    let world = with_explorer("");
    for name in ["greet", "curse"] {
        let path = format!(".sortie/skills/{name}/SKILL.md");
        world.write(&path, &SKILL.replace("NAME", name));
    }
    let rules = r#"
  - when: { agent: main, turn: 1 }
    calls: [{ tool: task, args: { description: kid, prompt: Go., subagent_type: explorer } }]
  - when: { agent: main }
    say: over
  - when: { label: kid, turn: 1 }
    calls:
      - { tool: skill, args: { name: greet } }
      - { tool: skill, args: { name: curse } }
  - when: { label: kid }
    say: done
"#;
    let model = world.scenario(rules);
    world.ok(&[&["run", "top", "--model", &model], flags].concat());
    let kid = world.task("kid")["task_id"].as_str().unwrap().to_owned();
    let transcript = world.ok(&["tasks", "transcript", &kid]).out;
    let mut names = vec!["greet", "curse"];
    names.retain(|name| transcript.contains(&format!("The words of {name}.")));
    names
}

#[test]
fn children_load_only_skills_that_the_operator_allows() {
    assert_eq!(loaded(&[]), ["greet", "curse"]);
    let check = |flag: &str, expected: &[&str]| {
        assert_eq!(loaded(&["-c", flag]), expected, "{flag}");
    };
    check("subagents.skills.deny_skills=curse", &["greet"]);
    check("subagents.skills.allow_skills=curse", &["curse"]);
    check("agents.explorer.skills=greet", &["greet"]);
    check("subagents.skills.inherit=false", &[]);
    check("subagents.tools.inherit_skills=false", &[]);
}

#[test]
fn a_page_is_fetched_where_the_operator_allows_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            lines.map_while(Result::ok).find(String::is_empty);
            let page = "<html><body><h1>Title</h1><p>The words of the page.</p></body></html>";
            let mut stream = stream;
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
                page.len()
            )
            .ok();
        }
    });
    let world = World::new();
    let rules = format!(
        "  - when: {{ turn: 1 }}\n    calls: [{{ tool: web_fetch, args: {{ url: \"http://{address}/\" }} }}]\n  - say: \"{{{{last_result}}}}\"\n"
    );
    let model = world.scenario(&rules);
    let refused = world.ok(&["run", "x", "--yes", "--model", &model]).out;
    assert!(!refused.contains("The words of the page."), "{refused}");
    let allow = format!("web.allow_hosts={address}");
    let fetched = world.ok(&["run", "y", "--yes", "-c", &allow, "--model", &model]);
    assert!(
        fetched.out.contains("The words of the page."),
        "{fetched:#?}"
    );
}

#[test]
fn traces_go_to_the_endpoint_of_the_environment() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (sender, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<String> = lines
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .collect();
            let mut stream = stream;
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
            .ok();
            sender.send(head.join("\n").to_lowercase()).ok();
        }
    });
    let world = World::new()
        .with("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)
        .with("OTEL_EXPORTER_OTLP_HEADERS", "x-team=a%20b");
    let model = world.scenario("  - say: done\n");
    world.ok(&["run", "x", "--model", &model]);
    let request = requests.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(request.starts_with("post /v1/traces "), "{request}");
    assert!(request.contains("x-team: a b"), "{request}");
    // The variable for traces takes precedence over the one for all signals.
    let take = format!("{endpoint}/take");
    let exact = world
        .command(&["run", "z", "--model", &model])
        .env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &take)
        .env("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "X-Team=traces,x-too=1")
        .output()
        .unwrap();
    assert!(exact.status.success(), "{exact:?}");
    let request = requests.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(request.starts_with("post /take "), "{request}");
    assert!(
        request.contains("x-team: traces") && !request.contains("a b"),
        "{request}"
    );
    assert!(request.contains("x-too: 1"), "{request}");
    // An empty value counts as unset.
    let empty = world
        .command(&["run", "z", "--model", &model])
        .env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
        .output()
        .unwrap();
    assert!(empty.status.success(), "{empty:?}");
    let request = requests.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(request.starts_with("post /v1/traces "), "{request}");
    // An invalid endpoint is reported and stops no run.
    let started = world.ok(&[
        "run",
        "y",
        "-c",
        "telemetry.headers.\"bad header\"=1",
        "--model",
        &model,
    ]);
    assert!(started.err.contains("No traces are sent: "), "{started:#?}");
}

#[test]
fn a_parent_applies_what_its_child_changed() {
    let world = World::new();
    let git = |arguments: &[&str]| {
        let done = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@example.com"])
            .args(arguments)
            .current_dir(world.workspace())
            .env("HOME", world.folder())
            .output()
            .unwrap();
        assert!(done.status.success(), "{arguments:?}: {done:?}");
    };
    git(&["init", "-q"]);
    world.write("first.txt", "first\n");
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "first"]);
    let rules = r#"
  - when: { agent: main, turn: 1 }
    calls: [{ tool: spawn_subagent, args: { task: make it, label: kid, agentId: code, isolation: worktree } }]
  - when: { agent: main, turn: 2 }
    calls: [{ tool: subagents, args: { action: wait } }]
  - when: { agent: main, turn: 3 }
    calls: [{ tool: changes, args: { action: apply, id: kid } }]
  - when: { agent: main }
    say: "{{last_result}}"
  - when: { label: kid, turn: 1 }
    calls: [{ tool: write_file, args: { path: made.txt, content: "by the child\n" } }]
  - when: { label: kid }
    say: done
"#;
    let model = world.scenario(rules);
    let output = world.ok(&["run", "top", "--yes", "--model", &model]);
    assert!(output.out.contains("made.txt"), "{output:#?}");
    let made = std::fs::read_to_string(world.workspace().join("made.txt")).unwrap();
    assert_eq!(made, "by the child\n");
}
