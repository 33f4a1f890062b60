//! Files that the helper closes or writes.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The last of the three standard descriptors.
const STDERR: i32 = 2;

/// Closes every inherited descriptor except input, output and errors.
///
/// It is called first, before this process has opened any file itself.
pub(super) fn close_inherited() {
    let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for number in open.into_iter().filter(|number| *number > STDERR) {
        // The descriptor of the listed folder is in the list, and is closed already.
        nix::unistd::close(number).ok();
    }
}

/// Writes to a file that must exist: a control file of the kernel.
pub(super) fn write_existing(at: &Path, text: &str) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).open(at)?;
    file.write_all(text.as_bytes())
}

/// Returns whether an error means that a control file was removed, before or after it was opened.
pub(super) fn is_gone(error: &io::Error) -> bool {
    let errno = rustix::io::Errno::from_io_error(error);
    matches!(
        errno,
        Some(rustix::io::Errno::NOENT | rustix::io::Errno::NODEV)
    )
}

/// Writes a file that must not exist yet, and creates its parent folders.
pub(super) fn write_new(at: &Path, text: &OsStr) -> io::Result<()> {
    if let Some(folder) = at.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = std::fs::File::create_new(at)?;
    file.write_all(text.as_bytes())
}
