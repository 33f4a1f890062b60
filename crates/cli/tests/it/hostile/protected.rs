//! P15: what must not be changed, present and absent, by the shell and by file tools.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::stage::{FILTER_OFF, Files, call, calls_in, exec, files_of};
use crate::world::World;

/// Every protected place of a workspace, and a file in it or itself.
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
];

/// Ways to get evil to a place; `@P` is the place, `@F` the file in it.
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

/// A repository whose protected places are there, or those that can be missing are missing.
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

/// What is at the protected places: files, links and empty folders.
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

/// All ways to all places, one call for each place.
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
    // The control: without a sandbox the first way alone gets everywhere.
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

/// A command that goes on in the background is ended before what stood in is taken away.
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

/// Lets a command prepare the workspace for a person who then asks git how things are, and says
/// whether something ran.
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

/// Git takes a folder for a repository that looks like one, and does what its settings say.
#[test]
#[ignore = "finding: a workspace made to look like a bare repository runs commands at a person's `git status`"]
fn a_workspace_does_not_become_a_repository_of_its_own() {
    assert!(!runs_at_git_status(
        "rm -f .git/HEAD; git init -q --bare /tmp/b && cp -r /tmp/b/HEAD /tmp/b/objects /tmp/b/refs . && printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = \"EVIL\"\n' > config && echo planted"
    ));
}

/// Git asks a repository that is part of another how it is, with the settings of the inner one.
#[test]
#[ignore = "finding: a repository that an agent makes inside the workspace and adds to it runs commands at a person's `git status`"]
fn a_repository_inside_runs_nothing() {
    assert!(!runs_at_git_status(
        "git init -q sub && cd sub && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m s && git config core.fsmonitor 'EVIL' && cd .. && git add sub && echo planted"
    ));
}

/// What the settings of a repository name inside the workspace is as good as the settings.
#[test]
#[ignore = "finding: `core.hooksPath` and `include.path` that lead into the workspace are not protected"]
fn what_settings_of_git_name_is_protected() {
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

/// Settings of the workspace itself are obeyed by git, and no command changes them.
#[test]
fn settings_of_the_workspace_itself_run_nothing() {
    let plant = "git config core.fsmonitor 'EVIL'; printf '[core]\n\tfsmonitor = \"EVIL\"\n' >> .git/config; echo planted";
    assert!(!runs_at_git_status(plant));
}

/// Trust in a folder is trust in what is below it, so what Sortie obeys is protected there too.
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
