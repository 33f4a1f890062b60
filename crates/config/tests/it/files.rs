//! Tests of finding the project file.

use std::fs;

use sortie_config::{find_project_file, project_folder};
use tempfile::TempDir;

use crate::support::folder;

/// Creates these files (folders end in `/`) and searches from the folder `from`.
fn check(made: &[&str], from: &str, expected: Option<&str>) {
    let root = TempDir::new().unwrap();
    let root = root.path().canonicalize().unwrap();
    folder(&root, from);
    for path in made {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = folder(&root, parent);
        if !name.is_empty() {
            fs::write(parent.join(name), "").unwrap();
        }
    }
    let found = find_project_file(&root.join(from));
    let found = found.map(|file| file.strip_prefix(&root).unwrap().display().to_string());
    assert_eq!(found.as_deref(), expected, "{made:?} from {from}");
}

#[test]
fn the_nearest_file_up_to_the_root_of_the_repository() {
    check(&["r/.git/", "r/sortie.toml"], "r", Some("r/sortie.toml"));
    check(
        &["r/.git/", "r/sortie.toml"],
        "r/a/b",
        Some("r/sortie.toml"),
    );
    check(&["r/.git", "r/sortie.toml"], "r/a", Some("r/sortie.toml"));
    check(
        &["r/.git/", "r/.sortie/sortie.toml"],
        "r/a/b",
        Some("r/.sortie/sortie.toml"),
    );
    check(
        &["r/.git/", "r/sortie.toml", "r/a/.sortie/sortie.toml"],
        "r/a/b",
        Some("r/a/.sortie/sortie.toml"),
    );
    check(
        &["r/.git/", "r/sortie.toml", "r/.sortie/sortie.toml"],
        "r",
        Some("r/sortie.toml"),
    );
    check(&["sortie.toml", "r/.git/"], "r/a", None);
    check(&["r/.git/", "r/sortie.toml", "r/sub/.git"], "r/sub/a", None);
    check(&["r/.git/", "r/sortie.toml/"], "r", None);
}

#[test]
fn outside_a_repository_only_the_folder_itself() {
    check(&["a/sortie.toml"], "a", Some("a/sortie.toml"));
    check(
        &["a/.sortie/sortie.toml"],
        "a",
        Some("a/.sortie/sortie.toml"),
    );
    check(&["a/sortie.toml"], "a/b", None);
    assert_eq!(find_project_file("no/such/folder".as_ref()), None);
}

#[test]
fn the_folder_of_a_file() {
    for (file, expected) in [
        ("/a/b/sortie.toml", "/a/b"),
        ("/a/b/.sortie/sortie.toml", "/a/b"),
    ] {
        assert_eq!(project_folder(file.as_ref()), Some(expected.as_ref()));
    }
}
