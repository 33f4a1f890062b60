//! `sortie doctor`.

use serde_json::Value;

use crate::world::World;

fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["name"] == name)
        .unwrap_or_else(|| panic!("no check {name}: {report}"))
}

#[test]
fn a_new_home_is_fine() {
    let world = World::new().with("OPENAI_API_KEY", "sk-secret");
    let output = world.ok(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(report["ok"], true);
    for name in ["home", "store", "journal", "tasks", "lock", "model", "keys"] {
        assert_eq!(check(&report, name)["state"], "ok", "{name}: {report}");
    }
    let keys = check(&report, "keys")["found"].as_str().unwrap();
    assert_eq!(keys, "set: openai, openai-chat");
    assert!(!output.out.contains("sk-secret"));
    assert!(!world.home().exists(), "looking must not make anything");
}

#[test]
fn a_broken_store_fails_with_a_hint() {
    let world = World::new();
    std::fs::create_dir(world.home()).unwrap();
    std::fs::write(world.home().join("sortie.db"), "this is no database").unwrap();
    let output = world.sortie(&["doctor"]);
    assert_eq!(output.code, Some(1), "{output:#?}");
    assert!(output.out.contains("fail store: "), "{}", output.out);
    assert!(
        output.out.contains("→ Back up the folder"),
        "{}",
        output.out
    );
    let list = world.sortie(&["tasks", "list"]);
    assert_eq!(list.code, Some(3), "{list:#?}");
    assert!(list.err.contains("hint: `sortie doctor`"), "{}", list.err);
}

#[test]
fn a_model_that_cannot_be_used_fails() {
    let world = World::new().with("SORTIE_MODEL", "nobody/nothing");
    let output = world.sortie(&["doctor"]);
    assert_eq!(output.code, Some(1), "{output:#?}");
    assert!(
        output.out.contains("fail model: there is no provider"),
        "{}",
        output.out
    );
}

#[test]
fn an_address_is_understood_as_the_server_understands_it() {
    let world = World::new();
    for (listen, state) in [("localhost:0", "ok"), ("example.com:80", "fail")] {
        let listen = format!("server.listen={listen:?}");
        let report = world.json_any(&["doctor", "--json", "-c", &listen]);
        assert_eq!(check(&report, "port")["state"], state, "{report}");
    }
}

#[test]
fn findings_are_counted() {
    let world = World::new();
    let model = world.scenario("  - say: done\n");
    world.ok(&["run", "x", "--model", &model]);
    let report = world.json(&["doctor", "--json"]);
    let found = check(&report, "journal")["found"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(found.starts_with("1 checked, 4 entries"), "{found}");
}

/// The columns of `runs` that the journal determined when this test was written, without the id. A
/// new column of that kind raises the number.
const DETERMINED: usize = 42;

#[test]
fn every_altered_field_of_a_record_is_named() {
    let world = World::new();
    let model = world.scenario("  - say: done\n");
    world.ok(&["run", "x", "--model", &model]);
    let database = rusqlite::Connection::open(world.home().join("sortie.db")).unwrap();
    let statement = database.prepare("SELECT * FROM runs").unwrap();
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    drop(statement);
    let undetermined: Vec<&str> = sortie_store::undetermined_columns().collect();
    let is_determined =
        |column: &String| column != "run_id" && !undetermined.contains(&column.as_str());
    let columns: Vec<String> = columns.into_iter().filter(is_determined).collect();
    assert!(columns.len() >= DETERMINED, "{columns:?}");
    database
        .execute_batch("CREATE TEMP TABLE kept AS SELECT * FROM runs")
        .unwrap();
    for column in columns {
        // Another value of the same type.
        let altered = format!(
            "UPDATE runs SET {column} = CASE typeof({column})
                 WHEN 'text' THEN {column} || 'x' WHEN 'blob' THEN zeroblob(32)
                 WHEN 'null' THEN 7 ELSE {column} + 1 END"
        );
        database.execute_batch(&altered).unwrap();
        let doctor = world.sortie(&["doctor"]);
        assert_eq!(doctor.code, Some(1), "{column}: {doctor:#?}");
        // A misspelled enum value cannot be parsed at all.
        let named = doctor.out.contains(&format!("`{column}`"))
            || doctor.out.contains("cannot be read")
            || [
                "status",
                "outcome",
                "head_seq",
                "head_hash",
                "inbox_count",
                "paused",
            ]
            .contains(&column.as_str());
        assert!(named, "{column}: {doctor:#?}");
        let restore = format!("UPDATE runs SET {column} = (SELECT {column} FROM kept)");
        database.execute_batch(&restore).unwrap();
    }
    world.ok(&["doctor"]);
}

#[test]
fn changed_tables_indexes_and_triggers_are_named_and_refused() {
    let world = World::new();
    let model = world.scenario("  - say: done\n");
    world.ok(&["run", "x", "--model", &model]);
    let path = world.home().join("sortie.db");
    let whole = std::fs::read(&path).unwrap();
    for (change, named) in [
        ("DROP TABLE outbox", "table outbox is missing"),
        ("DROP INDEX runs_by_root", "index runs_by_root is missing"),
        (
            "DROP TRIGGER tally_removed",
            "trigger tally_removed is missing",
        ),
        (
            "ALTER TABLE runs ADD COLUMN extra TEXT",
            "table runs was changed",
        ),
        (
            "ALTER TABLE inbox RENAME COLUMN item TO message",
            "table inbox was changed",
        ),
        ("CREATE VIEW other AS SELECT 1", "view other is not ours"),
    ] {
        let database = rusqlite::Connection::open(&path).unwrap();
        database.execute_batch(change).unwrap();
        drop(database);
        let doctor = world.sortie(&["doctor"]);
        assert_eq!(doctor.code, Some(1), "{change}: {doctor:#?}");
        assert!(doctor.out.contains(named), "{change}: {doctor:#?}");
        let run = world.sortie(&["run", "x", "--model", &model]);
        assert_eq!(run.code, Some(3), "{change}: {run:#?}");
        assert!(run.err.contains(named), "{change}: {run:#?}");
        std::fs::write(&path, &whole).unwrap();
    }
    world.ok(&["doctor"]);
}

#[test]
fn a_table_of_another_program_is_reported_and_stops_nothing() {
    let world = World::new();
    let model = world.scenario("  - say: done\n");
    world.ok(&["run", "x", "--model", &model]);
    let database = rusqlite::Connection::open(world.home().join("sortie.db")).unwrap();
    database.execute_batch("CREATE TABLE other (x)").unwrap();
    drop(database);
    let doctor = world.sortie(&["doctor"]);
    assert!(
        doctor.out.contains("table other is not ours"),
        "{doctor:#?}"
    );
    world.ok(&["run", "x", "--model", &model]);
}
