//! `sortie demo`: its report is true of the folder that it examined.

use crate::world::World;

#[test]
fn two_folders_give_two_true_reports() {
    let rusty = World::new();
    rusty.write("README.md", "# Rusty\n\nA tool for hinges.\n");
    rusty.write("src/main.rs", "// TODO oil the hinges\nfn main() {}\n");
    let snaky = World::new();
    snaky.write("snake.py", "print('hiss')\n");
    let output = |world: &World| {
        let output = world.ok(&["demo"]);
        let done = output.err.matches(" - done (").count();
        assert_eq!(done, 3, "{}", output.err);
        output.out
    };
    let (rust, python) = (output(&rusty), output(&snaky));
    for expected in ["Rust", "Rusty", "main.rs", "TODO"] {
        assert!(rust.contains(expected), "{expected}: {rust}");
    }
    assert!(
        python.contains("Python") && python.contains("snake.py"),
        "{python}"
    );
    assert!(
        !python.contains("Rusty") && !rust.contains("snake"),
        "{python}"
    );
    assert_ne!(rust, python);
    // The frame around a child's result is for models, not for readers.
    assert!(!rust.contains("-----"), "{rust}");
}

#[test]
fn the_demo_speaks_chinese_and_json() {
    let world = World::new().with("SORTIE_LANG", "zh");
    world.write("snake.py", "print('hiss')\n");
    let task = world.json(&["demo", "--json"]);
    assert_eq!(task["status"], "completed");
    let result = task["result"].as_str().unwrap();
    assert!(result.contains("snake.py"), "{result}");
    let chinese = result
        .chars()
        .filter(|c| ('\u{4e00}'..='\u{9fff}').contains(c))
        .count();
    assert!(chinese > 20, "{result}");
    assert!(!result.contains("-----"), "{result}");
    assert_eq!(world.tasks().len(), 4);
}

#[test]
fn a_folder_can_be_named() {
    let world = World::new();
    world.write("inner/only.go", "package main\n");
    let output = world.ok(&["demo", "--workspace", "inner", "--pace", "1"]);
    assert!(output.out.contains("only.go"), "{}", output.out);
    assert_eq!(
        world.sortie(&["demo", "--workspace", "nowhere"]).code,
        Some(2)
    );
}
