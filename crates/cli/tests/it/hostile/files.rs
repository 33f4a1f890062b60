//! P1: file tools under links of every kind. The races are in `sortie-tools`
//! (`confine::tests::swapping_folders_opens_no_way_out` and its control).

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::stage::{Answer, CANARY, Scene, call};
use crate::world::World;

/// Paths that lead, or seem to lead, to a file or a folder outside.
const WAYS_TO_A_FILE: &[&str] = &[
    "{world}/outside.txt",
    "../outside.txt",
    "sub/../../outside.txt",
    "./sub/.././../outside.txt",
    "way",
    "up/outside.txt",
    "absolute/outside.txt",
    "loop/../way",
    "hop",
    "/proc/self/root{world}/outside.txt",
    "/proc/self/cwd/../outside.txt",
    "/proc/thread-self/root{world}/outside.txt",
    "magic/root{world}/outside.txt",
    "magic/cwd/../outside.txt",
    "descriptors/../root{world}/outside.txt",
    "~/outside.txt",
    "$HOME/outside.txt",
    "file://{world}/outside.txt",
    "{world}/workspace/../outside.txt",
    "{world}/workspace2/../outside.txt",
    "..\u{2f}outside.txt",
    "%2e%2e/outside.txt",
    "..\\outside.txt",
    "sub\u{0}/../../outside.txt",
];

fn scene() -> Scene {
    let scene = Scene::set();
    let workspace = scene.world.workspace();
    let outside = scene.world.folder();
    std::fs::create_dir(workspace.join("sub")).unwrap();
    symlink(outside.join("outside.txt"), workspace.join("way")).unwrap();
    symlink("..", workspace.join("up")).unwrap();
    symlink(&outside, workspace.join("absolute")).unwrap();
    symlink("way", workspace.join("hop")).unwrap();
    symlink("loop", workspace.join("loop")).unwrap();
    symlink("/proc/self", workspace.join("magic")).unwrap();
    symlink("/proc/self/fd", workspace.join("descriptors")).unwrap();
    std::fs::hard_link(outside.join("outside.txt"), workspace.join("hard")).unwrap();
    scene.world.write("plain.txt", "plain\n");
    scene
}

/// Returns a call for every path with every tool that accepts one.
fn tries(scene: &Scene) -> Vec<Value> {
    let mut all = Vec::new();
    for way in WAYS_TO_A_FILE {
        let path = scene.fill(way);
        all.push(call("read_file", json!({ "path": path })));
        all.push(call("grep", json!({ "pattern": "canary", "path": path })));
        all.push(call(
            "write_file",
            json!({ "path": path, "content": "evil\n" }),
        ));
        all.push(call(
            "edit_file",
            json!({ "path": path, "old_string": "canary", "new_string": "evil" }),
        ));
    }
    for folder in [
        "..",
        "up",
        "absolute",
        "/",
        "{world}",
        "/proc/self/root",
        "magic",
        "~",
    ] {
        let path = scene.fill(folder);
        all.push(call("list_dir", json!({ "path": path })));
        all.push(call(
            "glob",
            json!({ "pattern": "**/outside.txt", "path": path }),
        ));
        all.push(call("glob", json!({ "pattern": format!("{path}/*") })));
        all.push(call(
            "grep",
            json!({ "pattern": "canary-in", "path": path }),
        ));
        all.push(call(
            "exec",
            json!({ "command": "cat outside.txt", "workdir": path }),
        ));
    }
    all
}

fn assert_reveals_nothing(tried: &Value, answer: &Answer) {
    // The error repeats the requested path, but not the contents of the file.
    assert!(!answer.text.contains(CANARY), "{tried}: {answer:?}");
    assert!(!answer.text.contains("neighbour"), "{tried}: {answer:?}");
    assert!(!answer.text.contains("id_ed25519"), "{tried}: {answer:?}");
}

#[test]
fn file_tools_follow_no_path_outside() {
    let scene = scene();
    let before = scene.outside();
    let tries = tries(&scene);
    let answers = scene.calls(&super::stage::FILTER_OFF, &tries);
    assert_eq!(answers.len(), tries.len());
    for (tried, answer) in tries.iter().zip(&answers) {
        assert_reveals_nothing(tried, answer);
    }
    assert_eq!(scene.outside(), before);
    // The control: the same tools work inside the workspace.
    let works = scene.calls(
        &[],
        &[
            call("read_file", json!({ "path": "plain.txt" })),
            call(
                "write_file",
                json!({ "path": "plain.txt", "content": "new\n" }),
            ),
            call("grep", json!({ "pattern": "plain|new", "path": "." })),
        ],
    );
    assert!(
        works.iter().all(|answer| answer.status == "ok"),
        "{works:?}"
    );
}

#[test]
fn a_hard_link_is_not_written_through() {
    let scene = scene();
    let before = scene.outside();
    let answers = scene.calls(
        &[],
        &[
            call("write_file", json!({ "path": "hard", "content": "evil\n" })),
            call(
                "edit_file",
                json!({ "path": "hard", "old_string": "canary", "new_string": "evil" }),
            ),
        ],
    );
    assert_eq!(scene.outside(), before, "{answers:?}");
}

/// A result is written to the file that the operator named, even if a command replaced it with a
/// link.
#[test]
fn a_report_does_not_follow_a_link() {
    for (place, plant) in [
        ("result.jsonl", "ln -s ../.bashrc result.jsonl"),
        ("out/.bashrc", "rmdir out; ln -s .. out"),
    ] {
        let scene = Scene::set();
        std::fs::create_dir(scene.world.workspace().join("out")).unwrap();
        let before = scene.outside();
        let first = json!({ "when": { "turn": 1 }, "calls": [super::stage::exec(plant)] });
        let model = scene
            .world
            .scenario(&format!("  - {first}\n  - say: evil\n"));
        let to = format!("file:{place}");
        let words = ["spawn", "x", "--agent", "code", "--yes", "--report-to", &to];
        scene
            .world
            .sortie(&[&words[..], &["--model", &model]].concat());
        assert_eq!(scene.outside(), before, "{plant}");
    }
}

/// Skills are read from the folders of the operator and the workspace, not from a path that a model
/// names.
#[test]
fn skills_are_not_read_from_other_folders() {
    let scene = Scene::set();
    let skill = |folder: &std::path::Path, text: &str| {
        std::fs::create_dir_all(folder.join("evil")).unwrap();
        let text = format!("---\nname: evil\ndescription: Tells.\n---\n{text}\n");
        std::fs::write(folder.join("evil/SKILL.md"), text).unwrap();
    };
    let outside = scene.world.folder().join("skills-outside");
    skill(&outside, CANARY);
    symlink(&outside, scene.world.workspace().join("linked")).unwrap();
    let inside = scene.world.workspace().join("inside");
    skill(&inside, "what is inside");
    symlink(
        scene.world.folder().join("outside.txt"),
        inside.join("evil/more.txt"),
    )
    .unwrap();
    let shown_to_model = |folder: &str| {
        let spawn = call(
            "spawn_subagent",
            json!({ "task": "x", "agentId": "code", "skills": { "extraDirs": [scene.fill(folder)] } }),
        );
        let skills = [
            call("skill", json!({ "name": "evil" })),
            call("skill", json!({ "name": "evil", "file": "more.txt" })),
            call(
                "skill",
                json!({ "name": "evil", "file": "../../../outside.txt" }),
            ),
        ];
        let first = json!({ "when": { "depth": 0, "turn": 1 }, "calls": [spawn] });
        let child = json!({ "when": { "depth": 1, "turn": 1 }, "calls": skills });
        let model = scene.world.scenario(&format!(
            "  - {first}\n  - {child}\n  - {{ when: {{ depth: 1 }}, say: \"{{{{last_result}}}}\" }}\n  - say: done\n"
        ));
        scene
            .world
            .json_any(&["run", "x", "--yes", "--json", "--model", &model]);
        let tasks = scene.world.tasks();
        let last = tasks.iter().rfind(|task| task["depth"] == 1);
        last.map_or_else(String::new, |task| task["result"].to_string())
    };
    for folder in [
        "{world}/skills-outside",
        "../skills-outside",
        "linked",
        "~/skills-outside",
        "inside/../../skills-outside",
        "/proc/self/root{world}/skills-outside",
    ] {
        let output = shown_to_model(folder);
        assert!(!output.contains(CANARY), "{folder}: {output}");
    }
    let output = shown_to_model("inside");
    assert!(!output.contains(CANARY), "{output}");
    assert!(output.contains("what is inside"), "the control: {output}");
}

/// Files of a home folder that are secrets, not work of an agent.
const SECRETS_OF_A_HOME: &[&str] = &[
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".netrc",
    ".config/gh/hosts.yml",
    ".config/sortie/config.toml",
    ".local/share/sortie/lock",
];
/// Files that take effect when the user logs in or opens a shell, and files that Sortie itself
/// obeys.
const STARTS_OF_A_HOME: &[&str] = &[
    ".bashrc",
    ".profile",
    ".ssh/authorized_keys",
    ".ssh/id_ed25519",
    ".config/autostart/evil.desktop",
    ".gitconfig",
    ".config/sortie/config.toml",
    ".config/sortie/trusted.json",
    ".local/share/sortie/mcp-approved.json",
];

/// Returns a world whose workspace is the home folder, as if the user started Sortie in `~`.
fn at_home() -> World {
    let world = World::new();
    let home = world.workspace();
    let state = home.join(".local/share/sortie");
    for name in SECRETS_OF_A_HOME {
        if !name.starts_with(".local") && !name.ends_with("config.toml") {
            world.write(name, &format!("{CANARY}\n"));
        }
    }
    world.write(".config/sortie/config.toml", "# canary-in-a-file-outside\n");
    world.write(".bashrc", "# as it was\n");
    world
        .with("HOME", home.to_str().unwrap())
        .with("SORTIE_HOME", state.to_str().unwrap())
}

/// Returns the files of the home folder, except Sortie's own and those that were moved aside.
fn own_files(world: &World) -> super::stage::Files {
    let except = [world.workspace().join(".local")];
    let mut files = super::stage::files_of(&world.workspace(), &except);
    files.retain(|path, _| !path.to_string_lossy().contains(".sortie-quarantine"));
    files
}

fn check_home(tries: &[Value]) {
    let world = at_home();
    let before = own_files(&world);
    let answers = super::stage::calls_in(&world, &super::stage::FILTER_OFF, tries);
    for (tried, answer) in tries.iter().zip(&answers) {
        assert!(!answer.text.contains(CANARY), "{tried}: {answer:?}");
        assert!(!answer.text.contains("\"pid\":"), "{tried}: {answer:?}");
    }
    assert_eq!(own_files(&world), before);
    let approved = world
        .workspace()
        .join(".local/share/sortie/mcp-approved.json");
    assert!(!approved.exists());
}

/// The shell and the file tools must agree about a home folder.
#[test]
fn a_home_folder_as_workspace_keeps_its_secrets_from_the_shell() {
    let mut tries: Vec<Value> = SECRETS_OF_A_HOME
        .iter()
        .map(|name| super::stage::exec(&format!("cat {name}")))
        .collect();
    tries.extend(STARTS_OF_A_HOME.iter().map(|name| {
        super::stage::exec(&format!("mkdir -p $(dirname {name}); echo evil > {name}"))
    }));
    check_home(&tries);
}

#[test]
fn a_home_folder_as_workspace_keeps_its_secrets_from_file_tools() {
    let mut tries: Vec<Value> = SECRETS_OF_A_HOME
        .iter()
        .map(|name| call("read_file", json!({ "path": name })))
        .collect();
    tries.push(call("grep", json!({ "pattern": "canary-in", "path": "." })));
    check_home(&tries);
}

#[test]
fn a_home_folder_as_workspace_keeps_what_runs_from_file_tools() {
    let tries: Vec<Value> = STARTS_OF_A_HOME
        .iter()
        .map(|name| call("write_file", json!({ "path": name, "content": "evil\n" })))
        .collect();
    check_home(&tries);
}
