//! P10: a secret reaches no command, no tool and no record.

use serde_json::json;

use super::server;
use super::stage::{call, exec};
use crate::world::World;

/// The origin of each secret, and the secret. None looks like a key: redaction must know it by its
/// origin.
const SECRETS: &[(&str, &str)] = &[
    (
        "the key of a provider in the environment",
        "swordfish-in-the-environment",
    ),
    ("a token in the environment", "swordfish-of-a-token"),
    ("a key in the configuration", "swordfish-in-the-settings"),
    ("a header in the configuration", "swordfish-in-a-header"),
    ("the key of the search", "swordfish-of-the-search"),
    ("the environment of a server", "swordfish-of-a-server"),
    ("a variable that a server was given", "swordfish-handed-on"),
];

fn settings(world: &World) -> String {
    format!(
        r#"
[providers.other]
wire = "chat"
base_url = "http://127.0.0.1:9/"
api_key = "swordfish-in-the-settings"
headers = {{ "X-Header" = "swordfish-in-a-header" }}

[web.search]
provider = "brave"
api_key = "swordfish-of-the-search"

[mcp_servers.srv]
command = {program}
args = {arguments}
env = {{ OWN = "swordfish-of-a-server", GIVEN = "${{HANDED_ON}}" }}
"#,
        program = json!(server::program()),
        arguments = json!(server::arguments("telling", &world.folder())),
    )
}

fn world() -> World {
    let world = World::new();
    let folder = world.folder().join("settings");
    std::fs::create_dir_all(folder.join("sortie")).unwrap();
    std::fs::write(folder.join("sortie/config.toml"), settings(&world)).unwrap();
    world
        .with("XDG_CONFIG_HOME", folder.to_str().unwrap())
        .with("ANTHROPIC_API_KEY", SECRETS[0].1)
        .with("MY_TOKEN", SECRETS[1].1)
        .with("HANDED_ON", SECRETS[6].1)
}

/// Returns everything that a model can do to read a secret, each also in an encoding that redaction
/// cannot recognise.
fn tries(world: &World) -> Vec<serde_json::Value> {
    let settings = world.folder().join("settings/sortie/config.toml");
    let settings = settings.to_str().unwrap();
    let mut tries = Vec::new();
    for looks in [
        "env",
        "cat /proc/*/environ /proc/[0-9]*/task/*/environ | tr '\\0' '\\n'",
        "cat /proc/self/environ /proc/$PPID/environ /proc/1/environ | tr '\\0' '\\n'",
        "cat /proc/*/cmdline | tr '\\0' '\\n'",
        "grep -r swordfish /proc/*/fd/ /run /dev/shm /tmp ~ .. 2>/dev/null",
        &format!("cat {settings}"),
        "cat ~/.config/sortie/* ../home/* ../settings/sortie/*",
        "strings /proc/1/mem /proc/self/mem | grep swordfish",
    ] {
        tries.push(exec(&format!("{looks} 2>&1")));
        tries.push(exec(&format!("({looks}) 2>/dev/null | rev")));
    }
    for path in [
        "/proc/self/environ",
        settings,
        "../settings/sortie/config.toml",
    ] {
        tries.push(call("read_file", json!({ "path": path })));
        tries.push(call(
            "grep",
            json!({ "pattern": "swordfish", "path": path }),
        ));
    }
    tries.push(call("mcp__srv__tell", json!({})));
    tries.push(call("mcp__srv__fail", json!({})));
    tries
}

/// Returns everything that was printed or stored, with a name for each.
fn sinks(world: &World, id: &str) -> Vec<(String, String)> {
    let mut sinks: Vec<(String, String)> = super::stage::files_of(&world.home(), &[])
        .into_iter()
        .map(|(path, text)| (path.display().to_string(), text))
        .collect();
    for words in [
        &["tasks", "show", id][..],
        &["tasks", "show", id, "--json"],
        &["tasks", "events", id, "--json"],
        &["tasks", "transcript", id],
        &["tasks", "list", "--all", "--json"],
        &["audit"],
        &["audit", "--json"],
        &["config", "show"],
        &["config", "show", "--json"],
        &["doctor", "-vv"],
        &["mcp", "list", "--json", "-vv"],
        &["policy", "show", "--agent", "main"],
        &["approvals", "list", "--all", "--json"],
    ] {
        let output = world.sortie(words);
        sinks.push((words.join(" "), output.out + &output.err));
    }
    sinks
}

/// Returns where secrets appear, as they are or reversed.
fn found(sinks: &[(String, String)]) -> Vec<String> {
    let mut found = Vec::new();
    for (sink, text) in sinks {
        for (source, secret) in SECRETS {
            let backwards: String = secret.chars().rev().collect();
            if text.contains(secret) || text.contains(&backwards) {
                found.push(format!("{source} is in {sink}"));
            }
        }
    }
    found
}

/// Runs a model that makes calls and then repeats what it saw.
fn run(world: &World, flags: &[&str], calls: &[serde_json::Value]) -> Vec<(String, String)> {
    let first = json!({ "when": { "turn": 1 }, "calls": calls });
    let model = world.scenario(&format!(
        "  - {first}\n  - say: \"I saw: {{{{last_result}}}}\"\n"
    ));
    let words = ["run", "look", "--yes", "--json", "-vv", "--model", &model];
    let output = world.sortie(&[&words, flags].concat());
    let task: serde_json::Value =
        serde_json::from_str(&output.out).unwrap_or_else(|error| panic!("{error}: {output:#?}"));
    assert_eq!(task["status"], "completed", "{task:#}");
    let mut sinks = sinks(world, task["task_id"].as_str().unwrap());
    sinks.push(("what it printed".to_owned(), output.out));
    sinks.push(("what it logged".to_owned(), output.err));
    sinks
}

#[test]
fn no_secret_is_in_any_sink() {
    for flags in [&[][..], &super::stage::FILTER_OFF] {
        let world = world();
        let sinks = run(&world, flags, &tries(&world));
        assert_eq!(found(&sinks), Vec::<String>::new());
        // The MCP server did send the secret, and it was redacted.
        let was_sent = sinks
            .iter()
            .any(|(_, text)| text.contains("GIVEN=[redacted]"));
        assert!(was_sent, "the server was not asked");
    }
}

/// The control: without a sandbox a command reads the secrets (its parent is its supervisor, and
/// the runtime is above that), and the check finds where they are stored.
#[test]
fn control_without_a_sandbox_finds_leaked_secrets() {
    let world = world();
    let calls = [exec(
        "cat /proc/$(awk '/^PPid/ { print $2 }' /proc/$PPID/status)/environ | tr '\\0' '\\n' | rev",
    )];
    let sinks = run(&world, &["-c", "sandbox.mode=off"], &calls);
    let found = found(&sinks);
    for expected in [
        "the key of a provider in the environment is in tasks events",
        "the key of a provider in the environment is in what it printed",
    ] {
        assert!(
            found.iter().any(|place| place.starts_with(expected)),
            "{expected}: {found:#?}"
        );
    }
    // Unencoded, the secret is redacted even then.
    let sinks = run(
        &world,
        &["-c", "sandbox.mode=off"],
        &[exec(
            "cat /proc/$(awk '/^PPid/ { print $2 }' /proc/$PPID/status)/environ | tr '\\0' '\\n' | grep KEY",
        )],
    );
    let events = sinks
        .iter()
        .find(|(name, _)| name.starts_with("tasks events"))
        .unwrap();
    assert!(events.1.contains("ANTHROPIC_API_KEY=[redacted]"));
}

/// A process that finds the store in use is not shown secrets of the owner's command line.
#[test]
fn a_key_on_the_command_line_is_not_passed_on() {
    let world = World::new();
    let model = world.scenario("  - fault: { kind: hang }\n");
    let key = "providers.other.api_key=swordfish-on-the-command-line";
    let first = world.start(&["run", "-c", key, "wait", "--model", &model]);
    world.until("it runs", |world| {
        world.tasks().iter().any(|task| task["status"] == "running")
    });
    let second = world.sortie(&["run", "again", "--model", &model]);
    assert_eq!(second.code, Some(3), "{second:#?}");
    assert!(!second.err.contains("swordfish"), "{}", second.err);
    let lock = std::fs::read_to_string(world.home().join("lock")).unwrap();
    assert!(!lock.contains("swordfish"), "{lock}");
    drop(first);
}
