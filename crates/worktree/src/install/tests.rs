use std::collections::BTreeMap;

use super::*;

/// A checkout with files, and new files staged for it.
struct Scene {
    _home: tempfile::TempDir,
    place: Installation,
    plan: Plan,
}

/// Creates five steps: a folder is removed, a file becomes a folder, one is replaced, one is added,
/// a link is added.
fn scene() -> Scene {
    let home = tempfile::tempdir().expect("a folder");
    let home_path = fs::canonicalize(home.path()).expect("found");
    let root = home_path.join("root");
    let place = Installation {
        root: root.clone(),
        staging: home_path.join("ours/staging"),
    };
    for (path, text) in [
        ("gone/a", "a"),
        ("b", "b"),
        ("kept", "kept"),
        ("c", "old c"),
    ] {
        write(&root.join(path), text);
    }
    fs::create_dir_all(root.join("empty")).expect("a folder");
    let new = stage_folder(&place).expect("staged");
    for (path, text) in [("b/inner", "inner"), ("c", "new c"), ("deep/er/d", "d")] {
        write(&new.join(path), text);
    }
    std::os::unix::fs::symlink("nowhere", new.join("link")).expect("a link");
    let step = |path: &str, kind| Step {
        path: path.as_bytes().to_vec(),
        kind,
        object: None,
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
        place,
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    fs::write(path, text).expect("written");
}

/// Returns everything below a folder, as text.
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
    assert_eq!(shown(&scene.place.root), BEFORE);
    let done = install(&scene.place, &scene.plan).expect("installed");
    assert_eq!(done, Installed::All);
    assert_eq!(shown(&scene.place.root), AFTER);
    assert_eq!(
        shown(scene.place.staging.parent().expect("ours")),
        "",
        "nothing is left behind"
    );
}

#[test]
fn files_come_from_another_file_system_whole() {
    let scene = scene();
    let staged = fs::metadata(scene.place.staging.join("new/c")).expect("seen");
    let installer = Installer::begin(&scene.place, &scene.plan, true).expect("begun");
    for number in 0..6 {
        assert!(installer.perform(number).expect("performed"), "{number}");
    }
    let copy = fs::metadata(scene.place.root.join("c")).expect("seen");
    assert_ne!(copy.ino(), staged.ino(), "it was copied, not moved");
    assert!(Stamp::of(&copy).is_like(&Stamp::of(&staged)));
    installer.finish().expect("finished");
    assert_eq!(shown(&scene.place.root), AFTER);
}

#[test]
fn crash_after_any_step_restores_every_file() {
    for (is_far, steps) in [false, true]
        .into_iter()
        .flat_map(|is_far| (0..=6).map(move |steps| (is_far, steps)))
    {
        let scene = scene();
        let installer = Installer::begin(&scene.place, &scene.plan, is_far).expect("begun");
        for number in 0..steps {
            assert!(installer.perform(number).expect("performed"), "{number}");
        }
        if steps > 0 {
            assert_ne!(shown(&scene.place.root), BEFORE, "after {steps} steps");
        }
        drop(installer);
        assert!(recover(&scene.place).expect("recovered"));
        assert_eq!(shown(&scene.place.root), BEFORE, "after {steps} steps");
        assert_eq!(
            shown(scene.place.staging.parent().expect("ours")),
            "",
            "after {steps} steps"
        );
        assert!(!recover(&scene.place).expect("nothing to do"));
    }
}

#[test]
fn crash_during_undo_is_recovered() {
    for (is_far, undone) in [false, true]
        .into_iter()
        .flat_map(|is_far| (0..6).map(move |undone| (is_far, undone)))
    {
        let scene = scene();
        let installer = Installer::begin(&scene.place, &scene.plan, is_far).expect("begun");
        for number in 0..6 {
            installer.perform(number).expect("performed");
        }
        for number in (undone..6).rev() {
            installer.undo_step(number).expect("undone");
        }
        drop(installer);
        recover(&scene.place).expect("recovered");
        assert_eq!(shown(&scene.place.root), BEFORE, "after {undone} were left");
    }
}

#[test]
fn a_file_that_changed_meanwhile_stops_everything() {
    for path in ["gone/a", "b", "c"] {
        let scene = scene();
        write(&scene.place.root.join(path), "somebody's own words");
        let before = shown(&scene.place.root);
        let done = install(&scene.place, &scene.plan).expect("undone");
        assert_eq!(
            done,
            Installed::Nothing {
                path: path.as_bytes().to_vec()
            }
        );
        assert_eq!(shown(&scene.place.root), before, "{path}");
    }
}

#[test]
fn link_on_the_path_is_not_followed() {
    let scene = scene();
    let outside = scene.place.root.with_file_name("outside");
    fs::create_dir_all(outside.join("er")).expect("a folder");
    std::os::unix::fs::symlink(&outside, scene.place.root.join("deep")).expect("a link");
    let done = install(&scene.place, &scene.plan).expect("undone");
    let path = b"deep/er/d".to_vec();
    assert_eq!(done, Installed::Nothing { path });
    assert_eq!(shown(&outside), "er/\n");
}

#[test]
fn copy_left_beside_its_place_by_a_crash_is_removed() {
    let scene = scene();
    let installer = Installer::begin(&scene.place, &scene.plan, true).expect("begun");
    for number in 0..4 {
        installer.perform(number).expect("performed");
    }
    write(&scene.place.root.join(installer.passing(3)), "half");
    drop(installer);
    recover(&scene.place).expect("recovered");
    assert_eq!(shown(&scene.place.root), BEFORE);
}

/// Writes a plan whose undo puts a file at a path.
fn plant(staging: &Path, path: &str) {
    let stamp = serde_json::json!({"inode": 0, "size": 0, "mode": 0, "modified": [0, 0]});
    let plan = serde_json::json!({
        "steps": [{"path": path.as_bytes(), "kind": "Remove", "stamp": stamp}],
        "staged": [null],
        "made": [],
        "token": 0,
        "is_far": false,
    });
    write(&staging.join("old/0"), "planted");
    write(&staging.join("plan.json"), &plan.to_string());
}

#[test]
fn a_plan_in_the_repository_is_not_followed() {
    for (is_ours, expected) in [(true, "planted"), (false, "")] {
        let scene = scene();
        let staging = if is_ours {
            scene.place.staging.clone()
        } else {
            scene.place.root.join(".git/sortie-apply")
        };
        plant(&staging, "deep/file");
        assert_eq!(recover(&scene.place).expect("looked"), is_ours);
        let text = fs::read_to_string(scene.place.root.join("deep/file"));
        assert_eq!(text.unwrap_or_default(), expected, "ours: {is_ours}");
        assert_eq!(staging.join("plan.json").exists(), !is_ours);
    }
}

#[test]
fn no_plan_leads_out_of_the_checkout() {
    // Nothing is restored through a link, although the plan is otherwise valid.
    for (path, is_refused) in [
        ("../outside/file", true),
        ("/outside/file", true),
        ("a/../../outside/file", true),
        (".git/hooks/post-checkout", true),
        (".GIT/config", true),
        ("kept/../.git/config", true),
        ("a//b", true),
        ("", true),
        ("link/file", false),
        ("link/deeper/file", false),
    ] {
        let scene = scene();
        let root = &scene.place.root;
        let outside = root.with_file_name("outside");
        for folder in [&outside, &root.join(".git/hooks")] {
            fs::create_dir_all(folder).expect("a folder");
        }
        std::os::unix::fs::symlink(&outside, root.join("link")).expect("a link");
        let before = shown(root);
        plant(&scene.place.staging, path);
        let refused = matches!(recover(&scene.place), Err(WorktreeError::UnsafePlan(_)));
        assert_eq!(refused, is_refused, "{path:?}");
        assert_eq!(shown(root), before, "{path:?}");
        assert_eq!(shown(&outside), "", "{path:?}");
    }
}

#[test]
fn a_step_checks_its_path_itself() {
    let scene = scene();
    let mut installer = Installer::begin(&scene.place, &scene.plan, false).expect("begun");
    for path in ["../x", "/x", ".git/x", "a//x"] {
        installer.written.steps[4].path = path.into();
        let refused = |done: io::Result<()>| done.expect_err("refused").kind();
        let performed = refused(installer.perform(4).map(drop));
        assert_eq!(performed, io::ErrorKind::PermissionDenied, "{path}");
        let undone = refused(installer.undo_step(4));
        assert_eq!(undone, io::ErrorKind::PermissionDenied, "{path}");
    }
}

#[test]
fn a_checkout_behind_a_link_is_not_touched() {
    let scene = scene();
    let moved = scene.place.root.with_file_name("moved");
    fs::rename(&scene.place.root, &moved).expect("renamed");
    std::os::unix::fs::symlink(&moved, &scene.place.root).expect("a link");
    install(&scene.place, &scene.plan).expect_err("refused");
    assert_eq!(shown(&moved), BEFORE);
}
