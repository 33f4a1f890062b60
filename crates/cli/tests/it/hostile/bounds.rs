//! P11: everything that a model can drive is bounded, and the machine stays usable meanwhile.

use serde_json::{Value, json};

use super::stage::{Answer, FILTER_OFF, answers, call, calls_in, exec};
use crate::world::World;

/// More characters than a model ever gets of one result, including the note about the truncated
/// rest.
const MOST_CHARS: usize = 25_000;
const MIB: u64 = 1 << 20;

fn assert_bounded(answer: &Answer) {
    let chars = answer.text.chars().count();
    assert!(
        chars <= MOST_CHARS,
        "{chars} characters: {}",
        &answer.text[..200]
    );
}

fn limited(command: &str, seconds: u64) -> Value {
    call(
        "exec",
        json!({ "command": command, "timeout_seconds": seconds }),
    )
}

/// Returns the size of the store.
fn stored_bytes(world: &World) -> u64 {
    let files = super::stage::files_of(&world.home(), &[]);
    let sizes = files.keys().filter_map(|path| std::fs::metadata(path).ok());
    sizes.map(|facts| facts.len()).sum()
}

#[test]
fn output_without_end_is_cut_while_it_streams() {
    for flags in [&[][..], &FILTER_OFF] {
        let world = World::new();
        let answers = calls_in(
            &world,
            flags,
            &[
                limited("yes evil", 2),
                limited("cat /dev/zero", 2),
                exec("head -c 50000000 /dev/zero | tr '\\0' x"),
                exec("yes 中文 | head -c 20000000 >&2"),
                exec("head -c 20000000 /dev/urandom"),
            ],
        );
        answers.iter().for_each(assert_bounded);
        assert!(
            answers[0].text.contains("timed out after 2 s"),
            "{:?}",
            answers[0]
        );
        assert!(
            answers[2].text.contains("\nexit code: 0\n"),
            "{:?}",
            answers[2]
        );
        let stored = stored_bytes(&world);
        assert!(stored < 30 * MIB, "{stored} bytes were kept");
    }
}

#[test]
fn resources_of_a_command_are_limited() {
    for flags in [&[][..], &FILTER_OFF] {
        let world = World::new();
        let answers = calls_in(
            &world,
            flags,
            &[
                // The limits: four GiB of memory, files of two GiB, a scratch folder of one GiB.
                limited("perl -e '$x = \"x\" x (6 << 30); print \"got it\"'", 20),
                exec("truncate -s 3G big && echo got it"),
                exec("fallocate -l 2G /tmp/big && echo got it"),
                exec("for i in $(seq 2000); do exec {f}</dev/null || exit 1; done; echo got it"),
                exec("ulimit -n 100000 && echo got it"),
                exec("ulimit -d unlimited && echo got it"),
            ],
        );
        for answer in &answers {
            assert!(!answer.text.contains("got it"), "{answer:?}");
        }
    }
}

/// A fork bomb. Without control groups, root is not limited by number (the record says so), and the
/// test only shows that all processes end.
#[test]
fn a_fork_bomb_ends() {
    for flags in [&[][..], &FILTER_OFF] {
        let world = World::new();
        let answers = calls_in(
            &world,
            flags,
            &[
                limited(
                    "for i in $(seq 1000); do sleep 4711 & done 2>/dev/null; ls -d /proc/[0-9]* | wc -l",
                    20,
                ),
                limited("bomb() { bomb | bomb & }; ulimit -u 400; bomb; sleep 3", 2),
                exec("echo alive"),
            ],
        );
        let grouped = answers[0].sandbox["control_group"] == true;
        let seen = answers[0]
            .text
            .lines()
            .find_map(|line| line.parse::<u64>().ok());
        assert!(
            !grouped || seen.is_none_or(|seen| seen <= 512),
            "{answers:?}"
        );
        assert_eq!(answers[2].text, "alive\nexit code: 0");
    }
}

#[test]
fn oversized_arguments_get_an_error_result() {
    let world = World::new();
    let deep = |open: &str, close: &str| open.repeat(10_000) + &close.repeat(10_000);
    let calls = [
        json!({ "tool": "exec", "raw_args": deep("[", "]") }),
        json!({ "tool": "exec", "raw_args": format!("{{\"command\":{}}}", deep("{\"a\":", "}")) }),
        json!({ "tool": "exec", "raw_args": "{\"command\":\"touch made\",\"command\":" }),
        exec(&format!("touch made; : {}", "x".repeat(110_000))),
        call(
            "write_file",
            json!({ "path": "x/".repeat(3000), "content": "" }),
        ),
        call(
            "write_file",
            json!({ "path": "x".repeat(300), "content": "" }),
        ),
        call("grep", json!({ "pattern": "(".repeat(1000), "path": "." })),
        call("grep", json!({ "pattern": "(a{1000}){1000}", "path": "." })),
        call("glob", json!({ "pattern": "**/".repeat(300) + "x" })),
        call(
            "exec",
            json!({ "command": "touch made", "timeout_seconds": -1 }),
        ),
        call("exec", json!({ "command": ["touch", "made"] })),
        call("exec", json!({ "command": "touch made", "sandbox": "off" })),
        call(
            "exec",
            json!({ "command": "touch made\u{0}", "workdir": "." }),
        ),
        call("list_dir", json!({ "path": ".", "depth": 1_000_000 })),
        call(
            "todo_write",
            json!({ "todos": vec![json!({ "content": "x", "status": "pending" }); 5000] }),
        ),
        call("x".repeat(10_000).as_str(), json!({})),
    ];
    let answers = calls_in(&world, &FILTER_OFF, &calls);
    assert_eq!(answers.len(), calls.len());
    for answer in &answers {
        assert_bounded(answer);
    }
    for (tried, answer) in calls[..7].iter().zip(&answers) {
        assert_eq!(
            answer.status,
            "error",
            "{:.200}: {answer:?}",
            tried.to_string()
        );
    }
    assert!(!world.workspace().join("made").exists(), "{answers:#?}");
}

#[test]
fn thousand_calls_get_a_thousand_results() {
    let world = World::new();
    let calls: Vec<Value> = (0..1000)
        .map(|i| match i % 4 {
            0 => call("list_dir", json!({ "path": "." })),
            1 => call("read_file", json!({ "path": "../outside.txt" })),
            2 => call("nothing", json!({})),
            _ => json!({ "tool": "grep", "raw_args": "{" }),
        })
        .collect();
    let answers = calls_in(&world, &[], &calls);
    assert_eq!(answers.len(), 1000);
}

/// A model that never stops calling tools reaches a limit, and the run names the limit.
#[test]
fn endless_tool_loop_reaches_a_limit() {
    let world = World::new();
    let rule = json!({ "calls": [call("list_dir", json!({ "path": "." }))] });
    let model = world.scenario(&format!("  - {rule}\n"));
    let run = [
        "run",
        "x",
        "--yes",
        "--json",
        "--max-iterations",
        "5",
        "--model",
        &model,
    ];
    let task = world.json_any(&run);
    assert_eq!(task["status"], "failed", "{task:#}");
    let budget = [
        "run",
        "x",
        "--yes",
        "--json",
        "-c",
        "budget.tool_calls=3",
        "--model",
        &model,
    ];
    let task = world.json_any(&budget);
    assert_eq!(task["status"], "failed", "{task:#}");
    let id = task["task_id"].as_str().unwrap();
    let ran = answers(&world, id)
        .iter()
        .filter(|answer| answer.status == "ok")
        .count();
    assert!(ran <= 3, "{ran} calls ran");
}

#[test]
fn number_of_children_is_limited() {
    let world = World::new();
    // Identical calls would become one.
    let spawns: Vec<Value> = (0..30)
        .map(|number| call("spawn_subagent", json!({ "task": format!("x {number}") })))
        .collect();
    let first = json!({ "when": { "depth": 0, "turn": 1 }, "calls": spawns });
    let model = world.scenario(&format!("  - {first}\n  - say: done\n"));
    let cap = "subagents.max_children=4";
    world.json_any(&["run", "x", "--yes", "--json", "-c", cap, "--model", &model]);
    assert_eq!(world.tasks().len(), 5);
}

/// Endless files, and FIFOs without a writer.
#[test]
fn endless_files_and_fifos_do_not_block_a_run() {
    let world = World::new();
    world.write("plain.txt", "plain\n");
    let calls = [exec(
        "mkfifo pipe; truncate -s 1T sparse 2>/dev/null || truncate -s 1G sparse; ln -s pipe link; mkdir many; cd many && touch $(seq 2000)",
    )];
    calls_in(&world, &FILTER_OFF, &calls);
    let calls: Vec<Value> = [
        "pipe",
        "sparse",
        "link",
        "/dev/zero",
        "/dev/tty",
        "/proc/kmsg",
    ]
    .iter()
    .flat_map(|path| {
        [
            call("read_file", json!({ "path": path })),
            call("grep", json!({ "pattern": "x", "path": path })),
            call(
                "edit_file",
                json!({ "path": path, "old_string": "a", "new_string": "b" }),
            ),
        ]
    })
    .chain([
        call("grep", json!({ "pattern": "plain", "path": "." })),
        call("list_dir", json!({ "path": "many" })),
        call("glob", json!({ "pattern": "**/*" })),
    ])
    .collect();
    let answers = calls_in(&world, &[], &calls);
    answers.iter().for_each(assert_bounded);
    assert!(answers[18].text.contains("plain.txt"), "{:?}", answers[18]);
}
