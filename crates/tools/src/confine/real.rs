//! Where an open object really lies: told by the kernel from its descriptor, not by the words that
//! led to it.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// What the kernel adds to the path of an object that no longer has the name it was opened by.
const DELETED: &[u8] = b" (deleted)";

/// The path of an open object, from the root of the file system and without links.
pub(super) fn path_of(object: BorrowedFd<'_>) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", object.as_raw_fd()))
}

/// Whether the path may be that of an object which lost its name. A file may be called so, too.
pub(super) fn may_be_gone(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(DELETED)
}

/// The path without `.` and `..`, for one that leads through no links.
pub(super) fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    plain
}
