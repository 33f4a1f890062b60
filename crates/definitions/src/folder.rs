//! Folders that are held open, so that what is read is what was found.
//!
//! Every path is resolved beneath a descriptor: a symbolic link may lead to another place in the
//! folder and nowhere else.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RawMode, openat};
use rustix::io::Errno;

/// How many entries of one folder are looked at.
pub(crate) const MAX_ENTRIES: usize = 4_096;
/// How often the kernel is asked again when renames disturb the resolution of `..`.
#[cfg(target_os = "linux")]
const MAX_RETRIES: u32 = 256;

const FOLDER_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);
// Without NONBLOCK, opening a pipe would wait for its other end.
const FILE_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// A folder that is held open.
#[derive(Debug)]
pub(crate) struct Folder {
    descriptor: OwnedFd,
    path: PathBuf,
}

/// Why something in a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    /// There is nothing of that name.
    #[error("it does not exist")]
    Missing,
    /// It leads out of the folder.
    #[error("it leads out of {}, which is refused", .0.display())]
    Outside(PathBuf),
    /// A pipe, a socket, a device, or a folder where a file is wanted.
    #[error("it is not a regular file")]
    NotAFile,
    /// More than is read.
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    /// No UTF-8.
    #[error("it is not text in UTF-8")]
    NotText,
    /// The system says no.
    #[error("the system does not give it: {0}")]
    System(std::io::Error),
}

/// What a folder holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its name.
    pub(crate) name: OsString,
    /// What it is, links not followed.
    pub(crate) kind: Kind,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// Anything else.
    Other,
}

impl Folder {
    /// Opens a folder that somebody with the right to do so has named, links in its path included.
    pub(crate) fn open(path: &Path) -> Result<Self, FolderError> {
        let descriptor =
            openat(CWD, path, FOLDER_FLAGS, Mode::empty()).map_err(|errno| explain(errno, path))?;
        Self::named(descriptor, path)
    }

    /// Opens a folder by a path that no symbolic link may be part of.
    pub(crate) fn open_exact(path: &Path) -> Result<Self, FolderError> {
        let descriptor =
            open_without_links(path, FOLDER_FLAGS).map_err(|errno| explain(errno, path))?;
        Ok(Self {
            descriptor,
            path: path.to_owned(),
        })
    }

    /// Opens a folder in this one.
    pub(crate) fn folder(&self, path: &Path) -> Result<Self, FolderError> {
        let descriptor = self.open_beneath(path, FOLDER_FLAGS)?;
        Self::named(descriptor, &self.path.join(path))
    }

    /// Reads a text file in this folder, of at most `max_bytes`.
    pub(crate) fn read(&self, path: &Path, max_bytes: u64) -> Result<String, FolderError> {
        let descriptor = self.open_beneath(path, FILE_FLAGS)?;
        let stat = rustix::fs::fstat(&descriptor).map_err(|errno| explain(errno, &self.path))?;
        if FileType::from_raw_mode(stat.st_mode as RawMode) != FileType::RegularFile {
            return Err(FolderError::NotAFile);
        }
        let mut bytes = Vec::new();
        let mut limited = File::from(descriptor).take(max_bytes + 1);
        limited
            .read_to_end(&mut bytes)
            .map_err(FolderError::System)?;
        if bytes.len() as u64 > max_bytes {
            return Err(FolderError::TooLarge(max_bytes));
        }
        String::from_utf8(bytes).map_err(|_| FolderError::NotText)
    }

    /// What the folder holds, by name; `true` if there is more than is looked at.
    pub(crate) fn entries(&self) -> Result<(Vec<Entry>, bool), FolderError> {
        let failed = |errno| explain(errno, &self.path);
        let mut entries = Vec::new();
        let mut more = false;
        for item in Dir::read_from(&self.descriptor).map_err(failed)? {
            let item = item.map_err(failed)?;
            let name = OsStr::from_bytes(item.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            if entries.len() == MAX_ENTRIES {
                more = true;
                break;
            }
            entries.push(Entry {
                name: name.to_owned(),
                kind: self.kind(name, item.file_type()),
            });
        }
        entries.sort_by(|left, right| left.name.cmp(&right.name));
        Ok((entries, more))
    }

    /// Its path, without symbolic links.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether both are the same folder.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let identity = |folder: &Self| {
            let stat = rustix::fs::fstat(&folder.descriptor).ok()?;
            Some((stat.st_dev, stat.st_ino))
        };
        identity(self).is_some_and(|own| identity(other) == Some(own))
    }

    /// Names an open folder by its real path. Whoever opens that path again meets no link on the
    /// way, and so the same folder, or nothing.
    fn named(descriptor: OwnedFd, path: &Path) -> Result<Self, FolderError> {
        let path = std::fs::canonicalize(path).map_err(FolderError::System)?;
        let found = Self::open_exact(&path)?;
        let opened = Self { descriptor, path };
        if opened.is_same(&found) {
            return Ok(opened);
        }
        let moved = std::io::Error::other("it was moved while it was opened");
        Err(FolderError::System(moved))
    }

    fn open_beneath(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, FolderError> {
        open_beneath(self.descriptor.as_fd(), path, flags)
            .map_err(|errno| explain(errno, &self.path))
    }

    fn kind(&self, name: &OsStr, told: FileType) -> Kind {
        let mut file_type = told;
        // Some file systems do not tell the type while listing.
        if told == FileType::Unknown
            && let Ok(stat) = rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW)
        {
            file_type = FileType::from_raw_mode(stat.st_mode as RawMode);
        }
        match file_type {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Folder,
            FileType::Symlink => Kind::Link,
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Kind::Other,
        }
    }
}

fn explain(errno: Errno, folder: &Path) -> FolderError {
    match errno {
        Errno::NOENT | Errno::NOTDIR => FolderError::Missing,
        // LOOP: a link where none may be, or links in a circle.
        Errno::XDEV | Errno::LOOP => FolderError::Outside(folder.to_owned()),
        Errno::NXIO => FolderError::NotAFile,
        other => FolderError::System(other.into()),
    }
}

#[cfg(target_os = "linux")]
fn open_beneath(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    open_by_kernel(root, path, flags, ResolveFlags::BENEATH)
        .unwrap_or_else(|| open_by_components(root, path, flags))
}

#[cfg(not(target_os = "linux"))]
fn open_beneath(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    open_by_components(root, path, flags)
}

fn open_without_links(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    #[cfg(target_os = "linux")]
    if let Some(done) = open_by_kernel(CWD, path, flags, rustix::fs::ResolveFlags::NO_SYMLINKS) {
        return done;
    }
    let root = openat(CWD, "/", FOLDER_FLAGS, Mode::empty())?;
    let below = path.strip_prefix("/").map_err(|_| Errno::XDEV)?;
    open_by_components(root.as_fd(), below, flags)
}

/// Lets the kernel resolve the whole path, which no race can cheat; `None` where it cannot.
#[cfg(target_os = "linux")]
fn open_by_kernel(
    root: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    resolve: rustix::fs::ResolveFlags,
) -> Option<Result<OwnedFd, Errno>> {
    use rustix::fs::{ResolveFlags, openat2};
    let resolve = resolve | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..MAX_RETRIES {
        match openat2(root, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            // Old kernels lack the call; some container filters forbid it.
            Err(Errno::NOSYS | Errno::PERM) => return None,
            done => return Some(done),
        }
    }
    Some(Err(Errno::AGAIN))
}

/// Opens component by component; symbolic links and `..` are refused.
fn open_by_components(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW;
    let mut here = openat(root, ".", FOLDER_FLAGS, Mode::empty())?;
    let mut components = path.components().peekable();
    while let Some(component) = components.next() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => {
                let is_last = components.peek().is_none();
                let flags = if is_last {
                    flags
                } else {
                    FOLDER_FLAGS | OFlags::NOFOLLOW
                };
                here = openat(&here, name, flags, Mode::empty())?;
            }
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(Errno::XDEV);
            }
        }
    }
    Ok(here)
}

#[cfg(test)]
mod tests;
