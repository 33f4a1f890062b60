//! Commands that find a server: the server executes, and the commands report.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;
use sortie_core::notification::Notification;

use crate::terminal::at_terminal;
use crate::world::World;

const ONE_CHILD: &str = r#"
  - when: { agent: main, turn: 1 }
    calls: [{ tool: task, args: { description: find auth files, prompt: Find., subagent_type: explore } }]
  - when: { agent: main, turn: 2 }
    say: "That was all: {{last_result}}"
  - when: { label: find auth files, turn: 1 }
    calls: [{ tool: list_dir, args: { path: "." } }]
  - when: { label: find auth files }
    say: in auth.rs
"#;

const HANGS: &str = "  - fault: { kind: hang }\n";

/// Once a client shows the child, the server has confirmed its request.
const CHILD_HANGS: &str = r#"
  - when: { agent: main, turn: 1 }
    calls: [{ tool: task, args: { description: look, prompt: Find., subagent_type: explore } }]
  - fault: { kind: hang }
"#;

const TWO_CHANGES: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: write_file, args: { path: one.txt, content: "1" } }]
  - when: { turn: 2 }
    calls: [{ tool: write_file, args: { path: two.txt, content: "2" } }]
  - when: { turn: 3 }
    say: "last: {{last_result}}"
"#;

fn id_of(world: &World, label: &str) -> String {
    world.task(label)["task_id"].as_str().unwrap().to_owned()
}

fn is(world: &World, label: &str, status: &str) -> bool {
    world
        .tasks()
        .iter()
        .any(|task| task["label"] == label && task["status"] == status)
}

#[test]
fn a_run_is_the_same_with_and_without_a_server() {
    let check = |world: &World| {
        let model = world.scenario(ONE_CHILD);
        let output = world.ok(&["run", "Look", "--model", &model]);
        assert!(output.out.starts_with("That was all: "), "{output:#?}");
        for line in [
            "[explore] find auth files ...",
            "[explore] find auth files - done (1 tool, ",
        ] {
            assert!(output.err.contains(line), "{line}: {output:#?}");
        }
        let task = world.json(&["run", "Look again", "--json", "--model", &model]);
        assert_eq!(task["status"], "completed");
        assert!(task["session_id"].as_str().unwrap().starts_with("cli:"));
        assert_eq!(task["lane"], "main");
        let lines = world
            .ok(&["run", "And again", "--stream-json", "--model", &model])
            .out;
        let lines: Vec<Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        // Subscribers of the library serialize the same type.
        for line in lines.split_last().unwrap().1 {
            let event: Notification = serde_json::from_value(line.clone()).unwrap();
            assert_eq!(&serde_json::to_value(&event).unwrap(), line);
            assert!(line["at"].as_str().unwrap().ends_with('Z'), "{line}");
        }
        let kinds: Vec<&str> = lines
            .iter()
            .map(|line| line["type"].as_str().unwrap_or("the task"))
            .collect();
        for kind in ["started", "tool", "progress", "completed"] {
            assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
        }
        assert_eq!(kinds.last(), Some(&"the task"));
    };
    let alone = World::new();
    check(&alone);
    let served = World::new();
    let server = served.serve();
    check(&served);
    let file = std::fs::read_to_string(served.home().join("lock")).unwrap();
    assert!(file.contains(&server.pid().to_string()), "{file}");
}

#[test]
fn several_runs_share_a_server() {
    let world = World::new();
    let model = world.scenario("  - latency_ms: 50\n    say: done\n");
    let _server = world.serve();
    let names = ["one", "two", "three", "four"];
    let runs: Vec<_> = names
        .iter()
        .map(|name| world.start(&["run", name, "--model", &model]))
        .collect();
    for run in runs {
        let output = run.end();
        assert_eq!(
            (output.code, output.out.as_str()),
            (Some(0), "done\n"),
            "{output:#?}"
        );
    }
    for name in names {
        assert!(is(&world, name, "completed"), "{name}");
    }
}

#[test]
fn exit_codes_come_through_the_server() {
    let world = World::new();
    let _server = world.serve();
    let model = world.scenario("  - fault: { kind: error, message: no }\n");
    let failed = world.sortie(&["run", "x", "--model", &model]);
    assert_eq!(failed.code, Some(1), "{failed:#?}");
    let model = world.scenario_in("hangs.yaml", HANGS);
    let late = world.sortie(&["run", "y", "--timeout", "1", "--model", &model]);
    assert_eq!(late.code, Some(5), "{late:#?}");
    let unknown_agent = world.sortie(&["spawn", "z", "--agent", "nobody", "--model", &model]);
    assert_ne!(unknown_agent.code, Some(0), "{unknown_agent:#?}");
    assert!(unknown_agent.err.contains("nobody"), "{unknown_agent:#?}");
    assert_eq!(world.sortie(&["tasks", "cancel", "ffffffff"]).code, Some(4));
}

#[test]
fn an_interrupt_cancels_the_run_in_the_server() {
    let world = World::new();
    let model = world.scenario(HANGS);
    let _server = world.serve();
    let mut run = world.start(&["run", "top", "--model", &model]);
    world.until("it runs", |world| is(world, "top", "running"));
    run.signal(Signal::INT);
    let output = run.end();
    assert_eq!(output.code, Some(130), "{output:#?}");
    assert!(
        output
            .err
            .contains("Cancelled by a person: stopped with Ctrl-C"),
        "{output:#?}"
    );
    assert!(is(&world, "top", "cancelled"));
    assert_eq!(world.sortie(&["status"]).code, Some(0));
}

#[test]
fn terminated_client_leaves_the_run_to_the_server() {
    let world = World::new();
    let model = world.scenario("  - latency_ms: 1500\n    say: all the same\n");
    let _server = world.serve();
    let mut run = world.start(&["run", "top", "--model", &model]);
    world.until("it runs", |world| is(world, "top", "running"));
    run.signal(Signal::TERM);
    let output = run.end();
    assert_eq!(output.code, Some(143), "{output:#?}");
    assert!(
        output.err.contains("The task continues in the server"),
        "{output:#?}"
    );
    world.until("it ends", |world| is(world, "top", "completed"));
}

#[test]
fn a_detached_task_is_run_by_the_server_and_resume_waits_for_it() {
    let world = World::new();
    let model = world.scenario("  - latency_ms: 300\n    say: here I am\n");
    let _server = world.serve();
    let output = world.ok(&["spawn", "wait", "--detach", "--model", &model]);
    assert!(output.out.contains("The server runs it."), "{output:#?}");
    let resumed = world.ok(&["resume"]);
    assert!(
        resumed.out == "here I am\n" || resumed.err.contains("There is nothing to resume."),
        "{resumed:#?}"
    );
    world.until("it ends", |world| is(world, "wait", "completed"));
    let again = world.ok(&["resume", &id_of(&world, "wait")]);
    assert_eq!(again.out, "here I am\n");
    assert_eq!(world.ok(&["resume"]).err, "There is nothing to resume.\n");
}

#[test]
fn flags_that_need_a_process_of_their_own_are_refused() {
    let world = World::new();
    let model = world.scenario("  - say: done\n");
    let _server = world.serve();
    for flags in [
        &["--record", "tape"][..],
        &["--max-concurrent", "3"],
        &["-c", "subagents.max_concurrent=2"],
    ] {
        let all = [&["run", "x", "--model", &model], flags].concat();
        let output = world.sortie(&all);
        assert_eq!(output.code, Some(6), "{output:#?}");
        let expected = format!("{} needs exclusive access to the store", flags[0]);
        assert!(
            output.err.contains(&expected) && output.err.contains("sortie stop"),
            "{output:#?}"
        );
    }
    assert!(world.tasks().is_empty());
    // Every command that starts runs refuses the flag; none ignores it silently.
    let made = world.json(&["run", "x", "--json", "--model", &model]);
    let id = made["task_id"].as_str().unwrap();
    for command in [
        &["demo"][..],
        &["resume"],
        &["spawn", "y", "--model", &model],
        &["replay", id, "--from", "1"],
    ] {
        let output = world.sortie(&[command, &["-c", "subagents.max_concurrent=2"]].concat());
        assert_eq!(output.code, Some(6), "{command:?}: {output:#?}");
        let expected = "-c needs exclusive access to the store";
        assert!(
            output.err.starts_with("error: ") && output.err.contains(expected),
            "{command:?}: {output:#?}"
        );
    }
    assert_eq!(world.tasks().len(), 1);
}

#[test]
fn tasks_are_paused_steered_retried_cancelled_and_deleted_in_the_server() {
    let world = World::new();
    let model = world.scenario(HANGS);
    let _server = world.serve();
    world.ok(&["spawn", "slow", "--detach", "--model", &model]);
    world.until("it runs", |world| is(world, "slow", "running"));
    let id = id_of(&world, "slow");
    let steered = world.ok(&["tasks", "steer", &id, "be quick"]);
    assert!(
        steered.out.contains("reads it before its next step"),
        "{steered:#?}"
    );
    let paused = world.json(&["tasks", "pause", &id, "--json"]);
    assert_eq!(paused["paused"], true, "{paused}");
    let resumed = world.json(&["tasks", "resume", &id, "--json"]);
    assert_eq!(resumed["paused"], false, "{resumed}");
    let cancelled = world.json(&["tasks", "cancel", &id, "--json"]);
    assert_eq!(cancelled["task_id"], id);
    world.until("it is cancelled", |world| is(world, "slow", "cancelled"));
    let deleted = world.json(&["tasks", "delete", &id, "--json"]);
    assert_eq!(deleted["deleted"], 1);
    assert!(world.tasks().is_empty());

    let model = world.scenario_in("quick.yaml", "  - say: better\n");
    let first = world.json(&["spawn", "quick", "--json", "--model", &model]);
    let id = first["task_id"].as_str().unwrap();
    let again = world.json(&["tasks", "retry", id, "--json"]);
    assert_ne!(again["task_id"], id);
    world.until("the second one ends", |world| {
        let tasks = world.tasks();
        let ended = tasks.iter().filter(|task| task["status"] == "completed");
        ended.count() == 2
    });
}

#[test]
fn tasks_are_paused_steered_resumed_and_retried_without_a_server() {
    let world = World::new();
    let model = world.scenario(
        "  - when: { turn: 1 }\n    calls: [{ tool: list_dir, args: { path: . } }]\n  - say: better\n",
    );
    world.ok(&["spawn", "later", "--detach", "--model", &model]);
    let id = id_of(&world, "later");
    assert_eq!(
        world.json(&["tasks", "pause", &id, "--json"])["paused"],
        true
    );
    assert_eq!(world.ok(&["resume"]).err, "There is nothing to resume.\n");
    assert!(is(&world, "later", "pending"));
    world.ok(&["tasks", "steer", &id, "be quick"]);
    assert_eq!(
        world.json(&["tasks", "resume", &id, "--json"])["paused"],
        false
    );
    assert_eq!(world.ok(&["resume"]).out, "better\n");
    let transcript = world.ok(&["tasks", "transcript", &id]).out;
    assert!(transcript.contains("be quick"), "{transcript}");
    let again = world.ok(&["tasks", "retry", &id]);
    assert!(again.out.contains("is queued again"), "{again:#?}");
    assert_eq!(world.ok(&["resume"]).out, "better\n");
    assert_eq!(world.sortie(&["tasks", "pause", &id]).code, Some(6));
}

#[test]
fn approval_requests_are_shown_at_the_clients_terminal() {
    let world = World::new();
    let model = world.scenario(TWO_CHANGES);
    let _server = world.serve();
    let mut terminal = at_terminal(&world, &["run", "Make it", "--model", &model]);
    terminal.exp_string("one.txt").unwrap();
    terminal
        .exp_string("Allow main [Make it] to run write_file? ")
        .unwrap();
    terminal.send_line("y").unwrap();
    terminal.exp_string("two.txt").unwrap();
    terminal
        .exp_string("Allow main [Make it] to run write_file? ")
        .unwrap();
    terminal.send_line("n").unwrap();
    terminal.exp_string("last: Denied").unwrap();
    terminal.exp_eof().unwrap();
    assert!(world.workspace().join("one.txt").exists());
    assert!(!world.workspace().join("two.txt").exists());
}

#[test]
fn approvals_are_given_and_revoked_through_the_server() {
    let world = World::new();
    let model = world.scenario(TWO_CHANGES);
    let _server = world.serve();
    let mut run = world.start(&["run", "Make it", "--model", &model]);
    let first = |world: &World| {
        let all = world.json(&["approvals", "--json"]);
        all.as_array().unwrap().first().cloned()
    };
    world.until("it asks", |world| first(world).is_some());
    run.wait_for_line("[main] Make it waits for a decision: `sortie approvals show ");
    let request = first(&world).unwrap()["id"].as_str().unwrap().to_owned();
    let approved = world.ok(&["approvals", "approve", &request, "--always=write_file"]);
    assert!(
        approved.out.contains("the server at 127.0.0.1:"),
        "{approved:#?}"
    );
    assert_eq!(run.end().code, Some(0));
    assert!(world.workspace().join("two.txt").exists());
    let late = world.sortie(&["approvals", "deny", &request]);
    assert_eq!(late.code, Some(6), "{late:#?}");
    let grants = world.json(&["approvals", "grants", "--json"]);
    assert_eq!(grants[0]["rule"], "write_file", "{grants}");
    let revoked = world.json(&["approvals", "revoke", "--json"]);
    assert_eq!(revoked["revoked"], 1, "{revoked}");
    assert_eq!(
        world.json(&["approvals", "grants", "--json"]),
        serde_json::json!([])
    );
}

#[test]
fn client_reports_that_its_server_ended() {
    let world = World::new();
    let model = world.scenario(CHILD_HANGS);
    let mut server = world.serve();
    let mut run = world.start(&["run", "top", "--model", &model]);
    run.wait_for_line("[explore] look ...");
    server.signal(Signal::KILL);
    assert_eq!(server.end().code, None);
    let output = run.end();
    assert_eq!(output.code, Some(143), "{output:#?}");
    assert!(
        output
            .err
            .contains("The server has stopped. Its tasks are kept"),
        "{output:#?}"
    );
}

#[test]
fn client_continues_after_a_server_restart() {
    let world = World::new();
    let model = world.scenario(CHILD_HANGS);
    let mut server = world.serve();
    let mut run = world.start(&["run", "top", "--model", &model]);
    run.wait_for_line("[explore] look ...");
    world.scenario("  - say: after all\n");
    server.signal(Signal::KILL);
    assert_eq!(server.end().code, None);
    let _again = world.serve();
    let output = run.end();
    assert_eq!(
        (output.code, output.out.as_str()),
        (Some(0), "after all\n"),
        "{output:#?}"
    );
}

#[test]
fn stream_reports_a_gap_after_a_server_restart() {
    let world = World::new();
    let model = world.scenario(CHILD_HANGS);
    let mut server = world.serve();
    let mut run = world
        .command(&["run", "top", "--stream-json", "--model", &model])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let mut lines = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let mut next_of = |kind: &str| lines.find(|line| line["type"] == kind).unwrap();
    next_of("started");
    server.signal(Signal::KILL);
    assert_eq!(server.end().code, None);
    let _again = world.serve();
    // The count is unknown: sequence numbers of the first server mean nothing to the second.
    assert_eq!(next_of("missed")["count"], Value::Null);
    run.kill().unwrap();
    run.wait().unwrap();
}

#[test]
fn agents_have_the_same_model_with_and_without_a_server() {
    // No provider listens there, and none has to: creating a task only chooses a model.
    let world = World::new()
        .with("ANTHROPIC_API_KEY", "sk-none")
        .with("ANTHROPIC_BASE_URL", "http://127.0.0.1:1");
    let models = |label: &str| {
        ["explore", "general"].map(|agent| {
            let words = format!("{label} {agent}");
            world.json(&["spawn", &words, "--agent", agent, "--detach", "--json"])["model"].clone()
        })
    };
    let alone = models("alone");
    assert_ne!(alone[0], alone[1], "explore gets the small one");
    let _server = world.serve();
    assert_eq!(models("served"), alone);
}

#[test]
fn long_instruction_gets_the_same_error_with_and_without_a_server() {
    let world = World::new();
    let check = || {
        // Truncating the last one by bytes would split a character.
        for text in [
            "x".repeat(200_001),
            "\u{1}".repeat(5 << 20),
            "长".repeat(1 << 20),
        ] {
            let mut child = world
                .command(&["run", "-", "--model", "offline"])
                .stdin(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            // The command stops reading once the input is too long, so this write may fail.
            child.stdin.take().unwrap().write_all(text.as_bytes()).ok();
            let output = child.wait_with_output().unwrap();
            let words = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{words}");
            assert!(words.contains("longer than 200,000 characters"), "{words}");
        }
    };
    check();
    let _server = world.serve();
    check();
    assert!(world.tasks().is_empty());
}

#[test]
fn a_client_waits_for_a_server_that_is_starting() {
    let world = World::new();
    let model = world.scenario("  - say: done\n");
    for _ in 0..3 {
        let mut server = world.start(&["serve", "--listen", "127.0.0.1:0"]);
        world.until("it has the store", |world| {
            world.home().join("server.json").exists()
        });
        let output = world.sortie(&["run", "x", "--model", &model]);
        assert_eq!(
            (output.code, output.out.as_str()),
            (Some(0), "done\n"),
            "{output:#?}"
        );
        server.signal(Signal::TERM);
        // While the server stops, a run waits for the store or finds it free.
        let output = world.sortie(&["run", "y", "--model", &model]);
        assert_eq!(
            (output.code, output.out.as_str()),
            (Some(0), "done\n"),
            "{output:#?}"
        );
        assert_eq!(server.end().code, Some(0));
    }
}

#[test]
fn silent_listener_at_the_server_address_is_reported() {
    let world = World::new();
    let mut server = world.serve();
    // The file names another address, whose listener never responds.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    silent.set_nonblocking(true).unwrap();
    let path = world.home().join("server.json");
    let file = std::fs::read_to_string(&path).unwrap();
    let address = world.address();
    let elsewhere = silent.local_addr().unwrap().to_string();
    std::fs::write(&path, file.replace(&address, &elsewhere)).unwrap();
    let status = world.sortie(&["status"]);
    assert_eq!(status.code, Some(1), "{status:#?}");
    assert!(status.out.contains("does not respond"), "{status:#?}");
    std::fs::write(&path, file).unwrap();
    server.signal(Signal::TERM);
    assert_eq!(server.end().code, Some(0));
}

#[test]
fn watching_in_one_terminal_sees_what_runs_in_another() {
    for served in [false, true] {
        let world = World::new();
        let model = world.scenario("  - latency_ms: 700\n    say: done\n");
        let _server = served.then(|| world.serve());
        let run = world.start(&["run", "Look", "--model", &model]);
        world.until("it runs", |world| is(world, "Look", "running"));
        let watched = world.ok(&["tasks", "watch"]).out;
        assert!(
            watched.contains("Look: running") && watched.contains("Look: completed (0 tools)"),
            "{served}: {watched}"
        );
        assert_eq!(run.end().code, Some(0));
    }
}

#[test]
fn second_run_without_a_server_gets_a_hint_to_serve() {
    let world = World::new();
    let model = world.scenario(HANGS);
    let _first = world.start(&["run", "top", "--model", &model]);
    world.until("it runs", |world| is(world, "top", "running"));
    let second = world.sortie(&["run", "another", "--model", &model]);
    assert_eq!(second.code, Some(3), "{second:#?}");
    assert!(
        second
            .err
            .contains("With `sortie serve`, several commands can work at once."),
        "{second:#?}"
    );
}

#[test]
fn a_demo_works_in_the_server() {
    let world = World::new();
    world.write("README.md", "# Title\n");
    let _server = world.serve();
    let demo = world.json(&["demo", "--json"]);
    assert_eq!(demo["status"], "completed", "{demo}");
    assert_eq!(world.sortie(&["demo", "--pace", "1"]).code, Some(6));
}

#[test]
fn run_show_and_http_return_the_same_task() {
    let world = World::new();
    let model = world.scenario("  - say: the result\n");
    let _server = world.serve();
    let task = world.json(&["run", "Look", "--json", "--model", &model]);
    let id = task["task_id"].as_str().unwrap();
    let token = std::fs::read_to_string(world.home().join("token")).unwrap();
    let (status, body) =
        crate::server::request(&world, token.trim(), "GET", &format!("/api/tasks/{id}"));
    assert_eq!(status, 200, "{body}");
    let over_http: Value = serde_json::from_str(&body).unwrap();
    let shown = world.json(&["tasks", "show", id, "--json"]);
    for (name, value) in task.as_object().unwrap() {
        assert_eq!(&over_http[name], value, "{name}");
        assert_eq!(&shown[name], value, "{name}");
    }
}

#[test]
fn hanging_server_is_reported_within_a_time_limit() {
    let world = World::new();
    let mut server = world.serve();
    server.signal(Signal::STOP);
    let status = world.sortie(&["status"]);
    assert_eq!(status.code, Some(1), "{status:#?}");
    assert!(
        status.out.contains("did not answer within 5 s"),
        "{status:#?}"
    );
    let cancel = world.sortie(&["tasks", "cancel", "ffffffff"]);
    assert_eq!(cancel.code, Some(3), "{cancel:#?}");
    assert!(
        cancel
            .err
            .contains("`sortie status` shows the state of the server"),
        "{cancel:#?}"
    );
    server.signal(Signal::CONT);
    assert_eq!(world.sortie(&["status"]).code, Some(0));
}
