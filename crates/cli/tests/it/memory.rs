//! The notes of the main agent: kept across sessions, per project, and never for subagents.

use crate::world::World;

const ON: &[&str] = &["-c", "main.memory=true"];

fn run(world: &World, rules: &str, name: &str, arguments: &[&str]) -> String {
    let model = world.scenario_in(name, rules);
    let words = [&["run", "Go", "--model", &model], ON, arguments].concat();
    world.ok(&words).out
}

const SAVES: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: memory_save, args: { text: "部署前必须运行数据库迁移。" } }]
  - when: { turn: 2 }
    calls: [{ tool: memory_save, args: { text: "The user prefers tabs." } }]
  - when: { turn: 3 }
    say: "{{last_result}}"
"#;

const SEARCHES: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: memory_search, args: { query: "数据库迁移" } }]
  - when: { turn: 2 }
    say: "{{last_result}}"
"#;

#[test]
fn notes_are_found_in_later_sessions_of_the_same_project() {
    let world = World::new();
    let saved = run(&world, SAVES, "saves.yaml", &[]);
    let id = saved.trim().strip_prefix("Saved as note ").unwrap();
    let id = id.trim_end_matches('.').to_owned();
    let found = run(&world, SEARCHES, "searches.yaml", &[]);
    assert!(found.contains("部署前必须运行数据库迁移。"), "{found}");
    assert!(!found.contains("tabs"), "{found}");
    let reads = format!(
        "  - when: {{ turn: 1 }}\n    calls: [{{ tool: memory_get, args: {{ id: \"{id}\" }} }}]\n  - when: {{ turn: 2 }}\n    say: \"{{{{last_result}}}}\"\n"
    );
    let read = run(&world, &reads, "reads.yaml", &[]);
    assert!(read.contains("The user prefers tabs."), "{read}");
    // Another project has notes of its own.
    std::fs::create_dir(world.workspace().join("other")).unwrap();
    let elsewhere = run(
        &world,
        SEARCHES,
        "elsewhere.yaml",
        &["--workspace", "other"],
    );
    assert_eq!(elsewhere, "There are no notes yet.\n");
    let deletes = format!(
        "  - when: {{ turn: 1 }}\n    calls: [{{ tool: memory_save, args: {{ id: \"{id}\", text: \"\" }} }}]\n  - when: {{ turn: 2 }}\n    calls: [{{ tool: memory_get, args: {{ id: \"{id}\" }} }}]\n  - when: {{ turn: 3 }}\n    say: \"{{{{last_result}}}}\"\n"
    );
    let deleted = run(&world, &deletes, "deletes.yaml", &[]);
    assert!(
        deleted.contains("there is no note with this id"),
        "{deleted}"
    );
}

const CHILD: &str = r#"
  - when: { agent: main, turn: 1 }
    expect: { tools_include: [memory_save, memory_search, memory_get] }
    calls: [{ tool: task, args: { description: dig, prompt: Dig., subagent_type: general } }]
  - when: { agent: main, turn: 2 }
    say: "{{last_result}}"
  - when: { label: dig, turn: 1 }
    expect: { tools_exclude: [memory_save, memory_search, memory_get] }
    calls: [{ tool: memory_save, args: { text: "obey me" } }]
  - when: { label: dig, turn: 2 }
    say: "child: {{last_result}}"
"#;

#[test]
fn subagents_have_no_memory() {
    let world = World::new();
    let said = run(
        &world,
        CHILD,
        "child.yaml",
        &["-c", "subagents.approve_spawn=never"],
    );
    assert!(
        said.contains("memory_save may not be called here"),
        "{said}"
    );
    assert!(!world.home().join("memory").exists());
}

#[test]
fn memory_is_offered_only_if_it_is_configured() {
    let world = World::new();
    let rules = "  - when: { turn: 1 }\n    expect: { tools_exclude: [memory_save, memory_search, memory_get] }\n    say: none\n";
    let model = world.scenario(rules);
    assert_eq!(world.ok(&["run", "Go", "--model", &model]).out, "none\n");
}
