//! Tests that try to escape from the workspace, and prove that none succeeds.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use sortie_core::ports::tool::Tool;

use super::place::draft;
use super::*;
use crate::blocking::never;
use crate::testing::{Folder, call};

const SECRET: &str = "secret";
/// The number of file operations on folders that are swapped meanwhile, in all races together.
const RACE_OPERATIONS: usize = 250_000;
/// The number of operations in each of the three races.
const PER_RACE: [usize; 3] = [150_000, 50_000, 50_000];

/// A workspace with every known trap, and a folder outside it.
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
fn no_path_escapes_the_workspace() {
    let trap = Trap::set();
    for workspace in resolvers(&trap.inside) {
        for path in trap.ways_out() {
            let read = read(&workspace, &path);
            assert!(read.is_err(), "{path} was read: {read:?}");
            let entries = workspace
                .locate(&path)
                .and_then(|path| workspace.list(&path));
            assert!(entries.is_err(), "{path} was listed: {entries:?}");
            let written = write(&workspace, &path, "mine now");
            assert!(written.is_err(), "{path} was written");
            trap.assert_untouched();
        }
    }
}

#[tokio::test]
async fn no_tool_escapes_the_workspace() {
    let trap = Trap::set();
    let calls = |path: &str| -> Vec<(Box<dyn Tool>, Value)> {
        vec![
            (Box::new(crate::ReadFile::default()), json!({"path": path})),
            (Box::new(crate::ListDir::default()), json!({"path": path})),
            (
                Box::new(crate::Glob::default()),
                json!({"path": path, "pattern": "*"}),
            ),
            (
                Box::new(crate::Grep::default()),
                json!({"path": path, "pattern": "secret"}),
            ),
            (
                Box::new(crate::WriteFile::default()),
                json!({"path": path, "content": "mine now"}),
            ),
            (
                Box::new(crate::EditFile::default()),
                json!({"path": path, "old_string": "secret", "new_string": "mine now"}),
            ),
            (
                Box::new(crate::Exec::new(crate::ExecSettings::default(), None)),
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
    let found = call(&crate::Grep::default(), &trap.inside, everywhere).await;
    assert_eq!(found.unwrap(), "hard", "only the shared file is readable");
}

#[test]
fn failures_explain_what_to_do_next() {
    let trap = Trap::set();
    let root = trap.inside.path().display().to_string();
    let check = |path: &str, expected: &str| {
        let failure = read(&trap.inside.workspace(), path)
            .unwrap_err()
            .to_string();
        assert_eq!(failure.replace(&root, "ROOT"), expected);
    };
    let outside = "leads outside the workspace ROOT. File tools work only inside it: use a path relative to it, or read the file with exec.";
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

/// Each of these overflowed the stack and ended the process: the failure of a missing file searched
/// for similar names in its folder, whose failure searched for those of the folder, one frame per
/// component.
#[tokio::test]
async fn paths_with_many_components_fail_without_stack_overflow() {
    let folder = Folder::with(&[("file", "text")]);
    let near = "a/".repeat(MAX_PATH_PARTS - 1) + "b";
    let far = "a/".repeat(2_000) + "b";
    let dots = "../".repeat(1_300) + "b";
    let flat = "x".repeat(MAX_PATH_BYTES);
    for path in [near, far, dots, flat, "a\0b".to_owned()] {
        for (tool, arguments) in file_calls(&path) {
            let failure = call(tool.as_ref(), &folder, arguments).await;
            let name = &tool.spec().name;
            match failure {
                Err(failure) => assert!(failure.to_string().len() < 10_000, "{name}"),
                Ok(text) => assert!(
                    name.ends_with("_file") && path.len() < 1_000,
                    "{name}: {text}"
                ),
            }
        }
    }
    assert!(!folder.has_leftovers());
}

fn file_calls(path: &str) -> Vec<(Box<dyn Tool>, Value)> {
    vec![
        (Box::new(crate::ReadFile::default()), json!({"path": path})),
        (Box::new(crate::ListDir::default()), json!({"path": path})),
        (
            Box::new(crate::Glob::default()),
            json!({"path": path, "pattern": "*"}),
        ),
        (
            Box::new(crate::Grep::default()),
            json!({"path": path, "pattern": "x"}),
        ),
        (
            Box::new(crate::WriteFile::default()),
            json!({"path": path, "content": "x"}),
        ),
        (
            Box::new(crate::EditFile::default()),
            json!({"path": path, "old_string": "x", "new_string": "y"}),
        ),
    ]
}

#[test]
fn files_inside_the_workspace_are_accessible() {
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
fn absolute_paths_begin_with_the_root() {
    let trap = Trap::set();
    for workspace in resolvers(&trap.inside) {
        let path = trap.inside.path().join("in/file").display().to_string();
        assert_eq!(read(&workspace, &path).unwrap(), "mine");
    }
}

/// A process that can write above a workspace could redirect the workspace by replacing it with a
/// link.
#[test]
fn root_replaced_by_a_link_is_not_followed() {
    let trap = Trap::set();
    let above = Folder::with(&[("sub/inner/file", "mine")]);
    let root = std::fs::canonicalize(above.path()).unwrap();
    let roots = [root.join("sub"), root.join("sub/inner")];
    for root in &roots {
        Workspace::open(root).unwrap();
    }
    let opened = Workspace::open(&roots[1]).unwrap();
    std::fs::rename(above.path().join("sub"), above.path().join("away")).unwrap();
    std::fs::create_dir(trap.outside.path().join("inner")).unwrap();
    above.link("sub", trap.outside.path());
    for root in &roots {
        let failure = Workspace::open(root).unwrap_err().to_string();
        assert!(failure.contains("is a link or not a folder"), "{failure}");
    }
    assert_eq!(
        read(&opened, "file").unwrap(),
        "mine",
        "what was held stays"
    );
    // A folder in its place is not an attack: it is one more folder of users who can write there.
    std::fs::remove_file(above.path().join("sub")).unwrap();
    above.write("sub/file", b"new");
    let workspace = Workspace::open(&roots[0]).unwrap();
    assert_eq!(read(&workspace, "file").unwrap(), "new");
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
        failure
            .to_string()
            .contains("was changed by another process"),
        "{failure}"
    );
    assert_eq!(folder.read("f"), "theirs");
    assert!(!folder.has_leftovers());
}

/// A folder that another thread swaps with others as fast as it can while the tools work.
struct Swap {
    inside: Folder,
    outside: Folder,
}

impl Swap {
    fn set() -> Self {
        let inside = Folder::with(&[("swap/file", "mine"), ("denied/file", DENIED)]);
        let outside = Folder::with(&[("file", SECRET)]);
        inside.link("bait", outside.path());
        inside.link("inner", Path::new("denied"));
        Self { inside, outside }
    }

    /// Swaps the folder with the other names in turn until the work has ended.
    fn while_swapping<T>(&self, others: &[&str], work: impl FnOnce() -> T) -> T {
        let swap = self.inside.path().join("swap");
        let others: Vec<PathBuf> = others
            .iter()
            .map(|name| self.inside.path().join(name))
            .collect();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let swapping = scope.spawn(|| {
                let mut swaps = 0_usize;
                while !done.load(Ordering::Relaxed) {
                    for other in &others {
                        // Twice, there and back, so that each name is swapped with the folder
                        // itself.
                        for _ in 0..2 {
                            renameat_with(CWD, &swap, CWD, other, RenameFlags::EXCHANGE).unwrap();
                            swaps += 1;
                        }
                    }
                }
                swaps
            });
            // Set also when an operation fails the test: the other thread must not run forever.
            let ending = SetOnDrop(&done);
            let worked = work();
            drop(ending);
            assert!(swapping.join().unwrap() > 0);
            worked
        })
    }

    fn assert_untouched(&self) {
        assert_eq!(self.outside.read("file"), SECRET);
        let count = std::fs::read_dir(self.outside.path()).unwrap().count();
        assert_eq!(count, 1, "nothing was created outside");
        let count = std::fs::read_dir(self.inside.path().join("denied"))
            .unwrap()
            .count();
        assert_eq!(count, 1, "nothing was created where policy forbids it");
    }
}

const DENIED: &str = "denied";

/// Reads, lists and writes through the swapped folder; returns the number of operations that
/// succeeded and that failed.
fn work_through(workspace: &Workspace, operations: usize) -> (usize, usize) {
    let (mut through, mut refused) = (0, 0);
    for number in 0..operations {
        let happened = match number % 4 {
            0 => write_raw(workspace, &format!("swap/new{}", number % 7)).is_ok(),
            1 => workspace.list(Path::new("swap")).is_ok(),
            _ => match read(workspace, "swap/file") {
                Ok(text) => {
                    assert_eq!(text, "mine", "operation {number} read what it must not");
                    true
                }
                Err(_) => false,
            },
        };
        *if happened { &mut through } else { &mut refused } += 1;
    }
    (through, refused)
}

fn race(open: impl Fn(&Folder) -> Workspace, others: &[&str], operations: usize) {
    let swap = Swap::set();
    let workspace = open(&swap.inside);
    let (through, refused) = swap.while_swapping(others, || work_through(&workspace, operations));
    swap.assert_untouched();
    assert!(
        through > 0 && refused > 0,
        "a race shows both: {through} through, {refused} refused"
    );
    println!("{operations} operations, 0 escapes: {through} through, {refused} refused");
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writes without fsync, which would leave no time for the race.
fn write_raw(workspace: &Workspace, path: &str) -> Result<(), ToolFailure> {
    let place = workspace.place(Path::new(path), Parents::Create)?;
    let new = NewContent {
        bytes: b"mine",
        temporary: ".sortie-test.tmp",
        replaces: None,
    };
    let failed = |error: std::io::Error| ToolFailure::new(error.to_string());
    let temporary = draft(&place.parent, &new).map_err(failed)?;
    temporary.rename_to(&place.name).map_err(failed)
}

#[test]
fn race_operations_add_up_to_the_stated_total() {
    assert_eq!(PER_RACE.iter().sum::<usize>(), RACE_OPERATIONS);
}

#[test]
fn swapping_folders_opens_no_way_out() {
    race(Folder::workspace, &["bait"], PER_RACE[0]);
}

#[test]
fn swapping_folders_opens_no_way_out_without_openat2() {
    let open = |folder: &Folder| folder.workspace().with_components_only();
    race(open, &["bait"], PER_RACE[1]);
}

/// The folder becomes a link to a folder that policy denies, and a link to the outside, in turn.
#[test]
fn swapping_folders_does_not_get_past_policy() {
    let open = |folder: &Folder| {
        folder.workspace().behind(PathGate::deciding(|path| {
            if path.starts_with("denied") {
                Err("denied".to_owned())
            } else {
                Ok(())
            }
        }))
    };
    race(open, &["inner", "bait"], PER_RACE[2]);
}

/// Positive control: resolving a path, checking the result and then opening it by path again loses
/// the same race.
#[test]
fn checking_first_and_opening_later_loses_the_race() {
    let swap = Swap::set();
    let root = std::fs::canonicalize(swap.inside.path()).unwrap();
    let path = swap.inside.path().join("swap/file");
    let naive = || {
        let real = std::fs::canonicalize(&path).ok()?;
        if !real.starts_with(&root) {
            return None;
        }
        std::fs::read_to_string(&path).ok()
    };
    let escapes = swap.while_swapping(&["bait"], || {
        (0..RACE_OPERATIONS)
            .filter(|_| naive().is_some_and(|text| text == SECRET))
            .take(1)
            .count()
    });
    assert_eq!(escapes, 1, "the race is none");
}

#[test]
fn policy_decides_about_real_paths() {
    let folder = Folder::with(&[("a/f", "1"), ("b/c/g", "2"), ("x (deleted)", "3")]);
    folder.link("a/to_c", Path::new("../b/c"));
    folder.link("to_g", Path::new("a/to_c/g"));
    let judged = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let recorded = std::sync::Arc::clone(&judged);
    let workspace = folder.workspace().behind(PathGate::deciding(move |path| {
        recorded.lock().unwrap().push(path.display().to_string());
        Ok(())
    }));
    let check = |act: &dyn Fn(&Workspace), expected: &[&str]| {
        judged.lock().unwrap().clear();
        act(&workspace);
        let mut judged = judged.lock().unwrap();
        judged.sort();
        assert_eq!(*judged, expected);
    };
    let reads = |path: &'static str| {
        move |workspace: &Workspace| {
            read(workspace, path).unwrap();
        }
    };
    check(&reads("a/f"), &["a/f"]);
    check(&reads("./a/../a/f"), &["a/f"]);
    check(&reads("a/to_c/g"), &["b/c/g"]);
    check(&reads("to_g"), &["b/c/g"]);
    check(&reads("x (deleted)"), &["x (deleted)"]);
    let lists = |workspace: &Workspace| {
        workspace.list(Path::new("a/to_c")).unwrap();
    };
    check(&lists, &["b/c", "b/c/g"]);
    check(
        &|workspace| write(workspace, "a/to_c/new", "").unwrap(),
        &["b/c/new"],
    );
    let deep = |workspace: &Workspace| write(workspace, "a/to_c/p/q/new", "").unwrap();
    // One check before each folder is created, and one when the folder of the file is open.
    check(&deep, &["b/c/p/q/new"; 3]);
}

#[test]
fn unlinked_object_is_not_used() {
    let folder = Folder::with(&[("f", "1")]);
    let workspace = folder.workspace();
    let open = workspace.open_file(Path::new("f")).unwrap();
    std::fs::hard_link(folder.path().join("f"), folder.path().join("other")).unwrap();
    std::fs::remove_file(folder.path().join("f")).unwrap();
    let real = workspace.real(open.file.as_fd(), Path::new("f"));
    assert!(real.is_err(), "{real:?}");
}

#[test]
fn path_with_dotdot_creates_no_folder() {
    let check = |path: &str| {
        let folder = Folder::with(&[("src/f", "")]);
        for workspace in resolvers(&folder) {
            let found = workspace.find_place(Path::new(path));
            assert!(found.is_err(), "{path} was planned: {found:?}");
            let failure = write(&workspace, path, "").unwrap_err().to_string();
            assert_eq!(
                failure,
                format!(
                    "{path} goes through a folder that does not exist and has `..` in it. Give the path without `..`."
                )
            );
        }
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 1, "{path} left something behind");
    };
    check("new/../src/a");
    check("new/deep/../../a");
    check(".sortie/../a");
    check("sortie.toml/../src/a");
    check("src/../new/a");
    let folder = Folder::with(&[("src/f", "")]);
    write(&folder.workspace(), "src/../a", "").unwrap();
    write(&folder.workspace(), "new/..a/b", "").unwrap();
}

#[test]
fn denied_file_creates_no_folder() {
    let folder = Folder::with(&[]);
    for workspace in resolvers(&folder) {
        let workspace = workspace.behind(PathGate::deciding(|path| {
            if path.starts_with("p/q") {
                Err("never".to_owned())
            } else {
                Ok(())
            }
        }));
        let failure = write(&workspace, "p/q/r/f", "").unwrap_err().to_string();
        assert_eq!(
            failure,
            "p/q/r/f may not be used: never. Work with another file, or report it."
        );
        assert!(!folder.path().join("p").exists());
        write(&workspace, "p2/f", "").unwrap();
    }
}
