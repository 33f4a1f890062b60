//! Finds every place below a folder that git may treat as a repository.
//!
//! Git enters a repository by a `.git` (a folder, a file that points to one, a link) or because a
//! folder itself looks like a repository: `HEAD` beside `objects` and `refs`, or beside
//! `commondir`. From the top of a workspace it gets there by a gitlink in the index, by an editor
//! that opens repositories in subfolders, or by a person who enters the folder.
//!
//! The scan follows no link and opens every folder relative to the root's file descriptor, because
//! other commands may swap folders for links meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, OFlags, fstat, statat};
use rustix::io::Errno;
use sortie_base::beneath::{EXACT_FOLDER_FLAGS, open_without_links};

use crate::protected::acts_in_any_folder;

/// The most entries that one scan of a workspace reads: a checkout with all its dependencies has
/// fewer than a million. A workspace with more is refused, because the rest would be unchecked.
pub(crate) const MAX_ENTRIES: usize = 4_000_000;
/// The most entries that the scan after a command reads: a command must not be able to cut the scan
/// short by creating files.
const MAX_ENTRIES_AFTER: usize = 64 * MAX_ENTRIES;
/// The most folders of a workspace that may be unreadable before a command, such as the data of a
/// container.
const MAX_UNSEEN: usize = 1000;
/// The path length from which on the kernel refuses a path, so that git cannot enter it. Scanning
/// more deeply nested folders would take quadratic time.
const MAX_PATH_BYTES: usize = 4096;
/// The part of a git folder that may be huge. It is skipped only below a `.git`: no index has a
/// path through one, and a pointer to an unscanned folder is moved aside.
const OBJECTS: &str = "objects";

/// The kind of entry that makes git enter a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Folder,
    /// A file that names a git folder.
    Pointer,
    /// A link called `.git`.
    Link,
    /// Any other entry called `.git`.
    Other,
}

/// The result of one scan of a workspace. Paths are relative to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScanResult {
    pub(crate) places: BTreeMap<PathBuf, Kind>,
    /// Files and folders below the top that editors, shells or agents act on.
    pub(crate) notable: BTreeSet<PathBuf>,
    /// Folders that could not be scanned; an empty path means that the rest of the workspace was
    /// not scanned.
    pub(crate) unseen: BTreeSet<PathBuf>,
}

/// Whether a scan runs before or after a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Time<'a> {
    /// Before a command: the `.git` at the top is always protected, with all its content.
    Before,
    /// After a command, which may have changed anything unprotected.
    After {
        /// Places that the command could not change.
        protected: &'a BTreeSet<PathBuf>,
        /// Folders that were unreadable before the command, so that it did not create them.
        unseen: &'a BTreeSet<PathBuf>,
    },
}

impl Time<'_> {
    fn protects(self, path: &Path) -> bool {
        match self {
            Self::Before => path.parent() == Some(Path::new("")) && is_git_name(path),
            Self::After { protected, .. } => protected.contains(path),
        }
    }

    const fn max_entries(self) -> usize {
        match self {
            Self::Before => MAX_ENTRIES,
            Self::After { .. } => MAX_ENTRIES_AFTER,
        }
    }

    /// Returns the limit of unreadable folders. After a command they do not end the scan, because
    /// the command may have created them.
    const fn max_unseen(self) -> usize {
        match self {
            Self::Before => MAX_UNSEEN,
            Self::After { .. } => usize::MAX,
        }
    }

    /// Returns whether the scan may restore the permissions of an unreadable folder: the command
    /// made it unreadable.
    fn may_open(self, path: &Path) -> bool {
        match self {
            Self::Before => false,
            Self::After { unseen, .. } => !unseen.contains(path),
        }
    }
}

/// Scans everything below a folder.
pub(crate) fn find(root: BorrowedFd<'_>, time: Time<'_>) -> ScanResult {
    let mut found = ScanResult::default();
    let mut left = time.max_entries();
    let mut waiting = vec![PathBuf::new()];
    while let Some(path) = waiting.pop() {
        if path.as_os_str().len() >= MAX_PATH_BYTES {
            found.unseen.insert(path);
            continue;
        }
        let mut looked = look(root, &path, time, &mut left, &mut found);
        if looked.as_ref().is_err_and(is_denied) && time.may_open(&path) {
            // Git can traverse a folder that cannot be listed.
            let opened = make_usable(root, &path);
            looked = opened.and_then(|()| look(root, &path, time, &mut left, &mut found));
        }
        match looked {
            Ok(inner) => waiting.extend(inner),
            // The folder was removed meanwhile, or replaced by another entry, which the scan of its
            // parent reports.
            Err(error) if is_gone(&error) => {}
            Err(_) => drop(found.unseen.insert(path)),
        }
        if left == 0 || found.unseen.len() > time.max_unseen() {
            found.unseen.insert(PathBuf::new());
            break;
        }
    }
    found
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
    )
}

/// The properties of one folder that decide whether git treats it as a repository.
#[derive(Debug, Default)]
struct Signs {
    head: bool,
    objects: bool,
    refs: bool,
    common: bool,
}

impl Signs {
    fn see(&mut self, name: &OsStr) {
        // Some file systems ignore case.
        self.head |= name.eq_ignore_ascii_case("HEAD");
        self.objects |= name.eq_ignore_ascii_case("objects");
        self.refs |= name.eq_ignore_ascii_case("refs");
        self.common |= name.eq_ignore_ascii_case("commondir");
    }

    /// Returns whether git treats the folder as a repository. The content of `HEAD` is not read.
    const fn is_repository(&self) -> bool {
        self.head && ((self.objects && self.refs) || self.common)
    }
}

fn look(
    root: BorrowedFd<'_>,
    path: &Path,
    time: Time<'_>,
    left: &mut usize,
    found: &mut ScanResult,
) -> io::Result<Vec<PathBuf>> {
    let folder = open_beneath(root, path)?;
    let is_top = path.as_os_str().is_empty();
    let mut signs = Signs::default();
    let mut inner = Vec::new();
    for item in Dir::read_from(&folder)? {
        let item = item?;
        let name = OsStr::from_bytes(item.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        *left = left.saturating_sub(1);
        if *left == 0 {
            return Ok(Vec::new());
        }
        signs.see(name);
        let mut kind = item.file_type();
        if kind == FileType::Unknown {
            kind = kind_of(&folder, name)?;
        }
        if name.eq_ignore_ascii_case(".git") {
            match kind {
                // Found when that folder itself is scanned.
                FileType::Directory => {}
                FileType::RegularFile => drop(found.places.insert(path.join(name), Kind::Pointer)),
                FileType::Symlink => drop(found.places.insert(path.join(name), Kind::Link)),
                FileType::Fifo
                | FileType::Socket
                | FileType::CharacterDevice
                | FileType::BlockDevice
                | FileType::Unknown => drop(found.places.insert(path.join(name), Kind::Other)),
            }
        } else if !is_top && acts_in_any_folder(name) {
            found.notable.insert(path.join(name));
        }
        if kind == FileType::Directory {
            inner.push(path.join(name));
        }
    }
    let is_named = is_git_name(path);
    if !is_named && !signs.is_repository() {
        return Ok(inner);
    }
    found.places.insert(path.to_owned(), Kind::Folder);
    if is_named && time.protects(path) {
        return Ok(Vec::new());
    }
    // Elsewhere no folder is skipped by its name: any folder can have the names of a repository,
    // and a bare repository may contain worktrees.
    if path.ancestors().any(is_git_name) {
        inner.retain(|path| {
            let name = path.file_name().unwrap_or_default();
            !name.eq_ignore_ascii_case(OBJECTS)
        });
    }
    Ok(inner)
}

/// Returns whether the last component of a path is `.git`.
pub(crate) fn is_git_name(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.eq_ignore_ascii_case(".git"))
}

fn is_denied(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::ACCESS | Errno::PERM)
    )
}

fn kind_of(folder: &OwnedFd, name: &OsStr) -> io::Result<FileType> {
    let facts = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(facts.st_mode))
}

/// Opens a folder beneath another without following a link.
pub(crate) fn open_beneath(root: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    Ok(open_without_links(root, path, EXACT_FOLDER_FLAGS)?)
}

/// Restores the owner's right to list and change a folder and its ancestors.
fn make_usable(root: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut way: Vec<&Path> = path.ancestors().collect();
    way.reverse();
    for path in way {
        let opened = open_without_links(root, path, flags)?;
        let mode = fstat(&opened)?.st_mode & 0o7777;
        if mode & 0o500 == 0o500 {
            continue;
        }
        let name = format!("/proc/self/fd/{}", opened.as_fd().as_raw_fd());
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode | 0o700);
        std::fs::set_permissions(name, mode)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::open_exact::open_folder;

    fn world() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        (folder, root)
    }

    fn make(root: &Path, names: &[&str]) {
        for name in names {
            let path = root.join(name);
            match name.strip_suffix('/') {
                Some(_) => fs::create_dir_all(path).unwrap(),
                None => {
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    fs::write(path, "x").unwrap();
                }
            }
        }
    }

    fn after(protected: &BTreeSet<PathBuf>) -> Time<'_> {
        static NONE: BTreeSet<PathBuf> = BTreeSet::new();
        Time::After {
            protected,
            unseen: &NONE,
        }
    }

    fn names(found: &ScanResult) -> Vec<(&str, Kind)> {
        let places = found.places.iter();
        places
            .map(|(path, kind)| (path.to_str().unwrap(), *kind))
            .collect()
    }

    #[test]
    fn every_kind_of_repository_is_found() {
        let (_folder, root) = world();
        make(
            &root,
            &[
                ".git/HEAD",
                ".git/modules/x/HEAD",
                "a/.GIT/config",
                "a/b/.git",
                "bare/HEAD",
                "bare/objects/",
                "bare/refs/",
                "bare/main/.git",
                "linked/head",
                "linked/commondir",
                "plain/HEAD",
                "plain/objects/",
                "deep/.vscode/x",
            ],
        );
        fs::create_dir(root.join("c")).unwrap();
        symlink("../a", root.join("c/.git")).unwrap();
        symlink("a", root.join("not-followed")).unwrap();
        let opened = open_folder(&root).unwrap();
        let before = find(opened.as_fd(), Time::Before);
        assert_eq!(
            names(&before),
            [
                (".git", Kind::Folder),
                ("a/.GIT", Kind::Folder),
                ("a/b/.git", Kind::Pointer),
                ("bare", Kind::Folder),
                ("bare/main/.git", Kind::Pointer),
                ("c/.git", Kind::Link),
                ("linked", Kind::Folder),
            ]
        );
        assert_eq!(before.unseen, BTreeSet::new());
        assert!(before.notable.contains(Path::new("deep/.vscode")));
        make(
            &root,
            &["new/.git/modules/y/HEAD", "new/.git/modules/y/commondir"],
        );
        let protected = before.places.keys().cloned().collect();
        let after = find(opened.as_fd(), after(&protected));
        let new: Vec<_> = names(&after);
        assert!(new.contains(&("new/.git", Kind::Folder)), "{new:?}");
        assert!(
            new.contains(&("new/.git/modules/y", Kind::Folder)),
            "{new:?}"
        );
        assert!(
            !new.iter().any(|(name, _)| name.starts_with(".git/")),
            "{new:?}"
        );
    }

    #[test]
    fn names_of_a_repository_hide_nothing_below_them() {
        let (_folder, root) = world();
        make(
            &root,
            &[
                "x/HEAD",
                "x/refs/",
                "x/objects/sub/.git/config",
                "x/hooks/sub/.git/config",
                "x/modules/sub/.git/config",
                "y/.git/objects/sub/HEAD",
                "y/.git/objects/sub/commondir",
            ],
        );
        let opened = open_folder(&root).unwrap();
        let protected = [PathBuf::from("x")].into();
        for time in [Time::Before, after(&protected)] {
            assert_eq!(
                names(&find(opened.as_fd(), time)),
                [
                    ("x", Kind::Folder),
                    ("x/hooks/sub/.git", Kind::Folder),
                    ("x/modules/sub/.git", Kind::Folder),
                    ("x/objects/sub/.git", Kind::Folder),
                    ("y/.git", Kind::Folder),
                ]
            );
        }
    }

    #[test]
    fn many_unreadable_folders_do_not_end_the_scan_after_a_command() {
        let (_folder, root) = world();
        for number in 0..=MAX_UNSEEN {
            let path = root.join(format!("a{number}/in"));
            fs::create_dir_all(&path).unwrap();
            let mode = fs::Permissions::from_mode(0o444);
            fs::set_permissions(path.parent().unwrap(), mode).unwrap();
        }
        make(&root, &["0/.git/config", "z/.git/config"]);
        let opened = open_folder(&root).unwrap();
        let found = find(opened.as_fd(), after(&BTreeSet::new()));
        assert_eq!(found.places.len(), 2);
        assert_eq!(found.unseen, BTreeSet::new());
    }

    #[test]
    fn unlistable_folder_is_scanned_after_a_command() {
        let (_folder, root) = world();
        make(&root, &["a/b/.git/config"]);
        for name in ["a", "a/b"] {
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(0o111)).unwrap();
            if name == "a" {
                fs::set_permissions(root.join("a"), fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
        let opened = open_folder(&root).unwrap();
        let after = find(opened.as_fd(), after(&BTreeSet::new()));
        assert_eq!(names(&after), [("a/b/.git", Kind::Folder)]);
        assert_eq!(after.unseen, BTreeSet::new());
    }
}
