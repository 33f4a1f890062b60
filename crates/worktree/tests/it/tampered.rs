//! The reviewed content is applied, whatever an agent in the main checkout does to the objects.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use sortie_worktree::{Applied, Changes, How, WorktreeError};

use crate::support::{Scene, plain_git, run_git, write};

const REVIEWED: &str = "reviewed\n";
const EVIL: &str = "evil\n";

/// Collects the work of a child that has changed a file in a folder; the objects are loose.
async fn collected() -> (Scene, Changes) {
    let scene = Scene::new();
    let worktree = scene.create().await;
    write(&worktree.root, "sub/inner", REVIEWED);
    let changes = scene.collect(&worktree).await;
    let packs = scene.root.join(".git/objects/pack");
    let away = scene.home.path().join("packs");
    fs::rename(&packs, &away).expect("moved");
    fs::create_dir(&packs).expect("made");
    for pack in fs::read_dir(&away).expect("listed") {
        let path = pack.expect("listed").path();
        if path.extension().is_some_and(|kind| kind == "pack") {
            let file = fs::File::open(&path).expect("opened");
            let mut command = plain_git(&scene.root, &["unpack-objects", "-q"]);
            assert!(command.stdin(file).status().expect("run").success());
        }
    }
    (scene, changes)
}

fn name_of(scene: &Scene, what: &str) -> String {
    run_git(&scene.root, &["rev-parse", what]).trim().to_owned()
}

fn loose(folder: &Path, name: &str) -> PathBuf {
    folder.join(&name[..2]).join(&name[2..])
}

/// Writes an object with this content, as `git hash-object` does.
fn object(scene: &Scene, kind: &str, content: &[u8]) -> String {
    let args = ["hash-object", "-w", "--literally", "-t", kind, "--stdin"];
    let mut command = plain_git(&scene.root, &args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("started");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(content).expect("written");
    drop(stdin);
    let output = child.wait_with_output().expect("ended");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Gives one object the content of another.
fn forge(scene: &Scene, objects: &Path, name: &str, evil: &str) {
    let place = loose(objects, name);
    let bytes = fs::read(loose(&scene.root.join(".git/objects"), evil)).expect("read");
    fs::remove_file(&place).ok();
    fs::create_dir_all(place.parent().expect("a folder")).expect("made");
    fs::write(place, bytes).expect("written");
}

fn evil_blob(scene: &Scene) -> String {
    object(scene, "blob", EVIL.as_bytes())
}

/// Returns the tree of the reviewed commit with other content in the changed file.
fn evil_tree(scene: &Scene, folder: &str) -> String {
    let index = scene.home.path().join("evil-index");
    let evil = evil_blob(scene);
    let entry = format!("100644,{evil},sub/inner");
    for args in [
        &["read-tree", &format!("{folder}^{{tree}}")][..],
        &["update-index", "--add", "--cacheinfo", &entry],
    ] {
        let mut command = plain_git(&scene.root, args);
        command.env("GIT_INDEX_FILE", &index);
        assert!(command.status().expect("run").success());
    }
    let mut command = plain_git(&scene.root, &["write-tree"]);
    let output = command.env("GIT_INDEX_FILE", &index).output().expect("run");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Returns whether the tampering was detected. Git itself compares a commit with its name, and then
/// reports that the branch does not exist.
fn is_noticed(error: &WorktreeError) -> bool {
    matches!(
        error,
        WorktreeError::Tampered { .. } | WorktreeError::NoBranch(_)
    )
}

/// Checks that only the reviewed content is shown or written; returns whether it was.
async fn check(what: &str, scene: &Scene, changes: &Changes) -> bool {
    let (branch, base, commit) = (&changes.branch, &changes.base, &changes.commit);
    let shown = scene
        .worktrees
        .diff(&scene.root, branch, base, commit)
        .await;
    match &shown {
        Ok((diff, _)) => assert_eq!(*diff, changes.diff, "{what}"),
        Err(error) => assert!(is_noticed(error), "{what}: {error}"),
    }
    let before = fs::read_to_string(scene.root.join("sub/inner")).expect("read");
    let applied = scene.try_apply(changes, How::Write).await;
    let after = fs::read_to_string(scene.root.join("sub/inner")).expect("read");
    match applied {
        Ok(Applied::Applied { .. }) => {
            assert_eq!(after, REVIEWED, "{what}");
            true
        }
        Ok(other) => panic!("{what}: {other:?}"),
        Err(error) => {
            assert!(is_noticed(&error), "{what}: {error}");
            assert_eq!(after, before, "{what}");
            false
        }
    }
}

#[tokio::test]
async fn loose_objects_with_another_content_are_noticed() {
    for what in [
        "the file",
        "its folder",
        "the tree",
        "the commit",
        "its base",
    ] {
        let (scene, changes) = collected().await;
        let (commit, base) = (&changes.commit, &changes.base);
        let objects = scene.root.join(".git/objects");
        let (name, evil) = match what {
            "the file" => (
                name_of(&scene, &format!("{commit}:sub/inner")),
                evil_blob(&scene),
            ),
            "its folder" => {
                let evil = evil_tree(&scene, commit);
                let folder = name_of(&scene, &format!("{commit}:sub"));
                (folder, name_of(&scene, &format!("{evil}:sub")))
            }
            "the tree" => {
                let evil = evil_tree(&scene, commit);
                (name_of(&scene, &format!("{commit}^{{tree}}")), evil)
            }
            "the commit" => {
                let evil = evil_tree(&scene, commit);
                let evil = run_git(&scene.root, &["commit-tree", &evil, "-p", base, "-m", "x"]);
                (commit.clone(), evil.trim().to_owned())
            }
            _ => (
                name_of(&scene, &format!("{base}:sub/inner")),
                evil_blob(&scene),
            ),
        };
        forge(&scene, &objects, &name, &evil);
        let applied = check(what, &scene, &changes).await;
        assert!(!applied, "{what} was not noticed");
    }
}

#[tokio::test]
async fn a_pack_that_names_objects_falsely_is_noticed() {
    let (scene, changes) = collected().await;
    let objects = scene.root.join(".git/objects");
    let name = name_of(&scene, &format!("{}:sub/inner", changes.commit));
    forge(&scene, &objects, &name, &evil_blob(&scene));
    // `pack-objects` trusts the name; the loose object is removed.
    let mut command = plain_git(
        &scene.root,
        &["pack-objects", "-q", ".git/objects/pack/pack"],
    );
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().expect("started");
    let mut stdin = child.stdin.take().expect("a pipe");
    writeln!(stdin, "{name}").expect("written");
    drop(stdin);
    assert!(child.wait().expect("ended").success());
    fs::remove_file(loose(&objects, &name)).expect("removed");
    let read = run_git(&scene.root, &["cat-file", "blob", &name]);
    assert_eq!(read, EVIL, "git itself notices nothing");
    assert!(!check("a pack", &scene, &changes).await);
}

#[tokio::test]
async fn borrowed_objects_are_checked_too() {
    let (scene, changes) = collected().await;
    let objects = scene.root.join(".git/objects");
    let name = name_of(&scene, &format!("{}:sub/inner", changes.commit));
    let lender = scene.home.path().join("lender/objects");
    forge(&scene, &lender, &name, &evil_blob(&scene));
    fs::create_dir_all(objects.join("info")).expect("made");
    let list = format!("{}\n", lender.display());
    fs::write(objects.join("info/alternates"), list).expect("written");
    fs::remove_file(loose(&objects, &name)).expect("removed");
    assert!(!check("a lender", &scene, &changes).await);
}

#[tokio::test]
async fn replacements_grafts_and_shallow_marks_have_no_effect() {
    for what in ["replace", "grafts", "shallow", "commit-graph"] {
        let (scene, changes) = collected().await;
        let commit = &changes.commit;
        match what {
            "replace" => {
                let name = name_of(&scene, &format!("{commit}:sub/inner"));
                run_git(&scene.root, &["replace", &name, &evil_blob(&scene)]);
                let evil = evil_tree(&scene, commit);
                let tree = name_of(&scene, &format!("{commit}^{{tree}}"));
                run_git(&scene.root, &["replace", &tree, &evil]);
            }
            "grafts" => {
                fs::create_dir_all(scene.root.join(".git/info")).expect("made");
                fs::write(scene.root.join(".git/info/grafts"), commit).expect("written");
            }
            "shallow" => {
                fs::write(scene.root.join(".git/shallow"), format!("{commit}\n")).expect("written");
            }
            _ => {
                run_git(&scene.root, &["commit-graph", "write", "--reachable"]);
                let graph = scene.root.join(".git/objects/info/commit-graph");
                let mut bytes = fs::read(&graph).expect("read");
                let evil = evil_tree(&scene, commit);
                let tree = name_of(&scene, &format!("{commit}^{{tree}}"));
                let (tree, evil) = (hex(&tree), hex(&evil));
                let at = bytes.windows(20).position(|part| part == tree);
                let at = at.expect("the tree of the commit");
                bytes[at..at + 20].copy_from_slice(&evil);
                fs::remove_file(&graph).expect("removed");
                fs::write(&graph, bytes).expect("written");
            }
        }
        assert!(check(what, &scene, &changes).await, "{what}");
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(&String::from_utf8_lossy(pair), 16).expect("hex"))
        .collect()
}
