//! `sortie audit`: every call is recorded, and a changed byte is detected.

use serde_json::Value;

use crate::world::World;

const TWO_CALLS: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: list_dir, args: { path: "." } }]
  - when: { turn: 2 }
    calls: [{ tool: write_file, args: { path: made.txt, content: "one\n" } }]
  - when: { turn: 3 }
    say: done
"#;

fn worked() -> World {
    let world = World::new();
    let model = world.scenario(TWO_CALLS);
    world.ok(&["run", "Look", "--model", &model]);
    world
}

fn lines(world: &World, arguments: &[&str]) -> Vec<Value> {
    let arguments: Vec<&str> = ["audit", "--json"]
        .iter()
        .chain(arguments)
        .copied()
        .collect();
    let out = world.ok(&arguments).out;
    out.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn audit_lists_every_call_with_its_decision() {
    let world = worked();
    let shown: Vec<String> = lines(&world, &[])
        .iter()
        .map(|line| {
            format!(
                "{} {} {} by {} {}",
                line["agent"].as_str().unwrap(),
                line["tool"].as_str().unwrap(),
                line["ruling"]["decision"].as_str().unwrap(),
                line["ruling"]["layer"].as_str().unwrap(),
                line["status"]
                    .as_str()
                    .unwrap_or(line["stage"].as_str().unwrap())
            )
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
    main list_dir allow by mode ok
    main write_file deny by mode denied
    ");
    let text = world.ok(&["audit"]).out;
    assert_eq!(text.lines().count(), shown.len(), "{text}");
    assert!(text.contains("[main] write_file"), "{text}");
}

#[test]
fn audit_filters_lines_by_task_position_and_limit() {
    let world = worked();
    let all = lines(&world, &[]);
    let id = world.task("Look")["task_id"].as_str().unwrap().to_owned();
    assert_eq!(lines(&world, &[&id]), all);
    assert_eq!(lines(&world, &["--after", "1"]), all[1..]);
    assert_eq!(lines(&world, &["--limit", "1"]), all[all.len() - 1..]);
    // Audit lines stay when the task is deleted.
    world.ok(&["tasks", "delete", &id]);
    assert_eq!(lines(&world, &[&id]), all);
    assert_eq!(world.sortie(&["audit", "0190f3a8"]).code, Some(4));
}

#[test]
fn audit_verify_detects_a_changed_byte() {
    let world = worked();
    let good = world.json(&["audit", "verify", "--json"]);
    assert_eq!(good["problems"], Value::Array(Vec::new()));
    let output = world.ok(&["audit", "verify"]).out;
    let head = good["head"].as_str().unwrap();
    assert_eq!(
        output,
        format!(
            "{} entries checked; the last hash is {head}\n",
            good["entries"]
        )
    );
    falsify(&world);
    let output = world.sortie(&["audit", "verify"]);
    assert_eq!(output.code, Some(1), "{output:#?}");
    assert!(
        output
            .err
            .starts_with("error: The audit log was modified: "),
        "{}",
        output.err
    );
    let report = world.json_any(&["doctor", "--json"]);
    let audit = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["name"] == "audit")
        .unwrap();
    assert_eq!(audit["state"], "fail", "{audit}");
}

/// Changes the durations of calls in the bytes of the database, as an attacker with an editor
/// would.
fn falsify(world: &World) {
    const BEFORE: &[u8] = br#""stage":"ended","status":"ok","duration_ms":"#;
    let file = world.home().join("sortie.db");
    let mut bytes = std::fs::read(&file).unwrap();
    let places: Vec<usize> = bytes
        .windows(BEFORE.len())
        .enumerate()
        .filter(|(_, window)| *window == BEFORE)
        .map(|(place, _)| place + BEFORE.len())
        .collect();
    assert!(!places.is_empty(), "there is no audit in the database");
    for place in places {
        bytes[place] = if bytes[place] == b'9' { b'8' } else { b'9' };
    }
    std::fs::write(&file, bytes).unwrap();
}
