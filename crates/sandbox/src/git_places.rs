//! Finds every place below a folder that git may take for a repository.
//!
//! Git enters a repository by a `.git` (a folder, a file that points to one, a link) or because a
//! folder looks like a repository itself: `HEAD` beside `objects` and `refs`, or beside `commondir`.
//! From the top of a workspace it gets there by a gitlink in the index, by an editor that opens
//! repositories in sub-folders, or by a person who enters the folder.
//!
//! No link is followed and every folder is opened beneath the held root, as other commands may swap
//! folders for links meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;

use crate::protected::acts_in_any_folder;

/// The most entries that one look at a workspace reads: a checkout with all its dependencies has
/// fewer than a million. A workspace with more is refused, as what lies beyond is not known.
pub(crate) const MAX_ENTRIES: usize = 4_000_000;
/// The most entries that the look after a command reads: a command must not be able to end the look
/// by making files.
const MAX_ENTRIES_AFTER: usize = 64 * MAX_ENTRIES;
/// The most folders of a workspace that may be unreadable before a command, such as data of a
/// container.
const MAX_UNSEEN: usize = 1000;
/// The length of a path from which on the kernel refuses it, so that git cannot enter it. Folders
/// that are nested deeper would make a look quadratic.
const MAX_PATH_BYTES: usize = 4096;
/// The part of a git folder that may be huge. It is skipped only below a `.git`: no index has a path
/// through one, and a pointer to a folder that was not looked at is moved aside.
const OBJECTS: &str = "objects";

/// What makes git enter a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A git folder.
    Folder,
    /// A file that names one.
    Pointer,
    /// A link called `.git`.
    Link,
    /// Something else called `.git`.
    Other,
}

/// What one look at a workspace found. Paths are relative to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) places: BTreeMap<PathBuf, Kind>,
    /// Files and folders below the top that editors, shells or agents act on.
    pub(crate) notable: BTreeSet<PathBuf>,
    /// What could not be looked at; an empty path is the rest of everything.
    pub(crate) unseen: BTreeSet<PathBuf>,
}

/// When a workspace is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Time<'a> {
    /// Before a command: the `.git` at the top is always protected, with all that lies in it.
    Before,
    /// After a command.
    After {
        /// Places that it could not change.
        protected: &'a BTreeSet<PathBuf>,
        /// Folders that could not be looked at before it, and are none of its own.
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

    /// After a command, unreadable folders do not end the look: the command may have made them.
    const fn max_unseen(self) -> usize {
        match self {
            Self::Before => MAX_UNSEEN,
            Self::After { .. } => usize::MAX,
        }
    }

    /// Whether a folder that cannot be listed may be opened up: a command has made it so.
    fn may_open(self, path: &Path) -> bool {
        match self {
            Self::Before => false,
            Self::After { unseen, .. } => !unseen.contains(path),
        }
    }
}

/// Looks at everything below a folder.
pub(crate) fn find(root: BorrowedFd<'_>, time: Time<'_>) -> Found {
    let mut found = Found::default();
    let mut left = time.max_entries();
    let mut waiting = vec![PathBuf::new()];
    while let Some(path) = waiting.pop() {
        if path.as_os_str().len() >= MAX_PATH_BYTES {
            found.unseen.insert(path);
            continue;
        }
        let mut looked = look(root, &path, time, &mut left, &mut found);
        if looked.as_ref().is_err_and(is_denied) && time.may_open(&path) {
            // Git can pass through a folder that cannot be listed.
            let opened = make_usable(root, &path);
            looked = opened.and_then(|()| look(root, &path, time, &mut left, &mut found));
        }
        match looked {
            Ok(inner) => waiting.extend(inner),
            // Removed meanwhile, or swapped for something else, which its own folder shows.
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

/// What is relevant about one folder.
#[derive(Debug, Default)]
struct Signs {
    head: bool,
    objects: bool,
    refs: bool,
    common: bool,
}

impl Signs {
    fn see(&mut self, name: &OsStr) {
        // Some file systems fold case.
        self.head |= name.eq_ignore_ascii_case("HEAD");
        self.objects |= name.eq_ignore_ascii_case("objects");
        self.refs |= name.eq_ignore_ascii_case("refs");
        self.common |= name.eq_ignore_ascii_case("commondir");
    }

    /// Whether git takes the folder for a repository. What `HEAD` says is not asked.
    const fn is_repository(&self) -> bool {
        self.head && ((self.objects && self.refs) || self.common)
    }
}

fn look(
    root: BorrowedFd<'_>,
    path: &Path,
    time: Time<'_>,
    left: &mut usize,
    found: &mut Found,
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
                // Found when it is looked at itself.
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
    // Elsewhere nothing is skipped by its name: any folder can have the names of a repository, and a
    // repository without a working tree may hold worktrees.
    if path.ancestors().any(is_git_name) {
        inner.retain(|path| {
            let name = path.file_name().unwrap_or_default();
            !name.eq_ignore_ascii_case(OBJECTS)
        });
    }
    Ok(inner)
}

/// Whether the last part of a path is `.git`.
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

const LISTING: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Opens a folder beneath another without following a link.
pub(crate) fn open_beneath(root: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    open_with(root, path, LISTING)
}

#[cfg(target_os = "linux")]
fn open_with(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    let whole = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(root, whole, flags, Mode::empty(), resolve) {
        // Older kernels, filters of system calls, and paths longer than one call takes.
        Err(Errno::NOSYS | Errno::PERM | Errno::NAMETOOLONG | Errno::AGAIN) => {
            by_parts(root, path, flags)
        }
        other => Ok(other?),
    }
}

#[cfg(not(target_os = "linux"))]
fn open_with(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    by_parts(root, path, flags)
}

fn by_parts(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let mut held = openat(root, ".", LISTING, Mode::empty())?;
    let mut names = path.iter().peekable();
    while let Some(name) = names.next() {
        let flags = if names.peek().is_some() {
            LISTING
        } else {
            flags
        };
        held = openat(&held, name, flags, Mode::empty())?;
    }
    Ok(held)
}

/// Gives the owner of a folder, and of those on the way to it, back the right to list and change it.
#[cfg(target_os = "linux")]
fn make_usable(root: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut way: Vec<&Path> = path.ancestors().collect();
    way.reverse();
    for path in way {
        let held = open_with(root, path, flags)?;
        let mode = fstat(&held)?.st_mode & 0o7777;
        if mode & 0o500 == 0o500 {
            continue;
        }
        let name = format!("/proc/self/fd/{}", held.as_fd().as_raw_fd());
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode | 0o700);
        std::fs::set_permissions(name, mode)?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn make_usable(_: BorrowedFd<'_>, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::PermissionDenied.into())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::held::open_folder;

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

    fn names(found: &Found) -> Vec<(&str, Kind)> {
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
        let held = open_folder(&root).unwrap();
        let before = find(held.as_fd(), Time::Before);
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
        let after = find(held.as_fd(), after(&protected));
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
        let held = open_folder(&root).unwrap();
        let protected = [PathBuf::from("x")].into();
        for time in [Time::Before, after(&protected)] {
            assert_eq!(
                names(&find(held.as_fd(), time)),
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
    fn many_unreadable_folders_do_not_end_the_look_after_a_command() {
        let (_folder, root) = world();
        for number in 0..=MAX_UNSEEN {
            let path = root.join(format!("a{number}/in"));
            fs::create_dir_all(&path).unwrap();
            let mode = fs::Permissions::from_mode(0o444);
            fs::set_permissions(path.parent().unwrap(), mode).unwrap();
        }
        make(&root, &["0/.git/config", "z/.git/config"]);
        let held = open_folder(&root).unwrap();
        let found = find(held.as_fd(), after(&BTreeSet::new()));
        assert_eq!(found.places.len(), 2);
        assert_eq!(found.unseen, BTreeSet::new());
    }

    #[test]
    fn a_folder_that_cannot_be_listed_is_looked_into_after_a_command() {
        let (_folder, root) = world();
        make(&root, &["a/b/.git/config"]);
        for name in ["a", "a/b"] {
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(0o111)).unwrap();
            if name == "a" {
                fs::set_permissions(root.join("a"), fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
        let held = open_folder(&root).unwrap();
        let after = find(held.as_fd(), after(&BTreeSet::new()));
        assert_eq!(names(&after), [("a/b/.git", Kind::Folder)]);
        assert_eq!(after.unseen, BTreeSet::new());
    }
}
