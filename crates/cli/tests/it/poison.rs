//! A run that kills its process each time it is executed, beside runs that do not.

use serde_json::{Value, json};

use crate::server::send_poison;
use crate::world::{Running, World};

/// The text in a task that kills the process.
const POISON: &str = "poison";
/// The tenants of the server.
const TENANTS: [&str; 2] = ["acme", "globex"];
/// If the server dies this often, a run is retried for ever. The exact number depends on timing: a
/// death after the journal has grown counts anew, and a death of the poisoned run beside a run that
/// has made progress is not counted. Four runs can have a few such deaths each.
const TOO_MANY: u32 = 16;

/// The prompts of the other runs take longer than the poisoned run, so that the process dies while
/// they wait for their model: the worst case, in which they have no progress to show.
const SCENARIO: &str = r#"
  - when: { task: "*poison*", turn: 1 }
    calls: [{ tool: read_file, args: { path: note.txt } }]
  - when: { agent: main, task: "*family*", turn: 1 }
    calls:
      - { tool: task, args: { description: good child, prompt: Wait., subagent_type: explore } }
      - { tool: task, args: { description: bad child, prompt: "Take poison.", subagent_type: explore } }
  - when: { agent: main, task: "*family*" }
    say: The family is back.
  - when: { turn: 1 }
    latency_ms: 400
    say: "{{label}} is done."
"#;

struct Village {
    world: World,
}

impl Village {
    fn new() -> Self {
        let world = World::new().with("SORTIE_POISON", POISON);
        world.write("note.txt", "hello\n");
        let model = world.scenario(SCENARIO);
        let workspace = world.workspace().canonicalize().unwrap();
        let workspace = workspace.display();
        let file = world.folder().join(".config/sortie/config.toml");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let mut text = format!("model = '{model}'\n");
        for tenant in TENANTS {
            text += &format!("[server.tenants.{tenant}]\nworkspaces = ['{workspace}']\n");
        }
        std::fs::write(&file, text).unwrap();
        Self { world }
    }

    fn key(&self, tenant: &str) -> String {
        let create = ["keys", "create", "--role", "operator", "--name", tenant];
        let made = self
            .world
            .ok(&[&create[..], &["--tenant", tenant]].concat());
        made.out.trim().to_owned()
    }

    fn start_task(&self, key: &str, label: &str, message: &str) {
        let body = json!({
            "message": message,
            "label": label,
            "workspace": self.world.workspace().canonicalize().unwrap(),
        });
        self.send(key, "POST /api/tasks", &body);
    }

    /// Sends a request. The server may die of it before it answers.
    fn send(&self, key: &str, route: &str, body: &Value) {
        if let Some((status, answer)) = send_poison(&self.world, key, route, &body.to_string()) {
            assert!((200..300).contains(&status), "{status}: {answer}");
        }
    }

    /// Sends a message to the main agent, which may send subagents out.
    fn send_to_main(&self, key: &str, text: &str) {
        let body = json!({
            "text": text,
            "workspace": self.world.workspace().canonicalize().unwrap(),
        });
        self.send(key, "POST /api/sessions/api:family/messages", &body);
    }

    /// Restarts the server whenever it has died, until every run has ended. Returns how often it
    /// died.
    fn restart_until_all_have_ended(&self, first: Running) -> u32 {
        let mut deaths = 0;
        let mut server = first;
        loop {
            if self.world.tasks().iter().all(has_ended) {
                return deaths;
            }
            if server.is_over() {
                deaths += 1;
                assert!(deaths < TOO_MANY, "{:#?}", self.world.tasks());
                server = self.world.start(&["serve", "--listen", "127.0.0.1:0"]);
            }
        }
    }

    fn outcome(&self, label: &str) -> (String, Option<String>) {
        let task = self.world.task(label);
        let word = |name: &str| task[name].as_str().map(str::to_owned);
        (word("status").unwrap(), word("reason"))
    }
}

fn has_ended(task: &Value) -> bool {
    let status = task["status"].as_str().unwrap();
    !matches!(status, "pending" | "running")
}

#[test]
fn poisoned_run_fails_no_other_run() {
    let village = Village::new();
    let (acme, globex) = (village.key(TENANTS[0]), village.key(TENANTS[1]));
    let server = village.world.serve();
    let innocents = ["one", "two", "three"];
    for label in innocents {
        village.start_task(&acme, label, "Think for a while.");
    }
    village.start_task(&globex, "neighbour", "Think for a while.");
    village.start_task(&globex, "killer", "Take poison.");
    let deaths = village.restart_until_all_have_ended(server);
    for label in innocents.into_iter().chain(["neighbour"]) {
        assert_eq!(village.outcome(label).0, "completed", "{label}");
    }
    let (status, reason) = village.outcome("killer");
    assert_eq!(
        (status.as_str(), reason.as_deref()),
        ("failed", Some("interrupted"))
    );
    assert!(deaths >= 2, "{deaths} deaths");
    let doctor = village.world.sortie(&["doctor"]).out;
    assert!(doctor.contains("none damaged"), "{doctor}");
}

#[test]
fn poisoned_child_fails_neither_parent_nor_sibling() {
    let village = Village::new();
    let acme = village.key(TENANTS[0]);
    let server = village.world.serve();
    village.start_task(&acme, "other", "Think for a while.");
    village.send_to_main(&acme, "Send the family out.");
    let deaths = village.restart_until_all_have_ended(server);
    for label in ["good child", "other"] {
        assert_eq!(village.outcome(label).0, "completed", "{label}");
    }
    let tasks = village.world.tasks();
    let main = tasks.iter().find(|task| task["agent"] == "main");
    assert_eq!(
        main.expect("the main agent ran")["result"],
        "The family is back."
    );
    let (status, reason) = village.outcome("bad child");
    assert_eq!(
        (status.as_str(), reason.as_deref()),
        ("failed", Some("interrupted"))
    );
    assert!(deaths >= 2, "{deaths} deaths");
}
