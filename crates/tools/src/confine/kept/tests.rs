//! Tests with a home folder as the workspace, and links of every kind.

use std::sync::Arc;

use serde_json::{Value, json};
use sortie_core::ports::tool::Tool;

use super::*;
use crate::confine::{Parents, Workspace};
use crate::testing::{Folder, call};
use crate::{EditFile, Glob, Grep, ListDir, ReadFile, WriteFile};

const SECRET: &str = "swordfish\n";

/// Creates a home folder with secrets, ordinary files, and links between them.
fn home() -> Folder {
    let home = Folder::with(&[
        (".ssh/id_ed25519", SECRET),
        (".config/gh/hosts.yml", SECRET),
        (".config/other/f", "fine\n"),
        (".config/fish/config.fish", "alias\n"),
        (".state/trusted.json", SECRET),
        (".state/trees/one/f", "fine\n"),
        (".bashrc", "alias\n"),
        ("dotfiles/zshrc", "alias\n"),
        ("dotfiles/aws/credentials", SECRET),
        ("work/f", "fine\n"),
    ]);
    home.link(".zshrc", Path::new("dotfiles/zshrc"));
    home.link(".aws", &home.path().join("work/../dotfiles/aws"));
    home.link(".docker", Path::new("work/later"));
    home.link("work/way", Path::new("../.ssh"));
    home.link("work/key", Path::new("../.ssh/id_ed25519"));
    home.link("work/start", Path::new("../.config"));
    home
}

fn kept(home: &Path) -> Kept {
    Kept::of(&Places {
        home: Some(home.to_owned()),
        own: vec![home.join(".state")],
        ..Places::default()
    })
}

/// Returns the permitted access to a path: `r` for reading, `w` for writing.
fn may(workspace: &Workspace, path: &str) -> String {
    let path = Path::new(path);
    let reads = workspace.find_file(path).is_ok_and(|open| open.is_some());
    let place = workspace.place(path, Parents::Create);
    let writes = place.is_ok_and(|place| place.existing().is_ok());
    format!(
        "{}{}",
        if reads { "r" } else { "" },
        if writes { "w" } else { "" }
    )
}

/// Checks the permitted access. Without `openat2` no link is followed, so that no more may be
/// permitted.
fn check(root: &str, path: &str, expected: &str) {
    let home = home();
    let kept = kept(home.path());
    let open = || Workspace::open(&home.path().join(root)).unwrap();
    let kernel = open().keeping(&kept).unwrap();
    assert_eq!(may(&kernel, path), expected, "{path} in {root}");
    let components = open().with_components_only().keeping(&kept).unwrap();
    let may_without = may(&components, path);
    assert!(
        expected.starts_with(&may_without),
        "{path} in {root}, by components: {may_without}"
    );
}

/// Checks the permitted access, and that more would be permitted without the protected places:
/// otherwise the case would prove nothing.
fn check_kept(root: &str, path: &str, expected: &str) {
    check(root, path, expected);
    let home = home();
    let workspace = Workspace::open(&home.path().join(root)).unwrap();
    let without = may(&workspace, path);
    assert_ne!(without, expected, "the control: {path} in {root}");
}

#[test]
fn ordinary_files_of_a_home_folder_are_usable() {
    check(".", "work/f", "rw");
    check(".", "work/new/deep", "w");
    check(".", ".config/other/f", "rw");
    check(".", ".sshx/f", "w");
    check(".", ".config/new", "w");
}

#[test]
fn secrets_of_a_home_folder_are_hidden() {
    for path in [
        ".ssh/id_ed25519",
        ".ssh/new",
        ".SSH/new",
        ".ssh/new/deep",
        "work/../.ssh/id_ed25519",
        "work/key",
        "work/way/id_ed25519",
        "work/way/new/deep",
        "work/start/gh/hosts.yml",
        "work/start/gcloud/new",
        ".config/gh/hosts.yml",
        ".netrc",
        "dotfiles/aws/credentials",
        "dotfiles/aws/new",
        "work/later",
        "work/later/config.json",
        ".state/trusted.json",
        ".state/new",
    ] {
        check_kept(".", path, "");
    }
}

#[test]
fn login_files_are_not_writable() {
    for (path, expected) in [
        (".bashrc", "r"),
        (".profile", ""),
        (".config/autostart/new.desktop", ""),
        ("work/start/autostart/new.desktop", ""),
        (".local/bin/ls", ""),
        ("dotfiles/zshrc", "r"),
    ] {
        check_kept(".", path, expected);
    }
}

#[test]
fn protected_places_apply_in_other_workspaces() {
    check("work", "f", "rw");
    // The target of a link from a protected place is protected too.
    check_kept("dotfiles", "zshrc", "r");
    check_kept("dotfiles", "aws/credentials", "");
    // A worktree that Sortie created is inside its own folder and must be usable.
    check(".state/trees/one", "f", "rw");
    check_kept(".state", "trees/one/f", "");
    check_kept(".ssh", "id_ed25519", "");
    check(".config/fish", "config.fish", "rw");
    check_kept(".config", "fish/config.fish", "r");
}

#[test]
fn home_folder_named_through_a_link_is_protected() {
    let home = home();
    let elsewhere = Folder::with(&[]);
    elsewhere.link("alias", home.path());
    let alias = elsewhere.path().join("alias");
    let workspace = home.workspace().keeping(&kept(&alias)).unwrap();
    assert_eq!(may(&workspace, ".ssh/id_ed25519"), "");
    assert_eq!(may(&workspace, ".bashrc"), "r");
    assert_eq!(may(&workspace, "work/f"), "rw");
}

#[test]
fn a_loop_of_links_ends() {
    let home = Folder::with(&[]);
    home.link(".ssh", Path::new(".aws"));
    home.link(".aws", Path::new(".ssh"));
    let root = std::fs::canonicalize(home.path()).unwrap();
    let inside = kept(home.path()).inside(&root, Instant::now());
    assert!(inside.hides(Path::new(".ssh/x")) && !inside.hides(Path::new("x")));
}

#[test]
fn link_that_an_agent_makes_protects_its_target_at_once() {
    let home = home();
    let kept = kept(home.path());
    let now = Instant::now();
    // The way to `.docker` leads through the first folder, and the second one contains `.gnupg`.
    for (root, link, target) in [
        ("work", "work/later", "f"),
        (".", ".gnupg", "dotfiles/zshrc"),
    ] {
        let root = std::fs::canonicalize(home.path().join(root)).unwrap();
        assert!(!kept.inside(&root, now).hides(Path::new(target)), "{link}");
        home.link(link, Path::new(target));
        assert!(kept.inside(&root, now).hides(Path::new(target)), "{link}");
    }
}

#[test]
fn link_that_the_user_makes_protects_its_target_within_a_second() {
    let home = home();
    let kept = kept(home.path());
    let root = std::fs::canonicalize(home.path().join(".state/trees/one")).unwrap();
    let (now, secret) = (Instant::now(), Path::new("f"));
    assert!(!kept.inside(&root, now).hides(secret));
    assert_eq!(kept.without.lock().unwrap().len(), 1, "it is remembered");
    home.link(".netrc", &root.join("f"));
    assert!(!kept.inside(&root, now).hides(secret));
    assert!(kept.inside(&root, now + REMEMBERED_FOR).hides(secret));
}

fn hidden(path: &str) -> String {
    format!(
        "! {path} belongs to the secrets of a person or to Sortie's own files, which file tools do not use. Work with another file, or report what you need."
    )
}

async fn check_tool(home: &Folder, tool: &dyn Tool, arguments: Value, expected: &str) {
    let reply = call(tool, home, arguments.clone()).await;
    let text = reply.unwrap_or_else(|failure| format!("! {failure}"));
    assert_eq!(text, expected, "{arguments}");
}

#[tokio::test]
async fn no_tool_shows_a_secret() {
    let home = home();
    let kept = Arc::new(kept(home.path()));
    let check = async |tool: &dyn Tool, arguments: Value, expected: &str| {
        check_tool(&home, tool, arguments, expected).await;
    };
    let key = ".ssh/id_ed25519";
    let read = ReadFile::keeping(&kept);
    check(&read, json!({"path": key}), &hidden(key)).await;
    check(&read, json!({"path": "work/key"}), &hidden("work/key")).await;
    let list = ListDir::keeping(&kept);
    check(&list, json!({"path": ".ssh"}), &hidden(".ssh")).await;
    check(
        &list,
        json!({"path": ".config", "depth": 3}),
        "fish/\n  config.fish (6 B)\nother/\n  f (5 B)\n(1 left out: policy does not permit them)",
    )
    .await;
    let grep = Grep::keeping(&kept);
    check(
        &grep,
        json!({"pattern": "swordfish|fine", "output": "files"}),
        ".config/other/f\nwork/f\n(6 left out: policy does not permit them)",
    )
    .await;
    check(&grep, json!({"pattern": "s", "path": key}), &hidden(key)).await;
    let glob = Glob::keeping(&kept);
    let keys = json!({"pattern": "id_*", "path": "work/way"});
    check(&glob, keys, &hidden("work/way")).await;
}

#[tokio::test]
async fn no_tool_changes_a_protected_file() {
    let home = home();
    let kept = Arc::new(kept(home.path()));
    let new = ".ssh/authorized_keys";
    let write = WriteFile::keeping(&kept);
    let arguments = json!({"path": new, "content": "x"});
    check_tool(&home, &write, arguments, &hidden(new)).await;
    assert!(!home.path().join(new).exists());
    let edit = EditFile::keeping(&kept);
    let arguments = json!({"path": ".bashrc", "old_string": "alias", "new_string": "x"});
    let protected = "! .bashrc is protected: programs of a person read or run it automatically. Do not write it; report what it should contain.";
    check_tool(&home, &edit, arguments, protected).await;
    assert_eq!(home.read(".bashrc"), "alias\n");
}
