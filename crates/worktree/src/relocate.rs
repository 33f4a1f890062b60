//! Moves a file to a place that may be on another file system.

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;

/// The permission bits in the mode of a file.
const PERMISSION_BITS: u32 = 0o7777;
/// Flags that are safe for any entry under the name: no link is followed, and a pipe does not
/// block.
const READ_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);
const NEW_FILE_FLAGS: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A name in an open folder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot<'a> {
    pub(crate) folder: BorrowedFd<'a>,
    pub(crate) name: &'a OsStr,
}

impl<'a> Spot<'a> {
    /// Returns a place in a folder of ours.
    pub(crate) fn of(path: &'a Path) -> Self {
        Self {
            folder: CWD,
            name: path.as_os_str(),
        }
    }

    /// Returns another name in the same folder.
    pub(crate) const fn beside(self, name: &'a OsStr) -> Self {
        Self { name, ..self }
    }

    /// Returns the metadata of the entry, which may itself be a link.
    pub(crate) fn look(self) -> Result<Stat, Errno> {
        rustix::fs::statat(self.folder, self.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Removes the file, if it exists.
    pub(crate) fn remove(self) -> io::Result<()> {
        match rustix::fs::unlinkat(self.folder, self.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn rename_to(self, to: Self) -> Result<(), Errno> {
        rustix::fs::renameat(self.folder, self.name, to.folder, to.name)
    }
}

/// How a file is moved to its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route<'a> {
    /// Whether the file systems are known to differ, so that a rename is not attempted.
    pub(crate) is_far: bool,
    /// The name of a copy beside the place, until it is complete.
    pub(crate) passing: &'a OsStr,
}

/// Moves a file to a place. At any moment the place has either the whole file or its earlier
/// content.
pub(crate) fn relocate(from: Spot<'_>, to: Spot<'_>, route: Route<'_>) -> io::Result<()> {
    if !route.is_far {
        match from.rename_to(to) {
            Err(Errno::XDEV) => {}
            renamed => return Ok(renamed?),
        }
    }
    let passing = to.beside(route.passing);
    // Only a process of ours that died can have known the name.
    passing.remove()?;
    let brought = duplicate(from, passing).and_then(|()| Ok(passing.rename_to(to)?));
    if let Err(error) = brought {
        passing.remove()?;
        return Err(error);
    }
    from.remove()
}

/// Creates a second file or link with the content, permissions and time of the first.
pub(crate) fn duplicate(from: Spot<'_>, to: Spot<'_>) -> io::Result<()> {
    let seen = from.look()?;
    let kind = FileType::from_raw_mode(seen.st_mode);
    if kind == FileType::Symlink {
        let target = rustix::fs::readlinkat(from.folder, from.name, Vec::new())?;
        let target = OsStr::from_bytes(target.as_bytes());
        rustix::fs::symlinkat(target, to.folder, to.name)?;
    } else {
        copy_file(from, to, &seen)?;
    }
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: seen.st_mtime,
            tv_nsec: seen.st_mtime_nsec as _,
        },
    };
    rustix::fs::utimensat(to.folder, to.name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(())
}

fn copy_file(from: Spot<'_>, to: Spot<'_>, seen: &Stat) -> io::Result<()> {
    let source = rustix::fs::openat(from.folder, from.name, READ_FLAGS, Mode::empty())?;
    let opened = rustix::fs::fstat(source.as_fd())?;
    if FileType::from_raw_mode(opened.st_mode) != FileType::RegularFile {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let owner_only = Mode::RUSR | Mode::WUSR;
    let target = rustix::fs::openat(to.folder, to.name, NEW_FILE_FLAGS, owner_only)?;
    let mut target = File::from(target);
    // If the file grows meanwhile, the added part is not copied; a later check detects the change.
    let mut source = File::from(source).take(seen.st_size as u64);
    io::copy(&mut source, &mut target)?;
    target.set_permissions(Permissions::from_mode(seen.st_mode & PERMISSION_BITS))?;
    target.sync_all()
}
