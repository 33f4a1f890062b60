//! Ways out of the workspace, and proof that none works.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use sortie_core::Tool;

use super::*;
use crate::blocking::never;
use crate::testing::{Folder, call};

const SECRET: &str = "secret";
/// How often each tool tries to get through a folder that is swapped under it.
const RACE_OPERATIONS: usize = 20_000;

/// A workspace with every trap we know, and a folder outside it.
struct Trap {
    inside: Folder,
    outside: Folder,
}

impl Trap {
    fn set() -> Self {
        let inside = Folder::with(&[("in/file", "mine"), ("in/deep/er", "mine")]);
        let outside = Folder::with(&[("file", SECRET), ("deep/er", SECRET)]);
        inside.link("abs", outside.path());
        inside.link("abs_file", &outside.path().join("file"));
        inside.link("up", Path::new("../.."));
        inside.link("in/up", Path::new("../../.."));
        inside.link("magic", Path::new("/proc/self/root"));
        inside.link("cwd", Path::new("/proc/self/cwd"));
        inside.link("loop", Path::new("loop"));
        inside.link("chain", Path::new("in/up"));
        inside.link("good", Path::new("in/file"));
        inside.link("good_folder", Path::new("in/deep"));
        inside.link("dangling", &outside.path().join("not_yet"));
        inside.fifo("fifo");
        std::fs::hard_link(outside.path().join("file"), inside.path().join("hard")).unwrap();
        Self { inside, outside }
    }

    fn ways_out(&self) -> Vec<String> {
        let outside = self.outside.path().display().to_string();
        let name = self.outside.path().file_name().unwrap().to_string_lossy();
        let inside = self.inside.path().display().to_string();
        vec![
            format!("{outside}/file"),
            format!("../{name}/file"),
            format!("in/../../{name}/file"),
            format!("in/deep/../../../{name}/file"),
            format!("{inside}/../{name}/file"),
            "abs/file".into(),
            "abs/deep/er".into(),
            "abs_file".into(),
            format!("up/{outside}/file"),
            format!("up/{name}/file"),
            format!("in/up/{name}/file"),
            format!("chain/{name}/file"),
            format!("magic{outside}/file"),
            "magic/etc/passwd".into(),
            "cwd/Cargo.toml".into(),
            format!("/proc/self/root{outside}/file"),
            format!("/proc/self/root{inside}/in/file"),
            "/proc/self/environ".into(),
            "/dev/stdin".into(),
            "loop".into(),
            "loop/x".into(),
            "dangling".into(),
            "dangling/x".into(),
            "fifo".into(),
            "in/file/../../../x".into(),
            "..".into(),
            "/".into(),
            "nul\0byte".into(),
            "x".repeat(5000),
        ]
    }

    fn assert_untouched(&self) {
        assert_eq!(self.outside.read("file"), SECRET);
        assert_eq!(self.outside.read("deep/er"), SECRET);
        let count = std::fs::read_dir(self.outside.path()).unwrap().count();
        assert_eq!(count, 2, "nothing was created outside");
    }
}

fn resolvers(folder: &Folder) -> [Workspace; 2] {
    [
        folder.workspace(),
        folder.workspace().with_components_only(),
    ]
}

fn read(workspace: &Workspace, path: &str) -> Result<String, ToolFailure> {
    let bytes = workspace.read(&workspace.locate(path)?, 1 << 20)?;
    Ok(String::from_utf8(bytes).unwrap())
}

fn write(workspace: &Workspace, path: &str, text: &str) -> Result<(), ToolFailure> {
    let place = workspace.place(&workspace.locate(path)?, Parents::Create)?;
    let existing = place.existing()?;
    let new = NewContent {
        bytes: text.as_bytes(),
        temporary: ".sortie-test.tmp",
        replaces: existing.as_ref().map(|open| &open.stat),
    };
    place.replace(&new, &never())
}

#[test]
fn no_way_leads_out() {
    let trap = Trap::set();
    for workspace in resolvers(&trap.inside) {
        for path in trap.ways_out() {
            let read = read(&workspace, &path);
            assert!(read.is_err(), "{path} was read: {read:?}");
            let entries = workspace
                .locate(&path)
                .and_then(|path| workspace.entries(&path));
            assert!(entries.is_err(), "{path} was listed: {entries:?}");
            let written = write(&workspace, &path, "mine now");
            assert!(written.is_err(), "{path} was written");
            trap.assert_untouched();
        }
    }
}

#[tokio::test]
async fn no_tool_gets_out() {
    let trap = Trap::set();
    let settings = crate::ExecSettings {
        environment: Vec::new(),
    };
    let calls = |path: &str| -> Vec<(Box<dyn Tool>, Value)> {
        vec![
            (Box::new(crate::ReadFile::new()), json!({"path": path})),
            (Box::new(crate::ListDir::new()), json!({"path": path})),
            (
                Box::new(crate::Glob::new()),
                json!({"path": path, "pattern": "*"}),
            ),
            (
                Box::new(crate::Grep::new()),
                json!({"path": path, "pattern": "secret"}),
            ),
            (
                Box::new(crate::WriteFile::new()),
                json!({"path": path, "content": "mine now"}),
            ),
            (
                Box::new(crate::EditFile::new()),
                json!({"path": path, "old_string": "secret", "new_string": "mine now"}),
            ),
            (
                Box::new(crate::Exec::new(settings.clone())),
                json!({"workdir": path, "command": "echo inside"}),
            ),
        ]
    };
    for path in trap.ways_out() {
        for (tool, arguments) in calls(&path) {
            let reply = call(tool.as_ref(), &trap.inside, arguments).await;
            assert!(reply.is_err(), "{} {path}: {reply:?}", tool.spec().name);
            trap.assert_untouched();
        }
    }
    let everywhere = json!({"pattern": SECRET, "output": "files"});
    let found = call(&crate::Grep::new(), &trap.inside, everywhere).await;
    assert_eq!(found.unwrap(), "hard", "only the shared file is readable");
}

#[test]
fn failures_say_what_to_do() {
    let trap = Trap::set();
    let root = trap.inside.path().display().to_string();
    let check = |path: &str, expected: &str| {
        let failure = read(&trap.inside.workspace(), path)
            .unwrap_err()
            .to_string();
        assert_eq!(failure.replace(&root, "ROOT"), expected);
    };
    let outside = "leads outside the workspace ROOT. File tools work only inside it: use a path relative to it.";
    check("/etc/passwd", &format!("/etc/passwd {outside}"));
    check("../x", &format!("../x {outside}"));
    check("abs/file", &format!("abs/file {outside}"));
    check(
        "loop",
        "loop goes through a symbolic link that file tools do not follow. Use the real path.",
    );
    check(
        "fifo",
        "fifo is a pipe, a socket or a device. File tools work with regular files only.",
    );
}

#[test]
fn what_lies_inside_is_reached() {
    let trap = Trap::set();
    let root = trap.inside.path().display().to_string();
    let [kernel, components] = resolvers(&trap.inside);
    let check = |path: &str, by_components: bool| {
        assert_eq!(read(&kernel, path).unwrap(), "mine", "{path}");
        let read = read(&components, path);
        assert_eq!(read.is_ok(), by_components, "{path}: {read:?}");
    };
    check("in/file", true);
    check("./in//./file", true);
    check("in/deep/../file", true);
    check(&format!("{root}/in/file"), true);
    check("good", false);
    check("good_folder/er", false);
}

#[test]
fn the_root_may_be_spelled_through_a_link() {
    let trap = Trap::set();
    let elsewhere = Folder::with(&[]);
    elsewhere.link("alias", trap.inside.path());
    let alias = elsewhere.path().join("alias");
    let workspace = Workspace::open(&alias).unwrap();
    for root in [alias.as_path(), trap.inside.path()] {
        let path = root.join("in/file").display().to_string();
        assert_eq!(read(&workspace, &path).unwrap(), "mine");
    }
}

#[test]
fn a_hard_link_is_read_but_never_written_through() {
    let trap = Trap::set();
    for workspace in resolvers(&trap.inside) {
        trap.assert_untouched();
        write(&workspace, "hard", "mine").unwrap();
        assert_eq!(read(&workspace, "hard").unwrap(), "mine");
        trap.assert_untouched();
    }
}

#[test]
fn a_file_changed_meanwhile_is_not_overwritten() {
    let folder = Folder::with(&[("f", "old")]);
    let workspace = folder.workspace();
    let place = workspace.place(Path::new("f"), Parents::Require).unwrap();
    let existing = place.existing().unwrap().unwrap();
    folder.write("f", b"theirs");
    let new = NewContent {
        bytes: b"ours",
        temporary: ".sortie-test.tmp",
        replaces: Some(&existing.stat),
    };
    let failure = place.replace(&new, &never()).unwrap_err();
    assert!(
        failure.to_string().contains("was changed by somebody else"),
        "{failure}"
    );
    assert_eq!(folder.read("f"), "theirs");
    assert!(!folder.has_leftovers());
}

/// One thread swaps a folder with a link to the outside, as fast as it can, while another works
/// through it.
fn race(open: impl Fn(&Folder) -> Workspace) {
    let inside = Folder::with(&[("swap/file", "mine")]);
    let outside = Folder::with(&[("file", SECRET)]);
    inside.link("bait", outside.path());
    let (swap, bait) = (inside.path().join("swap"), inside.path().join("bait"));
    let done = AtomicBool::new(false);
    let (mut through, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        let swapping = scope.spawn(|| {
            let mut swaps = 0_usize;
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, &swap, CWD, &bait, RenameFlags::EXCHANGE).unwrap();
                swaps += 1;
            }
            swaps
        });
        // Also when an operation fails the test: the other thread must not go on for ever.
        let ending = SetOnDrop(&done);
        let workspace = open(&inside);
        for number in 0..RACE_OPERATIONS {
            let happened = match number % 4 {
                0 => write_raw(&workspace, &format!("swap/new{}", number % 7)).is_ok(),
                1 => workspace.entries(Path::new("swap")).is_ok(),
                _ => match read(&workspace, "swap/file") {
                    Ok(text) => {
                        assert_eq!(text, "mine", "operation {number} read the outside");
                        true
                    }
                    Err(_) => false,
                },
            };
            *if happened { &mut through } else { &mut refused } += 1;
        }
        drop(ending);
        assert!(swapping.join().unwrap() > 0);
    });
    assert_eq!(outside.read("file"), SECRET);
    let count = std::fs::read_dir(outside.path()).unwrap().count();
    assert_eq!(count, 1, "nothing was created outside");
    assert!(
        through > 0 && refused > 0,
        "a race shows both: {through} through, {refused} refused"
    );
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A write without waiting for the disk, which would leave no time for the race.
fn write_raw(workspace: &Workspace, path: &str) -> Result<(), ToolFailure> {
    let place = workspace.place(Path::new(path), Parents::Create)?;
    let new = NewContent {
        bytes: b"mine",
        temporary: ".sortie-test.tmp",
        replaces: None,
    };
    let failed = |error: std::io::Error| ToolFailure::new(error.to_string());
    let temporary = Temporary::create(&place.parent, &new).map_err(failed)?;
    temporary.rename_to(&place.name).map_err(failed)
}

#[test]
fn swapping_folders_opens_no_way_out() {
    race(Folder::workspace);
}

#[test]
fn swapping_folders_opens_no_way_out_without_the_kernels_help() {
    race(|folder| folder.workspace().with_components_only());
}

/// The race is one: resolving first and opening afterwards loses it.
#[test]
fn checking_first_and_opening_later_would_lose_the_race() {
    let inside = Folder::with(&[("swap/file", "mine")]);
    let outside = Folder::with(&[("file", SECRET)]);
    inside.link("bait", outside.path());
    let (swap, bait) = (inside.path().join("swap"), inside.path().join("bait"));
    let root = std::fs::canonicalize(inside.path()).unwrap();
    let path = swap.join("file");
    let exchange = || renameat_with(CWD, &swap, CWD, &bait, RenameFlags::EXCHANGE).unwrap();
    assert!(std::fs::canonicalize(&path).unwrap().starts_with(&root));
    exchange();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), SECRET);
}
