//! `sortie tasks`: all views agree, and handles and prefixes of ids are resolved.

use serde_json::Value;

use crate::world::World;

const TREE: &str = r#"
  - when: { agent: main, turn: 1 }
    say: I send one out.
    calls: [{ tool: task, args: { description: dig, prompt: Dig., subagent_type: explore } }]
  - when: { agent: main, turn: 2 }
    say: "all\ndone"
  - when: { label: dig, turn: 1 }
    calls: [{ tool: list_dir, args: { path: "." } }]
  - when: { label: dig }
    say: a coin
"#;

/// Returns a world with one finished tree: `top` and its child `dig`.
fn dug() -> (World, Value, Value) {
    let world = World::new();
    let model = world.scenario(TREE);
    world.ok(&["run", "top", "--model", &model]);
    let (top, dig) = (world.task("top"), world.task("dig"));
    (world, top, dig)
}

fn id(task: &Value) -> &str {
    task["task_id"].as_str().unwrap()
}

fn handle(task: &Value) -> &str {
    task["handle"].as_str().unwrap()
}

#[test]
fn all_views_agree() {
    let (world, top, dig) = dug();
    assert_eq!(dig["parent_id"], top["task_id"]);
    assert_eq!(world.ok(&["tasks", "result", id(&top)]).out, "all\ndone\n");
    let transcript = world.json(&["tasks", "transcript", id(&dig), "--json"]);
    let lines: Vec<(&str, &str)> = transcript
        .as_array()
        .unwrap()
        .iter()
        .map(|line| {
            (
                line["kind"].as_str().unwrap(),
                line["text"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(lines.first(), Some(&("user", "Dig.")));
    assert_eq!(
        lines[lines.len() - 2..],
        [("assistant", "a coin"), ("runtime", "completed")]
    );
    let readable = world.ok(&["tasks", "transcript", id(&dig)]).out;
    assert!(readable.contains(" assistant    a coin\n"), "{readable}");
    let events = world
        .ok(&["tasks", "events", id(&dig), "--json", "--follow"])
        .out;
    let events: Vec<Value> = events
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names: Vec<&str> = events
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "admitted",
            "claimed",
            "answered",
            "tool_finished",
            "answered",
            "finished"
        ]
    );
    let lines = world.ok(&["tasks", "events", id(&dig)]).out;
    assert_eq!(lines.lines().count(), events.len());
    assert!(
        lines.contains("tool_finished call=1-0 status=ok"),
        "{lines}"
    );
    let shown = world.ok(&["tasks", "show", id(&top)]).out;
    for expected in ["completed", "[explore] dig: completed", "    all\n    done"] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    let stats = world.json(&["tasks", "stats", "--json"]);
    assert_eq!(
        stats,
        serde_json::json!({"total": 2, "pending": 0, "running": 0, "completed": 2, "failed": 0,
            "timeout": 0, "cancelled": 0})
    );
}

#[test]
fn the_list_is_a_tree_of_handles() {
    let (world, top, dig) = dug();
    let list = world.ok(&["tasks", "list"]).out;
    let rows: Vec<Vec<&str>> = list
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0].join(" "), "ID Status Agent Task Tools Elapsed Age");
    assert_eq!(rows[1][1..=4], ["completed", "main", "top", "1"]);
    assert_eq!(rows[2][1..=5], ["completed", "explore", "└", "dig", "1"]);
    for (row, task) in [(&rows[1], &top), (&rows[2], &dig)] {
        assert_eq!(row[0], handle(task), "{list}");
        assert!((4..=6).contains(&row[0].len()), "{list}");
        for typed in [row[0], &row[0].to_uppercase(), &id(task)[..30]] {
            let found = world.json(&["tasks", "show", typed, "--json"]);
            assert_eq!(found["task_id"], task["task_id"]);
        }
    }
    let filtered = |arguments: &[&str]| {
        let all = world.json(&[&["tasks", "list", "--json"], arguments].concat());
        let labels: Vec<String> = all
            .as_array()
            .unwrap()
            .iter()
            .map(|task| task["label"].as_str().unwrap().to_owned())
            .collect();
        labels.join(" ")
    };
    assert_eq!(filtered(&["--parent", id(&top)]), "dig");
    assert_eq!(filtered(&["--status", "completed"]), "dig top");
    assert_eq!(filtered(&["--status", "running"]), "");
    assert_eq!(filtered(&["--session", "web:1"]), "");
    // An id without a channel means api:direct, not cli:direct.
    assert_eq!(filtered(&["--session", "direct"]), "");
    let session = top["session_id"].as_str().unwrap();
    assert_eq!(filtered(&["--session", session]), "dig top");
    assert_eq!(filtered(&["--status", "completed", "--limit", "1"]), "dig");
    assert_eq!(filtered(&["--here"]), "dig top");
}

#[test]
fn the_limit_of_a_list_keeps_trees_whole() {
    let (world, first, _) = dug();
    let model = world.scenario_in("again.yaml", TREE);
    world.ok(&["run", "again", "--model", &model]);
    let listed = |limit: &str| -> Vec<Value> {
        let listed = world.json(&["tasks", "list", "--limit", limit, "--json"]);
        let tasks = listed.as_array().unwrap().iter();
        tasks.map(|task| task["label"].clone()).collect()
    };
    assert_eq!(listed("1"), ["dig", "again"]);
    assert_eq!(listed("2"), ["dig", "again", "dig", "top"]);
    // Each run is a session of its own.
    assert_ne!(first["session_id"], world.task("again")["session_id"]);
    // A task of another folder names it, and `--here` leaves it out.
    std::fs::create_dir(world.workspace().join("elsewhere")).unwrap();
    world.ok(&["run", "away", "--workspace", "elsewhere", "--model", &model]);
    let list = world.ok(&["tasks", "list"]).out;
    let row = list.lines().find(|line| line.contains(" away ")).unwrap();
    assert!(row.ends_with("  elsewhere"), "{list}");
    let here = world.ok(&["tasks", "list", "--here"]).out;
    assert!(!here.contains("away") && here.contains("again"), "{here}");
}

#[test]
fn invalid_ids_get_an_explanation() {
    let (world, top, _) = dug();
    let check = |id: &str, code: i32, expected: &str| {
        let output = world.sortie(&["tasks", "show", id]);
        assert_eq!((output.code, output.err.as_str()), (Some(code), expected));
    };
    let hint = "  hint: `sortie tasks list --all` shows the handles.\n";
    let shared = &id(&top)[..8];
    check(
        "019",
        2,
        &format!(
            "error: '019' is neither a handle nor an id; a handle has 4 to 6 characters, and of an \
             id at least 8 are needed.\n{hint}"
        ),
    );
    check(
        "0190zz",
        4,
        &format!("error: There is no task 0190zz.\n{hint}"),
    );
    check(
        "ffffffff",
        4,
        &format!("error: There is no task ffffffff.\n{hint}"),
    );
    check(
        shared,
        2,
        &format!("error: {shared} matches 2 ids; give more characters.\n{hint}"),
    );
}

#[test]
fn a_queued_task_can_be_cancelled_and_deleted() {
    let world = World::new();
    let model = world.scenario("  - say: never\n");
    let queued = world
        .ok(&["spawn", "wait", "--detach", "--model", &model])
        .out;
    let task = world.task("wait");
    assert_eq!(
        queued,
        format!(
            "Subagent [wait] is queued (ID: {}). `sortie resume` runs it.\n",
            handle(&task)
        )
    );
    assert_eq!(
        (&task["status"], &task["queue_position"]),
        (&"pending".into(), &1.into())
    );
    assert!(world.ok(&["tasks", "list"]).out.contains("slot 1"));
    let watched = world.ok(&["tasks", "watch"]);
    assert!(
        watched.out.contains("[general] wait: pending (0 tools)"),
        "{watched:#?}"
    );
    assert!(
        watched.err.contains("No process runs the remaining tasks"),
        "{watched:#?}"
    );
    let not_yet = world.sortie(&["tasks", "result", id(&task)]);
    assert_eq!(not_yet.code, Some(4), "{not_yet:#?}");

    let cancelled = world
        .ok(&["tasks", "cancel", id(&task), "--reason", "too late"])
        .out;
    assert_eq!(cancelled, format!("Task {} is cancelled.\n", handle(&task)));
    let result = world.sortie(&["tasks", "result", id(&task)]);
    assert_eq!(result.code, Some(130));
    assert_eq!(result.err, "error: Cancelled by a person: too late\n");
    let again = world.ok(&["tasks", "cancel", id(&task)]).out;
    assert!(again.contains("had already ended: cancelled"), "{again}");
    assert_eq!(
        world.json(&["tasks", "delete", id(&task), "--json"])["deleted"],
        1
    );
    assert_eq!(world.tasks(), Vec::<Value>::new());
    assert_eq!(world.ok(&["tasks", "list"]).err, "There are no tasks.\n");
    assert_eq!(world.sortie(&["tasks", "delete", id(&task)]).code, Some(4));
}

#[test]
fn an_active_tree_is_cancelled_before_it_is_deleted() {
    let world = World::new();
    let model = world.scenario("  - say: never\n");
    world.ok(&["spawn", "wait", "--detach", "--model", &model]);
    let task = world.task("wait");
    let deleted = world.ok(&["tasks", "delete", id(&task)]).out;
    assert_eq!(deleted, format!("Task {} is deleted.\n", handle(&task)));
    assert_eq!(world.tasks(), Vec::<Value>::new());
}

#[test]
fn messages_are_chinese_in_a_chinese_locale() {
    let world = World::new().with("LANG", "zh_CN.UTF-8");
    let model = world.scenario(TREE);
    let output = world.ok(&["run", "top", "--model", &model]);
    assert!(
        output
            .err
            .contains("  [explore] dig - 完成（1 次工具调用，0."),
        "{}",
        output.err
    );
    assert!(world.ok(&["tasks", "list"]).out.contains("状态"));
    let missing = world.sortie(&["tasks", "show", "ffffffff"]).err;
    assert_eq!(
        missing,
        "错误：没有任务 ffffffff。\n  提示：用 `sortie tasks list --all` 查看短号。\n"
    );
    let english = world
        .sortie(&["tasks", "show", "ffffffff", "--lang", "en"])
        .err;
    assert!(
        english.starts_with("error: There is no task ffffffff."),
        "{english}"
    );
    let spawned = world.ok(&[
        "spawn",
        "看一看",
        "--model",
        &world.scenario("  - say: 好\n"),
    ]);
    let first = spawned.err.lines().next().unwrap();
    assert!(
        first.starts_with("任务 ") && first.contains(" [看一看] 已启动，正在等待结果。"),
        "{first}"
    );
}

/// Moves the ends of all tasks eight days into the past, behind the age of archiving.
fn age(world: &World) {
    let database = rusqlite::Connection::open(world.home().join("sortie.db")).unwrap();
    let days = 8_i64 * 24 * 3_600 * 1_000;
    let aged = database.execute("UPDATE runs SET ended_at = ended_at - ?1", [days]);
    assert!(aged.unwrap() > 0);
}

#[test]
fn archived_tasks_stay_readable_until_they_are_cleaned() {
    let (world, top, dig) = dug();
    let views = |task: &Value| {
        let id = id(task);
        [
            world.ok(&["tasks", "transcript", id]).out,
            world.ok(&["tasks", "result", id]).out,
            world.ok(&["tasks", "events", id, "--json"]).out,
            world.ok(&["replay", id]).out,
            world.ok(&["audit", id, "--json"]).out,
        ]
    };
    let before = [views(&top), views(&dig)];
    let usage = world.json(&["usage", "--json"]);
    age(&world);
    let model = world.scenario_in("second.yaml", "  - say: new\n");
    world.ok(&["run", "second", "--model", &model]);
    let listed = world.json(&["tasks", "list", "--json"]);
    let labels: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["label"].as_str().unwrap())
        .collect();
    assert_eq!(labels, ["second"]);
    assert_eq!(world.tasks().len(), 3);
    assert_eq!([views(&top), views(&dig)], before);
    assert_eq!(world.json(&["tasks", "stats", "--json"])["completed"], 3);
    let shown = world.json(&["tasks", "show", id(&dig), "--json"]);
    assert_eq!(
        shown["policy_hash"].as_str().map(str::len),
        Some(64),
        "{shown}"
    );

    let clean = ["tasks", "clean", "--older-than", "24", "--json"];
    let dry = world.json(&[&clean[..], &["--dry-run"]].concat());
    assert_eq!(dry, serde_json::json!({"deleted": 2, "dry_run": true}));
    let none = world.json(&[&clean[..], &["--status", "failed"]].concat());
    assert_eq!(none["deleted"], 0);
    assert_eq!(world.json(&clean)["deleted"], 2);
    assert_eq!(world.tasks().len(), 1);
    let line = |usage: &Value, agent: &str| {
        let lines = usage["lines"].as_array().unwrap().clone();
        lines.into_iter().find(|line| line["agent"] == agent)
    };
    let now = world.json(&["usage", "--json"]);
    assert_eq!(line(&now, "explore"), line(&usage, "explore"));
    assert_ne!(line(&now, "explore"), None);
    let audited = world.ok(&["audit", id(&dig), "--json"]).out;
    assert_eq!(audited, before[1][4]);
}

#[test]
fn a_result_is_checked_by_the_host_and_every_view_has_the_verdict() {
    let world = World::new();
    let model = world.scenario(
        r#"
  - when: { label: honest, turn: 1 }
    calls: [{ tool: write_file, args: { path: a.txt, content: "x" } }]
  - say: done
"#,
    );
    let spawn = |label: &str, check: &str| {
        let arguments = [
            "spawn", "work", "--label", label, "--agent", "code", "--yes",
        ];
        let more = ["--model", &model, "--check", check];
        world.ok(&[&arguments[..], &more].concat());
        world.task(label)
    };
    let honest = spawn("honest", r#"{"command": "test -s a.txt"}"#);
    assert_eq!(honest["verdict"], "verified", "{honest}");
    let liar = spawn("liar", r#"{"file_exists": "b.txt"}"#);
    assert_eq!(
        (&liar["status"], &liar["verdict"]),
        (&"completed".into(), &"refuted".into())
    );
    assert_eq!(liar["checks"][0]["evidence"], "there is no such file");
    let shown = world.ok(&["tasks", "show", id(&liar)]).out;
    assert!(shown.contains("refuted"), "{shown}");
    assert!(
        shown.contains("failed: file_exists b.txt: there is no such file"),
        "{shown}"
    );
    let transcript = world.ok(&["tasks", "transcript", id(&liar)]).out;
    assert!(
        transcript.contains("checked by the host: refuted"),
        "{transcript}"
    );
    world.ok(&["replay", id(&liar)]);
}
