//! Hooks: real commands, and a real receiver on loopback that verifies signatures.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
#[cfg(feature = "crash-points")]
use std::os::unix::process::ExitStatusExt as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use sortie_base::secret::Secret;
use sortie_hooks::{Signed, Signer};

use crate::world::World;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const PATIENCE: Duration = Duration::from_secs(60);

/// A message that arrived with a valid signature.
#[derive(Clone, Debug)]
struct Received {
    key: String,
    body: Value,
    accepted: bool,
}

/// A receiver of webhooks. It refuses the first `refusals` messages.
struct Receiver {
    port: u16,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    fn start(refusals: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&received);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let list = Arc::clone(&list);
                std::thread::spawn(move || serve(stream.unwrap(), &list, refusals));
            }
        });
        Self { port, received }
    }

    fn all(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// Returns the events that were accepted, by their keys.
    fn accepted(&self) -> BTreeMap<String, Vec<String>> {
        let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for message in self.all().into_iter().filter(|message| message.accepted) {
            let kind = message.body["type"].as_str().unwrap().to_owned();
            keys.entry(message.key).or_default().push(kind);
        }
        keys
    }

    fn until(&self, what: &str, happened: impl Fn(&[Received]) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !happened(&self.all()) {
            assert!(
                Instant::now() < deadline,
                "never: {what}: {:#?}",
                self.all()
            );
            std::thread::yield_now();
        }
    }

    fn config(&self, events: &str, more: &str) -> String {
        let port = self.port;
        format!(
            "[hooks.notify]\nevents = {events}\nurl = \"http://127.0.0.1:{port}/hook\"\nsecret_env = \"HOOK_SECRET\"\n{more}\n"
        )
    }
}

fn serve(stream: TcpStream, list: &Mutex<Vec<Received>>, refusals: usize) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut headers = BTreeMap::new();
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim().split_once(": ") else {
                break;
            };
            headers.insert(name.to_lowercase(), value.to_owned());
        }
        let length: usize = headers["content-length"].parse().unwrap();
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let signer = Signer::parse(&Secret::new(SECRET)).unwrap();
        let timestamp: i64 = headers["webhook-timestamp"].parse().unwrap();
        let signed = Signed {
            id: &headers["webhook-id"],
            timestamp,
            body: &body,
        };
        signer
            .verify(signed, &headers["webhook-signature"], timestamp, 0)
            .unwrap();
        let accepted = {
            let mut list = list.lock().unwrap();
            let accepted = list.len() >= refusals;
            list.push(Received {
                key: headers["webhook-id"].clone(),
                body: serde_json::from_slice(&body).unwrap(),
                accepted,
            });
            accepted
        };
        let status = if accepted {
            "204 No Content"
        } else {
            "503 Service Unavailable"
        };
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// A trusted workspace with this configuration.
fn world(config: &str) -> World {
    let world = World::new().with("HOOK_SECRET", SECRET);
    world.write("sortie.toml", config);
    world.ok(&["trust"]);
    world
}

const WRITES: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: write_file, args: { path: a.txt, content: hello } }]
  - say: "{{last_result}}"
"#;

#[test]
fn a_command_denies_a_call_and_the_model_reads_why() {
    let world = world(
        r#"
[hooks.guard]
events = ["PreToolUse"]
tools = ["Write"]
command = "cat > \"$SORTIE_PROJECT_DIR/../input.json\"; echo 'only on Tuesdays' >&2; exit 2"
"#,
    );
    let model = world.scenario(WRITES);
    let out = world.ok(&["run", "write", "--model", &model, "--yes"]).out;
    assert!(
        out.contains("guard") && out.contains("only on Tuesdays"),
        "{out}"
    );
    assert!(!world.workspace().join("a.txt").exists());
    let input = std::fs::read_to_string(world.folder().join("input.json")).unwrap();
    let input: Value = serde_json::from_str(&input).unwrap();
    assert_eq!(input["hook_event_name"], "PreToolUse");
    assert_eq!(input["tool_name"], "write_file");
    assert_eq!(input["tool_input"]["content"], "hello");
    assert_eq!(
        input["session_id"].as_str().map(|text| text.contains(':')),
        Some(true)
    );
    let audit = world.json(&["audit", "--json"]).to_string();
    assert!(audit.contains("\"hook\""), "{audit}");
}

#[test]
fn a_command_that_requires_an_approval_gets_one_in_every_mode_and_an_allow_widens_nothing() {
    let ask = r#"echo '{"hookSpecificOutput":{"permissionDecision":"ask","permissionDecisionReason":"look first"}}'"#;
    let allow = r#"echo '{"hookSpecificOutput":{"permissionDecision":"allow"}}'"#;
    for (answer, mode) in [(ask, "yolo"), (allow, "dont-ask")] {
        let config = format!(
            "[hooks.guard]\nevents = [\"tool_before\"]\ncommand = {}\n",
            toml_text(answer)
        );
        let world = world(&config);
        let model = world.scenario(WRITES);
        world.ok(&["run", "write", "--model", &model, "--mode", mode]);
        assert!(!world.workspace().join("a.txt").exists(), "{answer}");
    }
}

fn toml_text(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

#[test]
fn a_required_hook_that_fails_denies_and_another_one_does_not() {
    for (required, is_written) in [(true, false), (false, true)] {
        let world = world(&format!(
            "[hooks.guard]\nevents = [\"tool_before\"]\ncommand = \"exit 7\"\nrequired = {required}\n"
        ));
        let model = world.scenario(WRITES);
        world.ok(&["run", "write", "--model", &model, "--yes"]);
        assert_eq!(world.workspace().join("a.txt").exists(), is_written);
    }
}

#[test]
fn what_a_command_says_after_a_call_reaches_the_model() {
    let world = world(
        r#"
[hooks.format]
events = ["tool_after"]
command = "echo '{\"hookSpecificOutput\":{\"additionalContext\":\"formatted it\"}}'"
"#,
    );
    let model = world.scenario(WRITES);
    let out = world.ok(&["run", "write", "--model", &model, "--yes"]).out;
    assert!(out.contains("[Hook format] formatted it"), "{out}");
}

#[test]
fn a_stop_hook_sends_a_run_back_a_bounded_number_of_times() {
    let world = world(
        r#"
[hooks.review]
events = ["stop"]
command = "cat >> \"$SORTIE_PROJECT_DIR/../stops\"; echo >> \"$SORTIE_PROJECT_DIR/../stops\"; echo 'write tests first' >&2; exit 2"
"#,
    );
    let model = world.scenario("  - say: done\n");
    world.ok(&["run", "work", "--model", &model]);
    let stops = std::fs::read_to_string(world.folder().join("stops")).unwrap();
    let stops: Vec<Value> = stops
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(stops.len(), 3, "{stops:#?}");
    assert_eq!(stops[0]["last_assistant_message"], "done");
    assert_eq!(stops[0]["stop_hook_active"], false);
    assert_eq!(stops[2]["stop_hook_active"], true);
    let task = world.task("work");
    assert_eq!(task["verdict"], "refuted");
    assert!(task.to_string().contains("write tests first"), "{task}");
    world.ok(&["replay", task["task_id"].as_str().unwrap()]);
}

#[test]
fn a_stop_hook_without_objection_gives_no_verdict() {
    let world = world("[hooks.review]\nevents = [\"stop\"]\ncommand = \"true\"\n");
    let model = world.scenario("  - say: done\n");
    world.ok(&["run", "work", "--model", &model]);
    assert_eq!(world.task("work")["verdict"], Value::Null);
}

#[test]
fn webhooks_are_signed_retried_and_accepted_once() {
    let receiver = Receiver::start(3);
    let events = r#"["spawn", "start", "tool_before", "tool_after", "finish"]"#;
    let world = world(&receiver.config(events, ""));
    let model = world.scenario(WRITES);
    let _server = world.serve();
    world.ok(&["run", "write", "--model", &model, "--yes"]);
    receiver.until("five messages are accepted", |all| {
        all.iter().filter(|message| message.accepted).count() >= 5
    });
    let mut kinds: Vec<String> = receiver.accepted().into_values().flatten().collect();
    kinds.sort();
    let expected = ["finish", "spawn", "start", "tool_after", "tool_before"];
    assert_eq!(kinds, expected.map(|kind| format!("sortie.{kind}")));
    let task = world.task("write");
    for message in receiver.all() {
        let data = &message.body["data"];
        assert_eq!(data["task_id"], task["task_id"], "{data}");
        if message.body["type"] == "sortie.finish" {
            assert_eq!(data["status"], "completed");
        }
        if message.body["type"] == "sortie.tool_after" {
            assert_eq!(data["tool_name"], "write_file");
        }
    }
    let list = world.ok(&["hooks", "list"]).out;
    assert!(list.contains("notify") && !list.contains("whsec"), "{list}");
}

#[cfg(feature = "crash-points")]
#[test]
fn a_webhook_survives_a_kill_with_the_same_key() {
    let receiver = Receiver::start(0);
    let world = world(&receiver.config("[\"finish\"]", ""));
    let model = world.scenario("  - say: done\n");
    let died = world
        .command(&["run", "work", "--model", &model])
        .env("SORTIE_CRASH_AT", "after-letter:1")
        .output()
        .unwrap();
    assert_eq!(died.status.signal(), Some(9), "{died:?}");
    world.ok(&["resume"]);
    receiver.until("it is delivered again", |all| all.len() >= 2);
    let all = receiver.all();
    assert!(
        all.iter().all(|message| message.key == all[0].key),
        "{all:#?}"
    );
    let hooks = world.json(&["hooks", "list", "--json"]);
    assert_eq!(hooks[0]["pending"], 0, "{hooks}");
}

#[test]
fn dead_letters_are_listed_retried_and_dismissed() {
    let receiver = Receiver::start(2);
    let world = world(&receiver.config("[\"finish\"]", "max_attempts = 1"));
    let model = world.scenario("  - say: done\n");
    for task in ["one", "two"] {
        world.ok(&["run", task, "--model", &model]);
    }
    let dead = world.json(&["hooks", "dead", "--json"]);
    let dead = dead.as_array().unwrap();
    assert_eq!(dead.len(), 2, "{dead:#?}");
    assert!(
        dead[0]["error"].as_str().unwrap().contains("503"),
        "{dead:#?}"
    );
    let id = dead[0]["id"].to_string();
    let _server = world.serve();
    world.ok(&["hooks", "retry", &id]);
    receiver.until("the retried one is accepted", |all| {
        all.iter().any(|message| message.accepted)
    });
    assert_eq!(
        world.ok(&["hooks", "dismiss", "--all"]).out,
        "One letter was dropped.\n"
    );
    let dead = world.json(&["hooks", "dead", "--json"]);
    assert_eq!(dead, serde_json::json!([]));
    let missing = world.sortie(&["hooks", "retry", &id]);
    assert_eq!(missing.code, Some(4), "{missing:?}");
}

#[test]
fn hooks_of_a_trusted_agent_file_apply_to_that_agent_only() {
    let agent = r#"---
name: careful
description: Writes with care.
hooks:
  PreToolUse:
    - matcher: "Write|Edit"
      hooks:
        - type: command
          command: "cat > \"$CLAUDE_PROJECT_DIR/../seen\"; echo no >&2; exit 2"
---
You are careful.
"#;
    for is_trusted in [false, true] {
        let world = World::new();
        world.write(".claude/agents/careful.md", agent);
        if is_trusted {
            world.ok(&["trust"]);
        }
        let model = world.scenario(WRITES);
        let run = |agent: &str| {
            world.sortie(&["run", agent, "--agent", agent, "--model", &model, "--yes"]);
            let written = world.workspace().join("a.txt");
            let was_written = written.exists();
            std::fs::remove_file(written).ok();
            was_written
        };
        assert!(run("code"));
        assert!(!world.folder().join("seen").exists());
        assert_eq!(run("careful"), !is_trusted);
        if is_trusted {
            let seen = std::fs::read_to_string(world.folder().join("seen")).unwrap();
            let seen: Value = serde_json::from_str(&seen).unwrap();
            assert_eq!(seen["tool_name"], "Write");
            assert_eq!(seen["tool_input"]["file_path"], "a.txt");
            assert_eq!(seen["agent_type"], "careful");
        }
    }
}

#[test]
fn hooks_of_an_untrusted_folder_never_run() {
    let world = World::new();
    world.write(
        "sortie.toml",
        "[hooks.evil]\nevents = [\"spawn\", \"start\", \"finish\", \"tool_before\", \"stop\"]\ncommand = \"touch $SORTIE_PROJECT_DIR/hooked\"\n",
    );
    let model = world.scenario(WRITES);
    world.ok(&["run", "write", "--model", &model, "--yes"]);
    assert!(!world.workspace().join("hooked").exists());
    assert_eq!(
        world.json(&["hooks", "list", "--json"]),
        serde_json::json!([])
    );
    world.ok(&["trust"]);
    world.ok(&["run", "again", "--model", &model, "--yes"]);
    assert!(world.workspace().join("hooked").exists(), "the control");
}

#[test]
fn a_hook_is_tested_without_a_task() {
    let receiver = Receiver::start(0);
    let config = format!(
        "{}[hooks.guard]\nevents = [\"tool_before\"]\ncommand = \"echo no >&2; exit 2\"\n[hooks.bad]\nevents = [\"never\"]\ncommand = \"true\"\n",
        receiver.config("[\"finish\"]", "")
    );
    let world = world(&config);
    let sent = world.json(&["hooks", "test", "notify", "--json"]);
    assert_eq!(sent["answer"], "accepted");
    assert_eq!(receiver.all()[0].body["type"], "sortie.test");
    let guard = world.json(&["hooks", "test", "guard", "--json"]);
    assert_eq!(
        (&guard["answer"], &guard["text"]),
        (&"blocks".into(), &"no".into())
    );
    let unknown = world.sortie(&["hooks", "test", "bad"]);
    assert_eq!(unknown.code, Some(4), "{unknown:?}");
    assert!(unknown.err.contains("\"never\" is no event"), "{unknown:?}");
}

/// The complete files of docs/hooks.md work as they are.
#[test]
fn the_recipes_of_the_documentation_work() {
    let page = include_str!("../../../../docs/hooks.md");
    let blocks: Vec<&str> = page
        .split("```toml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(blocks.len() >= 3, "{blocks:#?}");
    for block in blocks {
        let world = world(block);
        let hooks = world.ok(&["hooks", "list", "--json"]);
        let list: Value = serde_json::from_str(&hooks.out).unwrap();
        assert_eq!(list.as_array().map(Vec::len), Some(1), "{block}: {hooks:?}");
    }
}
