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
    let said = world.ok(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(report["ok"], true);
    for name in ["home", "store", "journal", "tasks", "lock", "model", "keys"] {
        assert_eq!(check(&report, name)["state"], "ok", "{name}: {report}");
    }
    let keys = check(&report, "keys")["found"].as_str().unwrap();
    assert_eq!(keys, "set: openai, openai-chat");
    assert!(!said.out.contains("sk-secret"));
    assert!(!world.home().exists(), "looking must not make anything");
}

#[test]
fn a_broken_store_fails_and_says_what_to_do() {
    let world = World::new();
    std::fs::create_dir(world.home()).unwrap();
    std::fs::write(world.home().join("sortie.db"), "this is no database").unwrap();
    let said = world.sortie(&["doctor"]);
    assert_eq!(said.code, Some(1), "{said:#?}");
    assert!(said.out.contains("fail store: "), "{}", said.out);
    assert!(said.out.contains("→ Keep a copy"), "{}", said.out);
    let list = world.sortie(&["tasks", "list"]);
    assert_eq!(list.code, Some(3), "{list:#?}");
    assert!(list.err.contains("hint: `sortie doctor`"), "{}", list.err);
}

#[test]
fn a_model_that_cannot_be_used_fails() {
    let world = World::new().with("SORTIE_MODEL", "nobody/nothing");
    let said = world.sortie(&["doctor"]);
    assert_eq!(said.code, Some(1), "{said:#?}");
    assert!(
        said.out.contains("fail model: there is no provider"),
        "{}",
        said.out
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
