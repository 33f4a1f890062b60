//! `sortie store` on the file in the home folder.

use crate::world::World;

const ONE_REPLY: &str = r#"
  - say: "Done."
"#;

#[test]
fn a_backup_of_a_serving_store_is_restored_in_another_home() {
    let world = World::new();
    let model = world.scenario(ONE_REPLY);
    let empty = world.sortie(&["store", "backup", "nothing.db"]);
    assert_eq!(empty.code, Some(3), "{empty:#?}");
    assert!(empty.err.contains("there are no tasks in"), "{empty:#?}");
    let made = world.json(&["store", "migrate", "--json"]);
    assert_eq!(made["from"], serde_json::Value::Null, "{made}");
    assert_eq!(made["to"], 1, "{made}");
    world.ok(&["run", "Look around", "--model", &model]);

    let _server = world.serve();
    let file = world.folder().join("backup.db");
    let path = file.display().to_string();
    let saved = world.ok(&["store", "backup", &path]);
    assert!(
        saved.out.contains("Backed up and checked: 1 tasks"),
        "{saved:#?}"
    );
    let again = world.sortie(&["store", "backup", &path]);
    assert_eq!(again.code, Some(3), "{again:#?}");
    assert!(again.err.contains("exists already"), "{again:#?}");

    let other = World::new();
    other.ok(&["store", "migrate"]);
    std::fs::copy(&file, other.home().join("sortie.db")).unwrap();
    assert_eq!(other.tasks()[0]["status"], "completed");
    let checked = other.ok(&["store", "check"]);
    assert!(
        checked.out.contains("The store is sound: 1 tasks"),
        "{checked:#?}"
    );
}

#[test]
fn a_changed_journal_is_found_by_store_check() {
    let world = World::new();
    let model = world.scenario(ONE_REPLY);
    world.ok(&["run", "Look around", "--model", &model]);
    let sqlite = rusqlite::Connection::open(world.home().join("sortie.db")).unwrap();
    sqlite
        .execute("UPDATE journal SET at = at + 1 WHERE seq = 2", [])
        .unwrap();
    drop(sqlite);
    let checked = world.sortie(&["store", "check"]);
    assert_eq!(checked.code, Some(1), "{checked:#?}");
    assert!(
        checked.out.contains("does not fit its hash"),
        "{checked:#?}"
    );
    assert!(checked.err.contains("The store is damaged"), "{checked:#?}");
    let refused = world.sortie(&["store", "backup", "backup.db"]);
    assert_eq!(refused.code, Some(3), "{refused:#?}");
    assert!(!world.workspace().join("backup.db").exists());
}
