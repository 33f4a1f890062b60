use std::collections::BTreeMap;

use super::*;

/// A checkout with files, and new ones staged for it.
struct Scene {
    _home: tempfile::TempDir,
    root: PathBuf,
    git_dir: PathBuf,
    plan: Plan,
}

/// Five steps: a folder goes, a file becomes a folder, one is replaced, one comes, a link comes.
fn scene() -> Scene {
    let home = tempfile::tempdir().expect("a folder");
    let root = home.path().join("root");
    let git_dir = home.path().join("git");
    for (path, text) in [
        ("gone/a", "a"),
        ("b", "b"),
        ("kept", "kept"),
        ("c", "old c"),
    ] {
        write(&root.join(path), text);
    }
    fs::create_dir_all(root.join("empty")).expect("a folder");
    let new = stage_folder(&git_dir).expect("staged");
    for (path, text) in [("b/inner", "inner"), ("c", "new c"), ("deep/er/d", "d")] {
        write(&new.join(path), text);
    }
    std::os::unix::fs::symlink("nowhere", new.join("link")).expect("a link");
    let step = |path: &str, kind| Step {
        path: path.as_bytes().to_vec(),
        kind,
        stamp: fs::symlink_metadata(root.join(path))
            .ok()
            .as_ref()
            .map(Stamp::of),
    };
    let steps = vec![
        step("gone/a", Kind::Remove),
        step("b", Kind::Remove),
        step("b/inner", Kind::Add),
        step("c", Kind::Replace),
        step("deep/er/d", Kind::Add),
        step("link", Kind::Add),
    ];
    Scene {
        _home: home,
        plan: Plan { steps },
        root,
        git_dir,
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    fs::write(path, text).expect("written");
}

/// Everything below a folder, as text.
fn shown(folder: &Path) -> String {
    fn add(root: &Path, folder: &Path, found: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(folder).expect("listed") {
            let path = entry.expect("listed").path();
            let kind = fs::symlink_metadata(&path).expect("seen").file_type();
            let name = path
                .strip_prefix(root)
                .expect("below")
                .display()
                .to_string();
            if kind.is_dir() {
                found.insert(format!("{name}/"), String::new());
                add(root, &path, found);
            } else if kind.is_symlink() {
                let to = fs::read_link(&path).expect("read");
                found.insert(name, format!(" -> {}", to.display()));
            } else {
                let text = fs::read_to_string(&path).expect("read");
                found.insert(name, format!("={text}"));
            }
        }
    }
    let mut found = BTreeMap::new();
    add(folder, folder, &mut found);
    let lines = found.iter().map(|(name, text)| format!("{name}{text}\n"));
    lines.collect()
}

const BEFORE: &str = "b=b\nc=old c\nempty/\ngone/\ngone/a=a\nkept=kept\n";
const AFTER: &str = "b/\nb/inner=inner\nc=new c\ndeep/\ndeep/er/\ndeep/er/d=d\nempty/\nkept=kept\nlink -> nowhere\n";

#[test]
fn all_steps_are_done() {
    let scene = scene();
    assert_eq!(shown(&scene.root), BEFORE);
    let done = install(&scene.root, &scene.git_dir, &scene.plan).expect("installed");
    assert_eq!(done, Done::All);
    assert_eq!(shown(&scene.root), AFTER);
    assert_eq!(shown(&scene.git_dir), "", "nothing is left behind");
}

#[test]
fn a_death_after_any_step_leaves_everything_as_it_was() {
    for steps in 0..=6 {
        let scene = scene();
        let installer = Installer::begin(&scene.root, &scene.git_dir, &scene.plan).expect("begun");
        for number in 0..steps {
            assert!(installer.perform(number).expect("performed"), "{number}");
        }
        if steps > 0 {
            assert_ne!(shown(&scene.root), BEFORE, "after {steps} steps");
        }
        drop(installer);
        assert!(recover(&scene.root, &scene.git_dir).expect("recovered"));
        assert_eq!(shown(&scene.root), BEFORE, "after {steps} steps");
        assert_eq!(shown(&scene.git_dir), "", "after {steps} steps");
        assert!(!recover(&scene.root, &scene.git_dir).expect("nothing to do"));
    }
}

#[test]
fn a_death_in_the_middle_of_undoing_is_undone_too() {
    for undone in 0..6 {
        let scene = scene();
        let installer = Installer::begin(&scene.root, &scene.git_dir, &scene.plan).expect("begun");
        for number in 0..6 {
            installer.perform(number).expect("performed");
        }
        for number in (undone..6).rev() {
            installer.undo_step(number).expect("undone");
        }
        drop(installer);
        recover(&scene.root, &scene.git_dir).expect("recovered");
        assert_eq!(shown(&scene.root), BEFORE, "after {undone} were left");
    }
}

#[test]
fn a_file_that_changed_meanwhile_stops_everything() {
    for path in ["gone/a", "b", "c"] {
        let scene = scene();
        write(&scene.root.join(path), "somebody's own words");
        let before = shown(&scene.root);
        let done = install(&scene.root, &scene.git_dir, &scene.plan).expect("undone");
        assert_eq!(
            done,
            Done::Nothing {
                path: path.as_bytes().to_vec()
            }
        );
        assert_eq!(shown(&scene.root), before, "{path}");
    }
}

#[test]
fn a_link_in_the_way_leads_nowhere() {
    let scene = scene();
    let outside = scene.git_dir.with_file_name("outside");
    fs::create_dir_all(outside.join("er")).expect("a folder");
    std::os::unix::fs::symlink(&outside, scene.root.join("deep")).expect("a link");
    let done = install(&scene.root, &scene.git_dir, &scene.plan).expect("undone");
    let path = b"deep/er/d".to_vec();
    assert_eq!(done, Done::Nothing { path });
    assert_eq!(shown(&outside), "er/\n");
}
