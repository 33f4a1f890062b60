//! The real path of an open object: the kernel reports it for the descriptor, independent of the
//! path that was used to open it.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// The suffix that the kernel adds to the path of an object that was unlinked or renamed over.
const DELETED: &[u8] = b" (deleted)";

/// Returns the absolute path of an open object, without links.
pub(super) fn path_of(object: BorrowedFd<'_>) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", object.as_raw_fd()))
}

/// Returns whether the path may be that of an unlinked object. A file name may end like this too.
pub(super) fn may_be_gone(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(DELETED)
}

/// Returns the path without `.` and `..`. Correct only for a path without links.
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
