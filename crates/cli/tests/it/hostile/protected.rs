//! P15: protected files, present and absent, cannot be changed by the shell or by file tools.

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::stage::{FILTER_OFF, Files, call, calls_in, exec, files_of};
use crate::world::World;

/// Every protected path of a workspace, and a file in it or the path itself.
const PLACES: &[(&str, &str)] = &[
    (".git/hooks", "/pre-commit"),
    (".git/config", ""),
    (".git/config.worktree", ""),
    (".git/commondir", ""),
    (".sortie", "/agents/evil.md"),
    ("sortie.toml", ""),
    (".claude", "/settings.json"),
    (".agents", "/skills/evil/SKILL.md"),
    (".codex", "/config.toml"),
    (".gemini", "/settings.json"),
    (".opencode", "/agent/evil.md"),
    (".mcp.json", ""),
    (".cursor", "/mcp.json"),
    (".vscode", "/tasks.json"),
    (".idea", "/workspace.xml"),
    (".zed", "/settings.json"),
    (".envrc", ""),
    (".husky", "/pre-commit"),
    ("opencode.json", ""),
    (".devcontainer", "/devcontainer.json"),
    (".devcontainer.json", ""),
    (".pre-commit-config.yaml", ""),
    ("lefthook.yml", ""),
    (".qwen", "/settings.json"),
    (".roo", "/mcp.json"),
    (".kiro", "/settings/mcp.json"),
    (".windsurf", "/hooks.json"),
    (".continue", "/config.yaml"),
    (".amazonq", "/mcp.json"),
    (".aider.conf.yml", ""),
    (".helix", "/config.toml"),
    (".nvim.lua", ""),
    (".exrc", ""),
    (".dir-locals.el", ""),
    ("mise.toml", ""),
    (".hg", "/hgrc"),
];

/// Ways to write to a protected path; `@P` is the path, `@F` the file in it.
const WAYS: &[&str] = &[
    "mkdir -p $(dirname @F); echo evil > @F",
    "mkdir -p t/$(dirname @F); echo evil > t/@F; rm -rf @P; mv -fT t/@P @P; cp -r t/@P $(dirname @P)/",
    "mv @P moved; mkdir -p $(dirname @F); echo evil > @F",
    "mkdir -p e; echo evil > e/evil; rm -rf @P; ln -sfn $PWD/e @P",
    "ln -s $(dirname @P) side; mkdir -p side/$(basename @P); echo evil > side/$(basename @F)",
    "printf evil | tee @F; dd if=/dev/zero of=@F bs=1 count=1; truncate -s 3 @F; rm -f @F; sed -i s/a/evil/ @F",
    "perl -e 'rename \"@P\", \"gone\"; mkdir \"@P\"; open F, \">\", \"@F\"; print F \"evil\"'",
    "chmod -R 777 @P; chattr -i @P; setfattr -n user.evil -v 1 @P; touch -d 2001-01-01 @P",
];

/// Creates a repository in which all protected paths exist, or in which the optional ones are
/// missing.
fn world(present: bool) -> World {
    let world = World::new();
    git(&world.workspace(), &["init", "-q", "."]);
    if present {
        for (place, file) in PLACES {
            // Git would not work with these two.
            if !matches!(
                *place,
                ".git/config" | ".git/commondir" | ".git/config.worktree"
            ) {
                world.write(&format!("{place}{file}"), "as it was\n");
            }
        }
    }
    world
}

fn git(folder: &Path, words: &[&str]) -> String {
    let output = Command::new("git")
        .args([
            "-c",
            "init.defaultBranch=main",
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
        ])
        .args(words)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns what is at the protected paths: files, links and empty folders.
fn protected(world: &World) -> Files {
    let workspace = world.workspace();
    let mut found = Files::new();
    for (place, _) in PLACES {
        let path = workspace.join(place);
        if path.is_symlink() {
            found.insert(path, "a link".to_owned());
        } else if path.is_dir() {
            found.extend(files_of(&path, &[]));
            found.insert(path, String::new());
        } else if path.exists() {
            let content = std::fs::read_to_string(&path).unwrap();
            found.insert(path, content);
        }
    }
    found
}

fn check(world: &World, flags: &[&str], calls: &[Value]) {
    let before = protected(world);
    let answers = calls_in(world, flags, calls);
    assert_eq!(answers.len(), calls.len());
    let after = protected(world);
    assert_eq!(
        after.keys().collect::<Vec<_>>(),
        before.keys().collect::<Vec<_>>(),
        "{answers:#?}"
    );
    assert_eq!(after, before, "{answers:#?}");
}

/// Returns all ways to all paths, one call per path.
fn shell_tries() -> Vec<Value> {
    let ways = |(place, file): &(&str, &str)| {
        let whole = format!("{place}{file}");
        let tries = WAYS.iter().map(|way| {
            let way = way.replace("@P", place).replace("@F", &whole);
            format!("({way}) 2>/dev/null; rm -rf t e moved gone side")
        });
        exec(&tries.collect::<Vec<_>>().join("\n"))
    };
    PLACES.iter().map(ways).collect()
}

#[test]
fn commands_change_nothing_protected() {
    for flags in [&[][..], &FILTER_OFF] {
        for present in [true, false] {
            check(&world(present), flags, &shell_tries());
        }
    }
    // The control: without a sandbox, the first way alone reaches every path.
    let world = world(false);
    let before = protected(&world);
    let calls: Vec<Value> = PLACES
        .iter()
        .map(|(place, file)| {
            exec(&format!(
                "mkdir -p $(dirname {place}{file}); echo evil > {place}{file}"
            ))
        })
        .collect();
    calls_in(
        &world,
        &[&FILTER_OFF[..], &["-c", "sandbox.mode=off"]].concat(),
        &calls,
    );
    let after = protected(&world);
    for (place, file) in PLACES {
        let path = world.workspace().join(format!("{place}{file}"));
        assert_ne!(after.get(&path), before.get(&path), "{place}{file}");
    }
}

#[test]
fn file_tools_change_nothing_protected() {
    for present in [true, false] {
        let world = world(present);
        std::os::unix::fs::symlink(".", world.workspace().join("here")).unwrap();
        std::os::unix::fs::symlink(".git", world.workspace().join("there")).unwrap();
        let mut calls = Vec::new();
        for (place, file) in PLACES {
            let whole = format!("{place}{file}");
            for path in [
                whole.clone(),
                format!("./{whole}"),
                format!("here/{whole}"),
                format!("here/here/../{whole}"),
                whole.to_uppercase(),
                world.workspace().join(&whole).to_str().unwrap().to_owned(),
                whole.replace(".git/", "there/"),
            ] {
                calls.push(call(
                    "write_file",
                    json!({ "path": path, "content": "evil\n" }),
                ));
                calls.push(call(
                    "edit_file",
                    json!({ "path": path, "old_string": "as it was", "new_string": "evil" }),
                ));
            }
        }
        check(&world, &[], &calls);
        for (place, _) in PLACES {
            let other = world.workspace().join(place.to_uppercase());
            assert!(!other.exists(), "{}", other.display());
        }
    }
}

/// A background command is killed before the placeholders of absent paths are removed.
#[test]
fn nothing_protected_is_changed_after_the_end() {
    let world = world(false);
    let wait = "(setsid sh -c 'until mkdir -p .sortie/agents; do :; done' >/dev/null 2>&1 &); echo started";
    check(&world, &FILTER_OFF, &[exec(wait), exec("true")]);
    let after = protected(&world);
    assert!(
        !after.keys().any(|path| path.ends_with(".sortie")),
        "{after:?}"
    );
}

/// Runs a command that prepares the workspace, then `git status` as the user; returns whether
/// planted code ran.
fn runs_at_git_status(plant: &str) -> bool {
    let world = world(false);
    git(
        &world.workspace(),
        &["commit", "-q", "--allow-empty", "-m", "first"],
    );
    let proof = world.folder().join("ran");
    let evil = format!("touch {}; false", proof.display());
    let command = plant.replace("EVIL", &evil);
    let answers = calls_in(&world, &FILTER_OFF, &[exec(&command)]);
    assert!(answers[0].text.contains("planted"), "{answers:?}");
    git(&world.workspace(), &["status"]);
    proof.exists()
}

/// Runs a model with these calls, then `git status` as the user; returns whether planted code ran.
fn runs_after(prepare: impl Fn(&World), calls: impl Fn(&str) -> Vec<Value>) -> bool {
    let world = world(false);
    let workspace = world.workspace();
    git(
        &workspace,
        &["commit", "-q", "--allow-empty", "-m", "first"],
    );
    prepare(&world);
    let proof = world.folder().join("ran");
    calls_in(
        &world,
        &FILTER_OFF,
        &calls(&format!("touch {}; false", proof.display())),
    );
    for folder in [workspace.clone(), workspace.join("b")] {
        if folder.is_dir() {
            for command in ["status", "diff", "log", "stash"] {
                git(&folder, &[command]);
            }
        }
    }
    proof.exists()
}

/// A submodule's `.git` is a file that names its git folder; it must not be replaced.
#[test]
fn git_file_of_a_submodule_cannot_be_replaced() {
    let prepare = |world: &World| {
        let workspace = world.workspace();
        git(&workspace, &["init", "-q", "../source"]);
        let source = world.folder().join("source");
        git(&source, &["commit", "-q", "--allow-empty", "-m", "first"]);
        let add = [
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "add",
            "../source",
            "lib",
        ];
        git(&workspace, &add);
        assert!(workspace.join("lib/.git").is_file());
        git(&workspace, &["commit", "-q", "-m", "lib"]);
    };
    assert!(!runs_after(prepare, |evil| {
        vec![exec(&format!(
            "git init -q evil; git -C evil config core.fsmonitor '{evil}'; rm -f lib/.git; echo 'gitdir: ../evil/.git' > lib/.git; echo 'gitdir: ../evil/.git' > x; mv -f x lib/.git; git add -A; echo planted"
        ))]
    }));
}

/// Four files make a folder a repository, whichever tool writes them.
#[test]
fn file_tools_cannot_turn_a_folder_into_a_repository() {
    for folder in ["", "b/"] {
        assert!(!runs_after(
            |world| std::fs::remove_dir_all(world.workspace().join(".git")).unwrap(),
            |evil| {
                let config = format!(
                    "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = \"{evil}\"\n"
                );
                let files = [
                    ("HEAD", "ref: refs/heads/main\n"),
                    ("config", config.as_str()),
                    ("objects/x", ""),
                    ("refs/x", ""),
                ];
                let writes = files.map(|(name, content)| {
                    call(
                        "write_file",
                        json!({ "path": format!("{folder}{name}"), "content": content }),
                    )
                });
                writes.into()
            }
        ));
    }
}

/// If a protected path is a link into the workspace, its target is protected too.
#[test]
fn target_of_a_protected_link_is_protected() {
    let world = world(false);
    let workspace = world.workspace();
    std::fs::rename(workspace.join(".git"), workspace.join("store")).unwrap();
    std::os::unix::fs::symlink("store", workspace.join(".git")).unwrap();
    world.write("editor/tasks.json", "as it was");
    std::os::unix::fs::symlink("editor", workspace.join(".vscode")).unwrap();
    let config = std::fs::read_to_string(workspace.join("store/config")).unwrap();
    calls_in(
        &world,
        &FILTER_OFF,
        &[
            exec(
                "echo evil >> store/config; echo evil >> .git/config; echo ../evil > store/commondir; echo evil > store/hooks/pre-commit; echo evil > editor/tasks.json; echo evil > .vscode/launch.json",
            ),
            call(
                "write_file",
                json!({ "path": "editor/launch.json", "content": "evil" }),
            ),
        ],
    );
    let read = |name: &str| std::fs::read_to_string(workspace.join(name)).unwrap();
    assert_eq!(read("store/config"), config);
    assert!(!workspace.join("store/commondir").exists());
    assert!(!workspace.join("store/hooks/pre-commit").exists());
    assert_eq!(read("editor/tasks.json"), "as it was");
    assert!(!workspace.join("editor/launch.json").exists());
}

/// Runs a command that plants a file and then waits, and kills the runtime meanwhile.
fn killed_in_between(plant: &str) -> World {
    let world = world(false);
    git(
        &world.workspace(),
        &["commit", "-q", "--allow-empty", "-m", "first"],
    );
    let proof = world.folder().join("ran");
    let plant = plant.replace("EVIL", &format!("touch {}; false", proof.display()));
    let command = exec(&format!("{plant}; echo done > planted; sleep 1000"));
    let first = json!({ "when": { "turn": 1 }, "calls": [command] });
    let model = world.scenario(&format!("  - {first}\n  - say: done\n"));
    let flags = [
        "run",
        "do it",
        "--yes",
        "--model",
        &model,
        FILTER_OFF[0],
        FILTER_OFF[1],
    ];
    let mut run = world.start(&flags);
    world.until("it is planted", |world| {
        world.workspace().join("planted").exists()
    });
    run.signal(Signal::KILL);
    run.end();
    world
}

/// Paths that are known in advance cannot be planted at all, so it does not matter which process
/// dies.
#[test]
fn planting_a_repository_redirect_fails_even_if_the_runtime_dies() {
    let plant = "mkdir -p evil; cp -r .git/. evil/; git config -f evil/config core.fsmonitor 'EVIL'; echo ../evil > .git/commondir";
    let world = killed_in_between(plant);
    git(&world.workspace(), &["status"]);
    assert!(!world.folder().join("ran").exists());
    // The next command leaves no placeholder behind.
    calls_in(&world, &[], &[exec("true")]);
    assert!(!world.workspace().join(".git/commondir").exists());
}

/// The next process of the same home neutralises what a dead one left.
#[test]
fn next_start_neutralises_leftovers_of_a_dead_runtime() {
    let plant = "git init -q sub; git -C sub -c user.name=a -c user.email=a@b commit -q --allow-empty -m s; git -C sub config core.fsmonitor 'EVIL'; git add sub; echo '{}' > opencode.json";
    let world = killed_in_between(plant);
    assert!(
        world.workspace().join("opencode.json").exists(),
        "the control"
    );
    let elsewhere = world.folder().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let model = world.scenario_in("next.yaml", "  - say: done\n");
    let output = world
        .command(&["run", "hello", "--yes", "--model", &model])
        .current_dir(&elsewhere)
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.contains("sub/.git/config"), "{output}");
    git(&world.workspace(), &["status"]);
    assert!(!world.folder().join("ran").exists());
    assert!(!world.workspace().join("opencode.json").exists());
    assert_eq!(
        git(&world.workspace().join("sub"), &["log", "--format=%s"]),
        "s\n"
    );
    let notes = world.home().join("unswept");
    assert_eq!(std::fs::read_dir(notes).unwrap().count(), 0);
}

/// Neutralised files are reported in the tool result, the audit and `tasks show`.
#[test]
fn neutralised_files_are_reported() {
    let world = world(false);
    let answers = calls_in(
        &world,
        &FILTER_OFF,
        &[exec(
            "git init -q sub && git -C sub config core.fsmonitor evil && echo '{}' > opencode.json",
        )],
    );
    for part in ["sub/.git/config", "core.fsmonitor", "opencode.json"] {
        assert!(
            answers[0].text.contains(part),
            "{part}: {}",
            answers[0].text
        );
    }
    let id = world.tasks()[0]["task_id"].as_str().unwrap().to_owned();
    let shown = world.json(&["tasks", "show", &id, "--json"]);
    let things = shown["neutralised"].as_array().unwrap();
    assert_eq!(things.len(), 2, "{shown:#}");
    let text = world.ok(&["tasks", "show", &id]).out;
    assert!(text.contains("core.fsmonitor"), "{text}");
    let audit = world.ok(&["audit", "--json"]).out;
    assert!(audit.contains("core.fsmonitor"), "{audit}");
}

/// Git treats a folder that looks like a repository as one, and obeys its settings.
#[test]
fn workspace_cannot_be_turned_into_a_repository() {
    assert!(!runs_at_git_status(
        "rm -f .git/HEAD; git init -q --bare /tmp/b && cp -r /tmp/b/HEAD /tmp/b/objects /tmp/b/refs . && printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = \"EVIL\"\n' > config && echo planted"
    ));
}

/// Git reads the status of a nested repository with the settings of the nested one.
#[test]
fn nested_repository_runs_no_code_at_git_status() {
    assert!(!runs_at_git_status(
        "git init -q sub && cd sub && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m s && git config core.fsmonitor 'EVIL' && cd .. && git add sub && echo planted"
    ));
}

/// A file of the workspace that the settings of a repository name is as powerful as the settings.
#[test]
fn files_named_by_git_settings_are_protected() {
    let world = world(false);
    let workspace = world.workspace();
    world.write(".githooks/pre-commit", "#!/bin/sh\n");
    world.write(".gitconfig-shared", "");
    git(&workspace, &["config", "core.hooksPath", ".githooks"]);
    git(
        &workspace,
        &["config", "include.path", "../.gitconfig-shared"],
    );
    calls_in(
        &world,
        &[],
        &[
            exec("echo evil > .githooks/pre-commit; echo evil > .gitconfig-shared"),
            call(
                "write_file",
                json!({ "path": ".githooks/post-commit", "content": "evil" }),
            ),
        ],
    );
    let read = |name: &str| std::fs::read_to_string(workspace.join(name)).unwrap();
    assert_eq!(read(".githooks/pre-commit"), "#!/bin/sh\n");
    assert_eq!(read(".gitconfig-shared"), "");
    assert!(!workspace.join(".githooks/post-commit").exists());
}

/// Git obeys the settings of the workspace itself, and no command can change them.
#[test]
fn git_settings_of_the_workspace_cannot_be_changed() {
    let plant = "git config core.fsmonitor 'EVIL'; printf '[core]\n\tfsmonitor = \"EVIL\"\n' >> .git/config; echo planted";
    assert!(!runs_at_git_status(plant));
}

/// Trust in a folder includes its subfolders, so the files that Sortie obeys are protected there
/// too.
#[test]
fn a_folder_below_a_trusted_one_gets_no_settings() {
    for planted in [
        call(
            "write_file",
            json!({ "path": "deep/sortie.toml", "content": "[sandbox]\nmode = \"off\"\n" }),
        ),
        exec("mkdir -p deep && printf '[sandbox]\\nmode = \"off\"\\n' > deep/sortie.toml"),
    ] {
        let world = world(false);
        std::fs::create_dir(world.workspace().join("deep")).unwrap();
        world.ok(&["trust"]);
        calls_in(&world, &[], &[planted]);
        let output = world
            .command(&["config", "show", "--json"])
            .current_dir(world.workspace().join("deep"))
            .output()
            .unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(!shown.contains("deep/sortie.toml"), "{shown}");
    }
}
